"""Draws pictures of budget, accuracy, odds, jumps and the trust boundary: docs/images/concept-*.svg.

    python tools/concepts.py

Accounts, payments and releases are those of one run over made-up users, so that pictures differ a little from run to
run. Pictures are at most 600 wide, so that their words can be read on a phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import exp, log10
from pathlib import Path

import numpy as np
import polars as pl

import dpi

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
STYLE = """
  svg { background: #ffffff }
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2933 }
  .title { font-weight: 600; font-size: 15px }
  .small { font-size: 12px; fill: #52606d }
  .middle { text-anchor: middle }
  .end { text-anchor: end }
  .bar { fill: #2b6cb0 }
  .unmeasured { fill: #cbd2d9 }
  .band { fill: #2b6cb0; opacity: 0.22 }
  .released { fill: none; stroke: #2b6cb0; stroke-width: 2 }
  .line { fill: none; stroke: #b7481f; stroke-width: 2 }
  .limit { stroke: #1f2933; stroke-dasharray: 5 4 }
  .axis { stroke: #9aa5b1 }
  .box { fill: #f0f4f8; stroke: #52606d; rx: 6 }
  .private { fill: #fdf3d7; stroke: #b7791f; rx: 8 }
  .arrow { fill: none; stroke: #52606d; stroke-width: 1.5; marker-end: url(#tip) }
  @media (prefers-color-scheme: dark) {
    svg { background: #131416 } text { fill: #e4e7eb } .small { fill: #9aa5b1 }
    .bar { fill: #63b3ed } .line { stroke: #f6ad55 } .band { fill: #63b3ed } .released { stroke: #63b3ed }
    .axis { stroke: #3e4c59 } .unmeasured { fill: #3e4c59 }
    .limit { stroke: #e4e7eb } .box { fill: #24282e; stroke: #9aa5b1 } .private { fill: #3a2f12; stroke: #b7791f }
    .arrow { stroke: #9aa5b1 }
  }
"""
TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#7b8794"/></marker>'
)
SLOTS = 40


def picture(name: str, width: int, height: int, label: str, parts: Iterable[str]) -> None:
    """Write a picture."""
    size = f'viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(label)}">'
    text = "\n".join([head, f"<style>{STYLE}</style>", TIP, *parts, "</svg>"])
    (FOLDER / f"concept-{name}.svg").write_text(text + "\n", "utf-8")


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return some words."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> str:
    """Return a straight line."""
    return f'<path d="M{x1:.0f} {y1:.0f} {x2:.0f} {y2:.0f}" class="{kind}"/>'


def bar(x: float, base: float, width: float, height: float) -> str:
    """Return a bar that stands on a base."""
    return f'<rect x="{x:.0f}" y="{base - height:.1f}" width="{width:.0f}" height="{height:.1f}" class="bar"/>'


def box(x: float, y: float, width: float, height: float, words: Sequence[str], kind: str = "box") -> str:
    """Return a box with lines of words in its middle."""
    parts = [f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" class="{kind}"/>']
    top = y + height / 2 + 5 - 8.5 * (len(words) - 1)
    for number, each in enumerate(words):
        parts.append(text(x + width / 2, top + 17 * number, each, "middle small" if number else "middle"))
    return "".join(parts)


def play() -> tuple[list[float], list[dict[str, object]]]:
    """Return what one user has left after each slot, and the certificate of each slot."""
    chance = np.random.default_rng(1)
    stream = dpi.Stream(domain=dpi.Categories(["home", "shop", "help"]), epsilon=1, slot="1d", start="2026-01-01")
    left, certificates = [], []
    for slot in range(SLOTS):
        regulars = np.flatnonzero(chance.random(3000) < 0.5)
        newcomers = 100_000 + 150 * slot + np.arange(150)
        users = ["ada", *map(str, (*regulars, *newcomers))]
        release = stream.release(users, [("home", "shop", "help")[len(user) % 3] for user in users])
        assert stream._accounts is not None  # noqa: S101 - a stream with a ledger
        (amount,) = stream._accounts.remaining(pl.Series(["ada"]), stream.next_slot)
        left.append(float(amount))
        certificates.append(release.certificate)
    return left, certificates


def account(left: Sequence[float]) -> None:
    """Draw one user's payments, slot by slot, and their sum."""
    wide, base, scale = 12.7, 290, 220
    parts = [text(60, 24, "A user of every day: payments (bars) and their sum (line)", "title")]
    for amount in (0, 0.25, 0.5, 0.75, 1):
        y = base - scale * amount
        parts += [
            line(60, y, 60 + wide * SLOTS, y, "limit" if amount == 1 else "axis"),
            text(52, y + 4, f"{amount:g}", "end small"),
        ]
    parts.append(text(60 + wide * SLOTS, base - scale - 6, "ε = 1, never reached", "end small"))
    before, course = 1.0, []
    for slot, amount in enumerate(left):
        x, paid = 60 + wide * slot, before - amount
        if paid > 0:
            parts.append(bar(x + 2, base, wide - 4, scale * paid))
            parts.append(text(x + wide / 2, base + 16, str(slot + 1), "middle small"))
        course += [f"{x + wide / 2:.0f} {base - scale * (1 - each):.1f}" for each in (before, amount)]
        before = amount
    parts += [
        f'<path d="M{" ".join(course)}" class="line"/>',
        text(60 + wide * SLOTS / 2, base + 36, "day (only days with a payment are numbered)", "middle small"),
    ]
    picture(
        "account",
        590,
        335,
        "Payments of one user over forty days: they shrink and become rarer, and their sum stays below ε",
        parts,
    )


def payers(certificates: Sequence[Mapping[str, object]]) -> None:
    """Draw who pays what in two slots: one in which newcomers alone are due, and one in which all are."""
    due = [{int(each["class"]): float(each["epsilon"]) for each in c["classes"]} for c in certificates]  # type: ignore[attr-defined]
    many = max(range(SLOTS), key=lambda slot: (len(due[slot]), slot))
    few = next(slot for slot in range(many - 1, -1, -1) if len(due[slot]) == 1)
    parts, top = [text(20, 24, "Who pays in a slot, by the number of payments made before", "title")], 8
    for column, slot in enumerate((few, many)):
        x, base, scale = 24 + 290 * column, 270, 200
        parts.append(text(x, 58, f"day {slot + 1}: {'only newcomers are due' if slot == few else 'everyone is due'}"))
        for number in range(top + 1):
            amount, left = due[slot].get(number), x + 29 * number
            if amount is None:
                parts.append(text(left + 12, base - 6, "0", "middle small"))
            else:
                parts.append(bar(left, base, 24, scale * amount))
                parts.append(text(left + 12, base - scale * amount - 5, f"{amount:.2f}".lstrip("0"), "middle small"))
            parts.append(text(left + 12, base + 16, "new" if number == 0 else str(number), "middle small"))
        parts.append(line(x - 4, base, x + 29 * (top + 1), base))
    parts.append(
        text(20, 308, "payments made before; the bar is the ε that a user with so many payments pays at most", "small")
    )
    picture("payers", 590, 320, "Newcomers pay most; users with more payments pay less, and only in some slots", parts)


def slot() -> None:
    """Draw the steps that close a slot."""
    steps = [
        ("open", "events wait:", "account, bin, number"),
        ("close", "by the public", "clock alone"),
        ("pay", "debit, noisy", "measurement, erase", "events: one commit"),
        ("publish", "release and", "certificate: one", "commit"),
        ("witness", "head of the chain", "is noted elsewhere"),
        ("hand out", "readers see", "the release"),
    ]
    parts = [text(20, 24, "Life of a slot", "title")]
    for number, words in enumerate(steps):
        x, y = 20 + 190 * (number % 3), 62 + 130 * (number // 3)
        parts.append(box(x, y, 160, 84, words, "private" if number < 3 else "box"))
        if number % 3:
            parts.append(line(x - 30, y + 42, x - 2, y + 42, "arrow"))
    parts += [
        '<path d="M480 146 480 168 100 168 100 190" class="arrow"/>',
        text(20, 50, "private: only the curator's process and store", "small"),
        text(20, 296, "public: a function of the measurement", "small"),
        text(20, 322, "A crash before “pay” is committed leaves the slot open.", "small"),
        text(20, 340, "After it, the next process uses the same noise.", "small"),
    ]
    picture("slot", 590, 354, "Open, close, pay, publish, witness, hand out", parts)


def architecture() -> None:
    """Draw what the curator must protect, and what may be public."""
    parts = [text(10, 24, "Trust boundary", "title"), '<rect x="126" y="40" width="312" height="250" class="private"/>']
    parts += [
        text(138, 62, "the curator's machines: trusted, private"),
        box(10, 110, 90, 60, ["producers", "of events"]),
        box(138, 110, 126, 60, ["service or run", "noise is added"]),
        box(138, 210, 126, 60, ["key", "names accounts"]),
        box(298, 110, 126, 60, ["store", "accounts, events"]),
        box(298, 210, 126, 60, ["backups", "without the key"]),
        box(474, 40, 120, 60, ["witness", "head of the chain"]),
        box(474, 130, 120, 60, ["analysts, agents", "releases, exports"]),
        box(474, 220, 120, 60, ["auditors", "verify the chain"]),
        line(100, 140, 136, 140, "arrow"), line(264, 140, 296, 140, "arrow"), line(200, 210, 200, 172, "arrow"),
        line(360, 170, 360, 208, "arrow"),
        line(424, 125, 472, 80, "arrow"), line(424, 140, 472, 158, "arrow"), line(424, 155, 472, 240, "arrow"),
        text(594, 306, "public: ε bounds all of it together", "end small"),
    ]  # fmt: skip
    picture(
        "architecture",
        604,
        320,
        "Producers, service, store and key are inside the trust boundary; witness, analysts and auditors outside",
        parts,
    )


def odds() -> None:
    """Draw what an attacker can believe at most after all releases, by what they believed before."""
    x0, y0, side = 60, 290, 240
    parts = [text(60, 24, "Belief that a person was ever there, at most after all releases", "title")]
    for part in (0, 0.25, 0.5, 0.75, 1):
        parts += [
            line(x0, y0 - side * part, x0 + 2 * side, y0 - side * part),
            text(x0 - 8, y0 - side * part + 4, f"{part:.0%}", "end small"),
        ]
        parts.append(text(x0 + 2 * side * part, y0 + 18, f"{part:.0%}", "middle small"))
    for epsilon in (0, 1, 2, 5):
        course = []
        for step in range(101):
            prior = step / 100
            after = prior * exp(epsilon) / (1 - prior + prior * exp(epsilon))
            course.append(f"{x0 + 2 * side * prior:.1f} {y0 - side * after:.1f}")
        parts.append(f'<path d="M{" ".join(course)}" class="{"limit" if epsilon == 0 else "line"}" fill="none"/>')
        at = 1 / (1 + exp(epsilon / 2))  # where the belief after is 1 - at: curves are farthest apart
        words = f"ε = {epsilon:g}" if epsilon else "ε = 0: nothing is learnt"
        apart, kind = (-5, "end small") if 0 < epsilon < 5 else (6, "small")
        parts.append(text(x0 + 2 * side * at + apart, y0 - side * (1 - at) + (14 if apart > 0 else -5), words, kind))
    parts.append(text(x0 + side, y0 + 38, "belief before", "middle small"))
    picture("odds", 580, 340, "Belief before and after, for four values of ε", parts)


def accuracy() -> None:
    """Draw the planned error of a share of 10 % after 365 slots, by the number of users, for three values of ε."""
    x0, y0, wide, high = 70, 300, 150, 110  # of a power of ten
    users, points = (100, 1_000, 10_000, 100_000), (0.1, 1, 10)
    parts = [text(x0, 24, "95 % error of a share of 10 %, after 365 slots", "title")]
    for number in users:
        x = x0 + wide * (log10(number) - 2)
        parts += [line(x, y0, x, y0 - high * 2.3), text(x, y0 + 18, f"{number:,}", "middle small")]
    for point in points:
        y = y0 - high * (log10(point) + 1)
        parts += [line(x0, y, x0 + wide * 3, y), text(x0 - 8, y + 4, f"± {point:g}", "end small")]
    below = 0.0
    for epsilon in (0.5, 1, 2):
        course, x, y = [], 0.0, 0.0
        for number in (100, 200, 300, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000):
            if epsilon * number >= 100:  # what the plan knows
                error = dpi.plan(epsilon=epsilon, users=number, bins=20).error("share_10", 365)
                x, y = x0 + wide * (log10(number) - 2), y0 - high * (log10(error) + 1)
                course.append(f"{x:.1f} {y:.1f}")
        below = max(y + 4, below + 13)  # labels stand one below the other
        parts += [f'<path d="M{" ".join(course)}" class="line"/>', text(x + 6, below, f"ε = {epsilon:g}", "small")]
    parts += [
        text(x0 + wide * 1.5, y0 + 38, "active users in a slot", "middle small"),
        text(x0, 46, "percentage points", "small"),
    ]
    label = "The error falls with the number of users and with ε"
    picture("accuracy", 600, 350, label, parts)


def jump() -> None:
    """Draw the released share of a value beside the true one, over a jump among users who mostly return."""
    chance, days, at = np.random.default_rng(4), 48, 24
    stream = dpi.Stream(domain=dpi.Categories(["offer", "home", "help", "news"]), epsilon=1, slot="1d")
    truth, released = [], []
    for day in range(days):
        regulars = np.flatnonzero(chance.random(4000) < 0.5)
        users = np.concatenate([regulars, 100_000 + 100 * day + np.arange(100)])
        offers = chance.random(users.size) < (0.2 if day < at else 0.4)
        values = np.where(offers, "offer", chance.choice(["home", "help", "news"], users.size))
        share = stream.release(users, values).probability("offer")
        truth.append(float(offers.mean()))
        released.append((share.value, *share.interval(0.95)))
    x0, y0, wide, high = 60, 290, 11.0, 420

    def course(shares: Iterable[float]) -> list[str]:
        return [f"{x0 + wide * (day + 0.5):.1f} {y0 - high * share:.1f}" for day, share in enumerate(shares)]

    value, lower, upper = zip(*released, strict=True)
    parts = [text(x0, 24, "Share of “offer”: released, with its 95 % band, and the truth", "title")]
    for percent in (0, 10, 20, 30, 40, 50):
        y = y0 - high * percent / 100
        parts += [line(x0, y, x0 + wide * days, y), text(x0 - 8, y + 4, f"{percent} %", "end small")]
    for day in (1, 12, 24, 36, 48):
        parts.append(text(x0 + wide * (day - 0.5), y0 + 18, str(day), "middle small"))
    parts += [
        f'<path d="M{" ".join([*course(lower), *reversed(course(upper))])}z" class="band"/>',
        f'<path d="M{" ".join(course(value))}" class="released"/>',
        f'<path d="M{" ".join(course(truth))}" class="limit" fill="none"/>',
        text(x0 + wide * days / 2, y0 + 38, "day", "middle small"),
        text(x0 + 8, 92, "blue: released", "small"),
        text(x0 + 8, 110, "dashed: the truth", "small"),
    ]
    label = (
        "A share that jumps from 20 to 40 %: releases follow within some days, and their bands say how sure they are"
    )
    picture("jump", 600, 340, label, parts)


def who() -> None:
    """Draw which users are measured in which slots, and how much of each release is measured in its slot."""
    chance, days, shown = np.random.default_rng(1), 30, 16
    stream = dpi.Stream(domain=dpi.Categories(["home", "shop", "help"]), epsilon=1, slot="1d", start="2026-01-01")
    first = [0, 0, 0, 0, 0, 0, 0, 4, 7, 10, 13, 16, 19, 22, 25, 28]  # the day on which each shown user first comes
    habit = [1.0, 1.0, 1.0, 0.6, 0.6, 0.3, 0.3, 1.0, 0.6, 0.3, 1.0, 0.6, 0.3, 0.6, 1.0, 1.0]
    names = [f"shown {number}" for number in range(shown)]
    cells, fresh, left = [], [], [1.0] * shown
    for day in range(days):
        here = [day == first[n] or (day > first[n] and chance.random() < habit[n]) for n in range(shown)]
        regulars = np.flatnonzero(chance.random(3000) < 0.5)
        newcomers = 100_000 + 150 * day + np.arange(150)
        users = [*(name for name, came in zip(names, here, strict=True) if came), *map(str, (*regulars, *newcomers))]
        fresh.append(stream.release(users, [("home", "shop", "help")[len(user) % 3] for user in users]).measured)
        assert stream._accounts is not None  # noqa: S101 - a stream with a ledger
        now = [float(each) for each in stream._accounts.remaining(pl.Series(names), stream.next_slot)]
        cells += [(day, n, left[n] - now[n]) for n in range(shown) if here[n]]
        left = now
    x0, y0, side = 96, 70, 16
    parts = [text(x0, 24, "Who is measured in which slot", "title")]
    for x, kind, words in ((0, "bar", "active and measured"), (160, "unmeasured", "active, not measured")):
        parts.append(f'<rect x="{x0 + x}" y="38" width="{side - 2}" height="{side - 2}" class="{kind}"/>')
        parts.append(text(x0 + x + 20, 49, words, "small"))
    parts.append(text(x0 + 330, 49, "empty: not active", "small"))
    for day, number, paid in cells:
        kind = "bar" if paid > 0 else "unmeasured"
        at = f'x="{x0 + side * day}" y="{y0 + side * number}" width="{side - 2}" height="{side - 2}"'
        parts.append(f'<rect {at} class="{kind}"/>')
    parts += [text(x0 - 8, y0 + 12, "users of", "end small"), text(x0 - 8, y0 + 28, "the first day", "end small")]
    parts += [text(x0 - 8, y0 + 7 * side + 12, "newcomers", "end small")]
    base = y0 + side * shown + 84
    parts += [text(x0 - 8, base - 56 + 4, "100 %", "end small"), text(x0 - 8, base + 4, "0", "end small")]
    parts.append(text(x0, base - 64, "part of each release measured in its slot; the rest is carried forward", "small"))
    parts += [line(x0, base - 56, x0 + side * days, base - 56), line(x0, base, x0 + side * days, base)]
    parts += [bar(x0 + side * day, base, side - 2, 56 * part) for day, part in enumerate(fresh)]
    for day in (1, 5, 10, 15, 20, 25, 30):
        parts.append(text(x0 + side * (day - 0.5), base + 18, str(day), "middle small"))
    parts.append(text(x0 + side * days / 2, base + 38, "day", "middle small"))
    label = "Newcomers are measured at once; returning users only in some slots, and the rest is carried forward"
    picture("who", 600, base + 50, label, parts)


def loss() -> None:
    """Draw what a user of every day can have lost over two years: by DPI, and by a budget for each day."""
    days, chance = 730, np.random.default_rng(2)
    stream = dpi.Stream(domain=dpi.Categories(["home", "shop"]), epsilon=1, slot="1d")
    spent = []
    for day in range(days):
        users = np.concatenate([np.flatnonzero(chance.random(600) < 0.5), 10_000 + 30 * day + np.arange(30)])
        spent.append(
            stream.release(users, ["home", "shop"] * (users.size // 2) + ["home"] * (users.size % 2)).epsilon_spent
        )
    x0, y0, wide, high = 60, 290, 0.58, 3.2
    parts = [text(x0, 24, "Privacy loss of a user of every day, in two years", "title")]
    for amount in (0, 20, 40, 60):
        y = y0 - high * amount
        parts += [line(x0, y, x0 + wide * days, y), text(x0 - 8, y + 4, f"ε {amount}" if amount else "0", "end small")]
    for day in (0, 182, 365, 547, 730):
        parts.append(text(x0 + wide * day, y0 + 18, str(day), "middle small"))
    ends = ((0.1, "0.1 a day: 73"), (0.05, "0.05 a day: 36.5"), (0.01, "0.01 a day: 7.3"))
    for daily, words in ends:
        y = y0 - high * daily * days
        parts += [line(x0, y0, x0 + wide * days, y, "line"), text(x0 + wide * days + 6, y + 4, words, "small")]
    course = [f"{x0 + wide * (day + 1):.1f} {y0 - high * amount:.1f}" for day, amount in enumerate(spent)]
    parts += [
        f'<path d="M{x0} {y0} {" ".join(course[::10])} {course[-1]}" class="released"/>',
        text(x0 + wide * days + 6, y0 + 2, "DPI: at most 1", "small"),
        text(x0 + wide * days / 2, y0 + 38, "day", "middle small"),
    ]
    label = "A budget for each day adds up to 73 in two years at 0.1 a day; DPI stays below 1"
    picture("loss", 600, 340, label, parts)


if __name__ == "__main__":
    accuracy()
    jump()
    who()
    loss()
    left, certificates = play()
    account(left)
    payers(certificates)
    print(f"docs/howto-budgets.md: epsilon_spent after {SLOTS} days is {certificates[-1]['epsilon_spent']:.2f}")
    slot()
    architecture()
    odds()
