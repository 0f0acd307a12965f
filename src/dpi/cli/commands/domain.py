"""`dpi domain`: a domain file, from public lists and numbers alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.options import DomainKeys, Json
from dpi.cli.output import document, say
from dpi.domain import Bins, Categories, Domain, Hashed, Product
from dpi.domain import file as domain_file
from dpi.errors import OptionError
from dpi.events.identity import KEY_BYTES
from dpi.settings.domains import domain_keys, read_key

MOST_BINS = 1 << 20


def domain(
    values: Annotated[list[str] | None, typer.Argument(metavar="VALUE", help="The values.")] = None,
    lists: Annotated[
        list[Path] | None,
        typer.Option("--list", metavar="FILE", help="A public list with one value a line. May be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The domain file.")] = Path("domain.json"),
    other: Annotated[
        str, typer.Option("--other", metavar="NAME", help="Bin of everything that is not listed.")
    ] = "other",
    no_other: Annotated[bool, typer.Option("--no-other", help="Drop what is not listed.")] = False,
    as_values: Annotated[
        bool,
        typer.Option("--as-values", help="The lists are public, also where a line looks like a record of data."),
    ] = False,
    bins: Annotated[
        str | None, typer.Option("--bins", metavar="EDGES", help="Ordered bins: 0,10,100 or 0:100:10 (from:to:step).")
    ] = None,
    hashed: Annotated[
        int | None, typer.Option("--hashed", metavar="N", help="N buckets for values that nobody can list.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", metavar="FILE", help="Key of the buckets; made if there is none.")
    ] = None,
    product: Annotated[
        list[str] | None,
        typer.Option("--product", metavar="PART=FILE", help="Combinations of domain files. Repeat it for each part."),
    ] = None,
    domain_key: DomainKeys = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Write a domain file. A domain is public: make it from a public list, never from the events.

    Examples:
      dpi domain DE FR IT --other elsewhere -o countries.json
      dpi domain --list iso-3166.txt -o countries.json
      dpi domain --bins 0:100:10 -o ages.json
      dpi domain --hashed 4096 --key-file urls.key -o urls.json
      dpi domain --product country=countries.json --product age=ages.json -o pairs.json
    """
    kinds = [bool(values or lists), bins is not None, hashed is not None, bool(product)]
    if sum(kinds) != 1:
        raise OptionError("give either values or `--list`, or `--bins`, or `--hashed`, or `--product`.")
    if key_file is not None and hashed is None:
        raise OptionError("`--key-file` is for `--hashed`.")
    if out.suffix != ".json":
        raise OptionError(f"`--out` must end in .json: other files are read as lists of values. Got {str(out)!r}.")
    if not out.absolute().parent.is_dir():
        raise OptionError(f"`--out` must lie in a folder that exists. Got {str(out)!r}.")
    made: Domain
    if bins is not None:
        made = Bins(edges(bins))
    elif hashed is not None:
        if key_file is None:
            raise OptionError("`--hashed` needs `--key-file`, where the key of the buckets is kept.")
        Hashed(hashed, bytes(KEY_BYTES))  # refuses a number of buckets before a key is made
        made = Hashed(hashed, read_key(key_file, make=True))
    elif product:
        made = _product(product, domain_keys(domain_key))
    else:
        found = [value for path in lists or [] for value in domain_file.listed(path, as_values=as_values)]
        if len({*found, *(values or [])}) < len(found) + len({*(values or [])}):
            raise OptionError("every value must be listed once: one stands in two lists, or in a list and as VALUE.")
        made = Categories([*(values or []), *found], other=None if no_other else other)
    domain_file.write(out, made)
    if json:
        document({"file": str(out), "bins": made.size, "digest": made.digest})
    else:
        say(f"{out}: {made}, {made.size:,} bins.")


def edges(text: str) -> list[float]:
    """Edges of bins.

    >>> edges("0,10,100"), edges("0:1:0.25")
    ([0.0, 10.0, 100.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    try:
        if ":" not in text:
            return [float(edge) for edge in text.split(",")]
        low, high, step = (float(number) for number in text.split(":"))
        count = math.floor((high - low) / step + 1e-9)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise OptionError(
            f"`--bins` must be edges such as 0,10,100, or from:to:step such as 0:100:10. Got {text!r}."
        ) from None
    if not (0 < count <= MOST_BINS and step > 0):
        raise OptionError(f"`--bins` must have a step above 0, and at most 2^20 bins. Got {text!r}.")
    return [low + index * step for index in range(count + 1)]


def _product(texts: list[str], keys: dict[str, bytes]) -> Product:
    parts: dict[str, Domain] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not name or not path or name in parts:
            raise OptionError("`--product` must be PART=FILE, each part once, for example country=countries.json.")
        parts[name] = domain_file.read(path, keys=keys)
    return Product(**parts)
