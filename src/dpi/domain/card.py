"""What a domain looks like in a notebook: its kind, its size and some of its bins. All of it is public."""

from __future__ import annotations

from dpi.display.card import card, table
from dpi.display.markup import Html
from dpi.domain.domain import Bins, Categories, Domain, Hashed, Product

SHOWN = 12
"""How many bins are named; of more than that the last is named too."""


def domain_card(domain: Domain) -> Html:
    """A card of public facts; the key of a hashed domain is not among them."""
    return card(type(domain).__name__, facts(domain), *_parts(domain))


def facts(domain: Domain) -> dict[str, str]:
    """What there is to say about a domain of any kind, by name.

    >>> facts(Categories(["DE", "FR"], other="elsewhere"))
    {'bins': '3', 'values': 'DE, FR', 'everything else': 'elsewhere'}
    """
    told = {"bins": f"{domain.size:,}"}
    if isinstance(domain, Categories):
        elsewhere = "dropped" if domain.other is None else domain.other
        return told | {"values": _some(domain, len(domain.values)), "everything else": elsewhere}
    if isinstance(domain, Bins):
        return told | {"in order": _some(domain, domain.size)}
    if isinstance(domain, Hashed):
        return told | {"buckets": _some(domain, domain.size), "fingerprint of the key": domain.fingerprint}
    if isinstance(domain, Product):
        return told | {"parts": " × ".join(f"{name} ({part.size:,})" for name, part in domain.parts.items())}
    return told


def sentence(domain: Domain) -> str:
    """The same facts as one line of text.

    >>> sentence(Categories(["DE", "FR"], other="elsewhere"))
    '3 bins: DE, FR; everything else: elsewhere'
    """
    told = facts(domain)
    bins = told.pop("bins")
    return f"{bins} bins: {_words(told)}" if told else f"{bins} bins"


def _words(told: dict[str, str]) -> str:
    return "; ".join(text if place == 0 else f"{what}: {text}" for place, (what, text) in enumerate(told.items()))


def _some(domain: Domain, count: int) -> str:
    """The first bins and the last of them by name."""
    if count <= SHOWN:
        return ", ".join(domain.label(code) for code in range(count))
    return ", ".join([*(domain.label(code) for code in range(SHOWN - 1)), "…", domain.label(count - 1)])


def _parts(domain: Domain) -> list[Html]:
    if not isinstance(domain, Product):
        return []
    rows = []
    for name, part in domain.parts.items():
        told = facts(part)
        bins = told.pop("bins")
        rows.append([name, type(part).__name__, bins, _words(told)])
    return [table(["part", "kind", "bins", ""], rows, left=4)]
