"""What a privacy officer is handed: an annex to an impact assessment, a notice, a receipt; from public things alone."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import pytest

import dpi
from dpi.report.deployment import ASK, describe_deployment, write_annex
from dpi.store.export import export

KINDS = ("review", "dpia", "notice", "receipt")
STREAMS = {
    "clocked": {},
    "per slot": {"budget": dpi.Ledger(per_slot="0.05")},
    "epochs": {"budget": dpi.Ledger(per_slot="0.05", period=24)},
    "series": {"budget": dpi.Converging(dpi.budget.Zeta())},
    "large": {"epsilon": 3},
    "months": {"slot": "month"},
    "late": {"slot": dpi.Slots("1h", lateness="10m")},
}


def made(kind, store=None, users=("secret-ada",)):
    """A stream of a kind with two slots, and its store."""
    store = dpi.MemoryStore() if store is None else store
    given = {"epsilon": 1, "slot": "1h", "start": "2026-01-01", "domain": dpi.Categories(["DE", "FR"], other="else")}
    stream = dpi.Stream(store=store, name="visits", **(given | STREAMS[kind]))
    for _ in range(2):
        stream.release(list(users), ["DE"] * len(users))
    return store


def tables(text):
    """Whether every row of each table has as many cells as its heading."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    widths = [{len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()} for block in blocks]
    return all(len(each) == 1 for each in widths)


@pytest.mark.parametrize("annex", KINDS)
def test_names_that_were_declared_break_no_table(annex):
    """A value or a stream may have any name."""
    store = dpi.MemoryStore()
    dpi.Stream(store=store, name="a|b", epsilon=1, domain=dpi.Categories(["DE|FR", "x\n| y"]))
    text = write_annex(describe_deployment(store, "a|b"), annex)
    assert tables(text)
    assert "a\\|b" in text


@pytest.mark.parametrize("annex", KINDS)
@pytest.mark.parametrize("kind", STREAMS)
def test_every_stream_has_every_annex(kind, annex):
    """Filled without a gap, with its own ε; what no program knows is left to the curator; no id is in it."""
    text = write_annex(describe_deployment(made(kind), "visits"), annex)
    assert not re.search(r"[{}]|None|timedelta", text)
    assert ASK in text
    assert "secret-ada" not in text
    assert text.startswith("# ")
    factor = "20.1" if kind == "large" else "2.72"
    assert f"at most {factor} (e^ε)" in text
    assert tables(text)


@pytest.mark.parametrize("annex", KINDS)
def test_an_annex_is_a_function_of_what_is_public(annex, tmp_path):
    """A store and its export give the same bytes: accounts and events are not in the export."""
    with dpi.open_store(tmp_path / "visits.db", witness=tmp_path / "w") as store:
        made("clocked", store)
        own = write_annex(describe_deployment(store, "visits"), annex)
        export(store, tmp_path / "public.db")
    with dpi.open_store(tmp_path / "public.db", read_only=True) as public:
        assert write_annex(describe_deployment(public, "visits"), annex) == own


@pytest.mark.parametrize("annex", KINDS)
def test_who_was_there_changes_nothing_but_the_head(annex):
    """Neighbouring streams differ in digests of releases, which are noise, and in nothing else."""
    stores = [made("per slot", users=users) for users in (("ada", "bob"), ("bob",), ())]
    texts = [write_annex(describe_deployment(store, "visits"), annex) for store in stores]
    assert len({re.sub(r"[0-9a-f]{64}", "digest", text) for text in texts}) == 1


@pytest.mark.parametrize(
    ("kind", "until", "longest"),
    [
        ("clocked", "2026-01-01T02:00", "1 hour"),
        ("late", "2026-01-01T02:00", "1 hour and 10 minutes"),
        ("months", "2026-03-01T00:00", "31 days and 1 hour"),
    ],
)
def test_a_receipt_says_what_is_gone(kind, until, longest):
    """Up to the end of the last released slot, and by when the rest is; an hour more where clocks are changed."""
    text = write_annex(describe_deployment(made(kind), "visits"), "receipt")
    assert f"slots up to {until}" in text
    assert f"normally {longest} after it began, and later if the slot closes late" in text
    assert "an account under a keyed name" in text


def ratio(epsilon):
    """e^ε, rounded up to three digits."""
    exact = Decimal(epsilon).exp()
    return f"{exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING):,f}"


