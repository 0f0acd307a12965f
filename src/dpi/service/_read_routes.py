"""Routes that read: streams, domains, releases, answers, alerts, budgets, the chain, and how the service does.

What an analyst or an auditor gets is a function of what was declared and released, and of the public clock. A question
costs no privacy, however many are asked: it is answered from releases alone. A server-sent event names a slot; slots
are released one after the other, so that a reader who comes back with `Last-Event-ID` misses none. What is given of the
chain ends where releases that are not yet to be seen begin. Metrics and operations are made from events: the operator's
alone.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict
from itertools import islice

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response, StreamingResponse

from dpi.certificates.declared import declared
from dpi.errors import StateError
from dpi.events.slots import Slots
from dpi.reader import Releases
from dpi.release import Release, to_frame
from dpi.release.queries import Distribution
from dpi.release.table import tidy
from dpi.service import _endpoints as api
from dpi.service._budgets import find_budget
from dpi.service._endpoints import Call, document
from dpi.service._problems import Problem
from dpi.service._publication import Publication
from dpi.service._receipts import write_moment
from dpi.service._watch_blocks import BLOCK, count_blocks
from dpi.service.tokens import ANYBODY, CURATOR, EVERYBODY, OPERATOR, OVERSEER, READER
from dpi.settings.questions import BETWEEN, Row, ask_all, asked_under, between, describe, narrowed

LINES, PARQUET = "application/x-ndjson", "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
DATABASE, STREAM = "application/vnd.sqlite3", "text/event-stream"
ALIVE = 15.0  # seconds after which a comment says that a connection that follows is
Document = dict[str, object]
MOST = 1000  # releases, entries or acts of one answer
MOST_BINS = 1 << 20  # bins of all releases of one answer; one release is always given
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}  # a release never changes
WORDS: dict[str, tuple[str, ...]] = {
    "top": ("k",), "probability": ("value",), "count": ("value",), "total": (),
    "newcomers": (), "returning": (), "reach": (), "retention": ("after", "cohort"),
    "stickiness": ("window",), "active": ("window",), "further-activity": (),
    "mean": (), "median": (), "sum": (), "spread": (),
    "quantile": ("q",), "range": ("low", "high"), "correlation": ("one", "other"),
    **dict.fromkeys(BETWEEN, ("beside", "beside-stream")),
}  # fmt: skip
"""Which parameters each question takes of its own."""
LEAST = {"count": 0, "retention": 1}
"""How many of them must be there, if not all."""
OWN = {name for names in WORDS.values() for name in names}
SINCE = api.Parameter("since", "Slots after this one.", api.SLOT)
LIMIT = api.Parameter("limit", "How many at most.", api.whole(1, MOST))

# The process.


@api.route("GET /v1/health", ANYBODY, answer=api.fields(status=api.TEXT))
async def get_health(call: Call) -> Response:
    """Say that the process answers."""
    return document({"status": "ok"})


@api.route("GET /v1/ready", ANYBODY, answer=api.fields(status=api.TEXT))
def get_ready(call: Call) -> Document:
    """Say that it can do its work: the store can be read, and slots of one stream at least can be closed."""
    if call.service.closing.all_failing:
        raise Problem(503, "slots cannot be closed at the moment.", retry=1)
    with call.service.reading.store() as store:
        store.head()
    return {"status": "ready"}


@api.route("GET /v1/metrics", OPERATOR, answer={"text/plain": api.TEXT})
def get_metrics(call: Call) -> Response:
    """Numbers for Prometheus."""
    return Response(call.service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@api.route("GET /v1/operations", CURATOR, answer=api.fields("at", "failing", "streams"))
def get_operations(call: Call) -> Response:
    """Lag, arrivals, accounts, next closings, releases and budgets of all streams: private."""
    return document(call.service.overview.look())


@api.route("GET /v1/acts", OVERSEER, api.Parameter("after", "Acts after this one.", api.whole(-1)))
def get_acts(call: Call) -> Document:
    """Administrative acts, in order."""
    after, acts = call.whole("after", -1), call.service.acts
    try:
        head, whole = acts.check().sequence, True
    except StateError:
        head, whole = -1, False
    newer = (entry for entry in acts.entries() if int(str(entry["sequence"])) > after)
    return {"acts": list(islice(newer, MOST)), "head": head, "whole": whole}


# Streams.


@api.route("GET /v1/streams", EVERYBODY)
def get_streams(call: Call) -> Document:
    """Return the streams, and the role of this token."""
    with call.service.reading.store() as store:
        known = declared(store.streams())
    served = [{"name": name, "options": each.stated} for name, each in sorted(known.items()) if each.asked]
    return {"streams": served, "role": str(call.request.state.by).partition(" ")[0]}


@api.route("GET /v1/streams/{stream}", EVERYBODY, api.FIRST, api.END)
def get_stream(call: Call) -> Document:
    """Options, promise and clock, and how many releases there are."""
    service, name, first, end = call.service, call.stream, call.where("first"), call.where("end")
    with call.releases() as releases:
        seen, extent = releases.extent, releases.between(first, end).extent or (0, None, None)
        options = releases.options
    slots, following = options.slots, options.start if seen is None else seen[2] + 1
    clock = None
    if slots is not None and following is not None and options.end is None:
        clock = {
            "next": following,
            "begins": slots.start(following).isoformat(),
            "closes": write_moment(slots.closing(following)),
            "seen": write_moment(slots.closing(following) + service.publication.delay),
        }
    return {
        "name": name,
        "options": options.stated,
        "shown": str(releases.quality or "everything"),
        "domain": options.domain,
        "epsilon": float(options.epsilon),
        "guarantee": service.guarantees[name],
        **dict(zip(("number", "first", "newest"), extent, strict=True)),
        "clock": clock,
    }


@api.route("GET /v1/streams/{stream}/budget", EVERYBODY)
def get_budget(call: Call) -> Document:
    """Return what is promised, what can be spent, who pays next, what it buys."""
    name, by_store = call.stream, call.service.reading.spent()
    with call.releases() as releases:
        return {**find_budget(releases, by_store).document(), "guarantee": call.service.guarantees[name]}


@api.route("GET /v1/domains/{digest}", EVERYBODY)
def get_domain(call: Call) -> Response:
    """Return a domain by its digest."""
    with call.service.reading.store() as store:
        try:
            return Response(store.domain(call.place("digest")), headers=FOR_EVER, media_type=api.JSON)
        except StateError:
            raise Problem(404, "there is no such domain.") from None


# Releases.


@api.route(
    "GET /v1/streams/{stream}/releases", READER, api.FIRST, api.END, SINCE, LIMIT,
    answer=api.fields("releases", "more_since") | {LINES: api.TEXT, PARQUET: api.BYTES, ARROW: api.BYTES},
)  # fmt: skip
def get_releases(call: Call) -> Response:
    """Releases, in order; as lines or as Parquet, if these are accepted; as Arrow, a row for each slot and value."""
    since, first, end = call.whole("since", None), call.where("first"), call.where("end")
    limit = call.whole("limit", MOST)
    kind = call.request.headers.get("accept", "").partition(";")[0].strip()
    if since is not None and first is not None:
        raise Problem(422, "`since` and `first` say the same: leave one of them out.")
    with call.releases() as releases:  # so that as many answers are made at a time as there are connections
        part = releases.between(since + 1 if since is not None else first, end)
        bins = next((release.pdf.size for release in part), 1)
        shown = list(islice(part.shown(), min(limit, max(1, MOST_BINS // bins))))
        taken = [release for release, _ in shown]
        last = taken[-1].slot if taken and len(part.between(taken[-1].slot + 1, None)) > 0 else None
        slots = releases.options.slots
        headers = {}
        if last is not None:
            url = call.request.url.remove_query_params("first").include_query_params(since=last)
            headers = {"link": f'<{url.path}?{url.query}>; rel="next"'}
        if kind == ARROW:
            rows = io.BytesIO()
            tidy(shown, slots, quality=releases.quality).write_ipc_stream(rows)
            return Response(rows.getvalue(), headers=headers, media_type=ARROW)
        if kind == PARQUET:
            name = f'attachment; filename="{call.stream}.parquet"'
            file = io.BytesIO()
            to_frame(taken).write_parquet(file)
            return Response(file.getvalue(), headers=headers | {"content-disposition": name}, media_type=PARQUET)
        lines = [release.to_json().encode() for release in taken]
        if kind == LINES:
            return Response(b"".join(each + b"\n" for each in lines), headers=headers, media_type=LINES)
        more = b"null" if last is None else str(last).encode()
        body = b'{"releases":[' + b",".join(lines) + b'],"more_since":' + more + b"}"
        return Response(body, headers=headers, media_type=api.JSON)


@api.route("GET /v1/streams/{stream}/releases/{slot}", READER, answer=api.fields("slot", "pdf", "certificate"))
def get_release(call: Call) -> Response:
    """One release: of a slot's number, of a time, or `newest`."""
    slot = call.place("slot")
    with call.releases() as releases:
        release = find_release(releases, slot)
    return Response(release.to_json(), headers={} if slot == "newest" else FOR_EVER, media_type=api.JSON)


