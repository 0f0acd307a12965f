"""Streams that share one ε by quotas: sums, orders, growth, what is refused, what a verifier finds, lost slots."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import polars as pl
import pytest

import dpi
from dpi.budget.epsilon import UNITS
from dpi.certificates.chain import Head, extend
from dpi.errors import OptionError, StateError
from dpi.noise import UnsafeSeededSource
from dpi.store._rollback import charge
from dpi.store.ledger_session import stored_accounts
from dpi.store.witness import Seen
from dpi.testing.class_sums import ClassSums
from dpi.verification import check_accounts, verify
from dpi_audit import neighbours, small
from dpi_audit.exact import worst_of
from dpi_audit.session import SeveralStreams

DOMAIN = dpi.Categories(["a", "b", "c"], other=None)
REGULARS = [f"regular {number}" for number in range(20)]


def stream(store, name, quota=None, *, per_slot="auto", **options):
    """A stream of a store that measures by class, or where a slot has an amount."""
    clocked = {"policy": dpi.budget.clocked(top=4)} if per_slot == "auto" else {}
    budget = dpi.Ledger(per_slot=per_slot, quota=quota, **clocked)
    default = {"domain": DOMAIN, "epsilon": 1, "budget": budget, "mechanism": ClassSums()}
    return dpi.Stream(store=store, name=name, **(default | {"unsafe_source": UnsafeSeededSource(3)} | options))


def close(opened, slots=1):
    """Release some slots of regulars and newcomers."""
    for _ in range(slots):
        users = [*REGULARS, *[f"new {opened.next_slot} {number}" for number in range(5)]]
        release = opened.release(users, [["a", "b", "c"][row % 3] for row in range(len(users))])
    return release


def spent(store, user="regular 0"):
    """What a user has paid from each set of accounts, as a part of ε: private."""
    found = {}
    for name in store.ledgers():
        accounts = stored_accounts(store, name)
        (left,) = accounts.remaining(pl.Series([user]), 1000)
        found[name] = accounts.held.fraction - left
    return found


@pytest.mark.parametrize("per_slot", ["auto", "0.1"])
@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_given_and_paid_nobody_loses_more_than_epsilon(seed, per_slot, tmp_path):
    """Streams with and without quotas begin, grow and close at random: every user's sum stays at most ε."""
    rng = random.Random(seed)
    with dpi.open_store(tmp_path / "visits.db") as store:
        quotas, opened, refused = {}, {}, 0
        for _ in range(30):
            name = rng.choice("abcd")
            if name not in opened or (name in quotas and rng.random() < 0.4):
                more = None if name == "d" else Fraction(rng.randrange(8, 40), 80)
                quota = None if more is None else quotas.get(name, 0) + more
                try:
                    opened[name] = stream(store, name, quota, per_slot=per_slot, change=name in opened)
                    quotas |= {} if quota is None else {name: quota}
                except OptionError:
                    refused += 1
                    continue
            close(opened[name])
            assert sum(spent(store).values()) <= 1
            assert sum(quotas.values()) <= 1
        assert refused
        assert verify(store).problems == ()
        assert check_accounts(store) == ()


@pytest.mark.parametrize("per_slot", ["auto", "0.1"])
def test_no_other_stream_changes_what_one_with_a_quota_releases(per_slot):
    """A greedy stream, with a quota or without, before, between or not at all: the same PDFs, the same accounts."""
    seen = []
    for greedy in range(4):
        store = dpi.MemoryStore()
        one = stream(store, "one", "0.5", per_slot=per_slot)
        others = [stream(store, "two", "0.25", per_slot="0.25"), stream(store, "three", per_slot="0.25")]
        pdfs = []
        for slot in range(6):
            for other in others:
                if greedy == 1 or (greedy == 2 and slot % 2) or (greedy == 3 and slot == 0):
                    close(other)
            pdfs.append(close(one).pdf.tolist())
        seen.append((pdfs, spent(store)["quota one"]))
    assert seen[1:] == seen[:1] * 3
    assert seen[0][1] > 0


def test_neighbours_lose_no_more_than_quotas_say():
    """Exactly, by class: two streams in turn, a user in every slot of both; together at most what both say is spent."""

    def opened():
        store = dpi.MemoryStore()
        ledgers = {name: dpi.Ledger(policy=dpi.budget.clocked(top=3), quota="0.5") for name in ("one", "two")}
        makes = [
            small.stream(budget=ledger, mechanism=ClassSums(), store=store, name=name)
            for name, ledger in ledgers.items()
        ]
        return SeveralStreams(makes, Fraction(1))

    found = worst_of(opened, [neighbours.every_slot(16, small.VALUES)])
    assert not found.violates
    assert found.ratio > 0.5


