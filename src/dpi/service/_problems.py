"""What went wrong, for the one who asked: `application/problem+json` (RFC 9457), never a value and never a trace."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from dpi.errors import AboutOptions, BudgetExceeded, ClockError, OptionError, SchemaError, StateError, StoreError

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """A refusal, with its status and a sentence that says what was expected."""

    def __init__(self, status: int, detail: str, *, retry: int | None = None, headers: dict[str, str] | None = None):
        super().__init__(status, detail)  # with which a process hands it to another
        self.status, self.detail = status, detail
        self.headers = dict(headers or {})
        if retry is not None:
            self.headers["retry-after"] = str(retry)

    def response(self) -> Response:
        title = HTTPStatus(self.status).phrase
        body = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        return Response(msgspec.json.encode(body), self.status, self.headers, MEDIA_TYPE)


def find_problem(error: BaseException) -> Problem:
    """Return the refusal that an error means. Texts of this package's errors hold no private value (`dpi.errors`)."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, OptionError | SchemaError | ClockError | BudgetExceeded):
        return Problem(422, _text(error))
    if isinstance(error, StateError):
        return Problem(409, _text(error))
    if isinstance(error, StoreError):
        return Problem(503, "the store cannot be used at the moment.", retry=1)
    return Problem(500, "a fault of this program; the operator's log says where.")


def _text(error: Exception) -> str:
    """Return an error's text with options as bodies and `dpi.toml` write them."""
    return error.spelled(lambda name: name.replace("_", "-")) if isinstance(error, AboutOptions) else str(error)
