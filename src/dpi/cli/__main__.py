"""`python -m dpi.cli`, the same as `dpi`."""

from dpi.cli import main

main()
