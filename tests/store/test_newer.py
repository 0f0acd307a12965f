"""What a newer version has written is distinguished from what is damaged, wherever this version meets it first."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import dpi
from dpi.certificates.chain import Head, extend
from dpi.certificates.declared import DeclaredOptions
from dpi.errors import StateError
from dpi.files import read_sealed, seal_of
from dpi.mechanism import class_estimator
from dpi.release import Release, from_frame, to_frame
from dpi.store.folder import Layout
from dpi.store.witness import Seen
from dpi.verification import verify

DOMAIN = dpi.Categories(["a", "b"])
OPTIONS = json.loads(dpi.Stream(domain=DOMAIN, epsilon=1).setting.text)
SEEN = {"sequence": 3, "digest": "d0", "last": {}, "spent": {}, "witness": "w"}
LAYOUT = {"path": "p", "mark": "m", "bits": 4}


def with_field(content):
    """The content of a release, with a field that is yet to come."""
    head, _, body = content.partition(b"\n")
    return json.dumps(json.loads(head) | {"flavour": 1}).encode() + b"\n" + body


def a_release(change):
    """Read a release's content, changed."""
    release = dpi.Stream(domain=DOMAIN, epsilon=1).release(["ada"], ["a"])
    return Release.from_content(change(release.content()), DOMAIN, {})


def a_table():
    """Read a table of releases that has a column more."""
    release = dpi.Stream(domain=DOMAIN, epsilon=1).release(["ada"], ["a"])
    return from_frame(to_frame([release]).with_columns(flavour=1), DOMAIN)


def saved(tmp_path, change):
    """Load a saved stream whose bytes were changed before they were sealed."""
    dpi.Stream(domain=DOMAIN, epsilon=1).save(tmp_path / "saved")
    data = (tmp_path / "saved").read_bytes()[32:]
    (tmp_path / "saved").write_bytes(seal_of(change(data)) + change(data))
    return read_sealed(tmp_path / "saved")


READ = {
    "options of a later format": (lambda _: DeclaredOptions.from_options(OPTIONS | {"format": 9})),
    "an option that is yet to come": (lambda _: DeclaredOptions.from_options(OPTIONS | {"flavour": 1})),
    "a field of a ledger": (lambda _: DeclaredOptions.from_options(OPTIONS | {"budget": {"kind": "ledger", "f": 1}})),
    "a kind of budget": (lambda _: DeclaredOptions.from_options(OPTIONS | {"budget": {"kind": "futures"}})),
    "a field of a release": lambda _: a_release(with_field),
    "a table of releases": lambda _: a_table(),
    "a witness": lambda _: Seen.from_json(json.dumps(SEEN | {"flavour": 1})),
    "a layout": lambda _: Layout.from_json(json.dumps(LAYOUT | {"flavour": 1})),
    "a saved stream": lambda folder: saved(folder, lambda data: data.replace(b"dpi saved 1\n", b"dpi saved 2\n")),
    "a state of the boosted mechanism": lambda _: dpi.Boosted().from_bytes(
        DOMAIN, b"dpi boosted state 3\n" + bytes(64)
    ),
    "a state by class": lambda _: class_estimator.from_bytes(b"dpi users 3\n" + bytes(64)),
    "a state of partitions": lambda _: dpi.Boosted(partitions=(dpi.domain.Blocks(2),)).from_bytes(
        DOMAIN, b"dpi rotating state 3\n" + bytes(64)
    ),
}
DAMAGED = {
    "options": lambda _: DeclaredOptions.from_options(OPTIONS | {"epsilon_units": "1"}),
    "a release": lambda _: a_release(lambda content: content[:-3]),
    "a witness": lambda _: Seen.from_json(json.dumps(SEEN | {"sequence": "3"})),
    "a layout": lambda _: Layout.from_json("{"),
    "a saved stream": lambda folder: saved(folder, lambda data: data.replace(b"dpi saved 1\n", b"api saved 1\n")),
    "a state": lambda _: dpi.Boosted().from_bytes(DOMAIN, b"dpi boosted state 2\n" + bytes(64)),
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_what_is_newer_is_said_to_be(read, tmp_path):
    """The sentence says what to do, and not that anything is damaged."""
    with pytest.raises(StateError, match="written by a newer version of dpi: install") as refused:
        read(tmp_path)
    assert "damaged" not in str(refused.value)


@pytest.mark.parametrize("read", DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_not_said_to_be_newer(read, tmp_path):
    """Bytes that no version writes."""
    with pytest.raises(StateError) as refused:
        read(tmp_path)
    assert "newer" not in str(refused.value)


@pytest.mark.parametrize("facts", [{"kind": "release", "format": 9}, {"kind": "treaty"}])
def test_verify_tells_entries_of_a_newer_version(facts):
    """An entry of a later format, or of a kind that is yet to come, is not said to be wrong in any other way."""
    store = dpi.MemoryStore()
    dpi.Stream(domain=DOMAIN, epsilon=1, store=store).release(["ada"], ["a"])
    links = list(store.links())
    entry = links[-1].entry | facts
    for name in ("sequence", "previous"):
        del entry[name]
    links[-1] = extend(Head(len(links) - 2, links[-2].digest), entry)
    store._content = replace(store._content, links=tuple(links))
    problems = [each for each in verify(store).problems if each.startswith(f"entry {len(links) - 1} ")]
    assert problems == [f"entry {len(links) - 1} was written by a newer version of dpi: this one cannot check it"]
