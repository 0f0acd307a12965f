"""Talking to a service: its streams as if they were here, to feed and to read."""

from dpi.client._connection import Connection, connect
from dpi.client._stream import RemoteStream

__all__ = ["Connection", "RemoteStream", "connect"]
