"""Receivers of alerts that run in a test: a webhook, and a mail server with TLS."""

from __future__ import annotations

import datetime
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Receiver:
    """What a webhook got, and what it answers: the statuses in their order, then 204."""

    def __init__(self, *statuses: int) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.statuses = list(statuses)
        self.url = ""

    @property
    def messages(self) -> list[dict[str, object]]:
        """The documents."""
        return [json.loads(body) for _, body in list(self.got)]


@contextmanager
def webhook(*statuses: int, port: int = 0) -> Iterator[Receiver]:
    """A receiver until the test ends."""
    receiver = Receiver(*statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def until(holds: Callable[[], object], seconds: float = 15.0) -> bool:
    """Whether something holds in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate of this machine that nobody else trusts: its file, and what a server needs of it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / "smtp.pem", folder / "smtp.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    return pem, context
