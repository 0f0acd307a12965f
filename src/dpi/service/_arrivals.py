"""When bytes arrived, as the kernel says: sockets that a service listens on, and their connections.

The thread that moves bytes shares the interpreter and the processor with all else that a service does. Under a flood it
reads bytes some time after they have arrived. Linux notes the moment with the bytes (`SO_TIMESTAMPNS`), and each read
asks for it. On other systems, and by a clock that is not the system's, the moment is that of the read.

**What is left.** Linux puts bytes that wait to be read together and keeps the last moment. So the head of a request
that is sent in pieces may get the moment of a later piece, of those that came before the head was read. All of these
are its sender's own bytes.

A connection that is accepted but not yet made, in a handshake of TLS, is counted here: so many at a time.

Sees bytes on their way; looks at none.
"""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress
from typing import Any

NOTED = 35 if sys.platform == "linux" else None
"""`SO_TIMESTAMPNS`, which the standard library does not name."""
_MOMENT = struct.Struct("@qq")  # seconds and nanoseconds
_SPACE = socket.CMSG_SPACE(_MOMENT.size) if NOTED is not None else 0


class Arrivals:
    """The moments of the bytes that were read last: microseconds since 1970, or None where the kernel says nothing.

    One thread reads, and what it has read is handed on before it reads again.
    """

    def __init__(self, most: int) -> None:
        self.first: int | None = None
        """Of the first byte …"""
        self.last: int | None = None
        """… and of the last one."""
        self._most = most
        self._fresh: dict[int, socket.socket] = {}

    def begin(self, connection: socket.socket) -> None:
        """Note a connection that was accepted; the oldest one ends if too many have not come further."""
        self._fresh[connection.fileno()] = connection
        if len(self._fresh) > self._most:
            with suppress(OSError):
                self._fresh.pop(next(iter(self._fresh))).shutdown(socket.SHUT_RDWR)

    def forget(self, number: int) -> None:
        """Note that a connection is made, or closed: it is counted elsewhere, or not at all."""
        self._fresh.pop(number, None)

    def listen(self, host: str, port: int) -> list[socket.socket]:
        """Return sockets that listen on all addresses of a host, and whose connections note here when bytes came."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                sockets.append(made := _Listening(self, family, kind, protocol))
                if sys.platform != "win32":  # where it would let two services have one port
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if NOTED is not None:
                    made.setsockopt(socket.SOL_SOCKET, NOTED, 1)
                made.bind(address)
        except OSError:
            for each in sockets:
                each.close()
            raise
        return sockets


class _Listening(socket.socket):
    def __init__(self, arrivals: Arrivals, *given: int) -> None:
        super().__init__(*given)
        self.arrivals = arrivals

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its address."""
        made, address = super().accept()
        connection = _Connection(self.arrivals, made.family, made.type, made.proto, made.detach())
        self.arrivals.begin(connection)
        return connection, address


class _Connection(socket.socket):
    def __init__(self, arrivals: Arrivals, *given: int) -> None:
        super().__init__(*given)
        self._arrivals = arrivals

    def close(self) -> None:
        """Close it."""
        self._arrivals.forget(self.fileno())
        super().close()

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return the next bytes."""
        if NOTED is None:
            return super().recv(size, flags)
        self._look()
        data, told, *_ = self.recvmsg(size, _SPACE, flags)
        self._arrivals.last = _find_moment(told)
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0, /) -> int:
        """Read the next bytes into a buffer; return how many."""
        if NOTED is None:
            return super().recv_into(buffer, size, flags)
        self._look()
        read, told, *_ = self.recvmsg_into([memoryview(buffer)[: size or None]], _SPACE, flags)
        self._arrivals.last = _find_moment(told)
        return read

    def _look(self) -> None:
        """Note when the first byte came that is read next."""
        _, told, *_ = self.recvmsg(1, _SPACE, socket.MSG_PEEK)
        self._arrivals.first = _find_moment(told)


def _find_moment(told: list[tuple[int, int, bytes]]) -> int | None:
    """Return microseconds since 1970, if the kernel told when the bytes came."""
    for level, kind, data in told:
        if level == socket.SOL_SOCKET and kind == NOTED and len(data) >= _MOMENT.size:
            seconds, nanoseconds = _MOMENT.unpack_from(data)
            return int(seconds) * 1_000_000 + int(nanoseconds) // 1000
    return None
