"""Options that several commands have, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EVENTS, CLOCK, BUDGET, STORE, OUTPUT = "Events", "Period and clock", "Privacy", "Store", "Output"
"""Under which headings a long help has its options."""

# What is asked of a store.

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="A store: a path, or postgresql://…", show_default=False)
]
StreamName = Annotated[
    str | None, typer.Option("--stream", metavar="NAME", help="Which stream, if the store has several.")
]
WitnessFile = Annotated[
    Path | None,
    typer.Option(
        "--witness",
        metavar="FILE",
        rich_help_panel=STORE,
        help="Remembers the chain's head, better elsewhere; STORE.witness unless given.",
    ),
]
NoWitness = Annotated[
    bool,
    typer.Option("--no-witness", rich_help_panel=STORE, help="Of a new store: no old copy of it will be noticed."),
]
NewStore = Annotated[
    bool,
    typer.Option(
        "--new", rich_help_panel=STORE, help="Its key is there, the store is gone: every user has all of ε once more."
    ),
]
ANEW = (
    "a new store begins. Every user has all of ε once more: what an earlier store has published about the same users "
    "adds to it."
)
"""What is said with it."""
SigningKey = Annotated[
    Path | None, typer.Option("--sign", metavar="FILE", rich_help_panel=STORE, help="Private key; see dpi keys.")
]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The ledger's key; STORE.key unless given.")
]
BucketPath = Annotated[
    Path | None,
    typer.Option(
        "--path", metavar="FOLDER", help="Of bucket files; new or empty at first. STORE.buckets unless given."
    ),
]
PublicKey = Annotated[
    Path | None, typer.Option("--public-key", metavar="FILE", help="Check signatures with this public key.")
]
DomainKeys = Annotated[
    list[Path] | None,
    typer.Option("--domain-key", metavar="FILE", help="Key of a hashed domain. Repeat it for several."),
]

# Files of events.

User = Annotated[str, typer.Option("--user", metavar="COLUMN", rich_help_panel=EVENTS, help="Who: integers or texts.")]
Time = Annotated[
    str, typer.Option("--time", metavar="COLUMN", rich_help_panel=EVENTS, help="When: ISO 8601, or see --unit.")
]
Value = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="COLUMN",
        rich_help_panel=EVENTS,
        help="A column (value), or PART=COLUMN for each part of a product.",
    ),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "--from-broker",
        metavar="ADDRESS",
        rich_help_panel=EVENTS,
        help="Instead of files: kafka://…, nats://…, redis://…, rabbitmq://…, mqtt://…, postgresql://…, mariadb://…",
    ),
]
Table = Annotated[
    str | None,
    typer.Option("--table", metavar="NAME", rich_help_panel=EVENTS, help="Of a database: a table that only grows."),
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="COLUMN", rich_help_panel=EVENTS, help="Its column that goes up (id).")
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        rich_help_panel=EVENTS,
        help="Of the broker; or DPI_BROKER_PASSWORD in the environment.",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option("--unit", metavar="UNIT", rich_help_panel=EVENTS, help="Of times that are numbers: s, ms, us, ns."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", rich_help_panel=EVENTS, help="csv, ndjson, parquet or arrow."),
]
Separator = Annotated[
    str | None,
    typer.Option("--separator", metavar="CHARACTER", rich_help_panel=EVENTS, help=r"Of CSV; \t is a tab."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME,NAME,…",
        rich_help_panel=EVENTS,
        help="Of CSV without a header: what its columns are, in their order.",
    ),
]
Other = Annotated[
    str | None,
    typer.Option("--other", metavar="NAME", rich_help_panel=EVENTS, help="Bin of values that are not listed."),
]

# The public period, and slots.

Begin = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", rich_help_panel=CLOCK, help="Beginning of the public period."),
]
End = Annotated[str | None, typer.Option("--to", metavar="TIME", rich_help_panel=CLOCK, help="End of it.")]
Zone = Annotated[
    str,
    typer.Option("--zone", metavar="ZONE", rich_help_panel=CLOCK, help="Of times that name none, and of slots."),
]
Origin = Annotated[
    str, typer.Option("--origin", metavar="TIME", rich_help_panel=CLOCK, help="Slots are counted from here.")
]
