"""A new store begins once: a key without its store is refused, and a witness is kept unless it is refused."""

from __future__ import annotations

import shutil

import pytest

import dpi
from dpi import files
from dpi.errors import OptionError, StateError
from dpi.events.identity import users
from dpi.store.ledger_session import stored_accounts

DOMAIN = dpi.Categories(["a", "b"])


def released(target, slots=1, **options):
    """Close some slots of a stream that one user is in; what the accounts have left of ε."""
    with dpi.open_store(target, **options) as store:
        stream = dpi.Stream(domain=DOMAIN, epsilon=1, store=store, budget=dpi.Ledger(per_slot="0.25"))
        for _ in range(slots):
            stream.release(["ada"], ["a"])
        return float(stored_accounts(store, "").remaining(users(["ada"]), 10)[0])


def test_a_key_without_its_store_is_refused(tmp_path):
    """Who deletes a store and keeps its key does not publish the same days again from full accounts, unless said."""
    target = tmp_path / "visits.db"
    assert released(target, 3) == pytest.approx(0.25)
    for file in tmp_path.glob("visits.db*"):
        if file.suffix != ".key":
            file.unlink()
    with pytest.raises(StateError, match=r"backup.*`new=True`.*all of ε"):
        released(target)
    assert not target.exists()
    target.touch()  # an empty file is no store either
    with pytest.raises(StateError, match="`new=True`"):
        released(target)
    assert released(target, new=True) == pytest.approx(0.75)
    with pytest.raises(OptionError, match="`new`"):
        dpi.open_store(target, new=True)
    assert released(target) == pytest.approx(0.5)


@pytest.mark.parametrize("named", [{}, {"key_file": "elsewhere.key"}])
def test_a_store_that_is_gone_is_told_by_its_witness_as_well(tmp_path, monkeypatch, named):
    """The store is gone, and its key too or elsewhere; the witness is not: nothing is published again, unless said."""
    monkeypatch.chdir(tmp_path)
    released("visits.db", 2, **named)

    def delete():
        for file in tmp_path.glob("visits.db*"):
            if ".witness" not in file.name:
                file.unlink()

    delete()
    with pytest.raises(StateError, match="old copy"):
        released("visits.db", **named)
    delete()
    assert released("visits.db", new=True, **named) == pytest.approx(0.75)
    assert released("visits.db", **named) == pytest.approx(0.5)


def test_making_a_store_can_be_interrupted_at_its_key(tmp_path, monkeypatch):
    """A process that ends before, or right after, it has made the key leaves a store that the next one goes on with."""
    create = files.create_secret

    class Killed(BaseException):
        """Nothing catches it."""

    for after in (False, True):
        target = tmp_path / f"killed {after}.db"

        def killed(path, data, after=after):
            if after:
                create(path, data)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(files, "create_secret", killed)
            with pytest.raises(Killed):
                dpi.open_store(target)
        assert released(target) == pytest.approx(0.75)


def test_an_old_copy_is_refused_without_a_word_said(tmp_path):
    """A new store in a file has a witness beside it, by which an old copy that is put back is told."""
    target = tmp_path / "visits.db"
    released(target)
    shutil.copy(target, tmp_path / "monday")
    released(target)
    assert (tmp_path / "visits.db.witness").exists()
    shutil.copy(tmp_path / "monday", target)
    with pytest.raises(StateError, match="old copy"):
        released(target)
    (tmp_path / "visits.db.witness").unlink()
    with pytest.raises(StateError, match="witness"):
        released(target)


def test_a_witness_is_not_kept_where_it_is_refused(tmp_path):
    """`witness=False` makes a store without one, which stays so; a store that has one is not opened without it."""
    refused, kept = tmp_path / "refused.db", tmp_path / "kept.db"
    released(refused, witness=False)
    released(refused)
    assert not list(tmp_path.glob("*.witness*"))
    released(kept)
    with pytest.raises(StateError, match="has a witness"):
        released(kept, witness=False)
    released(refused, witness=tmp_path / "later")
    assert (tmp_path / "later").exists()
