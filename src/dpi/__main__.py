"""`python -m dpi`, the same as `dpi`."""

from dpi.cli import main

main()
