"""Talking to a service: its streams as if they were here, to feed and to read."""

from dpi.client.connection import Connection, connect
from dpi.client.stream import RemoteStream

__all__ = ["Connection", "RemoteStream", "connect"]
