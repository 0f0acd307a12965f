"""Answers for whoever reviews a stream, in Markdown (`review.md`), filled from its public options and its chain.

The questions follow what the W3C note for reviewers and NIST SP 800-226 look at; docs/review.md says which, and answers
them for the program as a whole. Sees public facts.
"""

from __future__ import annotations

from importlib import resources

from dpi.report.deployment import Deployment

ASK = "*To be said by the curator.*"
"""Where no program can answer."""


def write_review(found: Deployment) -> str:
    """Return one page about a stream.

    Every answer is a function of what was declared and released; two stores with the same chain give the same page.
    """
    large = " This is above 1, up to which it is commonly held to be strong: say why." if found.epsilon > 1 else ""
    renewed = "Never: what is spent stays spent." if found.period is None else (
        f"Every {found.period} slots: over E epochs a user may lose E times ε. A bound that is renewed is weaker than "
        "one that lasts; weigh what repeats from epoch to epoch."
    )  # fmt: skip
    derived = "" if found.thinned is None else (
        f" Measurements of slots before {found.thinned} were dropped by a public rule: those releases are as "
        "certified, and cannot be derived again."
    )  # fmt: skip
    if found.accounts:
        bias = "Users whose account is spent count less, so that those who come often may be underrepresented."
        accounts = "; accounts under keyed names, for ever, since to delete one would be to refill it."
    else:
        bias, accounts = "Later slots have less budget and more noise.", ". There are no accounts."
    return (
        resources.files(__package__)
        .joinpath("review.md")
        .read_text(encoding="utf-8")
        .format(
            found=found,
            name=found.stream or "a stream without a name",
            signed="signed" if found.signed else "not signed",
            program=found.program or "no release yet",
            streams=f"{found.streams} stream{'' if found.streams == 1 else 's'}",
            large=large,
            renewed=renewed,
            bias=bias,
            derived=derived,
            accounts=accounts,
            ask=ASK,
        )
    )
