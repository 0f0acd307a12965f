"""`dpi domain`: a domain file, from public lists and numbers, or from values that are discovered privately."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from dpi.cli.config import Config
from dpi.cli.discovering import DiscoveryOptions, discover
from dpi.cli.options import (
    BUDGET,
    CLOCK,
    EVENTS,
    STORE,
    Begin,
    Columns,
    DomainKeys,
    End,
    Format,
    Json,
    NewStore,
    NoWitness,
    Origin,
    Separator,
    SigningKey,
    Time,
    Unit,
    User,
    WitnessFile,
    Zone,
)
from dpi.cli.output import document, say
from dpi.cli.reading import EventOptions
from dpi.cli.streaming import ClockOptions, StoreOptions
from dpi.domain import Bins, Categories, Domain, Hashed, Product
from dpi.domain import file as domain_file
from dpi.errors import OptionError
from dpi.events.identity import KEY_BYTES
from dpi.settings.domains import domain_keys, read_key

MOST_BINS = 1 << 20


def domain(
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="VALUE", show_default=False, help="The values; with --discover, files of events."),
    ] = None,
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
        Path | None,
        typer.Option("--key-file", metavar="FILE", help="Key of the buckets, or of the store; made if there is none."),
    ] = None,
    product: Annotated[
        list[str] | None,
        typer.Option("--product", metavar="PART=FILE", help="Combinations of domain files. Repeat it for each part."),
    ] = None,
    domain_key: DomainKeys = None,
    discovering: Annotated[
        bool,
        typer.Option("--discover", help="Find frequent values in events, privately: users pay from their accounts."),
    ] = False,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="STORE", rich_help_panel=STORE, help="The store of the later `dpi run`."),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", metavar="NUMBER", rich_help_panel=BUDGET, help="ε per user, for ever, of the store."),
    ] = None,
    quota: Annotated[
        str,
        typer.Option("--quota", metavar="PART", rich_help_panel=BUDGET, help="The part of ε that discovery has."),
    ] = "0.2",
    slots: Annotated[
        int,
        typer.Option("--slots", metavar="N", rich_help_panel=BUDGET, help="In how many slots a user takes part."),
    ] = 1,
    failure: Annotated[
        str,
        typer.Option(
            "--failure",
            metavar="NUMBER",
            rich_help_panel=BUDGET,
            help="So many values that nobody has are shown by a slot, on average, at most.",
        ),
    ] = "0.001",
    most: Annotated[
        int, typer.Option("--most", metavar="N", rich_help_panel=BUDGET, help="Values that a slot shows at most.")
    ] = 1024,
    length: Annotated[
        int, typer.Option("--length", metavar="BYTES", rich_help_panel=EVENTS, help="Values are at most so long.")
    ] = 32,
    alphabet: Annotated[
        str,
        typer.Option(
            "--alphabet", metavar="NAME", rich_help_panel=EVENTS, help="Values are made of: text, ascii, digits."
        ),
    ] = "text",
    characters: Annotated[
        str | None,
        typer.Option("--characters", metavar="TEXT", rich_help_panel=EVENTS, help="Or of these characters."),
    ] = None,
    user: User = "user",
    time: Time = "time",
    value: Annotated[
        str, typer.Option("--value", metavar="COLUMN", rich_help_panel=EVENTS, help="The column of values.")
    ] = "value",
    unit: Unit = None,
    form: Format = None,
    separator: Separator = None,
    columns: Columns = None,
    slot: Annotated[
        str | None,
        typer.Option(
            "--slot", metavar="DURATION", rich_help_panel=CLOCK, help="Events are looked at together for so long."
        ),
    ] = None,
    begin: Begin = None,
    end: End = None,
    zone: Zone = "UTC",
    origin: Origin = "1970-01-01",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", rich_help_panel=STORE, help="Of the discovery in the store.")
    ] = "discovery",
    witness: WitnessFile = None,
    no_witness: NoWitness = False,
    new: NewStore = False,
    sign: SigningKey = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", rich_help_panel=STORE, help="For another process.")
    ] = 0.0,
    json: Json = False,
    config: Config = None,
) -> None:
    """Write a domain file. A domain is public: make it from a public list, or discover it; never copy it from events.

    Examples:
      dpi domain DE FR IT --other elsewhere -o countries.json
      dpi domain --list iso-3166.txt -o countries.json
      dpi domain --bins 0:100:10 -o ages.json
      dpi domain --hashed 4096 --key-file urls.key -o urls.json
      dpi domain --product country=countries.json --product age=ages.json -o pairs.json
      dpi domain --discover visits.parquet --value page --slot week --from 2026-01-05
          --to 2026-01-12 --epsilon 1 --quota 0.2 --store visits.db -o pages.json
    """
    kinds = [bool(values or lists) and not discovering, bins is not None, hashed is not None, bool(product)]
    if sum([*kinds, discovering]) != 1 or (discovering and lists):
        raise OptionError("give either values or `--list`, or `--bins`, `--hashed`, `--product` or `--discover`.")
    if key_file is not None and hashed is None and not discovering:
        raise OptionError("`--key-file` is for `--hashed` and `--discover`.")
    if store is not None and not discovering:
        raise OptionError("`--store` is for `--discover`: any other domain is made of public things alone.")
    if out.suffix != ".json":
        raise OptionError(f"`--out` must end in .json: other files are read as lists of values. Got {str(out)!r}.")
    if not out.absolute().parent.is_dir():
        raise OptionError(f"`--out` must lie in a folder that exists. Got {str(out)!r}.")
    if discovering:
        said = EventOptions(user, time, [value], unit, None, form, separator, columns)
        looked = DiscoveryOptions(store, epsilon, quota, slots, failure, most, length, alphabet, characters)
        where = StoreOptions(store or "", name, key_file, witness, wait=wait, no_witness=no_witness, new=new)
        clock = None if slot is None else ClockOptions(slot, origin, zone)
        discover(values or [], said, looked, where, clock, (begin, end), sign, out, None if no_other else other, json)
        return
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
        found = [value for path in lists or [] for value in domain_file.read_list(path, as_values=as_values)]
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
