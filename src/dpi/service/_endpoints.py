"""What a route is made of: who may use it, what it takes, what it gives. Routes, reference and checks read the same.

A route is declared once, by `route` above the function that answers it; what it is for is that function's docstring.
A plain function is called by a thread that may wait, and what it returns is JSON unless it is a response.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from dpi.reader import Releases
from dpi.release.interval import LEVEL
from dpi.service._body import Body, receive_body, too_large
from dpi.service._problems import Problem
from dpi.service.config import NAME
from dpi.service.service import Service

Schema = dict[str, Any]
Handler = Callable[["Call"], Awaitable[Response] | Response | Mapping[str, object]]
Declared = TypeVar("Declared", bound=Handler)
Default = TypeVar("Default", int, None)
Held = TypeVar("Held")
JSON = "application/json"
FARTHEST = 1 << 53  # numbers of slots that a question may name


@dataclass(frozen=True)
class Parameter:
    """Something that an address says after its question mark."""

    name: str
    says: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})
    required: bool = False


WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
BYTES: Schema = {"type": "string", "format": "binary"}
TEXTS: Schema = {"type": "array", "items": TEXT}
SLOT: Schema = {"type": "integer", "minimum": -FARTHEST, "maximum": FARTHEST}
WHERE: Schema = {
    "oneOf": [WHOLE, {"type": "string", "format": "date-time"}],
    "description": "A slot, by its number or by a time in ISO 8601.",
}


def whole(least: int, most: int | None = None) -> Schema:
    """Return whole numbers from one to another."""
    return {**WHOLE, "minimum": least} | ({} if most is None else {"maximum": most})


def fields(*required: str, **properties: Schema) -> dict[str, Schema]:
    """Return an object of these fields, all of which are there."""
    return {JSON: {"type": "object", "properties": properties, "required": [*required, *properties]}}


FIRST = Parameter("first", "The first slot, or the time from which slots begin.", WHERE)
END = Parameter("end", "Slots before this one, or that begin before this time.", WHERE)
PLACE = Parameter("slot", "One slot; the newest unless given.", WHERE)
LEVELS = Parameter("level", "Of intervals, such as 0.95.", NUMBER)
ONE, OTHER = Parameter("one", "A part of a product."), Parameter("other", "Another part of it.")


@dataclass(frozen=True)
class Endpoint:
    method: str
    path: str
    roles: frozenset[str] | None  # who may use it; None is anybody, without a token
    handler: Handler
    parameters: tuple[Parameter, ...]
    body: Mapping[str, Schema]  # what is sent, by its media type
    status: int
    answer: Mapping[str, Schema]


ENDPOINTS: list[Endpoint] = []  # all routes of `/v1`, in the order in which they are declared


def route(
    asked: str,
    roles: frozenset[str] | None,
    *parameters: Parameter,
    body: Mapping[str, Schema] | None = None,
    status: int = 200,
    answer: Mapping[str, Schema] | None = None,
) -> Callable[[Declared], Declared]:
    """Declare the route that a function answers, such as "GET /v1/chain"."""
    method, _, path = asked.partition(" ")

    def declare(handler: Declared) -> Declared:
        given = answer or {JSON: {"type": "object"}}
        ENDPOINTS.append(Endpoint(method, path, roles, handler, parameters, body or {}, status, given))
        return handler

    return declare


class Call:
    def __init__(self, service: Service, endpoint: Endpoint, request: Request) -> None:
        self.service, self.request = service, request
        self.state: dict[str, Any] = request.scope["state"]
        """What the connection, and the check of the token, have noted of this request."""
        self._known = known = {parameter.name: parameter for parameter in endpoint.parameters}
        for name in request.query_params:
            if name not in known:
                raise Problem(422, f"this route takes no other parameters than: {', '.join(known) or 'none'}.")
            if len(request.query_params.getlist(name)) > 1 and known[name].schema.get("type") != "array":
                raise Problem(422, f"`{name}` must be given once only.")
        for name, parameter in known.items():
            if parameter.required and name not in request.query_params:
                raise Problem(422, f"`{name}` is required.")

    @property
    def stream(self) -> str:
        """The stream that the address names; refuses one that is not served."""
        name = self.place("stream")
        if NAME.fullmatch(name) is None or name not in self.service.closing.streams:
            raise Problem(404, "there is no such stream.")
        return name

    @property
    def token(self) -> str:
        """The token of whoever asks, by its id."""
        return str(self.request.state.token)

    def hold(self, held: AbstractContextManager[Held]) -> Held:
        """Have something until the answer is sent, or whoever asked is left."""
        stack: ExitStack = self.request.state.held
        return stack.enter_context(held)

    def place(self, name: str) -> str:
        return str(self.request.path_params[name])

    def text(self, name: str) -> str | None:
        return self.request.query_params.get(name)

    def texts(self, name: str) -> list[str]:
        return self.request.query_params.getlist(name)

    def whole(self, name: str, default: Default) -> int | Default:
        """Return a whole number within the bounds that its parameter states."""
        text, schema = self.text(name), self._known[name].schema
        if text is None:
            return default
        number, least, most = read_whole(text), schema.get("minimum", -FARTHEST), schema.get("maximum", FARTHEST)
        if number is None or not least <= number <= most:
            raise Problem(422, f"`{name}` must be a whole number from {least} to {most}.")
        return number

    @property
    def level(self) -> float:
        text = self.text("level")
        level = LEVEL if text is None else read_number(text)
        if not 0 < level < 1:
            raise Problem(422, "`level` must be a number above 0 and below 1.")
        return level

    def where(self, name: str) -> int | str | None:
        """Return the slot that a parameter names, by its number or by a time."""
        text = self.text(name)
        return None if text is None else read_place(text)

    def kind(self) -> str:
        return self.request.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def document(self) -> object:
        if self.kind() != JSON:
            raise Problem(415, f"what is sent must be {JSON}.")
        try:
            return msgspec.json.decode((await self.body()).take())
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise Problem(400, "the body is not JSON.") from None

    async def body(self, progress: Callable[[], None] = lambda: None) -> Body:
        """Return what was sent, when its last byte is there; `progress` is called when some of it is."""
        config = self.service.config
        declared = read_whole(self.request.headers.get("content-length", "0"))
        if declared is not None and declared > config.body:
            raise too_large(config.body)
        return await receive_body(self.request.stream(), self.service.room, config.body, config.patience, progress)

    def releases(self) -> AbstractContextManager[Releases]:
        """Return the releases of the stream that are seen by now, for a thread that may wait."""
        return self.service.reading.releases(self.stream)


async def answer(endpoint: Endpoint, call: Call) -> Response:
    """Return what the function of a route says."""

    def wait() -> Awaitable[Response] | Response:
        reply = endpoint.handler(call)
        return document(reply) if isinstance(reply, Mapping) else reply

    reply = wait() if iscoroutinefunction(endpoint.handler) else await run_in_threadpool(wait)
    return reply if isinstance(reply, Response) else await reply


def read_whole(text: str) -> int | None:
    """Return the whole number in a text of few digits; None for anything else."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 18 else None


def read_number(text: str) -> float:
    """Return the number in a text; NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_place(text: str) -> int | str:
    """Return a slot's number, or the text of a time."""
    number = read_whole(text)
    if number is not None and abs(number) > FARTHEST:
        raise Problem(422, "there is no such slot.")
    return text if number is None else number


def document(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, dict(headers or {}), JSON)
