"""The application: routes of `/v1`, what each asks of a token, and how errors leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from dpi.service import ingest, roles
from dpi.service.problems import Problem, problem_of
from dpi.service.service import Batch, Service

Handler = Callable[[Service, Request], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    """One route: who may use it, and what it does."""

    method: str
    path: str
    roles: frozenset[str] | None
    handler: Handler
    summary: str


def json_response(content: object, status: int = 200) -> Response:
    """An answer in JSON."""
    import msgspec

    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def body_of(request: Request, limit: int, patience: float) -> bytes:
    """The body of a request, of at most so many bytes, within so many seconds."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(patience):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise Problem(413, f"a request has at most {limit} bytes: split the batch, and send its parts.")
                parts.append(part)
    except TimeoutError:
        raise Problem(408, "the body took too long.") from None
    return b"".join(parts)


async def health(service: Service, request: Request) -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


async def post_events(service: Service, request: Request) -> Response:
    """Keep a batch of events durably."""
    stream = request.path_params["stream"]
    service.known(stream)
    producer, sequence = request.query_params.get("producer"), request.query_params.get("sequence")
    if producer is None or sequence is None or not sequence.isdecimal() or len(sequence) > 18:
        raise Problem(422, "a batch has a `producer` and a `sequence`, 0 and so on, by which it counts once.")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ingest.KINDS:
        raise Problem(415, f"a batch must be one of {', '.join(ingest.KINDS)}.")
    body = await body_of(request, service.config.body, service.config.patience)
    receipt = service.receipts.stamp()
    packing = request.headers.get("content-encoding", "")
    batch = Batch(stream, body, kind, packing, request.query_params.get("unit"), producer, int(sequence), receipt)
    await asyncio.wrap_future(service.receive(batch))
    return json_response({"kept": True})


async def get_streams(service: Service, request: Request) -> Response:
    """The streams that there are."""

    def read() -> list[str]:
        with service.reading.store() as store:
            return sorted(store.streams())

    return json_response({"streams": [{"name": name} for name in await run_in_threadpool(read)]})


async def get_releases(service: Service, request: Request) -> Response:
    """Releases of a stream."""
    stream = request.path_params["stream"]

    def read() -> bytes:
        with service.reading.releases(stream) as releases:
            return b"[" + b",".join(release.to_json().encode() for release in releases) + b"]"

    return Response(b'{"releases":' + await run_in_threadpool(read) + b"}", media_type="application/json")


ENDPOINTS = (
    Endpoint("GET", "/v1/health", roles.ANYBODY, health, "Whether the process answers."),
    Endpoint("GET", "/v1/streams", roles.EVERYBODY, get_streams, "The streams."),
    Endpoint("POST", "/v1/streams/{stream}/events", roles.CURATOR, post_events, "Keep a batch of events."),
    Endpoint("GET", "/v1/streams/{stream}/releases", roles.READER, get_releases, "Releases."),
)


def application(service: Service) -> Starlette:
    """The routes of a service."""

    def routed(endpoint: Endpoint) -> Route:
        async def answer(request: Request) -> Response:
            try:
                authorise(service, endpoint, request)
                return await endpoint.handler(service, request)
            except ClientDisconnect:
                raise
            except Exception as error:
                return problem_of(error).response()

        return Route(endpoint.path, answer, methods=[endpoint.method])

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await run_in_threadpool(service.stop)

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return Problem(status, "there is nothing here, or not by this method.").response()

    return Starlette(
        routes=[routed(endpoint) for endpoint in ENDPOINTS],
        exception_handlers={HTTPException: refused},
        lifespan=life,
    )


def authorise(service: Service, endpoint: Endpoint, request: Request) -> None:
    """Refuse whoever has no token, or one of another role."""
    if endpoint.roles is None:
        return
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    entry = service.tokens.check(token.strip()) if kind.lower() == "bearer" else None
    if entry is None:
        raise Problem(401, "a valid token is needed.", headers={"www-authenticate": "Bearer"})
    if entry.role not in endpoint.roles:
        raise Problem(403, "this token has another role.")
