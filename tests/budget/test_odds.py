"""Odds in words: two numbers, measured, and one function that makes every sentence about them."""

from __future__ import annotations

import re
from fractions import Fraction
from math import exp
from pathlib import Path

import pytest

import dpi
from dpi.budget.odds import factor, odds, sure
from dpi.report import page
from dpi.report.deployment import describe_deployment, write_annex
from dpi.report.registry import make_entry
from dpi_audit.exact import loss_on
from dpi_audit.neighbours import TARGET, Neighbours, pair
from dpi_audit.small import EPSILON, VALUES, stream_session

ROOT = Path(__file__).parents[2]
ABOUT = dict.fromkeys(("intended_use", "data_product_region", "name", "publication_date"), "x") | {
    "data_curators": ["x"],
    "registry_authors": ["x"],
}
SLOTS = 24
OTHERS = tuple((f"other-{i}", VALUES[i % 3]) for i in range(6))


def history(value):
    """A stream in which the target does one thing in every slot, among others."""
    return [(*OTHERS, (TARGET, value)) for _ in range(SLOTS)]


@pytest.mark.parametrize(
    "budget", [dpi.Ledger(per_slot="0.05"), dpi.Ledger(), dpi.Converging(dpi.budget.Geometric("0.5"))], ids=repr
)
def test_a_instead_of_b_loses_more_than_epsilon_and_presence_does_not(budget):
    """The largest ratio over all transcripts, exactly: at most ε for presence; above ε and at most 2 ε for A or B."""
    session = stream_session(budget=budget)
    was = [loss_on(session, pair("was there", history(value))).loss for value in VALUES[:2]]
    did = loss_on(session, Neighbours("A or B", tuple(history(VALUES[0])), tuple(history(VALUES[1])))).loss
    assert all(0 < each <= EPSILON for each in was)
    assert EPSILON < did <= sum(was) <= 2 * EPSILON


def test_factors_are_rounded_up():
    """A number that stands for e^ε is never below it, and above it by less than one unit of its third digit."""
    for epsilon in [Fraction(n, 40) for n in range(1, 500)]:
        told, exact = float(factor(float(epsilon)).replace(",", "")), exp(epsilon)
        assert exact <= told < exact * 1.01
    assert factor(1024).endswith("e+444")  # beyond floating point
    assert odds(1, epochs=True).startswith("In each epoch the odds that a user was there change by")
    assert sure(0.5).startswith("at most 62.3 %")


@pytest.mark.parametrize("period", [None, 3])
def test_every_surface_says_it_in_the_words_of_the_one_function(period):
    """Guarantee, review, registry, report and the page's budget, after a release and before; and no other sentence."""
    store = dpi.MemoryStore()
    stream = dpi.Stream(
        domain=dpi.Categories(["a", "b"]), epsilon=1, budget=dpi.Ledger(per_slot="0.2", period=period), store=store
    )
    sentence = odds(1, epochs=period is not None)

    def surfaces():
        found = describe_deployment(store, "")
        unit = make_entry(found, ABOUT)["deployment"]["privacy_loss"]["privacy_unit_details"]
        return [stream.guarantee, found.guarantee, write_annex(found, "review"), unit]

    for text in surfaces():
        assert sentence in text
        assert len(re.findall(r"\bodds\b", text)) == 2 * text.count(sentence)
    release = stream.release(["ada"], ["a"])
    for text in [release.guarantee, *surfaces(), page([release], title="t"), stream.guarantee]:
        assert sentence in text
        assert len(re.findall(r"\bodds\b", text)) == 2 * text.count(sentence)
    assert sure(1) in page([release], title="t")


def test_no_other_module_makes_such_a_sentence():
    """Only `dpi.budget.odds` has words about a factor on odds; the page's script says beliefs by its slider alone."""
    made = re.compile(r"\bodds\b.*\bfactor\b|times as likely through|did something here")
    found = {
        str(path.relative_to(ROOT / "src" / "dpi"))
        for kind in ("py", "js", "html")
        for path in (ROOT / "src" / "dpi").rglob(f"*.{kind}")
        if "research" not in path.parts and made.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"budget/odds.py"}
    assert made.search(odds(2, epochs=False))


def rows(name, first):
    """The cells of a page's table that begins with this heading."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    table = text[text.index(f"| {first} |") :].partition("\n\n")[0]
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    return head, body


def test_the_promise_on_one_page_has_both_factors():
    """Its table is what the function says, for every ε in it."""
    _, body = rows("promise.md", "ε, for a person's whole life")
    assert len(body) >= 5
    assert [[factor(float(e)), factor(2 * float(e))] for e, *_ in body] == [row[1:] for row in body]


def test_how_to_choose_epsilon_has_both_beliefs():
    """Its tables say what somebody can believe at most, of presence by e^ε and of A instead of B by e^2ε."""
    for first, times in (("before: she was ever there", 1), ("before: she did A instead of B", 2)):
        (_, *epsilons), body = rows("howto-epsilon.md", first)
        assert [each.removeprefix("ε = ") for each in epsilons] == ["0.1", "0.5", "1", "2", "5", "10"]
        for before, *cells in body:
            for epsilon, cell in zip(epsilons, cells, strict=True):
                prior, grown = float(before.rstrip(" %")) / 100, exp(times * float(epsilon.removeprefix("ε = ")))
                exact, digits = 100 * prior * grown / (1 - prior + prior * grown), cell.partition(".")[2].rstrip(" %")
                assert float(cell.rstrip(" %")) == pytest.approx(exact, abs=0.51 * 10 ** -len(digits))
