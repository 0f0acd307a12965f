"""When bytes arrived, as the kernel says: sockets that a service listens on, and their connections.

The thread that moves bytes shares the interpreter and the processor with all else that a service does. Under a flood it
reads bytes some time after they have arrived. Linux notes the moment with the bytes (`SO_TIMESTAMPNS`), and each read
asks for it. On other systems, and by a clock that is not the system's, the moment is that of the read.

**What is left.** Linux puts bytes that wait to be read together and keeps the last moment. So where the program reads
late, a head gets the moment of what followed it on its connection by then, such as a body that was sent apart from it.
All of these are its sender's own bytes; a request that is sent in one piece has the moment of that piece.

A connection that is accepted but not yet made, in a handshake of TLS, is counted here: so many at a time.

Sees bytes on their way; looks at none.
"""

from __future__ import annotations

import errno
import os
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
    """Where connections are accepted; those that are not yet made are counted here."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._fresh: dict[int, Accepted] = {}

    def begin(self, connection: Accepted) -> None:
        """Note a connection that was accepted; the oldest one ends if too many have not come further."""
        self._fresh[connection.fileno()] = connection
        if len(self._fresh) > self.most:
            with suppress(OSError):
                self._fresh.pop(next(iter(self._fresh))).shutdown(socket.SHUT_RDWR)

    def take(self, number: int) -> Accepted | None:
        """Return a connection that is made, or closed: from now on it is counted elsewhere, or not at all."""
        return self._fresh.pop(number, None)

    def listen(self, host: str, port: int, waiting: int = 2048) -> list[socket.socket]:
        """Return sockets that listen on all addresses of a host, of those kinds that the system has."""
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(addresses):
                try:
                    made = _Listening(self, family, kind, protocol)
                except OSError:  # such as IPv6, where the kernel has none
                    continue
                sockets.append(made)
                if sys.platform != "win32":  # where it would let two services have one port
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if NOTED is not None:
                    with suppress(OSError):  # a kernel that notes nothing: the moment is that of the read
                        made.setsockopt(socket.SOL_SOCKET, NOTED, 1)
                made.bind(address)
                made.listen(waiting)
        except OSError:
            for each in sockets:
                each.close()
            raise
        if not sockets:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return sockets


class _Listening(socket.socket):
    def __init__(self, arrivals: Arrivals, *given: int) -> None:
        super().__init__(*given)
        self.arrivals = arrivals

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its address."""
        made, address = super().accept()
        connection = Accepted(self.arrivals, made.family, made.type, made.proto, made.detach())
        self.arrivals.begin(connection)
        return connection, address


class Accepted(socket.socket):
    """A connection that knows when the bytes came that it read last: microseconds since 1970, if the kernel says."""

    first: int | None = None
    """Of the first byte …"""
    last: int | None = None
    """… and of the last one."""

    def __init__(self, arrivals: Arrivals, *given: int) -> None:
        super().__init__(*given)
        self._arrivals = arrivals

    def close(self) -> None:
        """Close it."""
        self._arrivals.take(self.fileno())
        super().close()

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return the next bytes."""
        if NOTED is None:
            return super().recv(size, flags)
        self._look()
        data, told, *_ = self.recvmsg(size, _SPACE, flags)
        self.last = _find_moment(told)
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0, /) -> int:
        """Read the next bytes into a buffer; return how many."""
        if NOTED is None:
            return super().recv_into(buffer, size, flags)
        self._look()
        read, told, *_ = self.recvmsg_into([memoryview(buffer)[: size or None]], _SPACE, flags)
        self.last = _find_moment(told)
        return read

    def _look(self) -> None:
        """Note when the first byte came that is read next."""
        _, told, *_ = self.recvmsg(1, _SPACE, socket.MSG_PEEK)
        self.first = _find_moment(told)


def _find_moment(told: list[tuple[int, int, bytes]]) -> int | None:
    """Return microseconds since 1970, if the kernel told when the bytes came."""
    for level, kind, data in told:
        if level == socket.SOL_SOCKET and kind == NOTED and len(data) >= _MOMENT.size:
            seconds, nanoseconds = _MOMENT.unpack_from(data)
            return int(seconds) * 1_000_000 + int(nanoseconds) // 1000
    return None
