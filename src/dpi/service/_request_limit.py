"""Limits of requests: how many are taken at a time, how many connections there are, how long one may take.

Requests are counted, in all and of one token, never what is in them. Bodies are read only behind the limit, so that
memory is bounded by the number of requests times the size of one. A request that finds it full waits a little before
its body is read; with too many waiting, it is told to come again.

**Why not by events or users.** A limit that one user's flood reaches would be what refuses another's events. Limits on
requests and their sizes are reached by producers; that no flood exceeds the machine is assumed.

A server by itself waits for the rest of a request for ever. Here a connection that is not being answered is closed
after a while: one that says nothing, that sends its headers byte by byte, that goes on sending what was refused, or
that stays after its answer. (The body of a request and the reading of an answer have limits of their own, in
`dpi.service._endpoints` and `dpi.service._app`.) Headers are limited in bytes, connections in number.

Sees bytes on their way to the parser; looks at none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dpi.service._problems import Problem

WAITING = 8  # so many times as many requests may wait as are taken
HEADERS = 10.0
"""Seconds until the headers of a request are there, from the beginning of the connection or the last answer."""
IDLE = 5  # seconds that a connection may say nothing after an answer
LARGEST_HEADERS = 1 << 16  # bytes
LEAVE = "leave"
"""Where a request's state has what ends its connection at once: closing alone would wait for what is not read."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class RequestLimit:
    """Takes some requests at a time, and of one token at most so many, waiting ones included."""

    def __init__(self, most: int, of_one: int) -> None:
        self._places = asyncio.Semaphore(most)
        self._most, self._of_one = most * (1 + WAITING), of_one
        self._here: Counter[str] = Counter()

    @asynccontextmanager
    async def enter(self, token: str) -> AsyncIterator[None]:
        """Give a place to a request of a token; refuses one that is too many."""
        if self._here[token] >= self._of_one:
            raise Problem(429, "this token has too many requests at a time.", retry=1)
        if self._here.total() >= self._most:
            raise Problem(503, "too many requests wait: come again.", retry=1)
        self._here[token] += 1
        try:
            async with self._places:
                yield
        finally:
            self._here[token] -= 1
            if not self._here[token]:
                del self._here[token]


def make_connection_class(most: int, seconds: float) -> type[HttpToolsProtocol]:
    """Return the class of a server's connections: at most so many, each with so many seconds to say what it wants."""

    class Connection(HttpToolsProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._late: asyncio.TimerHandle | None = None
            self._headers_size: int | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(FULL)
                transport.close()
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._go_on()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Take in what has come, of headers up to a limit."""
            super().data_received(data)
            if self._headers_size is not None:
                self._headers_size += len(data)
                if self._headers_size > LARGEST_HEADERS and not self.transport.is_closing():
                    self.send_400_response("Invalid HTTP request received.")

        def on_message_begin(self) -> None:
            self._headers_size = 0
            super().on_message_begin()
            self.scope["state"][LEAVE] = self.transport.abort

        def on_headers_complete(self) -> None:
            """It is known what is wanted; it is answered from now on."""
            self._headers_size = None
            self._go_on()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            """It was answered: wait for the next one, if it is not there yet."""
            super().on_response_complete()
            if self.cycle.response_complete and not self.transport.is_closing():
                self._wait()

        def _wait(self) -> None:
            self._go_on()
            self._late = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def timeout_keep_alive_handler(self) -> None:
            """Close the connection; an answer that was not read is not waited for."""
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            else:
                super().timeout_keep_alive_handler()

        def _go_on(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Connection
