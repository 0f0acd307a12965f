"""The page at `/`: its files, for anybody. They hold no data: scripts ask `/v1` with a token that the reader pastes.

A file may load files of this service and nothing else, and no script that stands in the page itself. Files are read
once, when the program starts.
"""

from __future__ import annotations

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dpi.service.problems import Problem

POLICY = (
    "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "cache-control": "no-cache", "cross-origin-opener-policy": "same-origin"}
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
INDEX = "index.html"


def _files() -> dict[str, bytes]:
    folder = resources.files("dpi.service").joinpath("page")
    return {each.name: each.read_bytes() for each in folder.iterdir() if _kind(each.name) is not None}


def _kind(name: str) -> str | None:
    return KINDS.get(name[name.rfind(".") :])


def routes() -> list[Route]:
    """`/`, and each file that it loads at `/page/NAME`."""
    files = _files()

    async def answer(request: Request) -> Response:
        name = str(request.path_params.get("name", INDEX))
        if name not in files:
            return Problem(404, "there is nothing here, or not by this method.").response()
        return Response(files[name], headers=HEADERS, media_type=_kind(name))

    return [Route("/", answer, methods=["GET"]), Route("/page/{name}", answer, methods=["GET"])]
