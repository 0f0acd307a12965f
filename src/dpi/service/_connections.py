"""Connections: how many there are, how long one may take for its head, and when the head of a batch arrived.

A server by itself waits for the rest of a request for ever. Here a connection that is not being answered is closed
after a while: one that says nothing, that sends its headers byte by byte, that goes on sending what was refused, or
that stays after its answer. (The body of a request and the reading of an answer have limits of their own, in
`dpi.service._body` and `dpi.service._app`.) Headers are limited in bytes, connections in number. If there are too many,
the one is closed that has said nothing for the longest time; so connections that ask for nothing take no place.

Sees bytes on their way to the parser; looks at none, but for the line that says what is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dpi.service._arrivals import Accepted, Arrivals
from dpi.service._receipts import Receipt

HEADERS = 10.0
"""Seconds until the headers of a request are there, from the beginning of the connection or the last answer."""
IDLE = 5  # seconds that a connection may say nothing after an answer
LARGEST_HEADERS = 1 << 16  # bytes
LARGEST_CHUNK = 16
"""Bytes that a chunk of a body may have beside it: its length and the ends of two lines."""
LEAVE = "leave"
"""Where a request's state has what ends its connection at once: closing alone would wait for what is not read."""
RECEIPT = "receipt"
"""Where a request's state has the receipt of its batch, until that is handed on."""
ENDED = "ended"
"""Where a request's state has when its last byte came, if the kernel says."""
PIPELINED = "pipelined"
"""Where a request's state says that it came before the answer to another one of its connection. A batch that comes so
is refused: its turn comes when that answer is given, and until then slots would wait for whoever has no token."""
BATCHES = "/events"  # how the addresses end that take batches
FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def settle(scope: Scope) -> None:
    """Note that a request is answered: no slot waits for a batch of it that was not handed on."""
    receipt = scope["state"].pop(RECEIPT, None)
    if receipt is not None:
        receipt.settle()


def make_connection_class(
    seconds: Callable[[], float], arrive: Callable[[int | None], Receipt | None], arrivals: Arrivals
) -> type[HttpToolsProtocol]:
    """Return the class of a server's connections, each with so many seconds to say what it wants.

    A request that may hold a batch gets a receipt by `arrive` when its head is there; its connection, of `arrivals`,
    has the moment. There are as many connections as these allow.
    """
    waiting: dict[HttpToolsProtocol, None] = {}  # those that have not said what they want, the longest first

    class Connection(HttpToolsProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._late: asyncio.TimerHandle | None = None
            self._accepted: Accepted | None = None
            self._headers_size: int | None = None
            self._begun = False
            self._beside = 0  # bytes after the head that are no body, less those that bodies may have

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made = transport.get_extra_info("socket")
            self._accepted = None if made is None else arrivals.take(made.fileno())
            if len(self.connections) > arrivals.most:
                if waiting:
                    oldest = next(iter(waiting))
                    del waiting[oldest]  # it is lost a little later: the next one that comes needs another's room
                    oldest.transport.abort()
                else:
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
            elif self._begun:  # with a head that ends in these bytes, they are not all its own
                self._begun = False
            else:
                self._beside += len(data)
                if self._beside > LARGEST_HEADERS:
                    self.transport.abort()

        def on_header(self, name: bytes, value: bytes) -> None:
            """Take a header; those that follow a body say nothing that is asked for."""
            if self._headers_size is not None:
                super().on_header(name, value)

        def on_body(self, body: bytes) -> None:
            """Take a part of a body, with what may stand beside it: each byte can be a chunk of its own."""
            self._beside -= (1 + LARGEST_CHUNK) * len(body)
            super().on_body(body)

        def on_message_begin(self) -> None:
            self._headers_size = 0
            super().on_message_begin()
            self.scope["state"][LEAVE] = self.transport.abort

        def on_headers_complete(self) -> None:
            """Answer from now on: it is known what is wanted."""
            self._headers_size, self._beside, self._begun = None, 0, True
            self._go_on()
            waits = self.cycle is not None and not self.cycle.response_complete
            super().on_headers_complete()  # which refuses an address that is none: nothing is noted of it
            if self.scope["method"] == "POST" and self.scope.get("path", "").endswith(BATCHES):
                self._note_batch(waits)

        def _note_batch(self, waits: bool) -> None:
            if waits:
                self.scope["state"][PIPELINED] = True
            elif (receipt := arrive(None if self._accepted is None else self._accepted.first)) is not None:
                self.scope["state"][RECEIPT] = receipt

        def on_message_complete(self) -> None:
            """Its last byte is there."""
            self.scope["state"][ENDED] = None if self._accepted is None else self._accepted.last
            super().on_message_complete()

        def on_response_complete(self) -> None:
            """Wait for the next one, if it is not there yet."""
            super().on_response_complete()
            if self.cycle.response_complete and not self.transport.is_closing():
                self._wait()

        def _wait(self) -> None:
            self._go_on()
            waiting[self] = None
            self._late = self.loop.call_later(seconds(), self.timeout_keep_alive_handler)

        def timeout_keep_alive_handler(self) -> None:
            """Close the connection; an answer that was not read is not waited for."""
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            else:
                super().timeout_keep_alive_handler()

        def _go_on(self) -> None:
            waiting.pop(self, None)
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Connection
