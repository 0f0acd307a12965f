"""The application: routes, what each asks of a token, how answers and errors leave, and the page at `/`.

The files of the page are for anybody. They hold no data: scripts ask `/v1` with a token that the reader pastes. A file
may load files of this service and nothing else, and no script that stands in the page itself. Files are read once, when
the program starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from importlib import resources

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from dpi.errors import AboutOptions, ClockError
from dpi.service import logs
from dpi.service._connections import LEAVE, settle
from dpi.service._endpoints import Call, Endpoint, answer
from dpi.service._metrics import span
from dpi.service._problems import Problem, find_problem
from dpi.service._read_routes import ReleaseNotifier
from dpi.service._routes import ENDPOINTS
from dpi.service.service import Service
from dpi.service.tokens import PREFIX, Caller

HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}  # of every answer, unless it says otherwise
PIECE = 1 << 16  # bytes that are written before the client is waited for
TLS = {"strict-transport-security": "max-age=31536000"}
PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
    "cross-origin-opener-policy": "same-origin",
}
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NOTHING = "there is nothing here, or not by this method."


def make_application(service: Service) -> Outside:
    """Return the routes of a service, which is started and stopped with them."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        app.state.notifier = ReleaseNotifier(service.publication)
        service.receipts.look_by(asyncio.get_running_loop())
        service.start()
        try:
            yield
        finally:
            service.leave()
            await run_in_threadpool(service.stop)
            service.receipts.look_by(None)

    async def refuse(request: Request, error: Exception) -> Response:
        return Problem(error.status_code if isinstance(error, HTTPException) else 500, _NOTHING).response()

    app = Starlette(
        routes=[*(_make_route(service, endpoint) for endpoint in ENDPOINTS), *_make_page_routes()],
        exception_handlers={HTTPException: refuse},
        lifespan=life,
    )
    secure = service.config.certificate is not None or service.config.behind_proxy
    return Outside(app, HEADERS | (TLS if secure else {}), lambda: service.config.patience)


def _make_route(service: Service, endpoint: Endpoint) -> Route:
    async def respond(request: Request) -> Response:
        began = time.perf_counter()
        with span(f"{endpoint.method} {endpoint.path}"):
            try:
                await _authorise(service, endpoint, request)
                call = Call(service, endpoint, request)
                response = await answer(endpoint, call)
                size = len(getattr(response, "body", b""))
                if size > PIECE and endpoint.roles is not None:
                    call.hold(service.answers.take(call.token, size))
            except ClientDisconnect:
                raise
            except Exception as error:
                if not isinstance(error, Problem | AboutOptions | ClockError):
                    logs.failed("request failed", error)
                response = find_problem(error).response()
        service.metrics.requests.labels(endpoint.method, endpoint.path, str(response.status_code)).inc()
        service.metrics.request_seconds.labels(endpoint.path).observe(time.perf_counter() - began)
        return response

    return Route(endpoint.path, respond, methods=[endpoint.method])


def _make_page_routes() -> list[Route]:
    """Return the routes of `/`, and of each file that it loads at `/page/NAME`."""

    def kind(name: str) -> str | None:
        return KINDS.get(name[name.rfind(".") :])

    folder = resources.files("dpi.service").joinpath("page")
    files = {each.name: each.read_bytes() for each in folder.iterdir() if kind(each.name) is not None}

    async def answer(request: Request) -> Response:
        name = str(request.path_params.get("name", "index.html"))
        if name not in files:
            return Problem(404, _NOTHING).response()
        return Response(files[name], headers=PAGE_HEADERS, media_type=kind(name))

    return [Route("/", answer, methods=["GET"]), Route("/page/{name}", answer, methods=["GET"])]


async def _authorise(service: Service, endpoint: Endpoint, request: Request) -> None:
    """Refuse whoever has no token, of the service or of an issuer that is configured, or one of another role."""
    if endpoint.roles is None:
        return
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    token, caller = text.strip() if kind.lower() == "bearer" else "", None
    if service.issued is not None and token and not token.startswith(PREFIX):
        loop = asyncio.get_running_loop()  # the issuer may be asked for keys
        caller = await loop.run_in_executor(service.checkers, service.issued.check, token)
    elif (entry := service.tokens.check(token)) is not None:
        caller = Caller(entry.id, frozenset({entry.role}))
    if caller is None:
        raise Problem(401, "a valid token is needed.", headers={"www-authenticate": "Bearer"})
    role = caller.may(endpoint.roles)
    if role is None:
        raise Problem(403, "this token has another role.")
    request.state.token, request.state.by = caller.id, f"{role} {caller.id}"


def _cut(message: Message) -> Iterator[Message]:
    """Cut a message into pieces that the client is waited for: a whole body would lie in memory until then."""
    body = message.get("body", b"")
    if len(body) <= PIECE:
        yield message
        return
    for start in range(0, len(body), PIECE):
        more = message.get("more_body", False) or start + PIECE < len(body)
        yield {**message, "body": body[start : start + PIECE], "more_body": more}


class Outside:
    """Gives every answer its headers, and leaves a client that does not take it in time, with all it holds."""

    def __init__(self, app: Starlette, headers: dict[str, str], patience: Callable[[], float]) -> None:
        self._app, self._patience = app, patience
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    def life(self) -> AbstractAsyncContextManager[object]:
        """Return what starts the application, and stops it at its end, as a server would."""
        return self._app.router.lifespan_context(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                settle(scope)  # before it is sent: no slot waits for a client that does not read
                said = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in self._headers if each[0] not in said)]
            for part in _cut(message):
                async with asyncio.timeout(self._patience()):  # whoever does not read is left
                    await send(part)

        with ExitStack() as scope.setdefault("state", {})["held"]:
            try:
                await self._app(scope, receive, sent)
            except TimeoutError:
                scope["state"][LEAVE]()
            except ClientDisconnect:
                return
            finally:
                settle(scope)