def find_release(releases: Releases, text: str) -> Release:
    """Return the release of a slot that a text names; refuses one that is not seen."""
    place = api.read_place(text)
    if place == "newest":
        if not len(releases):
            raise Problem(404, "no slot of this stream has been released yet.")
        return releases.newest
    number = place if isinstance(place, int) else releases.slots.number(place)
    for release in releases.between(number, number + 1):
        return release
    raise Problem(404, "there is no release of this slot, or not yet.")


def find_shown(releases: Releases, text: str) -> tuple[Release, Release | None]:
    """Return the release of a slot, and the mean of its week if rules ask for one."""
    slot = find_release(releases, text).slot
    return next(releases.between(slot, slot + 1).shown())


class ReleaseNotifier:
    """Wakes those who wait, at the moments at which releases are seen. Lives in one event loop."""

    def __init__(self, publication: Publication) -> None:
        self._publication = publication
        self._loop = asyncio.get_running_loop()
        self._next = asyncio.Event()
        publication.listen(self._ready)

    def _ready(self, due: int) -> None:
        """Said by another thread: a release will be seen when it is due."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._await, due)

    def _await(self, due: int) -> None:
        rest = (due - self._publication.now()) / 1e6
        if rest > 0:
            self._loop.call_later(rest, self._await, due)
        else:
            self._next.set()
            self._next = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until something may be seen, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._next.wait()


@api.route("GET /v1/streams/{stream}/follow", READER, SINCE, answer={STREAM: api.TEXT})
def get_follow(call: Call) -> Response:
    """Server-sent events: a release is seen. Goes on after `Last-Event-ID`.

    One token may have a quarter of the service's connections follow (else 429), and all tokens those but 100 (else
    503), or half if these are fewer: come again after `Retry-After` seconds.
    """
    call.hold(call.service.followers.take(call.token))
    name, service, notifier = call.stream, call.service, call.request.app.state.notifier
    said = call.request.headers.get("last-event-id") or call.text("since")
    since = None if said is None else api.read_whole(said)
    if said is not None and since is None:
        raise Problem(422, "`Last-Event-ID` and `since` must be the number of a slot.")
    admission = service.admissions.find(name)
    if since is None:
        since = service.publication.upto(name)
    with call.releases() as releases:
        extent = releases.store.extent(name)
    since = max(-(1 << 62) if since is None else since, (admission.first if extent is None else extent[1]) - 1)
    return StreamingResponse(
        _write_events(service.publication, name, admission.slots, notifier, since), media_type=STREAM
    )


async def _write_events(
    publication: Publication, name: str, slots: Slots, notifier: ReleaseNotifier, since: int
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    while not publication.left:
        upto = publication.upto(name)
        while upto is not None and since < upto and not publication.left:
            since += 1
            data = json.dumps({"stream": name, "slot": since, "start": slots.start(since).isoformat()})
            yield f"id: {since}\nevent: release\ndata: {data}\n\n".encode()
        await notifier.wait(ALIVE)
        if publication.upto(name) in (None, since):
            yield b": alive\n\n"


# Questions.


@api.route(
    "GET /v1/streams/{stream}/answers/{question}", READER,
    api.PLACE, api.FIRST, api.END, api.LEVELS, api.Parameter("part", "Of a product: about this part alone."),
    api.Parameter("where", "Of a product: among users with PART=VALUE.", api.TEXTS),
    api.Parameter("k", "How many (`top`).", api.WHOLE),
    api.Parameter("value", "A value; of a product PART=VALUE for each part.", api.TEXTS),
    api.Parameter("q", "Between 0 and 1 (`quantile`).", api.NUMBER),
    api.Parameter("low", "From here (`range`).", api.NUMBER),
    api.Parameter("high", "To before here (`range`).", api.NUMBER),
    api.ONE, api.OTHER,
    api.Parameter("after", "Slots: 1, 7 or 30 (`retention`).", api.WHOLE),
    api.Parameter("cohort", "Users who are `new`, or of the `first` slot (`retention`)."),
    api.Parameter("window", "Slots: 7, 28 or 30 (`stickiness`), 7 or 28 (`active`).", api.WHOLE),
    api.Parameter("beside", "The slot of the other release (`l1`, `kl`, `join-size`).", api.WHERE),
    api.Parameter("beside-stream", "The stream of the other release."),
)  # fmt: skip
def get_answers(call: Call) -> Document:
    """Return the answer to a question, about one slot, or about every slot from `first` to before `end`.

    It is one of top, probability, count, total, newcomers, returning, reach, retention, stickiness, active,
    further-activity, mean, median, sum, spread, quantile, range, correlation, l1, kl and join-size.
    """
    name, question, level = call.stream, call.place("question"), call.level
    if question not in WORDS:
        raise Problem(404, f"unknown question: ask one of {', '.join(WORDS)}.")
    if {each for each in OWN if call.text(each) is not None} - set(WORDS[question]):
        raise Problem(422, f"`{question}` takes {', '.join(WORDS[question]) or 'no parameters of its own'}.")
    period = call.text("first") is not None or call.text("end") is not None
    if period and call.text("slot") is not None:
        raise Problem(422, "ask about one `slot`, or about those from `first` to before `end`.")
    first, end, slot = call.where("first"), call.where("end"), call.text("slot") or "newest"
    ask = _make_question(call, question, level)
    with call.releases() as releases:
        at = None if period else find_release(releases, slot).slot
        chosen = releases.between(first, end) if at is None else releases.between(at, at + 1)
        pairs = [*islice(chosen.shown(), MOST)]
    said = ask_all(ask, pairs, call.text("part"), call.texts("where"))
    return {
        "stream": name,
        "question": question,
        "level": level,
        "answers": [{**describe(each), "rows": [row.plain() for row in rows]} for each, rows in said.answers],
        "undefined": [{"slot": each.slot, "why": why} for each, why in said.undefined],
    }


def _make_question(call: Call, question: str, level: float) -> Callable[[Distribution, Distribution | None], list[Row]]:
    if question not in BETWEEN:
        words = [question, *(text for name in WORDS[question] for text in call.texts(name))]
        if len(words) - 1 < LEAST.get(question, len(WORDS[question])):
            raise Problem(422, f"`{question}` needs {' and '.join(WORDS[question][: LEAST.get(question)])}.")
        return asked_under(call.service.config.quality.get(call.stream), words, level)
    beside, stream = call.text("beside"), call.text("beside-stream") or call.stream
    if beside is None:
        raise Problem(422, f"`{question}` needs `beside`: the slot of the other release.")
    if stream not in call.service.closing.streams:
        raise Problem(404, "there is no such stream.")
    with call.service.reading.releases(stream) as releases:
        other = narrowed(find_release(releases, beside), call.text("part"), call.texts("where"))
    return lambda release, _: between(question, release, other, level)


@api.route("GET /v1/streams/{stream}/alerts", READER, api.FIRST, api.END)
def get_alerts(call: Call) -> Document:
    """Values whose share moved as it hardly ever does, by more than the noise explains.

    Oldest first; of the last blocks of slots where these are too many.
    """
    name, first, end, blocks = call.stream, call.where("first"), call.where("end"), call.service.watch_blocks
    with blocks.turn, call.releases() as releases:
        part = releases.between(first, end)
        extent = part.extent
        if extent is None:
            return {"stream": name, "first": None, "alerts": []}
        size = part.between(extent[2], None).newest.domain.size
        begin = max(extent[1], (extent[2] // BLOCK - count_blocks(size) + 1) * BLOCK)
        return {"stream": name, "first": begin, "alerts": blocks.find_alerts(releases, begin, extent[2])}


# The chain.


@api.route(
    "GET /v1/chain", EVERYBODY, api.Parameter("after", "Entries after this one.", api.whole(-1)), LIMIT,
    answer=api.fields("key", entries={"type": "array", "items": {"type": "object"}}, head=api.WHOLE),
)  # fmt: skip
def get_chain(call: Call) -> Document:
    """Entries of the chain of certificates, and the public key that it is signed for.

    They are given in order, as they are hashed and signed. The key is in PEM form; null where the chain is not signed.
    Whoever checks compares it with what they were given elsewhere: a service could say any key.
    """
    after, limit = call.whole("after", -1), call.whole("limit", MOST)
    seen, verifier = call.service.publication.entry, call.service.verifier
    with call.service.reading.store() as store:
        numbers = range(after + 1, min(seen, after + limit) + 1)
        entries = [{"entry": number, **asdict(store.link(number))} for number in numbers]
    return {"entries": entries, "head": seen, "key": None if verifier is None else verifier.pem()}


@api.route("GET /v1/export", EVERYBODY, answer={DATABASE: api.BYTES})
def get_export(call: Call) -> Response:
    """Return the public part of the store, as a file.

    It is one that `dpi verify`, `dpi query` and `dpi report` read, and ends with the last entry of the chain that is
    seen at this moment. All who ask before the next entry read one copy. At most 8 exports are read at a time (else
    503), and 2 of one token (else 429): come again after `Retry-After` seconds.
    """
    copy = call.hold(call.service.exports.open(call.token))
    headers = {"content-disposition": 'attachment; filename="public.db"', "content-length": str(copy.size)}
    return StreamingResponse(copy.pieces(), headers=headers, media_type=DATABASE)
