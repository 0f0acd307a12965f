"""All routes of `/v1`, with their roles, and their description as OpenAPI, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.responses import Response

from dpi._version import __version__
from dpi.service import _chart_routes as charts
from dpi.service import _read_routes as reads
from dpi.service import _write_routes as writes
from dpi.service import tokens as roles
from dpi.service._endpoints import JSON, Call, Endpoint, Parameter, Schema, document

_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_TEXT: Schema = {"type": "string"}
_BYTES: Schema = {"type": "string", "format": "binary"}
_SLOT: Schema = {"type": "integer", "minimum": -(1 << 53), "maximum": 1 << 53}
_LIST: Schema = {"type": "array", "items": {"type": "string"}}
_WHERE: Schema = {
    "oneOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}],
    "description": "A slot, by its number or by a time in ISO 8601.",
}


def _object(*required: str, **properties: Schema) -> dict[str, Schema]:
    return {JSON: {"type": "object", "properties": properties, "required": [*required, *properties]}}


def _whole(least: int, most: int | None = None) -> Schema:
    return {**_WHOLE, "minimum": least} | ({} if most is None else {"maximum": most})


_NAMED, _STATUS = _object(name=_TEXT), _object(status=_TEXT)
_FIRST = Parameter("first", "The first slot, or the time from which slots begin.", _WHERE)
_END = Parameter("end", "Slots before this one, or that begin before this time.", _WHERE)
_SINCE = Parameter("since", "Slots after this one.", _SLOT)
_PLACE = Parameter("slot", "One slot; the newest unless given.", _WHERE)
_LEVEL = Parameter("level", "Of intervals, such as 0.95.", _NUMBER)
_CODES = Parameter("code", "A bin, by its number.", {"type": "array", "items": _whole(0)})
_ROWS = Parameter("k", "How many of the largest.", _whole(0, charts.MOST_ROWS))
_LIMIT = Parameter("limit", "How many at most.", _whole(1, 1000))
_ONE, _OTHER = Parameter("one", "A part of a product."), Parameter("other", "Another part of it.")
_OWN = (
    Parameter("k", "How many (`top`).", _WHOLE),
    Parameter("value", "A value; of a product PART=VALUE for each part.", _LIST),
    Parameter("q", "Between 0 and 1 (`quantile`).", _NUMBER),
    Parameter("low", "From here (`range`).", _NUMBER),
    Parameter("high", "To before here (`range`).", _NUMBER),
    _ONE, _OTHER,
    Parameter("beside", "The slot of the other release (`l1`, `kl`, `join-size`).", _WHERE),
    Parameter("beside-stream", "The stream of the other release."),
)  # fmt: skip


async def get_openapi(call: Call) -> Response:
    return document(describe(ENDPOINTS))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/health", roles.ANYBODY, reads.get_health, "The process answers.", answer=_STATUS),
    Endpoint("GET", "/v1/ready", roles.ANYBODY, reads.get_ready, "It can do its work.", answer=_STATUS),
    Endpoint("GET", "/v1/openapi.json", roles.ANYBODY, get_openapi, "This description."),
    Endpoint("GET", "/v1/streams", roles.EVERYBODY, reads.get_streams, "The streams, and the role of this token."),
    Endpoint(
        "POST", "/v1/streams", roles.ADMIN, writes.post_stream, "Open a stream.",
        body={JSON: writes.NEW_STREAM}, status=201, answer=_NAMED,
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}", roles.EVERYBODY, reads.get_stream,
        "Options, promise and clock, and how many releases there are.", (_FIRST, _END),
    ),
    Endpoint(
        "PUT", "/v1/streams/{stream}", roles.ADMIN, writes.put_stream,
        "Other options, from a slot on that has not begun.", body={JSON: writes.CHANGED_STREAM}, answer=_NAMED,
    ),
    Endpoint(
        "DELETE", "/v1/streams/{stream}", roles.ADMIN, writes.delete_stream,
        "Stop a stream for good: its releases stay, and nothing more is released of it.", answer=_NAMED,
    ),
    Endpoint(
        "POST", "/v1/streams/{stream}/events", roles.CURATOR, writes.post_events,
        f"Keep a batch of events durably, once. {writes.PACKED}",
        (
            Parameter("producer", "Who sends.", {"type": "string", "minLength": 1, "maxLength": 200}, required=True),
            Parameter("sequence", "0 for the first, and so on.", _whole(0), required=True),
            Parameter("unit", "Of times that are numbers.", {"enum": ["s", "ms", "us", "ns"]}),
        ),
        body=writes.BATCH, answer=_object(kept={"const": True}),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/producers/{producer}", roles.CURATOR, writes.get_producer,
        "The last batch of a producer that was kept.",
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/releases", roles.READER, reads.get_releases,
        "Releases, in order; as lines or as Parquet, if these are accepted.", (_FIRST, _END, _SINCE, _LIMIT),
        answer=_object("releases", "more_since") | {reads.LINES: _TEXT, reads.PARQUET: _BYTES},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/releases/{slot}", roles.READER, reads.get_release,
        "One release: of a slot's number, of a time, or `newest`.", answer=_object("slot", "pdf", "certificate"),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/answers/{question}", roles.READER, reads.get_answers,
        f"A question with intervals: {', '.join(reads.WORDS)}.",
        (
            _PLACE, _FIRST, _END, _LEVEL, Parameter("part", "Of a product: about this part alone."),
            Parameter("given", "Of a product: among those with PART=VALUE.", _LIST), *_OWN,
        ),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/picture", roles.READER, charts.get_picture,
        "One slot as it is drawn: values with intervals, users, how old it is. With `beside`, what moved most since "
        "then. With `one` and `other`, two parts of a product as a grid.",
        (
            _PLACE, _ROWS, _CODES, Parameter("search", "Values whose names have this text in them."), _LEVEL,
            Parameter("beside", "A slot before, to which it is compared.", _WHERE), _ONE, _OTHER,
        ),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/series", roles.READER, charts.get_series,
        "Many slots as they are drawn; of a long span, every 2ⁿ-th and the last.",
        (
            _FIRST, _END, _ROWS, _CODES, _LEVEL,
            Parameter("columns", "Slots at most.", _whole(1, charts.MOST_COLUMNS)),
            Parameter("step", "Every slot that is a multiple of this.", _whole(1)),
            Parameter("quantile", "Of ordered values.", {"type": "array", "items": {"type": "number"}}),
        ),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/alerts", roles.READER, reads.get_alerts,
        "Values whose share moved as it hardly ever does, by more than the noise explains.", (_FIRST, _END),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/follow", roles.READER, reads.get_follow,
        "Server-sent events: a release is seen. Goes on after `Last-Event-ID`.", (_SINCE,),
        answer={reads.STREAM: _TEXT},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/budget", roles.EVERYBODY, reads.get_budget,
        "What is promised, what can be spent, who pays next, what it buys.",
    ),
    Endpoint("GET", "/v1/domains/{digest}", roles.EVERYBODY, reads.get_domain, "A domain by its digest."),
    Endpoint(
        "GET", "/v1/chain", roles.EVERYBODY, reads.get_chain,
        "Entries of the chain of certificates, and the public key that it is signed for.",
        (Parameter("after", "Entries after this one.", _whole(-1)), _LIMIT),
        answer=_object("key", entries={"type": "array", "items": {"type": "object"}}, head=_WHOLE),
    ),
    Endpoint(
        "GET", "/v1/export", roles.EVERYBODY, reads.get_export, "The public part of the store, as a file.",
        answer={reads.DATABASE: _BYTES},
    ),
    Endpoint(
        "GET", "/v1/acts", roles.OVERSEER, reads.get_acts, "Administrative acts, in order.",
        (Parameter("after", "Acts after this one.", _whole(-1)),),
    ),
    Endpoint(
        "GET", "/v1/operations", roles.CURATOR, reads.get_operations,
        "Lag, arrivals, accounts, next closings, releases and budgets of all streams: private.",
        answer=_object("at", "failing", "streams"),
    ),
    Endpoint(
        "GET", "/v1/metrics", roles.OPERATOR, reads.get_metrics, "Numbers for Prometheus.",
        answer={"text/plain": _TEXT},
    ),
)  # fmt: skip


def describe(endpoints: Iterable[Endpoint]) -> Schema:
    paths: dict[str, dict[str, object]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_one(endpoint)
    fields = {name: _WHOLE if name == "status" else _TEXT for name in ("type", "title", "status", "detail")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpi", "version": __version__, "description": "Releases of streams, by a public clock."},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": {"type": "object", "properties": fields, "required": [*fields]}},
        },
    }


def _describe_one(endpoint: Endpoint) -> dict[str, object]:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    in_query = [
        {"name": each.name, "in": "query", "description": each.says, "required": each.required, "schema": each.schema}
        for each in endpoint.parameters
    ]
    who = "anybody" if endpoint.roles is None else ", ".join(sorted(endpoint.roles))
    answer = {kind: {"schema": schema} for kind, schema in endpoint.answer.items()}
    found: dict[str, object] = {
        "summary": endpoint.summary,
        "description": f"For {who}.",
        "security": [] if endpoint.roles is None else [{"token": []}],
        "parameters": [*in_path, *in_query],
        "responses": {
            str(endpoint.status): {"description": "What was asked for.", "content": answer},
            "default": {"description": "Why not.", "content": problem},
        },
    }
    if endpoint.body:
        content = {kind: {"schema": schema} for kind, schema in endpoint.body.items()}
        found["requestBody"] = {"required": True, "content": content}
    return found
