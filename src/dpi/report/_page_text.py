"""What the page says in words: the promise, what it means, what it does not cover, and how to read the page."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpi.budget.odds import odds, sure
from dpi.display.markup import Html, element, join
from dpi.report._facts import COLUMNS, Facts
from dpi.report._figures import budget_text
from dpi.report._rows import VALUES, Rows
from dpi.report.empty_check import WARNING

NAMED = 3  # rows that are named where a domain has no such values


@dataclass(frozen=True)
class Status:
    """What a verification of the chain of certificates found: public facts; None means that it was not checked.

    >>> Status(entries=336, head="9f2c", chain_intact=True).sound
    True
    >>> Status(chain_intact=True, problems=("entry 7 is missing",)).sound
    False
    """

    entries: int = 0  # how many certificates the chain holds
    head: str = ""  # the hash of the newest certificate
    chain_intact: bool | None = None  # whether every certificate names the hash of the one before it
    signed: bool | None = None  # whether the head carries a valid signature
    curator_checked: bool | None = None
    """Whether the curator found no account above ε. Accounts are private: nobody else can check it."""
    streams: int = 1  # how many streams the store has …
    spent: float | None = None  # … and the most that one user can have lost by all of them together, if it is known
    problems: tuple[str, ...] = ()  # what was found wrong, in words

    @property
    def sound(self) -> bool:
        """Whether nothing was found wrong; what was not checked counts as nothing found."""
        return not self.problems and False not in (self.chain_intact, self.signed, self.curator_checked)


def describe_age(facts: Facts) -> str:
    """Say how old the measurement behind the newest estimate is. There is no wall clock: it is told in slots."""
    if facts.newest.measured_ago is None:
        return "The newest release has no measurement."
    ago = round(facts.newest.measured_ago)
    if ago == 0:
        return f"The newest estimate was measured in its own slot, {facts.last}."
    about = f", about {facts.measured_in}" if facts.measured_in else ""
    return f"The newest estimate was measured {_slots(ago)} before its own slot, on average{about}."


def age_figure(facts: Facts) -> Html:
    """Return the same as a figure."""
    ago = facts.newest.measured_ago
    when = "not at all" if ago is None else "in its slot" if round(ago) == 0 else f"{_slots(round(ago))} earlier"
    return join(when, element("small", facts.newest.freshness or ""))


def _slots(number: int) -> str:
    return f"{number:,} slot{'' if number == 1 else 's'}"


def describe_changes(facts: Facts) -> list[str]:
    """Say where the domain was another, and which rows have no number there."""
    said = []
    for first, last, missing in facts.changes:
        when = f"In {first}" if first == last else f"From {first} to {last}"
        if not missing:
            said.append(f"{when} the domain was another; it has all rows.")
            continue
        more = f" and {len(missing) - NAMED} more rows" if len(missing) > NAMED else ""
        have = "has" if len(missing) == 1 else "have"
        said.append(f"{when} the domain was another: {', '.join(missing[:NAMED])}{more} {have} no number there.")
    return said


def state_promise(facts: Facts) -> Html:
    """Return the guarantee, exactly as the releases state it."""
    counts = {text: [] if n == facts.slots else [element("small", f" ({n:,} slots)")] for text, n in facts.guarantees}
    return join(*(element("blockquote", text, *count) for text, count in counts.items()))


_CLAIM = (
    "Deleting one user's whole history changes the probability of any outcome, over all releases, by at most a factor "
    "e^ε, within the scope stated at the top. "
)
_EPOCHS = "The promise holds for each epoch by itself, and so do these numbers: over E epochs the loss can grow to E·ε."
_LIMITS = {
    "Facts about groups.": "If releases show that most visitors at night buy books, they tell something about you if "
    "you visit at night, even if your data was not used.",
    "Groups and many ids.": "A group of g people, or one person with g ids, is protected with g·ε.",
    "Other data.": "Streams with accounts of their own, and other publications about the same people, add to the loss.",
    "Public facts.": "The list of values, the slots, their times, the options and the price of each slot are declared "
    "by the curator. They are not computed from events.",
    "The curator.": "The curator runs the program and sees the events. The promise is about what the program releases.",
}


def explain_promise(facts: Facts) -> Html:
    """Say what the guarantee means, and what it does not cover."""
    if any(re.match(r"\s*(no|none)\b", text, re.IGNORECASE) for text, _ in facts.guarantees):
        return element("p", "Some of these releases promise nothing: see the statement at the top.", class_="alarm")
    epochs = any("epoch" in text.partition(";")[0] for text, _ in facts.guarantees)  # of this stream, not of others
    epsilon, said = facts.epsilon_total, [_CLAIM]
    if epsilon is not None:
        said.append(
            f"Here ε = {budget_text(epsilon)}. {odds(epsilon, epochs=epochs)} An example: a reader who held both "
            f"answers to be equally likely can become {sure(epsilon)}."
        )
    limits = [element("li", element("strong", head), " ", text) for head, text in _LIMITS.items()]
    return join(
        element("p", *said),
        *([element("p", _EPOCHS)] if epochs else []),
        element("h3", "What is not protected"),
        element("ul", *limits),
    )


def describe_certificate(facts: Facts | None, status: Status) -> Html:
    """Say what a verification found, and show the newest certificate."""
    checks = (
        ("Chain of certificates", status.chain_intact, "intact", "broken"),
        ("Signature of the head", status.signed, "valid", "missing or not valid"),
        ("Accounts, checked by the curator", status.curator_checked, "none above ε", "not in order"),
    )
    rows = [_fact(name, _verdict(outcome, good, bad)) for name, outcome, good, bad in checks]
    rows.append(_fact("Entries", f"{status.entries:,}"))
    rows.append(_fact("Head", element("code", status.head) if status.head else "none"))
    newest = [] if facts is None else [_fact(key, element("code", text)) for key, text in facts.certificate]
    more = [element("h3", "The newest certificate"), element("dl", *newest)] if newest else []
    return join(element("dl", *rows), *more)


def warn(facts: Facts | None, status: Status) -> list[Html]:
    """Return a warning if a verification found anything wrong, and one if releases look as if nobody had been there."""
    warnings = []
    if not status.sound:
        problems = [element("ul", *(element("li", text) for text in status.problems))] if status.problems else []
        text = "The stored releases did not pass their verification. Do not rely on this page."
        warnings.append([element("p", text), *problems])
    if facts is not None and facts.empty:
        warnings.append([element("p", WARNING)])
    return [element("div", *parts, class_="alarm", role="alert") for parts in warnings]


def _fact(name: str, value: str) -> Html:
    return element("div", element("dt", name), element("dd", value))


def _verdict(outcome: bool | None, good: str, bad: str) -> Html:
    if outcome is None:
        return element("span", "not checked", class_="open")
    return element("span", f"✓ {good}" if outcome else f"✗ {bad}", class_="good" if outcome else "bad")


_NOTES = (
    "A share is the part of a slot’s users that a value has; a user with several values is divided among them. It is "
    "an estimate from noisy measurements of this slot and earlier ones, never the exact number.",
    "“12.3 % (11.8 … 12.9)” is an estimate and its 95 % interval: about 95 of 100 such intervals contain the "
    "true share. Two values whose intervals overlap may stand in either order.",
    "The largest payment of a slot is that of the user who pays most in it; the larger it is, the narrower are the "
    "intervals. “One user in total, at most” bounds the payments of any one user in this stream so far; other streams "
    "of the same users add to it. The true payments of users are private, and are not on this page.",
    "Asking, drawing or copying releases costs no privacy: everything here is made from releases alone.",
)
_LARGEST = (
    "the largest by the PDF over all slots, and those of the newest slot, without the bin of what is not listed, which "
    "may be larger than all of them"
)


def explain_page(facts: Facts) -> Html:
    """Say how to read the page."""
    notes = [*_NOTES, *_describe_rows(facts.rows)]
    if facts.per_column > 1:
        notes.append(
            f"{facts.slots:,} slots are drawn as {len(facts.names):,} columns (at most {COLUMNS:,}). A column is the "
            f"mean of {facts.per_column} neighbouring slots and its interval the mean of theirs, which is cautious. A "
            "short peak looks lower than it was. The newest slot has a column of its own."
        )
    return element("ul", *(element("li", note) for note in notes))


def _describe_rows(rows: Rows) -> list[str]:
    """Say which values have a row, where that is not all of them."""
    notes = []
    if rows.shared:
        notes.append(f"{rows.size:,} bins are drawn as {len(rows.labels)} rows: neighbours share one.")
    if rows.others:
        by = "those that were chosen" if rows.chosen else _LARGEST
        rest = f"“{rows.rest_label}” is the one" if rows.others == 1 else "“Everything else” is the sum of all"
        notes.append(
            f"Of {rows.size:,} values {len(rows.labels)} have a row of their own (at most {VALUES}): {by}. {rest} "
            "without a row, on a scale of its own."
        )
    return notes
