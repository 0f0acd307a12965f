"""A witness of the public protocol, in this process, whose checks are those of `tlog-scales`, which is not ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tlog_scales.signing import NoteSignature, Vkey
from tlog_scales.tlog import Checkpoint, ConsistencyProof, ConsistencyProofInvalid
from tlog_scales.utils import b64dec


@dataclass
class Cosigner:
    """What one witness knows: the keys of logs, and of each log the size and root that it cosigned last."""

    name: str
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    logs: dict[str, Vkey] = field(default_factory=dict)
    seen: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    answer: tuple[int, str] | None = None
    """What it answers to anything, if it is to misbehave."""
    address: str = ""

    @property
    def vkey(self) -> Vkey:
        """Its public key."""
        return Vkey(self.name, None, 4, self.key.public_key().public_bytes_raw())

    def add_checkpoint(self, body: str) -> tuple[int, str]:
        """Status and text of an answer, as the protocol has it."""
        if self.answer is not None:
            return self.answer
        head, _, note = body.partition("\n\n")
        old_line, *proof = head.split("\n")
        checkpoint, old = Checkpoint.from_text(note), int(old_line.removeprefix("old "))
        if checkpoint.origin not in self.logs:
            return 404, "unknown log\n"
        try:
            checkpoint.verify(self.logs[checkpoint.origin])
        except (InvalidSignature, RuntimeError):
            return 403, "no known signature\n"
        size, root = self.seen.get(checkpoint.origin, (0, b""))
        if old > checkpoint.size:
            return 400, "old is larger\n"
        if old != size or (old == checkpoint.size and root != checkpoint.root_hash):
            return 409, f"{size}\n"
        if old:
            try:
                ConsistencyProof(old, checkpoint.size, [b64dec(line) for line in proof]).check(
                    root, checkpoint.root_hash
                )
            except ConsistencyProofInvalid:
                return 422, "not consistent\n"
        self.seen[checkpoint.origin] = checkpoint.size, checkpoint.root_hash
        now = int(time.time())
        said = f"cosignature/v1\ntime {now}\n{checkpoint.serialize_body()}"
        signature = NoteSignature.from_vkey_signature(self.vkey, now.to_bytes(8) + self.key.sign(said.encode()))
        self.vkey.get_verifier().verify_note(signature, checkpoint)
        return 200, signature.serialize() + "\n"

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Answer over HTTP on this machine."""
        cosigner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                known = self.path == "/add-checkpoint"
                status, text = cosigner.add_checkpoint(body) if known else (404, "")
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
