"""Hooks: a webhook with a signature, and e-mail by SMTP. They know texts and addresses, and show no secret."""

from __future__ import annotations

import hashlib
import hmac
import smtplib
import ssl
import time
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

import httpx

from dpi.service.alerts.message import Message

SECONDS = 10.0
"""How long a receiver may take to answer."""


@dataclass(frozen=True)
class Webhook:
    """POSTs the document to an address; taken if the answer is of 2xx. Redirections are not followed."""

    url: str
    secret: bytes = field(repr=False)

    def send(self, message: Message) -> None:
        """Deliver it, signed: `Dpi-Signature` is HMAC-SHA256 of the timestamp, a dot and the body, in hexadecimal."""
        body, at = message.to_json(), str(int(time.time()))
        headers = {
            "content-type": "application/json",
            "dpi-alert": message.id,
            "dpi-timestamp": at,
            "dpi-signature": signature(self.secret, at, body),
        }
        httpx.post(self.url, content=body, headers=headers, timeout=SECONDS).raise_for_status()


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """What a receiver compares (`hmac.compare_digest`), and refuses if the timestamp is old.

    >>> signature(b"secret", "1767225600", b"{}")[:16]
    'sha256=fa7eaa06b'
    """
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Server:
    """A mail server, and who sends."""

    host: str
    sender: str
    port: int = 587
    starttls: bool = True
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    trusted: Path | None = None
    """A file of certificates that are trusted in place of the system's."""


@dataclass(frozen=True)
class Mail:
    """Sends the sentence and the facts by e-mail; the id is in `Message-ID`, by which repeats are dropped."""

    server: Server
    to: tuple[str, ...]

    def send(self, message: Message) -> None:
        """Deliver it to everybody; raises if the server refuses any of them."""
        server, letter = self.server, self._letter(message)
        with smtplib.SMTP(server.host, server.port, timeout=SECONDS) as connection:
            if server.starttls:
                trusted = None if server.trusted is None else str(server.trusted)
                connection.starttls(context=ssl.create_default_context(cafile=trusted))
            if server.user is not None:
                connection.login(server.user, server.password or "")
            refused = connection.send_message(letter)
        if refused:
            raise ConnectionRefusedError

    def _letter(self, message: Message) -> EmailMessage:
        letter = EmailMessage()
        letter["From"], letter["To"] = self.server.sender, ", ".join(self.to)
        letter["Date"], letter["Message-ID"] = formatdate(), f"<{message.id}@dpi.invalid>"
        about = f"{message.kind}, {message.stream}" if message.stream else message.kind
        letter["Subject"] = f"dpi: {about.splitlines()[0]}"
        facts = "".join(f"{name}: {value}\n" for name, value in sorted(message.facts.items()))
        letter.set_content(f"{message.sentence}\n\n{facts}\nid: {message.id}\n")
        return letter