@pytest.mark.parametrize("period", [None, 24])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "1.7", "3", "10"])
def test_a_notice_says_how_much_likelier_releases_are_with_a_user(epsilon, period):
    """By e^ε, never below it: of all releases, or of one epoch; and not that they would be almost the same."""
    store = dpi.MemoryStore()
    budget = dpi.Ledger(per_slot="0.05", period=period)
    dpi.Stream(store=store, name="visits", epsilon=epsilon, domain=dpi.Categories(["DE"]), budget=budget)
    text = write_annex(describe_deployment(store, "visits"), "notice")
    which = "they are" if period is None else "those of one epoch are"
    assert f"cannot be taken back; {which} at most {ratio(epsilon)} times as likely with you as without." in text
    assert "almost the same" not in text


@pytest.mark.parametrize("annex", KINDS)
def test_what_adds_to_epsilon_is_said(annex):
    """A stream with a budget of its own, also one that was opened after the last release; and other stores."""
    store = made("clocked")
    assert "streams of this store sum" not in write_annex(describe_deployment(store, "visits"), annex)
    assert "everything that is published from this store" in write_annex(describe_deployment(store, "visits"), annex)
    dpi.Stream(store=store, name="more", epsilon=3, domain=dpi.Categories(["a"]), separate=True)
    text = write_annex(describe_deployment(store, "visits"), annex)
    assert "All streams of this store sum to 4 per user for ever." in text
    assert "everything that is published from this store" not in text


@pytest.mark.parametrize(
    ("budget", "bias"),
    [
        (dpi.Ledger(), "Users who return are measured in some slots only"),
        (dpi.Ledger(per_slot="0.05"), "Users whose account is empty do not count"),
        (dpi.Ledger(per_slot="0.05", policy=dpi.budget.fade()), "Users count less with every slot"),
        (dpi.Converging(dpi.budget.Zeta()), "Later slots have less budget"),
    ],
)
def test_a_review_says_whom_the_budget_leaves_out(budget, bias):
    """By how users pay: where every user keeps some of ε, no account is called empty."""
    store = dpi.MemoryStore()
    dpi.Stream(store=store, name="visits", epsilon=1, domain=dpi.Categories(["DE"]), budget=budget)
    text = write_annex(describe_deployment(store, "visits"), "review")
    assert bias in text
    assert not ("never all of it" in text and "account is empty" in text)


def test_a_price_beside_a_clocked_ledger_is_spent_first():
    """A stream that says what a slot costs, and shares accounts of `clocked`, may empty them."""
    store = made("clocked")
    dpi.Stream(store=store, name="more", epsilon=1, domain=dpi.Categories(["a"]), budget=dpi.Ledger(per_slot="0.05"))
    assert "never all of it" in write_annex(describe_deployment(store, "visits"), "review")
    assert "until their account is empty" in write_annex(describe_deployment(store, "more"), "review")


@pytest.mark.parametrize("annex", ["review", "dpia", "receipt"])
def test_an_account_is_said_to_hold_payments_by_stream(annex):
    """A store keeps them for each stream that measures by class."""
    store = made("clocked")
    assert [len(part) for part in store.payment_parts("visits")] == [36]  # of one user, beside the account
    text = write_annex(describe_deployment(store, "visits"), annex)
    assert "the number of payments" in text
    assert "by class also" in text


def test_without_accounts_nothing_is_said_of_them():
    """A converging series keeps nothing of a person."""
    found = describe_deployment(made("series"), "visits")
    assert "this stream has no accounts" in write_annex(found, "receipt")
    assert "We keep nothing else about you." in write_annex(found, "notice")
    assert "keyed name: the spent part" not in write_annex(found, "dpia")


def test_before_the_first_release():
    """A stream that was declared can be assessed before it begins, as it should be."""
    store = dpi.MemoryStore()
    dpi.Stream(store=store, name="visits", epsilon=1, slot="1h", start="2026-01-01", domain=dpi.Categories(["DE"]))
    found = describe_deployment(store, "visits")
    assert "Released so far: none yet" in write_annex(found, "dpia")
    assert "none: no slot was released yet" in write_annex(found, "receipt")


@pytest.mark.parametrize("annex", KINDS)
def test_the_command(cli, visits, annex):
    """Prints it, or writes a new file, without the store's key."""
    from cli_files import PERIOD

    cli("run", *visits, *PERIOD, "--store", "visits.db")
    Path("visits.db.key").unlink()
    text = cli("report", "visits.db", "--as", annex)
    cli("report", "visits.db", "--as", annex, "-o", "annex.md")
    assert Path("annex.md").read_text() == text
    assert "not replaced" in cli("report", "visits.db", "--as", annex, "-o", "annex.md", code=2)
    assert "is Markdown" in cli("report", "visits.db", "--as", annex, "--json", code=2)


def test_an_unknown_kind_is_refused(cli):
    """All kinds are named."""
    said = cli("report", "visits.db", "--as", "dpias", code=2)
    assert "page, registry, review, dpia, notice, receipt" in said
