"""Connections: how many there are, and how long one may take to say what it wants.

A server by itself waits for the rest of a request for ever. Here a connection that is not being answered is closed
after a while: one that says nothing, that sends its headers byte by byte, that goes on sending what was refused, or
that stays after its answer. (The body of a request and the reading of an answer have limits of their own, in
`dpi.service.endpoints` and `dpi.service.app`.) Headers are limited in bytes, connections in number.

Sees bytes on their way to the parser; looks at none.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS = 10.0
"""Seconds until the headers of a request are there, from the beginning of the connection or the last answer."""
IDLE = 5
"""Seconds that a connection may say nothing after an answer."""
LARGEST_HEADERS = 1 << 16
"""Bytes."""
LEAVE = "leave"
"""Where a request's state has what ends its connection at once: closing alone would wait for what is not read."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def limited(most: int, seconds: float) -> type[HttpToolsProtocol]:
    """A server's connections: at most so many, each of which has so many seconds to say what it wants."""

    class Connection(HttpToolsProtocol):
        """One connection."""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._late: asyncio.TimerHandle | None = None
            self._headers_size: int | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin to wait for a request, or refuse to."""
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(FULL)
                transport.close()
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            """Nothing is waited for any more."""
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
            """A request begins: its headers are counted."""
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