def test_a_stream_without_a_quota_takes_the_rest():
    """It is told what is left when it begins, and its accounts hold what is left now."""
    store = dpi.MemoryStore()
    early = stream(store, "early", per_slot="0.5")
    stream(store, "one", "0.25")
    late = stream(store, "late", per_slot="0.5")
    assert (float(early.setting.held), float(late.setting.held)) == (1, 0.75)
    stream(store, "two", "1/2")
    close(early)
    close(late)
    assert spent(store)[""] == Fraction(1, 4)
    assert "at most the remaining 0.25" in late.guarantee
    assert stream(store, "late", per_slot="0.5").setting.held == late.setting.held  # opened again, it is the same
    assert verify(store).problems == ()


def test_a_quota_grows_from_a_slot_on():
    """Accounts hold more from that slot on, by class too, and what is said of them bounds what they have spent."""
    store = dpi.MemoryStore()
    opened = stream(store, "one", "0.25")
    close(opened, 5)
    before = spent(store)["quota one"]
    opened = stream(store, "one", "0.75", change=True)
    assert spent(store)["quota one"] == before
    for _ in range(12):
        release = close(opened)
        assert spent(store)["quota one"] <= Fraction(release.certificate["epsilon_spent_units"], UNITS) < 0.75
        assert release.certificate["epsilon_quota"] == 0.75
    assert spent(store)["quota one"] > 0.25
    assert verify(store).problems == ()
    assert "quota of 0.75" in opened.guarantee
    assert "0.75 of it, for this stream alone" in opened._repr_html_()


def test_a_growth_that_is_to_come_is_no_longer_in_the_rest(tmp_path):
    """Declared for a later slot it is nobody's until then; before, the stream has what it had."""
    clock = {"slot": "1h", "start": "2026-01-01", "per_slot": "0.25"}
    with dpi.open_store(tmp_path / "visits.db") as store:
        rest = stream(store, "rest", per_slot="0.25")
        opened = stream(store, "one", "0.25", **clock)
        close(opened, 2)
        opened = stream(store, "one", "0.75", change="2026-01-01T03:00Z", **clock)
        close(opened)
        close(rest, 4)
        assert float(opened.setting.held) == 0.75
        close(opened)
        assert [
            link.entry["epsilon_quota"]
            for link in store.links()
            if link.entry.get("stream") == "one" and link.entry["kind"] == "release"
        ] == [0.25, 0.25, 0.25, 0.75]
        assert sum(spent(store).values()) <= 1
        assert verify(store).problems == ()
        with pytest.raises(OptionError, match="never shrinks"):
            stream(store, "one", "0.5", change=True, **clock)


@pytest.mark.parametrize(
    ("quota", "options", "match"),
    [
        ("0.8", {}, "0.6 is in no other quota"),
        ("0.3", {"epsilon": 2}, "stored is ε = 1, given is ε = 2"),
        ("0.3", {"separate": True}, "leave out `separate`"),
        ("0.2", {"name": "one", "change": True}, "never shrinks"),
        ("0.4", {"name": "rest", "per_slot": "0.1", "change": True}, "another promise"),
        (None, {"name": "one", "change": True}, "another promise"),
        (None, {"budget": dpi.Ledger(period=3)}, "period"),
    ],
)
def test_what_cannot_be_kept_is_refused(quota, options, match):
    """Before anything is said in the chain; after it the store is as it was."""
    store = dpi.MemoryStore()
    rest = stream(store, "rest", per_slot="0.05")
    stream(store, "one", "0.3")
    close(rest, 2)
    head = store.head()
    with pytest.raises(OptionError, match=match):
        stream(store, **({"name": "new", "quota": quota} | options))
    assert store.head() == head
    stream(store, "new", "0.6")  # all that is left: 1 less 0.3, less what two slots can have cost
    with pytest.raises(OptionError, match="is in no other quota"):
        stream(store, "one", "0.3001", change=True)


