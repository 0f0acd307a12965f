"""HTML that is escaped and balanced by construction.

Titles, labels and guarantees are public but may hold any text. An element's children are escaped unless they are
`Html` already, and only this module and constants of the package make `Html`: no caller can forget to escape.
"""

from __future__ import annotations

import html
import json

_VOID = frozenset({"br", "img", "input", "meta"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | int | bool) -> Html:
    """Return an element. Attribute names may end in `_` (class_) and use `_` for `-`; True stands alone, False is out.

    >>> element("p", "a < b ", element("b", "c"), class_="x", data_row=1, hidden=True)
    '<p class="x" data-row="1" hidden>a &lt; b <b>c</b></p>'
    """
    opening = "".join(
        f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
        for key, value in ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
        if value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{join(*children)}</{name}>")


def join(*children: str) -> Html:
    """Return the children after one another, escaped where they are not HTML already.

    >>> join("<", element("br"))
    '&lt;<br>'
    """
    return Html("".join(child if isinstance(child, Html) else html.escape(child) for child in children))


def data_block(identifier: str, value: object) -> Html:
    r"""Return a value as JSON that a script can read and that cannot end its own element.

    >>> data_block("d", ["</script>"])
    '<script type="application/json" id="d">["\\u003c/script\\u003e"]</script>'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Html(text), type="application/json", id=identifier)
