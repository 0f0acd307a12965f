"""Routes that write: batches of events, and streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from dpi.certificates.chain import Entry
from dpi.errors import OptionError
from dpi.service._approvals import Unapproved
from dpi.service._batch_reader import ARROW, KINDS, LINES, NAMES, UNITS
from dpi.service._batch_writer import STOPPED
from dpi.service._connections import ENDED, PIPELINED, RECEIPT
from dpi.service._endpoints import JSON, TEXT, Call, Parameter, Schema, document, fields, route, whole
from dpi.service._problems import Problem
from dpi.service._receipts import Receipt
from dpi.service.service import Batch, Sent
from dpi.service.tokens import ADMIN, CURATOR
from dpi.settings.streams import KEYS, read_stream
from dpi.sources import Understood
from dpi.sources.admission import SHARES

LONGEST_PRODUCER = 200
_DOMAIN: Schema = {
    "description": "A list of values, or a domain's description as `dpi domain` writes it.",
    "oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}],
}
_KINDS: dict[type, Schema] = {
    str: {"type": ["string", "number"]},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
}
_OPTIONS: dict[str, Schema] = {
    "name": {"type": "string"},
    "domain": _DOMAIN,
    **{name: {**_KINDS[each.kind], "description": each.setting.help} for name, each in KEYS.items()},
}
NEW_STREAM: Schema = {
    "type": "object",
    "properties": _OPTIONS,
    "required": ["name", "domain", "epsilon", "slot"],
    "additionalProperties": False,
}
CHANGED_STREAM: Schema = {
    **NEW_STREAM,
    "properties": {**_OPTIONS, "change": {"type": ["boolean", "string"]}},
    "required": ["domain", "epsilon", "slot"],
}
_LIST: Schema = {"type": "array", "items": {}}
_COLUMNS: Schema = {
    "type": "object",
    "properties": {"user": _LIST, "time": _LIST, "value": {"description": "A list, or for a product one a part."}},
    "required": ["user", "time", "value"],
    "additionalProperties": False,
}
BATCH: dict[str, Schema] = {
    JSON: _COLUMNS,
    LINES: {"type": "string", "description": "An object with `user`, `time` and `value` a line."},
    ARROW: {"type": "string", "format": "binary", "description": "Columns `user`, `time` and `value`."},
}
NAMED = fields(name=TEXT)
OPENED = fields(name=TEXT, newcomers_end={"type": "array", "items": TEXT})


UNIT = Parameter("unit", "Of times that are numbers.", {"enum": [*UNITS]})
UNDERSTOOD: dict[str, Schema] = {
    "understood": {"enum": [*SHARES]},
    "missing": {"type": "array", "items": {"enum": [*NAMES]}},
}


@route(
    "POST /v1/streams/{stream}/events", CURATOR,
    Parameter("producer", "Who sends.", {**TEXT, "minLength": 1, "maxLength": LONGEST_PRODUCER}, required=True),
    Parameter("sequence", "0 for the first, and so on.", whole(0), required=True),
    UNIT, body=BATCH, answer=fields(
        kept={"const": True}, slot={"type": ["integer", "null"]}, **UNDERSTOOD, in_time={"enum": [*SHARES, None]},
    ),
)  # fmt: skip
async def post_events(call: Call) -> Response:
    """Keep a batch of events durably, once. May be packed: `Content-Encoding` gzip or zstd.

    The answer says that it is durable. `slot` is the first slot that was open when the head of the request arrived:
    events of earlier slots do not count. It is null for a batch that was kept before. `understood` says how many rows
    of this request have a user, a time and a value of the domain; `missing` names columns that some rows lack;
    `in_time` says how many are neither late nor of the future. All follow from this request, from when it came and from
    the stream's options.
    """
    service, stream = call.service, call.stream
    receipt = _find_receipt(call, stream)
    producer, sequence = call.text("producer") or "", call.whole("sequence", None)
    if not 0 < len(producer) <= LONGEST_PRODUCER or not producer.isprintable() or sequence is None:
        raise Problem(422, f"`producer` must be 1 to {LONGEST_PRODUCER} printable characters.")
    if " " in producer and stream in service.closing.feeding:
        raise Problem(422, "`producer` must have no space: names with spaces are places of the broker that is read.")
    async with _take_sent(call) as sent:
        complete = max(receipt.moment, service.receipts.read_clock(call.state.get(ENDED)))
        batch = Batch(sent, producer, sequence, receipt, complete)
        del call.state[RECEIPT]  # from here on `receive` settles it
        kept = await asyncio.shield(asyncio.wrap_future(service.receive(batch)))
    told = _describe(kept.understood) | ({"in_time": None} if kept.slot is None else {})
    return document({"kept": True, "slot": kept.slot, **told})


@route(
    "POST /v1/streams/{stream}/events/check", CURATOR, UNIT, body=BATCH,
    answer=fields(**UNDERSTOOD, in_time={"enum": [*SHARES]}),
)  # fmt: skip
async def post_check(call: Call) -> Response:
    """Return what would be understood of a batch, and keep nothing of it."""
    async with _take_sent(call) as sent:
        understood = await asyncio.shield(asyncio.wrap_future(call.service.check(sent)))
    return document(_describe(understood))


def _describe(understood: Understood) -> dict[str, object]:
    """Return what a producer is told of its rows."""
    return {"understood": understood.share, "missing": understood.missing, "in_time": understood.in_time}


@asynccontextmanager
async def _take_sent(call: Call) -> AsyncIterator[Sent]:
    """Give the events of a request, when all of them are there; they have a place meanwhile."""
    service, stream, kind, unit = call.service, call.stream, call.kind(), call.text("unit")
    if service.closing.streams[stream].stopped:
        raise Problem(410, STOPPED)
    if unit is not None and unit not in UNITS:
        raise Problem(422, f"`unit` must be one of {', '.join(UNITS)}.")
    if kind not in KINDS:
        raise Problem(415, f"a batch must be one of {', '.join(KINDS)}.")
    packing = call.request.headers.get("content-encoding", "")
    async with service.arriving.take(call.token) as progress:
        body = await call.body(progress)
    with ExitStack() as held:
        try:
            held.enter_context(service.batches.take(call.token))
        except Problem:
            body.drop()
            raise
        yield Sent(stream, body, kind, packing, unit, f"token {call.token}")


def _find_receipt(call: Call, stream: str) -> Receipt:
    """Return the receipt that the request got when its head arrived; slots of other streams wait for it no longer."""
    receipts, state = call.service.receipts, call.state
    if state.get(PIPELINED):
        raise Problem(400, "a connection takes one batch at a time: wait for its answer, or use another connection.")
    if RECEIPT not in state or state[RECEIPT].owner is not receipts:  # this process leads since a moment ago
        state[RECEIPT] = receipts.arrive()
    receipts.assign(state[RECEIPT], stream)
    receipt: Receipt = state[RECEIPT]
    return receipt


@route("GET /v1/streams/{stream}/producers/{producer}", CURATOR)
def get_producer(call: Call) -> Schema:
    """Return the last batch of a producer that was kept: one up to it need not be sent again."""
    service, stream, producer = call.service, call.stream, call.place("producer")
    if not producer.isprintable() or len(producer) > LONGEST_PRODUCER:
        raise Problem(404, "there is no such producer.")
    return {"producer": producer, "sequence": service.store.sequence(stream, producer)}


@route("POST /v1/streams", ADMIN, body={JSON: NEW_STREAM}, status=201, answer=OPENED)
async def post_stream(call: Call) -> Response:
    """Open a stream. It begins with the slot that is running, or `from` another one.

    `newcomers_end` names streams whose later releases do not tell newcomers, as it shares their ε.

    One with an ε of its own, in a store that has streams, is refused (403) until another administrator has sent the
    same request: the first one is noted as a proposal, which holds for a week.
    """
    request = _read_table(await call.document())
    table, service, by = dict(request), call.service, str(call.request.state.by)
    name = table.pop("name", None)
    if not isinstance(name, str):
        raise Problem(422, "`name` must be a text.")
    settings = read_stream(name, table, keys=service.config.keys)
    proposed = await run_in_threadpool(service.approvals.find, request, by)
    try:
        ending = await asyncio.wrap_future(service.declare(settings, approved=proposed is not None))
    except Unapproved:
        await run_in_threadpool(service.approvals.propose, name, request, by)
        raise
    await _note(call, "stream opened", name, {} if proposed is None else {"proposed": proposed})
    return document({"name": name, "newcomers_end": ending}, 201, {"location": f"/v1/streams/{name}"})


@route("PUT /v1/streams/{stream}", ADMIN, body={JSON: CHANGED_STREAM}, answer=NAMED)
async def put_stream(call: Call) -> Response:
    """Other options, from a slot on that has not begun."""
    name, table = call.stream, _read_table(await call.document())
    change = table.pop("change", True)
    if table.pop("name", name) != name or not (change is True or isinstance(change, str)):
        raise Problem(422, "`change` must be true, or the time at which a slot begins; a stream keeps its name.")
    if change == "next":
        raise Problem(422, "`change` must be true, or the time at which a slot begins: events of open slots are here.")
    settings = read_stream(name, table, keys=call.service.config.keys)
    await asyncio.wrap_future(call.service.declare(settings, change=change))
    await _note(call, "stream changed", name)
    return document({"name": name})


@route("DELETE /v1/streams/{stream}", ADMIN, answer=NAMED)
async def delete_stream(call: Call) -> Response:
    """Stop a stream for good: its releases stay, and nothing more is released of it."""
    name = call.stream
    if not call.service.closing.streams[name].stopped:
        await asyncio.wrap_future(call.service.end(name))
        await _note(call, "stream stopped", name)
    return document({"name": name})


async def _note(call: Call, act: str, name: str, more: Entry | None = None) -> None:
    """Note what an administrator did; the options themselves stand in the chain."""
    about: Entry = {"stream": name, "entry": call.service.publication.entry, **(more or {})}
    await run_in_threadpool(call.service.acts.note, act, by=str(call.request.state.by), about=about)


def _read_table(content: object) -> dict[str, object]:
    if not isinstance(content, dict):
        raise OptionError("the options of a stream are a JSON object.")
    return dict(content)