@pytest.mark.parametrize("per_slot", ["auto", "0.25"])
@pytest.mark.parametrize("released", [0, 1])
def test_a_slot_that_is_paid_for_and_not_yet_released_counts_as_spent(per_slot, released, monkeypatch):
    """A quota gets nothing of it: users have paid, though no entry of the chain says so yet."""
    store = dpi.MemoryStore()
    rest = stream(store, "rest", per_slot=per_slot)
    for _ in range(released):
        close(rest)
    with monkeypatch.context() as patched:
        patched.setattr(store, "publish", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            close(rest)
    before = 0 if released == 0 else store.reached("rest")[1]
    most = store.pending("rest").spent_after(before)
    assert most > before
    assert spent(store)[""] > Fraction(before, UNITS)
    with pytest.raises(OptionError, match="is in no other quota"):
        stream(store, "one", Fraction(UNITS - most + 1, UNITS), per_slot="0.01")
    one = stream(store, "one", Fraction(UNITS - most, UNITS), per_slot="0.01")
    assert rest.next_slot == released + 1  # it is released now
    close(one)
    assert sum(spent(store).values()) <= 1
    assert verify(store).problems == ()


def _interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("wrong", [0, -1, "1.01", "nan", True])
def test_a_quota_is_a_part(wrong):
    """Above zero and at most one."""
    with pytest.raises(OptionError, match="quota"):
        dpi.Ledger(quota=wrong)
    with pytest.raises(OptionError, match="period"):
        dpi.Ledger(quota="0.5", period=4)


def test_nothing_is_left_for_a_stream_without_a_quota():
    """Where quotas sum to one, such a stream is refused; with a quota of next to nothing as well."""
    store = dpi.MemoryStore()
    stream(store, "one", 1)
    with pytest.raises(OptionError, match="nothing is left"):
        stream(store, "two")
    with pytest.raises(OptionError, match="at least 2\\^-40"):
        stream(dpi.MemoryStore(), "one", Fraction(1, 1 << 41))


def test_a_quota_is_written_exactly():
    """In whichever form it was given."""
    stated = dpi.Ledger(quota=0.25).to_options()
    assert stated == dpi.Ledger(quota="1/4").to_options()
    assert stated["quota"] == "0.25"
    assert dpi.Ledger.from_options(stated).quota == Fraction(1, 4)
    assert repr(dpi.Ledger(quota="1/4")) == "Ledger(quota='1/4')"


def _forged(store, change):
    """The chain with entries changed, chained anew."""
    links, head = [*store.links()], Head()
    for number, link in enumerate([*links]):
        entry = change(number, dict(link.entry))
        links[number] = extend(
            head, {name: fact for name, fact in entry.items() if name not in ("sequence", "previous")}
        )
        head = links[number].head
    store._content = replace(store._content, links=tuple(links))
    return " ".join(verify(store).problems)


def _with_budget(entry, **fields):
    return entry | {"options": entry["options"] | {"budget": entry["options"]["budget"] | fields}}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda n, e: _with_budget(e, quota="0.9") if n == 1 else e, "gives a quota of what is not there"),
        (lambda n, e: _with_budget(e, quota="0.2") if n == 4 else e, "shrinks a quota"),
        (lambda n, e: _with_budget(e, quota="0.9") if n == 4 else e, "gives a quota of what is not there"),
        (lambda n, e: _with_budget(e, rest=UNITS) if n == 2 else e, "states another rest"),
        (lambda n, e: e | {"epsilon_quota_units": UNITS} if n == 3 else e, "states another quota"),
        (lambda n, e: e | {"epsilon_quota": 0.5} if n == 3 else e, "states another quota"),
        (lambda n, e: e | {"options": e["options"] | {"epsilon_units": 2}} if n == 1 else e, "another ε"),
    ],
)
def test_a_forged_quota_is_found(change, found):
    """The chain alone tells quotas above one, one that shrinks, and a rest or a quota that is not the one declared."""
    store = dpi.MemoryStore()
    one = stream(store, "one", "0.25")  # entry 0
    stream(store, "two", "0.5")  # 1
    rest = stream(store, "rest", per_slot="0.1")  # 2
    close(one)  # 3
    one = stream(store, "one", "0.35", change=True)  # 4
    close(one)
    close(rest)
    assert verify(store).problems == ()
    assert found in _forged(store, change)


def test_a_quota_of_what_was_spent_without_one_is_found():
    """By the budgets of the streams without a quota that the chain has seen before."""
    store = dpi.MemoryStore()
    rest = stream(store, "rest", per_slot="0.3")
    close(rest, 2)
    stream(store, "one", "0.25")
    assert verify(store).problems == ()
    assert "not there" in _forged(store, lambda n, e: _with_budget(e, quota="0.5") if n == 3 else e)


