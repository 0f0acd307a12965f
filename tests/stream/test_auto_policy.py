"""What a ledger whose policy nobody named goes by: decided once, declared with the stream, and kept."""

import json
from dataclasses import replace

import pytest

import dpi
from dpi.budget.policy import Clocked
from dpi.certificates.declared import DeclaredOptions
from dpi.errors import OptionError
from dpi.stream.options import StreamOptions
from dpi.testing.class_sums import ClassSums
from dpi.verification import check_accounts, verify

DOMAIN = dpi.Categories(["DE", "FR"], other="elsewhere")
KEY = bytes(range(32))
SPEND = dpi.Ledger(policy=dpi.budget.spend_first)
USERS, VALUES = ["ada", "bob", "eve"], ["DE", "FR", "DE"]


def stream(**options):
    """A stream in memory."""
    return dpi.Stream(**({"domain": DOMAIN, "epsilon": 1, "store": dpi.MemoryStore(KEY)} | options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"budget": dpi.Ledger()},
        {"budget": dpi.Ledger(period=24)},
        {"mechanism": ClassSums()},
        {"accumulate": dpi.stream.PrefixTree("0.01")},
        {"compression": dpi.histogram.truncate(2, KEY)},
        {"domain": dpi.Categories([str(number) for number in range(9_998)])},
        {"domain": dpi.Hashed(10_000, KEY)},
    ],
)
def test_users_are_measured_by_class_where_nothing_else_is_said(options):
    """No account is ever empty, and nobody chooses a budget by how long users stay."""
    opened = stream(**options)
    assert opened.setting.policy == dpi.budget.clocked()
    assert opened.setting.classes == 21
    assert "classes" in opened.release([], []).certificate


def test_a_declared_season_is_learned_by_class():
    """The estimators of classes take a season that fits into memory; a longer one is spent first."""
    opened = stream(mechanism=dpi.Boosted(season=24))
    assert opened.setting.policy == dpi.budget.clocked()
    for _ in range(3):
        opened.release(USERS, VALUES)
    again = stream(mechanism=dpi.Boosted(season=24), store=opened.store)
    assert again.release(USERS, VALUES).slot == 3


@pytest.mark.parametrize(
    "options",
    [
        {"budget": dpi.Ledger(per_slot="0.05")},
        {"budget": dpi.Ledger(slots=20)},
        {"budget": dpi.Ledger(slots=20, every=5)},
        {"budget": dpi.Ledger(returning=False)},
        {"budget": SPEND},
        {"mechanism": dpi.Published(dpi.mechanism.published.Multinomial(20, 20))},
        {
            "mechanism": dpi.Published(dpi.mechanism.published.Multinomial(20, 20)),
            "compression": dpi.histogram.whole_pdf,
        },
        {"mechanism": dpi.Boosted(season=1_000_000)},
        {"mechanism": dpi.Boosted(partitions=(dpi.domain.Blocks(2),)), "domain": dpi.Bins(range(5))},
        {"domain": dpi.Bins(range(10_000))},
        {"domain": dpi.Hashed(20_000, KEY)},
    ],
)
def test_elsewhere_accounts_are_spent_first(options):
    """With an amount for a slot, options that classes know nothing of, or a huge domain."""
    opened = stream(**options)
    assert opened.setting.policy == dpi.budget.spend_first
    assert opened.setting.classes == 1
    assert "classes" not in opened.release([], []).certificate


def test_what_it_came_to_is_declared():
    """A verifier needs no rule: the chain names the policy; and whoever opens the stream need not."""
    for options, policy in (
        ({}, {"kind": "clocked", "top": 20}),
        ({"budget": dpi.Ledger("0.1")}, {"kind": "spend_first"}),
    ):
        opened = stream(**options)
        assert json.loads(opened.setting.text)["budget"]["policy"] == policy
        opened.release(USERS, VALUES)
        again = stream(**options, store=opened.store)
        assert again.digest == opened.digest
        assert again.release(USERS, VALUES).slot == 1
        assert verify(opened.store).problems == ()


@pytest.mark.parametrize(
    "budget", [SPEND, dpi.Ledger(policy=dpi.budget.fade()), dpi.Ledger(policy=dpi.budget.clocked(top=5))]
)
def test_a_new_stream_takes_the_policy_of_the_ledger_that_is_there(budget):
    """Streams that share accounts share how they are spent; one of its own accounts decides for itself."""
    store = dpi.MemoryStore(KEY)
    stream(store=store, name="first", budget=budget).release(USERS, VALUES)
    second = stream(store=store, name="second")
    assert second.budget == budget
    second.release(USERS, VALUES)
    assert stream(store=store, name="own", separate=True).budget == dpi.Ledger(policy=dpi.budget.clocked())
    assert verify(store).problems == ()
    assert check_accounts(store) == ()


def test_amounts_of_a_slot_share_a_clocked_ledger():
    """A stream that says what a slot costs pays from the same accounts, and is not measured by class."""
    store = dpi.MemoryStore(KEY)
    first = stream(store=store, name="first")
    second = stream(store=store, name="second", budget=dpi.Ledger(per_slot="0.2"))
    assert isinstance(second.setting.policy, Clocked)
    assert second.setting.classes == 1
    for _ in range(4):
        assert "classes" in first.release(USERS, VALUES).certificate
        assert "classes" not in second.release(USERS, VALUES).certificate
    assert first._accounts is second._accounts
    assert first._accounts.within
    again = stream(store=store, name="second", budget=dpi.Ledger(per_slot="0.2"))
    assert again.digest == second.digest
    assert verify(store).problems == ()
    assert check_accounts(store) == ()


def test_the_policy_of_a_ledger_is_refused_in_words():
    """Who names another policy than the ledger's is told to leave it out."""
    store = dpi.MemoryStore(KEY)
    stream(store=store, name="first")
    with pytest.raises(OptionError, match="a `policy` that is left out is the ledger's"):
        stream(store=store, name="second", budget=SPEND)


def test_a_larger_domain_changes_no_policy():
    """By itself a stream of so many bins would be `spend_first`; one that has begun by class goes on by class."""
    store = dpi.MemoryStore(KEY)
    stream(store=store, domain=dpi.Bins(range(5))).release([], [])
    wider = stream(store=store, domain=dpi.Bins(range(10_001)), change="next")
    assert wider.setting.classes == 21
    assert "classes" in wider.release([], []).certificate
    assert verify(store).problems == ()


def test_options_that_leave_it_open_say_no_policy():
    """A text with the word is read; what it would come to is not guessed by a verifier."""
    stated = json.loads(stream().setting.text)
    options = stated | {"budget": stated["budget"] | {"policy": "auto"}}
    known = DeclaredOptions.from_options(options)
    assert (known.policy, known.top) == (None, None)
    assert StreamOptions.from_options(options, DOMAIN).budget == dpi.Ledger()


def test_a_policy_is_a_policy_or_the_word():
    """Anything else is refused where it is written."""
    for wrong in ("clocked", None, 3):
        with pytest.raises(OptionError, match="`policy` must be 'auto'"):
            replace(dpi.Ledger(), policy=wrong)
