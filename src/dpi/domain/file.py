"""A domain as a public file: a list of values, one a line, or a JSON description of any domain.

A domain file is written before any data is seen. It holds no key: a hashed domain is described by the fingerprint of
its key, and the key lies in a file of its own.

What a list holds is published, and a file of events that is taken for one would be published line by line. So a list
that looks like records of data is refused (`is_record`), and no error shows a line of it: it may be private. A JSON
description was written on purpose, and is not judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dpi.domain import Amounts, Bins, Categories, Discovered, Domain, Hashed, Product, Texts
from dpi.domain._amounts import side_from
from dpi.errors import OptionError
from dpi.files import write_file

if TYPE_CHECKING:
    import os

_ALPHABET = {"alphabet", "characters"}
_PUBLIC = 0o666
"""Permissions of a public file, of which the system takes what its owner wants to have taken."""


_SEPARATORS, _QUOTES = ",;\t|", " \t\"'"
"""What fields of a record are separated by, and what may stand around one."""
_DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
_MOMENT = re.compile(rf"{_DATE}[T ]\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?: ?(?:Z|[+-]\d{{2}}:?\d{{2}}))?")
"""A date with a time of day."""
_MARK = re.compile(
    rf"{_DATE}"
    r"|\d{9,}"  # a long number: an id, or a time since 1970
    r"|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|[^\s@]+@[^\s@]+\.[^\s@]+"
)
"""A date, or an id that only few people share."""


def describe(domain: Domain) -> dict[str, object]:
    """Return the domain as JSON values, without any key.

    >>> describe(Categories(["DE", "FR"], other="elsewhere"))
    {'kind': 'categories', 'values': ['DE', 'FR'], 'other': 'elsewhere'}
    """
    match domain:
        case Discovered():
            return {
                "kind": "discovered",
                "texts": describe(domain.texts),
                "values": domain.values,
                "other": domain.other,
            }
        case Categories():
            return {"kind": "categories", "values": domain.values, "other": domain.other}
        case Amounts():
            sides = {
                name: [side.first, list(side.depths)] for name, side in (("plus", domain.plus), ("minus", domain.minus))
            }
            return {"kind": "amounts", "step": str(domain.step), **sides}
        case Bins():
            return {"kind": "bins", "edges": domain.edges.tolist()}
        case Hashed():
            return {"kind": "hashed", "buckets": domain.size, "fingerprint": domain.fingerprint}
        case Product():
            # A list, because the order of parts is part of the domain and an object's is lost in canonical text.
            return {
                "kind": "product",
                "parts": [{"name": name, "domain": describe(part)} for name, part in domain.parts.items()],
            }
        case Texts():
            told = {"alphabet": domain.alphabet} if domain.characters is None else {"characters": domain.characters}
            return {"kind": "texts", "length": domain.length, **told}
    raise OptionError(f"a domain of type {type(domain).__name__} cannot be written to a file.")


def from_description(description: object, keys: Mapping[str, bytes] | None = None) -> Domain:
    """Return the domain of `describe`; `keys` are those of hashed domains, by fingerprint.

    >>> from_description({"kind": "bins", "edges": [0, 10]})
    Bins([0, 10])
    >>> pairs = Product(land=Categories(["DE"]), age=Bins([18]))
    >>> from_description(json.loads(json.dumps(describe(pairs), sort_keys=True))) == pairs
    True
    """
    if not isinstance(description, dict):
        raise OptionError("a domain must be described by a JSON object with a `kind`.")
    try:
        match description:
            case {"kind": "categories", "values": list(values), **rest} if set(rest) <= {"other"}:
                return Categories(values, other=rest.get("other", "other"))
            case {"kind": "discovered", "texts": dict(texts), "values": list(values), "other": str(other), **rest} if (
                not rest
            ):
                universe = from_description(texts)
                return Discovered(universe, values, other)  # type: ignore[arg-type] # or it is refused
            case {"kind": "bins", "edges": list(edges), **rest} if not rest:
                return Bins(edges)
            case {"kind": "amounts", **rest} if rest.keys() <= {"step", "plus", "minus"}:
                sides = {name: side_from(rest[name]) for name in ("plus", "minus") if name in rest}
                return Amounts(rest.get("step", "0.01"), **sides)
            case {"kind": "hashed", "buckets": int(buckets), "fingerprint": str(fingerprint), **rest} if not rest:
                key = (keys or {}).get(fingerprint)
                return Hashed.without_key(buckets, fingerprint) if key is None else Hashed(buckets, key)
            case {"kind": "product", "parts": list(parts), **rest} if not rest:
                if len({part["name"] for part in parts}) < len(parts):
                    raise OptionError("a product's parts must have different names.")
                return Product(**{part["name"]: from_description(part["domain"], keys) for part in parts})
            case {"kind": "texts", "length": int(length), **rest} if len(rest) == 1 and rest.keys() <= _ALPHABET:
                return Texts(length, **rest)
    except (TypeError, KeyError):
        pass
    raise OptionError(
        "a domain's description must be one of: categories (values, other), bins (edges), amounts (step), hashed "
        "(buckets, fingerprint), product (parts: a list of name and domain), texts (length, alphabet or characters)."
    )


def keys_of(domain: Domain) -> dict[str, bytes]:
    """Return the keys that the hashed domains in a domain have, by fingerprint."""
    if isinstance(domain, Product):
        return {name: key for part in domain.parts.values() for name, key in keys_of(part).items()}
    return domain.keys if isinstance(domain, Hashed) else {}


def lacks_key(domain: Domain) -> bool:
    """Tell whether a hashed domain in it was opened without its key, so that no value can be told."""
    if isinstance(domain, Product):
        return any(lacks_key(part) for part in domain.parts.values())
    return isinstance(domain, Hashed) and not domain.keys


def read(path: str | os.PathLike[str], *, keys: Mapping[str, bytes] | None = None) -> Domain:
    """Return the domain in a file: JSON if it ends in .json, otherwise one value a line (empty lines are left out)."""
    file = Path(path)
    if file.suffix != ".json":
        return Categories(read_list(file))
    text = _text(file)
    try:
        description = json.loads(text)
    except ValueError:
        raise OptionError(f"the domain file {file} is not JSON.") from None
    return from_description(description, keys)


def read_list(path: str | os.PathLike[str], *, as_values: bool = False) -> list[str]:
    """Return the values in a list, one a line.

    Refuses a list with a line that looks like a record, unless `as_values` says that the list is public all the same;
    and one that repeats a value, as a column does that was cut out of data.
    """
    lines = [line.strip() for line in _text(Path(path)).splitlines()]
    if not any(lines):
        raise OptionError(f"the domain file {path} holds no values.")
    if not as_values and any(is_record(line) for line in lines):
        raise OptionError(
            f"lines of the domain file {path} look like records of data, which must never be published: a domain is a "
            "public list of values, one a line. If these are such values, make a JSON domain of them: `dpi domain "
            "--list FILE --config as-values=true`."
        )
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line and seen.setdefault(line, number) != number:
            raise OptionError(
                f"the domain file {path} must list every value once: lines {seen[line]} and {number} are the same."
            )
    return list(seen)


def is_record(line: str) -> bool:
    """Tell whether a line of text looks like a record of data rather than a value of a list.

    It does if it is a JSON object or array; if it holds a date with a time of day and something else; or if it has
    three or more fields, separated by commas, semicolons, tabs or bars, one of which is a date, a number of nine or
    more digits, 16 or more hexadecimal digits, a UUID or a mail address. A line is judged by itself, and the answer is
    one bit, without the line.

    >>> is_record("ada,2026-01-01T00:10,DE"), is_record('{"user": "ada"}'), is_record("Korea, Republic of")
    (True, True, False)
    """
    text = line.strip()
    if text[:1] in ("{", "["):
        try:
            return isinstance(json.loads(text), dict | list)
        except (ValueError, RecursionError):
            pass
    moment = _MOMENT.search(text)
    if moment is not None and (text[: moment.start()] + text[moment.end() :]).strip(_QUOTES):
        return True
    for separator in _SEPARATORS:
        fields = [field.strip(_QUOTES) for field in text.split(separator)]
        if len(fields) > 2 and any(_MARK.fullmatch(field) or _MOMENT.fullmatch(field) for field in fields):
            return True
    return False


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionError(f"the domain file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise OptionError(f"the domain file {path} is not UTF-8 text.") from None


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that is there and is no domain file."""
    if Path(path).exists():
        try:
            from_description(json.loads(_text(Path(path))))
        except ValueError:
            raise OptionError(f"{path} is there and is no domain file: it is not replaced.") from None


def write(path: str | os.PathLike[str], domain: Domain) -> None:
    """Write the domain's description as JSON, whole or not at all; replaces another domain and nothing else."""
    check_replaceable(path)
    text = json.dumps(describe(domain), ensure_ascii=False, indent=1) + "\n"
    write_file(Path(path).resolve(), text.encode(), mode=_PUBLIC)
