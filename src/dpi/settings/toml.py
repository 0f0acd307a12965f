"""Reading a file in TOML, with numbers as they are written."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path

from dpi.errors import OptionError


def read_toml(path: Path) -> dict[str, object]:
    """What a configuration says; refuses a file that cannot be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise OptionError(f"the configuration {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"the configuration {path} is not TOML: {error}.") from None
