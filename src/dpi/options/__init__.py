"""Options as they are written down for ever: by kind, exactly, with nothing left out."""

from dpi.options._option import PLAIN, RATIONAL, Codec, Family, Option, Options, exact_text, fraction_of, kind_of

__all__ = ["PLAIN", "RATIONAL", "Codec", "Family", "Option", "Options", "exact_text", "fraction_of", "kind_of"]
