"""Answers for whoever reviews a stream, in Markdown, filled from its public options and its chain.

The questions follow what the W3C note for reviewers and NIST SP 800-226 look at; docs/review.md says which, and answers
them for the program as a whole. Sees public facts.
"""

from __future__ import annotations

from dpi.report.deployment import Deployment

ASK = "*To be said by the curator.*"
"""Where no program can answer."""


def review(found: Deployment) -> str:
    """One page about a stream.

    Every answer is a function of what was declared and released; two stores with the same chain give the same page.
    """
    parts = [f"# Review of {found.stream or 'a stream without a name'}", _head(found)]
    for title, answers in (
        ("The guarantee", _guarantee(found)),
        ("Trade-offs: privacy, utility, trust", _trade_offs(found)),
        ("Algorithms and correctness", _algorithms(found)),
        ("Deployment", _deployment(found)),
        ("What no program knows", _open()),
    ):
        parts.append(f"## {title}")
        parts += [f"**{question}** {answer}" for question, answer in answers]
    return "\n\n".join(parts) + "\n"


def _head(found: Deployment) -> str:
    signed = "signed" if found.signed else "not signed"
    return (
        f"Made from the store's public part. Releases: {found.span}. Chain: {found.entries} entries, {signed}, head "
        f"`{found.head}`. Options: `{found.options}`. Program: {found.program or 'no release yet'}."
    )


def _guarantee(found: Deployment) -> list[tuple[str, str]]:
    large = " This is above 1, up to which it is commonly held to be strong: say why." if found.epsilon > 1 else ""
    scope = f"The store has {found.streams} stream{'' if found.streams == 1 else 's'}."
    reset = (
        "Never: what is spent stays spent."
        if found.period is None
        else f"Every {found.period} slots: over E epochs a user may lose E times ε. A bound that is renewed is weaker "
        "than one that lasts; weigh what repeats from epoch to epoch."
    )
    return [
        ("Which variant?", "Pure ε-differential privacy. There is no δ, so no chance of a catastrophic failure."),
        (
            "How large is ε?",
            f"{found.epsilon:g} per user, {found.lasting}. {found.odds}{large}",
        ),
        (
            "What is the unit?",
            "A user: neighbours differ in all events of one user, in all slots. Not an event, not a day.",
        ),
        ("Over what does it hold?", f"{scope} In the words of the releases: {found.guarantee}"),
        ("When is the budget renewed?", reset),
        ("What is spent so far?", found.spent),
        (
            "Can it be compared with others?",
            "With pure guarantees at user level over all time, by ε. Not with event-level, daily or (ε, δ) guarantees.",
        ),
    ]


def _trade_offs(found: Deployment) -> list[tuple[str, str]]:
    return [
        (
            "Who must be trusted?",
            "One party: the curator, who runs the program and holds events, accounts and keys (central model). "
            "Analysts are not trusted, alone or together.",
        ),
        ("How is ε spread over time?", f"By {found.budget}."),
        (
            "What does privacy cost in accuracy?",
            "Every release states its uncertainty. Noise is the same for small and large values, so small groups have "
            "the larger relative error; intervals say so, and no value is left out for being small.",
        ),
        (
            "Is there bias?",
            "Shares are kept at 0 or above and sum to 1, and estimates lean on earlier slots: both draw small, sudden "
            "changes towards what was before. Users whose account is spent count less, so that those who come often "
            "may be underrepresented."
            if found.accounts
            else "Shares are kept at 0 or above and sum to 1, and estimates lean on earlier slots: both draw small, "
            "sudden changes towards what was before. Later slots have less budget and more noise.",
        ),
    ]


def _algorithms(found: Deployment) -> list[tuple[str, str]]:
    tree = " A tree of sums over time has a part of each slot's budget." if found.tree else ""
    derived = "" if found.thinned is None else (
        f" Measurements of slots before {found.thinned} were dropped by a public rule: those releases are as "
        "certified, and cannot be derived again."
    )  # fmt: skip
    return [
        ("What bounds a user's contribution?", f"In a slot: {found.compression}. Over slots: {found.budget}."),
        ("Which mechanism?", f"{found.mechanism[0].upper()}{found.mechanism[1:]}.{tree}"),
        (
            "Who says which bins there are?",
            f"The curator, before any data: {found.domain}. Every bin is in every release, also where nobody was.",
        ),
        (
            "Floating point?",
            "Whole numbers from events to noise, and exact samplers: no rounding enters the guarantee. Estimates after "
            "the noise are floating-point numbers.",
        ),
        (
            "Timing, errors, sizes?",
            f"A public clock alone closes slots ({found.clock}); a service shows releases at public ticks; errors "
            "hold no value made from events; logs are the operator's. That the machine keeps up is assumed.",
        ),
        (
            "Is it a well-tested implementation?",
            "Of its own: the argument stands beside the code and is tested on exact likelihoods; `dpi audit` tries to "
            "refute it, and must find mistakes that are built in on purpose.",
        ),
        (
            "Can a third party check it?",
            f"`dpi verify` recomputes the chain, its sums and every release's digest.{derived}",
        ),
    ]


def _deployment(found: Deployment) -> list[tuple[str, str]]:
    return [
        (
            "Query model?",
            "Data release: one release in every slot, fixed in advance. Questions are answered from releases and cost "
            "nothing, so analysts have no budget to exhaust.",
        ),
        (
            "What is stored, and how long?",
            "Events of open slots as (account, bin, number), erased when the slot closes; accounts under keyed names, "
            "for ever, since to delete one would be to refill it."
            if found.accounts
            else "Events of open slots as (account, bin, number), erased when the slot closes. There are no accounts.",
        ),
        (
            "Who has access?",
            "Roles with tokens (admin, curator, analyst, auditor) in a service; otherwise whoever may read the files. "
            "The ledger's key lies apart from the store.",
        ),
        (
            "Are there unprotected releases of the same data?",
            f"Not by this program. {ASK}",
        ),
    ]


def _open() -> list[tuple[str, str]]:
    return [
        (question, ASK)
        for question in (
            "Why are these data collected, and could it be less?",
            "Is one person one id?",
            "Were domain, period and ε chosen without a look at the data?",
            "How are machine, disk, back-ups and keys protected, and who administers them?",
            "Who is served worse by noise on small groups, and what is done about it?",
        )
    ]
