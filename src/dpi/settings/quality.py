"""The rules by which numbers are shown, as a command, `dpi.toml` and a service are told them."""

from __future__ import annotations

from dpi.errors import OptionError
from dpi.release.quality import Quality


def read_quality(text: str | None) -> Quality | None:
    """Return the rules that a text states; none of none.

    >>> read_quality("points=10,size=20,week")
    Quality(points=10.0, percent=None, size=20.0, week=True)
    """
    if text is None:
        return None
    given: dict[str, float | bool] = {}
    try:
        for name, sign, value in (part.strip().partition("=") for part in text.split(",")):
            given[name] = float(value) if sign else True
        if any((name == "week") != (value is True) for name, value in given.items()):
            raise ValueError("a number is missing, or one too many")
        return Quality(**given)  # type: ignore[arg-type] # by their names
    except (TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"`quality` must be rules such as points=10,percent=50,size=20,week. Got {text!r}.") from None
