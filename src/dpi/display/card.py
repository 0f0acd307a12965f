"""A card: what an object says of itself in a notebook.

It has no style sheet, no script and no colour of its own but one that can be read on light and on dark pages, so that
it looks like the notebook around it. Every text is escaped by `dpi.display.markup`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpi.display.markup import Html, element, join

HUE = "#4c86c6"
"""A blue that stands out from white and from black."""

_LEFT = "text-align:left;vertical-align:top"


def card(title: str, facts: Mapping[str, str], *more: str) -> Html:
    """Return a title, facts by their names, and whatever follows.

    >>> card("Bins", {"edges": "0 < 1"})
    '<div><p><b>Bins</b></p><table><tr><th ...>edges</th><td ...>0 &lt; 1</td></tr></table></div>'
    """
    rows = [
        element("tr", element("th", name, style=_LEFT, scope="row"), element("td", text, style=_LEFT))
        for name, text in facts.items()
    ]
    return element("div", element("p", element("b", title)), *([element("table", *rows)] if rows else []), *more)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, marked: int | None = None) -> Html:
    """Return rows of texts, the first `left` columns to the left and numbers to the right; the row `marked` is bold.

    >>> table(["value", "share"], [["<b>", "0.5"]]).count("<td")
    2
    """
    sides = [_LEFT if place < left else "text-align:right" for place in range(len(head))]

    def line(kind: str, texts: Sequence[str]) -> Html:
        return element("tr", *(element(kind, text, style=side) for text, side in zip(texts, sides, strict=True)))

    body = [
        line("td", [element("b", text) for text in row] if number == marked else row) for number, row in enumerate(rows)
    ]
    return element("table", element("thead", line("th", head)), element("tbody", *body))


def bar(share: float, lower: float, upper: float) -> Html:
    """Return a bar of a part of its room, with its interval; all three lie between 0 and 1.

    >>> bar(0.5, 0.4, 0.6).count("<span")
    3
    """
    fill = element("span", style=f"position:absolute;inset:0 auto 0 0;width:{100 * share:.1f}%;background:{HUE}")
    span = f"left:{100 * lower:.1f}%;width:{100 * (upper - lower):.1f}%"
    line = element("span", style=f"position:absolute;top:50%;{span};border-top:2px solid;opacity:.8")
    return element(
        "span", join(fill, line), style="display:block;position:relative;width:12em;height:.9em", aria_hidden="true"
    )
