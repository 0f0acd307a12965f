"""Bits that flip in a store: each is found."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import dpi
from dpi.certificates.chain import SEALS, canonical, extend, text_digest
from dpi.errors import StateError, StoreError
from dpi.release import Release
from dpi.testing.workload import DOMAIN, open_streams, run
from dpi.verification import check_accounts, verify
from dpi.verification.releases import verify_releases

PUBLIC = {
    "releases": ("content",),
    "chain": ("text", "digest", "signature"),
    "domains": ("description", "digest"),
    "streams": ("options", "stream", "first"),
    "progress": ("last", "spent", "allocation", "mechanism", "accumulated", "seal"),
    "measurements": ("slot", "epsilon", "partial", "data", "allocation", "seal"),
}
"""What anyone finds who verifies the store."""
PRIVATE = {
    "account_runs": ("run", "part", "size", "data", "seal"),
    "ledgers": ("options", "seal"),
    "trees": ("data", "seal"),
}
"""What the curator finds, and everybody who opens the store to write."""
FLIPS = 100


@pytest.fixture
def whole(sqlite, key_file, tmp_path) -> tuple[Path, dpi.Signer]:
    """A signed store with releases of three streams, closed."""
    signer = dpi.Signer.open(tmp_path / "signing.pem")
    with dpi.open_store(sqlite, key_file=key_file) as store:
        for stream in open_streams(store):
            stream.close()
    Path(sqlite).unlink()
    with dpi.open_store(sqlite, key_file=key_file) as store:
        original = dpi.Stream.__init__

        def signed(self: dpi.Stream, **options: object) -> None:
            original(self, signer=signer, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dpi.Stream, "__init__", signed)
            for _ in run(store, 3):
                pass
    return Path(sqlite), signer


def flip(path: Path, table: str, column: str, chance: random.Random) -> str:
    """Turn one bit of one value over; says which, for the test's own report."""
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE length({column}) > 0").fetchall()  # noqa: S608
    row, value = chance.choice(rows)
    if isinstance(value, int):
        changed: object = value ^ 1 << chance.randrange(3, 30)  # a neighbouring key would be refused by the table
    else:
        data = bytearray(value)
        at, bit = chance.randrange(len(data)), chance.randrange(8)
        data[at] ^= 1 << bit
        changed = bytes(data)
    kind = connection.execute(f"SELECT typeof({column}) FROM {table} WHERE rowid = ?", (row,)).fetchone()[0]  # noqa: S608
    cast = "CAST(? AS TEXT)" if kind == b"text" else "?"
    connection.execute(f"UPDATE {table} SET {column} = {cast} WHERE rowid = ?", (changed, row))  # noqa: S608
    connection.commit()
    connection.close()
    return f"{table}.{column}, row {row}"


def problems(path: Path, key_file: Path, signer: dpi.Signer, check: Callable[..., list[str]]) -> list[str]:
    """What opening the store to read, and a check, have to say."""
    try:
        with dpi.open_store(path, key_file=key_file, read_only=True, curator=check is curator) as store:
            return check(store, signer)
    except (StateError, StoreError) as error:
        return [str(error)]


def public(store, signer) -> list[str]:
    """What anyone finds."""
    return [*verify(store, verifier=signer.verifier).problems]


def curator(store, _) -> list[str]:
    """What the curator finds."""
    return [*check_accounts(store)]


@pytest.mark.parametrize(("tables", "check"), [(PUBLIC, public), (PRIVATE, curator)], ids=["public", "private"])
def test_every_flipped_bit_is_found(whole, key_file, tables, check) -> None:
    """Of a hundred random flips in each part, public or private, not one passes; without a flip nothing is said."""
    path, signer = whole
    intact = path.read_bytes()
    assert problems(path, key_file, signer, check) == []
    chance, places = random.Random(7), [(table, column) for table, columns in tables.items() for column in columns]
    missed = []
    for number in range(FLIPS):
        path.write_bytes(intact)
        where = flip(path, *places[number % len(places)], chance)
        if not problems(path, key_file, signer, check):
            missed.append(where)
    assert missed == []


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("DELETE FROM account_runs WHERE run = (SELECT MAX(run) FROM account_runs)", curator),
        ("UPDATE account_runs SET ledger = 'x' WHERE ledger = ''", curator),
        ("UPDATE account_runs SET ledger = 'x' WHERE ledger = 'payments members'", curator),
        ("DELETE FROM ledgers WHERE ledger = 'payments members'", curator),
        ("DELETE FROM account_runs WHERE ledger = 'payments members'", curator),
        ("INSERT INTO levies VALUES ('', 0, 0, 1)", curator),
        ("DELETE FROM chain WHERE entry = (SELECT MAX(entry) FROM chain)", public),
        ("DELETE FROM chain WHERE entry = 4", public),
        ("DELETE FROM releases WHERE slot = 1 AND stream = 'orders'", public),
        ("DELETE FROM measurements WHERE slot = 0 AND stream = 'orders'", public),
        ("DELETE FROM domains", public),
        ("DELETE FROM progress WHERE stream = 'alone'", public),
        ("INSERT INTO streams SELECT 'new', first, options FROM streams WHERE stream = 'orders'", public),
    ],
)
def test_what_is_dropped_or_added_is_found(whole, key_file, statement, check) -> None:
    """Whole rows that are missing, moved or invented are found too: a lost run would refill its accounts."""
    path, signer = whole
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert problems(path, key_file, signer, check)


