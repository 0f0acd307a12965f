"""Options as they are written down for ever: by kind, exactly, and only where they differ from a format's defaults."""

from dpi.options.defaults import DEFAULTS, FORMAT, Options, complete
from dpi.options.option import PLAIN, RATIONAL, Codec, Family, Option, exact_text, fraction_of, kind_of
from dpi.options.printed import printed

__all__ = [
    "DEFAULTS",
    "FORMAT",
    "PLAIN",
    "RATIONAL",
    "Codec",
    "Family",
    "Option",
    "Options",
    "complete",
    "exact_text",
    "fraction_of",
    "kind_of",
    "printed",
]