def test_an_account_above_its_quota_is_found(tmp_path):
    """By the curator: no account has spent more than it held."""
    with dpi.open_store(tmp_path / "visits.db") as store:
        opened = stream(store, "one", "0.25", per_slot="0.25")
        close(opened)
        assert check_accounts(store) == ()
        store.engine.execute("UPDATE streams SET options = replace(options, '0.25', '0.15')")
    with dpi.open_store(tmp_path / "visits.db") as store:
        assert any("more than its slots have cost" in problem for problem in check_accounts(store))


@pytest.mark.parametrize("per_slot", ["auto", "0.0625"])
def test_lost_slots_are_charged_to_the_accounts_that_paid_them(per_slot):
    """Sub-accounts of each stream by themselves; with a levy, no more is left than truly is."""
    store = dpi.MemoryStore()
    names = {"one": "0.5", "two": "0.25", "rest": None}
    for name, quota in names.items():
        close(stream(store, name, quota, per_slot=per_slot), 3)
    reached, largest = {name: store.reached(name) for name in names}, {}
    if per_slot == "auto":
        largest = {name: [*store.bounds(name).largest] for name in names}
    before, quotas = spent(store), {"one": UNITS // 2, "two": UNITS // 4}
    lost = {"one": 8, "two": 0, "rest": 8}
    seen = Seen(
        store.head().sequence + 5,
        "lost",
        {name: last + lost[name] for name, (last, _) in reached.items()},
        {name: units + lost[name] * UNITS // 64 for name, (_, units) in reached.items()},
        largest=largest,
        quotas=quotas,
    )
    charge(store, seen)
    after = spent(store)
    assert after["quota two"] == before["quota two"]
    assert after["quota one"] > before["quota one"]
    assert after[""] > before[""]
    for name, quota in names.items():
        close(stream(store, name, quota, per_slot=per_slot), 2)
    assert sum(spent(store).values()) <= 1
    assert verify(store).problems == ()


def test_a_copy_from_before_a_quota_grew_is_refused():
    """In it what was added is in the rest, and would be spent twice."""
    store = dpi.MemoryStore()
    close(stream(store, "one", "0.25"))
    last, units = store.reached("one")
    told = {"last": {"one": last + 1}, "spent": {"one": units}, "largest": {"one": [4096]}}
    with pytest.raises(StateError, match="grew after this copy"):
        charge(store, Seen(store.head().sequence + 2, "lost", **told, quotas={"one": UNITS // 2}))
    charge(store, Seen(store.head().sequence + 2, "lost", **told, quotas={"one": UNITS // 4}))
    assert verify(store).problems == ()


def test_a_growth_among_lost_slots_is_charged_for():
    """Declared before the copy was made, begun in a slot that the copy has lost: bounds and accounts count with it."""
    store, clock = dpi.MemoryStore(), {"slot": "1h", "start": "2026-01-01"}
    close(stream(store, "one", "0.25", **clock), 2)
    opened = stream(store, "one", "0.5", change="2026-01-01T03:00Z", **clock)
    (last, units), largest = store.reached("one"), [*store.bounds("one").largest]
    seen = Seen(store.head().sequence + 5, "lost", {"one": last + 3}, {"one": units}, largest={"one": largest})
    charge(store, seen)
    assert store.bounds("one").epsilon == UNITS // 2
    opened = stream(store, "one", "0.5", **clock)
    release = close(opened, 3)
    assert spent(store)["quota one"] <= Fraction(release.certificate["epsilon_spent_units"], UNITS)
    assert verify(store).problems == ()


def test_it_goes_on_where_it_stopped(tmp_path):
    """Saved and loaded, or in a store on disk, sub-accounts are as they were."""
    store = dpi.MemoryStore()
    for name, quota in {"one": "0.5", "rest": None}.items():
        close(stream(store, name, quota), 3)
    store.save(tmp_path / "saved")
    again = dpi.MemoryStore.load(tmp_path / "saved")
    assert spent(again) == spent(store)
    for name, quota in {"one": "0.5", "rest": None}.items():
        made = [close(stream(each, name, quota)).pdf.tolist() for each in (store, again)]
        assert made[0] == made[1]
    assert spent(again) == spent(store)
