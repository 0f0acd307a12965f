"""All routes of `/v1`, with their roles."""

from __future__ import annotations

from dpi.service import auditing, following, health, looking, operating, pictures, questions, roles, writing
from dpi.service.endpoints import JSON, WHERE, Endpoint, Parameter, Schema
from dpi.service.openapi import get_openapi

_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_SLOT: Schema = {"type": "integer", "minimum": -(1 << 53), "maximum": 1 << 53}
_LIST: Schema = {"type": "array", "items": {"type": "string"}}
_RELEASE: Schema = {"type": "object", "required": ["slot", "pdf", "certificate"]}
_NAMED: Schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_KEPT: Schema = {"type": "object", "properties": {"kept": {"const": True}}, "required": ["kept"]}
_STATUS: Schema = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
_ENTRIES: Schema = {
    "type": "object",
    "properties": {"entries": {"type": "array", "items": {"type": "object"}}, "head": _WHOLE},
    "required": ["entries", "head"],
}

_FIRST = Parameter("first", "The first slot, or the time from which slots begin.", WHERE)
_END = Parameter("end", "Slots before this one, or that begin before this time.", WHERE)
_PLACE = Parameter("slot", "One slot; the newest unless given.", WHERE)
_LEVEL = Parameter("level", "Of intervals, such as 0.95.", {"type": "number"})
_CODES = Parameter("code", "A bin, by its number.", {"type": "array", "items": {"type": "integer", "minimum": 0}})
_ROWS = Parameter("k", "How many of the largest.", {"type": "integer", "minimum": 0, "maximum": pictures.MOST_ROWS})
_OWN = {
    "k": Parameter("k", "How many (`top`).", _WHOLE),
    "value": Parameter("value", "A value; of a product PART=VALUE for each part.", _LIST),
    "q": Parameter("q", "Between 0 and 1 (`quantile`).", _NUMBER),
    "low": Parameter("low", "From here (`range`).", _NUMBER),
    "high": Parameter("high", "To before here (`range`).", _NUMBER),
    "one": Parameter("one", "A part (`correlation`)."),
    "other": Parameter("other", "Another part (`correlation`)."),
    "beside": Parameter("beside", "The slot of the other release (`l1`, `kl`, `join-size`).", WHERE),
    "beside-stream": Parameter("beside-stream", "The stream of the other release."),
}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/health", roles.ANYBODY, health.get_health, "The process answers.", answer={JSON: _STATUS}),
    Endpoint("GET", "/v1/ready", roles.ANYBODY, health.get_ready, "It can do its work.", answer={JSON: _STATUS}),
    Endpoint("GET", "/v1/openapi.json", roles.ANYBODY, get_openapi, "This description."),
    Endpoint("GET", "/v1/token", roles.EVERYBODY, looking.get_token, "The role of this token."),
    Endpoint("GET", "/v1/streams", roles.EVERYBODY, looking.get_streams, "The streams."),
    Endpoint(
        "POST", "/v1/streams", roles.ADMIN, writing.post_stream, "Open a stream.",
        body={JSON: writing.NEW_STREAM}, status=201, answer={JSON: _NAMED},
    ),
    Endpoint("GET", "/v1/streams/{stream}", roles.EVERYBODY, looking.get_stream, "Options, promise and clock."),
    Endpoint(
        "PUT", "/v1/streams/{stream}", roles.ADMIN, writing.put_stream,
        "Other options, from a slot on that has not begun.",
        body={JSON: writing.CHANGED_STREAM}, answer={JSON: _NAMED},
    ),
    Endpoint(
        "DELETE", "/v1/streams/{stream}", roles.ADMIN, writing.delete_stream,
        "Stop a stream for good: its releases stay, and nothing more is released of it.", answer={JSON: _NAMED},
    ),
    Endpoint(
        "POST", "/v1/streams/{stream}/events", roles.CURATOR, writing.post_events,
        f"Keep a batch of events durably, once. {writing.PACKED}",
        (
            Parameter("producer", "Who sends.", {"type": "string", "minLength": 1, "maxLength": 200}, required=True),
            Parameter("sequence", "0 for the first, and so on.", {"type": "integer", "minimum": 0}, required=True),
            Parameter("unit", "Of times that are numbers.", {"enum": ["s", "ms", "us", "ns"]}),
        ),
        body=writing.BATCH, answer={JSON: _KEPT},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/producers/{producer}", roles.CURATOR, writing.get_producer,
        "The last batch of a producer that was kept.",
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/releases", roles.READER, looking.get_releases, "Releases, in order.",
        (
            _FIRST, _END, Parameter("since", "Slots after this one.", _SLOT),
            Parameter("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 1000}),
        ),
        answer={JSON: {"type": "object", "required": ["releases", "more_since"]}, looking.LINES: {"type": "string"}},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/extent", roles.READER, looking.get_extent, "How many releases there are.",
        (_FIRST, _END),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/releases/{slot}", roles.READER, looking.get_release,
        "One release: of a slot's number, of a time, or `newest`.", answer={JSON: _RELEASE},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/releases/{slot}/certificate", roles.EVERYBODY, looking.get_certificate,
        "The certificate of a release.",
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/answers/{question}", roles.READER, questions.get_answers,
        f"A question with intervals: {', '.join(questions.WORDS)}.",
        (
            _PLACE, _FIRST, _END, _LEVEL,
            Parameter("part", "Of a product: about this part alone."),
            Parameter("given", "Of a product: among those with PART=VALUE.", _LIST), *_OWN.values(),
        ),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/picture", roles.READER, pictures.get_picture,
        "One slot as it is drawn: values with intervals, users, how old it is.",
        (_PLACE, _ROWS, _CODES, Parameter("search", "Values whose names have this text in them."), _LEVEL),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/series", roles.READER, pictures.get_series,
        "Many slots as they are drawn; of a long span, every 2ⁿ-th and the last.",
        (
            _FIRST, _END, _ROWS, _CODES, _LEVEL,
            Parameter("columns", "Slots at most.", {"type": "integer", "minimum": 1, "maximum": pictures.MOST_COLUMNS}),
            Parameter("step", "Every slot that is a multiple of this.", {"type": "integer", "minimum": 1}),
            Parameter("quantile", "Of ordered values.", {"type": "array", "items": {"type": "number"}}),
        ),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/changes", roles.READER, pictures.get_changes,
        "What moved most between two slots, with intervals.",
        (
            _PLACE, Parameter("beside", "The slot before; the last but one unless given.", WHERE), _LEVEL,
            Parameter("k", "How many.", {"type": "integer", "minimum": 1, "maximum": pictures.MOST_ROWS}),
        ),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/grid", roles.READER, pictures.get_grid, "Two parts of a product, as a grid.",
        (_PLACE, Parameter("one", "A part: the rows."), Parameter("other", "Another part: the columns.")),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/table", roles.READER, pictures.get_table, "Releases as Parquet.", (_FIRST, _END),
        answer={pictures.PARQUET: {"type": "string", "format": "binary"}},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/alerts", roles.READER, questions.get_alerts,
        "Values whose share moved as it hardly ever does, by more than the noise explains.", (_FIRST, _END),
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/follow", roles.READER, following.follow,
        "Server-sent events: a release is seen. Goes on after `Last-Event-ID`.",
        (Parameter("since", "Slots after this one.", _SLOT),), answer={following.STREAM: {"type": "string"}},
    ),
    Endpoint(
        "GET", "/v1/streams/{stream}/budget", roles.EVERYBODY, operating.get_budget,
        "What is promised, what can be spent, who pays next, what it buys.",
    ),
    Endpoint("GET", "/v1/domains/{digest}", roles.EVERYBODY, looking.get_domain, "A domain by its digest."),
    Endpoint(
        "GET", "/v1/chain", roles.EVERYBODY, auditing.get_chain, "Entries of the chain of certificates.",
        (
            Parameter("after", "Entries after this one.", {"type": "integer", "minimum": -1}),
            Parameter("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 1000}),
        ),
        answer={JSON: _ENTRIES},
    ),
    Endpoint("GET", "/v1/key", roles.EVERYBODY, auditing.get_key, "The public key that the chain is signed for."),
    Endpoint(
        "GET", "/v1/export", roles.EVERYBODY, auditing.get_export, "The public part of the store, as a file.",
        answer={auditing.DATABASE: {"type": "string", "format": "binary"}},
    ),
    Endpoint(
        "GET", "/v1/acts", roles.OVERSEER, operating.get_acts, "Administrative acts, in order.",
        (Parameter("after", "Acts after this one.", {"type": "integer", "minimum": -1}),),
    ),
    Endpoint(
        "GET", "/v1/operations", roles.CURATOR, operating.get_operations,
        "Lag, arrivals, accounts, next closings, releases and budgets of all streams: private.",
        answer={JSON: {"type": "object", "required": ["at", "failing", "streams"]}},
    ),
    Endpoint(
        "GET", "/v1/metrics", roles.OPERATOR, operating.get_metrics, "Numbers for Prometheus.",
        answer={"text/plain": {"type": "string"}},
    ),
)  # fmt: skip
