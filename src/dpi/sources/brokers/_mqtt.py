"""MQTT: messages have no positions, so they are taken to an encrypted file as they come, as standard input is.

Each message counts as often as it is delivered. With `?qos=0` (unless said otherwise) that is at most once: what comes
while nobody follows is gone. With `?qos=1&client=NAME` or `qos=2` the server keeps what comes for this client while it
is away; `qos=1` is at least once between the server and this program, and a message that is sent twice counts twice.
What had been taken and was not stored when the program was killed is lost, and called so.

**An exception to the promise.** A message counts by the moment at which this reader has it, and a server discards what
a reader that is behind has not taken, without a word. So one user's flood can delay other users' messages beyond their
slot, or push them out. `dpi.broker` warns of it.

Sees messages on their way; keeps them encrypted until they are stored.
"""

from __future__ import annotations

import secrets
import threading
from typing import Any

from dpi.errors import OptionError, StateError
from dpi.sources._spool import Spooled
from dpi.sources.brokers._address import load_client
from dpi.sources.brokers._events import BrokerEvents
from dpi.sources.live import Done, Known
from dpi.sources.textual import Ndjson

CONNECTING = 10.0
"""Seconds that the first connection may take."""


class MqttTopic(Spooled):
    """The messages of one topic, or of a pattern of topics (`#`, `+`)."""

    def __init__(self, source: BrokerEvents, done: Done, known: Known) -> None:
        self.address = address = source.address
        address.check(("qos", "client", "tls"), "topic")
        super().__init__(f"mqtt:{address.name}", Ndjson(source.names), source.longest, done)
        said, self._id = address.options.get("qos", "0"), address.options.get("client")
        if said not in ("0", "1", "2"):
            raise OptionError("`qos` of an address must be 0, 1 or 2.")
        self._qos = int(said)
        if self._qos and not self._id:
            raise OptionError(
                "with `qos` 1 or 2 an address names the client for which messages are kept: ?qos=1&client=NAME."
            )
        self._mqtt = load_client("paho.mqtt.client", "mqtt")
        self._client: Any = None
        self._subscribed = threading.Event()

    def start(self, wake: threading.Event) -> None:
        """Take everything from now on, in the library's own thread."""
        paho, address = self._mqtt, self.address
        self._client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, self._id or f"dpi-{secrets.token_hex(8)}", clean_session=self._qos == 0
        )
        if address.user is not None:
            self._client.username_pw_set(address.user, address.password)
        if address.flag("tls"):
            self._client.tls_set()
        self._client.on_connect, self._client.on_disconnect = self._on_connect, self._on_disconnect
        self._client.on_subscribe, self._client.on_message = self._on_subscribe, self._on_message
        self._client.reconnect_delay_set(1, 5)
        try:
            self._client.connect(*address.host(8883 if address.flag("tls") else 1883))
        except OSError:
            raise self._unreachable() from None
        self._client.loop_start()
        if not self._subscribed.wait(CONNECTING):
            self.close()
            raise self._unreachable()

    def _unreachable(self) -> StateError:
        return StateError(f"{self.address.shown!r} cannot be reached, or does not let this reader in.")

    def _on_connect(self, connected: Any, data: object, flags: object, reason: Any, properties: object) -> None:
        if not reason.is_failure:
            connected.subscribe(self.address.name, self._qos)  # a session may have been forgotten

    def _on_subscribe(self, connected: object, data: object, number: int, reasons: Any, properties: object) -> None:
        if not any(reason.is_failure for reason in reasons):
            self.away = False
            self._subscribed.set()

    def _on_disconnect(self, connected: object, data: object, flags: object, reason: object, rest: object) -> None:
        self.away = True

    def _on_message(self, connected: object, data: object, message: Any) -> None:
        with self._grown:
            self._write(message.payload + b"\n")  # a message ends its last line

    def close(self) -> None:
        """Take no more, and remove what was written."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None
        super().close()
