"""Routes for questions: whatever can be asked of one release, or of two, with intervals; and what is an alert.

A question costs no privacy, however many are asked: it is answered from releases alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain, islice

from starlette.responses import Response

from dpi.release import Release
from dpi.release.interval import LEVEL
from dpi.service.endpoints import Call, document
from dpi.service.looking import MOST_RELEASES, release_at
from dpi.service.problems import Problem
from dpi.service.watching import BLOCK, blocks_of
from dpi.settings.questions import BETWEEN, Row, ask_all, asked, between, narrowed

WORDS: dict[str, tuple[str, ...]] = {
    "top": ("k",),
    "probability": ("value",),
    "count": ("value",),
    "total": (),
    "mean": (),
    "median": (),
    "sum": (),
    "spread": (),
    "quantile": ("q",),
    "range": ("low", "high"),
    "correlation": ("one", "other"),
    **dict.fromkeys(BETWEEN, ("beside", "beside-stream")),
}
"""Which parameters each question takes of its own."""
OWN = {name for names in WORDS.values() for name in names}


async def get_answers(call: Call) -> Response:
    """The answer of one slot (`slot`), or of every slot from `first` to before `end`."""
    name, question = call.stream, str(call.request.path_params["question"])
    if question not in WORDS:
        raise Problem(404, f"unknown question: ask one of {', '.join(WORDS)}.")
    level = call.number("level", LEVEL)
    if not 0 < level < 1:
        raise Problem(422, "`level` must be above 0 and below 1.")
    own = {each for each in OWN if call.text(each) is not None}
    if own - set(WORDS[question]):
        raise Problem(422, f"`{question}` takes {', '.join(WORDS[question]) or 'no parameters of its own'}.")
    period = call.text("first") is not None or call.text("end") is not None
    if period and call.text("slot") is not None:
        raise Problem(422, "ask about one `slot`, or about those from `first` to before `end`.")
    first, end, slot = call.where("first"), call.where("end"), call.text("slot") or "newest"

    def read() -> dict[str, object]:
        ask = _asked(call, question, level)
        with call.service.reading.releases(name) as releases:
            found = [*islice(releases.between(first, end), MOST_RELEASES)] if period else [release_at(releases, slot)]
        said = ask_all(ask, found)
        return {
            "answers": [
                {"slot": each.slot, "start": each.start_text, "rows": [_plain(row) for row in rows]}
                for each, rows in said.answers
            ],
            "undefined": [{"slot": each.slot, "why": why} for each, why in said.undefined],
        }

    return document({"stream": name, "question": question, "level": level, **await call.read(read)})


async def get_alerts(call: Call) -> Response:
    """Alerts of slots from `first` to before `end`, oldest first; of the last blocks where these are too many."""
    name, first, end = call.stream, call.where("first"), call.where("end")

    def read() -> dict[str, object]:
        watching = call.service.watching
        with watching.turn, call.service.reading.releases(name) as releases:
            asked = releases.between(first, end)
            found = asked.store.extent(name, asked._first, asked._last)
            if found is None:
                return {"stream": name, "first": None, "alerts": []}
            last = found[2] // BLOCK
            size = asked.between(found[2], None).newest.domain.size
            numbers = range(max(found[1] // BLOCK, last - blocks_of(size) + 1), last + 1)
            said = chain.from_iterable(watching.alerts(releases, number) for number in numbers)
            begin = max(found[1], numbers[0] * BLOCK)
            return {
                "stream": name,
                "first": begin,
                "alerts": [each for each in said if begin <= int(str(each["slot"])) <= found[2]],
            }

    return document(await call.read(read))


def _asked(call: Call, question: str, level: float) -> Callable[[Release], list[Row]]:
    part, given = call.text("part"), call.texts("given")
    if question not in BETWEEN:
        words = [question, *(text for name in WORDS[question] for text in call.texts(name))]
        needed = len(WORDS[question]) if question != "count" else 0
        if len(words) - 1 < needed:
            raise Problem(422, f"`{question}` needs {' and '.join(WORDS[question])}.")
        ask = asked(words, level)
        return lambda release: ask(narrowed(release, part, given))
    beside, stream = call.text("beside"), call.text("beside-stream") or call.stream
    if beside is None:
        raise Problem(422, f"`{question}` needs `beside`: the slot of the other release.")
    if stream not in call.service.closing.streams:
        raise Problem(404, "there is no such stream.")
    with call.service.reading.releases(stream) as releases:
        other = release_at(releases, beside)
    return lambda release: between(question, narrowed(release, part, given), narrowed(other, part, given), level)


def _plain(row: Row) -> dict[str, object]:
    """A row in JSON, where a bound that there is not is null."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.plain().items()}