def resealed(certificate: dict[str, object], **facts: object) -> dict[str, object]:
    """A certificate that states other facts, and matches its digest again."""
    entry = {name: fact for name, fact in certificate.items() if name not in SEALS} | facts
    return entry | {"digest": text_digest(canonical(entry))}


@pytest.mark.parametrize("facts", [{"previous": "0" * 64}, {"sequence": 99}], ids=["previous", "sequence"])
def test_an_entry_that_follows_another_one_is_found(whole, key_file, facts) -> None:
    """An entry whose digest is right is found by its place in the chain, where nothing comes after it."""
    path, _ = whole
    with dpi.open_store(path, key_file=key_file, read_only=True) as store:
        head, last = store.head(), store.link(store.head().sequence)
    forged = resealed(last.certificate, **facts)
    text = canonical({name: fact for name, fact in forged.items() if name not in SEALS})
    connection = sqlite3.connect(path)
    connection.execute("UPDATE chain SET text = ?, digest = ? WHERE entry = ?", (text, forged["digest"], head.sequence))
    connection.commit()
    connection.close()
    with dpi.open_store(path, key_file=key_file, read_only=True) as store:
        assert verify(store).problems == (f"entry {head.sequence} does not follow the one before it",)


def test_a_release_that_follows_another_one_is_found() -> None:
    """Of releases handed out, one whose certificate names another predecessor is found, though its digest is right."""
    stream = dpi.Stream(domain=DOMAIN, epsilon=1)
    releases = [stream.release(["ada"], ["DE"]) for _ in range(3)]
    assert verify_releases(releases).intact
    forged = replace(releases[-1], certificate=resealed(releases[-1].certificate, previous="0" * 64))
    found = verify_releases([*releases[:-1], forged]).problems
    assert found == ("slot 2: its certificate does not follow the one before it",)


def test_a_promise_that_changes_on_the_way_is_found() -> None:
    """Options that state another ε, other epochs or another ledger than the stream began with are found."""
    for name, other in (("epsilon_units", 2**41), ("period", 1), ("ledger", "another"), ("ledger", None)):
        store = dpi.MemoryStore()
        stream = dpi.Stream(domain=DOMAIN, epsilon=1, store=store)
        stated = stream.setting.to_options()
        changed = {"budget": stated["budget"] | {name: other}} if name == "period" else {name: other}
        options = canonical(stated | changed)
        facts = {"kind": "options", "format": 1, "stream": "", "options": json.loads(options)}
        domain = (DOMAIN.digest, store.domain(DOMAIN.digest))
        store.declare("", options, domain, extend(store.head(), facts))
        assert verify(store).problems == ("entry 1 changes the promise",), name


def test_a_damaged_ledger_is_not_continued(whole, key_file) -> None:
    """Who opens the store to write is refused before anyone is paid from damaged accounts."""
    path, _ = whole
    flip(path, "account_runs", "data", random.Random(1))
    with dpi.open_store(path, key_file=key_file) as store, pytest.raises(StateError, match="damaged"):
        open_streams(store)


def test_a_release_handed_out_is_checked_by_itself(whole) -> None:
    """A changed number in a release, or in its certificate, is found without the store."""
    path, signer = whole
    with dpi.open_store(path, read_only=True) as store:
        releases = [
            Release.from_content(content, DOMAIN, link.certificate) for content, link in store.releases("orders")
        ]
    assert verify_releases(releases, verifier=signer.verifier).intact
    chance = random.Random(3)
    for _ in range(FLIPS):
        texts = [release.to_json() for release in releases]
        which = chance.randrange(len(texts))
        digits = [at for at, letter in enumerate(texts[which]) if letter.isdigit()]
        at = chance.choice(digits)
        texts[which] = texts[which][:at] + str((int(texts[which][at]) + 1) % 10) + texts[which][at + 1 :]
        try:
            changed = [Release.from_json(text, DOMAIN) for text in texts]
        except StateError:
            continue
        if changed != releases:
            assert not verify_releases(changed, verifier=signer.verifier).intact
