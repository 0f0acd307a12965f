"""Checkpoints of a chain as signed notes: who publishes the chain signs its size and root, and witnesses cosign them.

The formats are those of the public witness network: signed-note, tlog-checkpoint and tlog-cosignature of C2SP, with
Ed25519. A checkpoint holds an origin (a public name of the chain), the number of entries and the root of their tree
(`dpi.certificates.tree`); it is a function of the chain, and so of releases. A cosignature adds the witness's clock.
A note's text has line ends and a digest of the chain has none, so a signature of one is never one of the other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dpi.errors import OptionError

if TYPE_CHECKING:
    from dpi.certificates.signature import Signer

SIGNED, COSIGNED = 1, 4
"""Types of keys: Ed25519 over a note's text, and Ed25519 over the text with a time, as witnesses sign."""
MOST_SIGNATURES = 100
"""Lines of signatures that a note may have; the format asks for at least 16."""
_NAME = re.compile(r"[^\s+]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True)
class NoteKey:
    """A public key of a note, as it is written in one word: name, number and key.

    >>> key = NoteKey.from_text("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
    >>> key.name, key.kind, key.number.hex()
    ('example.com/foo', 1, '530d903a')
    """

    name: str
    kind: int
    key: bytes

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the key; raise `OptionError` if it is none that this program can check."""
        name, _, rest = text.partition("+")
        number, _, body = rest.partition("+")
        raw = _decoded(body)
        if not _NAME.fullmatch(name) or raw is None or not re.fullmatch("[0-9a-f]{8}", number):
            raise OptionError(f"{text!r} is no key of a signed note: it must be NAME+NUMBER+KEY.")
        note_key = cls(name, raw[0] if raw else 0, raw[1:])
        if note_key.kind not in (SIGNED, COSIGNED) or len(note_key.key) != 32:
            raise OptionError(f"the key of {name} is no Ed25519 key: this program checks no other.")
        if note_key.number.hex() != number:
            raise OptionError(f"the key of {name} has another number than it states.")
        return note_key

    @property
    def text(self) -> str:
        """The key in one word."""
        return f"{self.name}+{self.number.hex()}+{base64.b64encode(bytes([self.kind]) + self.key).decode()}"

    @property
    def number(self) -> bytes:
        """The four bytes by which a signature names its key."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.key).digest()[:4]

    def time_signed(self, text: str, signature: bytes) -> int | None:
        """Return when a text was signed, in seconds since 1970 (0 where no time is signed); None if it was not."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        time, raw, said = 0, signature, text
        if self.kind == COSIGNED:
            time, raw = int.from_bytes(signature[:8]), signature[8:]
            said = f"cosignature/v1\ntime {time}\n{text}"
        if len(raw) != 64 or time >= 1 << 63:
            return None
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(raw, said.encode())
        except (InvalidSignature, ValueError):
            return None
        return time


@dataclass(frozen=True)
class Checkpoint:
    """A chain's size and root, and who has signed them."""

    text: str
    signatures: tuple[tuple[str, bytes, bytes], ...] = ()
    """Of each signature the signer's name, the number of the key and the bytes."""

    @classmethod
    def of_chain(cls, origin: str, size: int, root: bytes) -> Self:
        """Return a checkpoint that nobody has signed."""
        if not _NAME.fullmatch(origin) or not origin.isprintable():
            raise OptionError(
                f"`origin` must be a name without spaces and +, such as example.com/visits. Got {origin!r}."
            )
        return cls(f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n")

    @classmethod
    def from_note(cls, note: str) -> Self:
        """Return what a note says; raise `OptionError` if it is no checkpoint. Signatures are not checked here."""
        text, gap, lines = note.rpartition("\n\n")
        rows = lines.split("\n")
        checkpoint = cls(text + "\n", tuple(_signature(row) for row in rows[:-1]))
        parts = checkpoint.text.split("\n")
        plain = all(letter >= " " or letter == "\n" for letter in note)
        if not gap or rows[-1] or not 0 < len(checkpoint.signatures) <= MOST_SIGNATURES or not plain:
            raise _malformed()
        if len(parts) < 4 or not all(parts[:-1]) or not _NUMBER.fullmatch(parts[1]):
            raise _malformed()
        if len(_decoded(parts[2]) or b"") != 32:
            raise _malformed()
        return checkpoint

    @property
    def note(self) -> str:
        """The checkpoint with its signatures, as it is published."""
        lines = [f"— {name} {base64.b64encode(number + raw).decode()}\n" for name, number, raw in self.signatures]
        return self.text + "\n" + "".join(lines)

    @property
    def origin(self) -> str:
        """The public name of the chain."""
        return self.text.split("\n")[0]

    @property
    def size(self) -> int:
        """How many entries the chain had."""
        return int(self.text.split("\n")[1])

    @property
    def root(self) -> bytes:
        """The root of the tree of its entries."""
        return base64.b64decode(self.text.split("\n")[2])

    def signed(self, signer: Signer) -> Self:
        """Return the checkpoint with the signature of who publishes the chain, in the origin's name."""
        key = log_key(self.origin, signer)
        return self.joined([(key.name, key.number, signer.key.sign(self.text.encode()))])

    def joined(self, signatures: Iterable[tuple[str, bytes, bytes]]) -> Self:
        """Return the checkpoint with further signatures."""
        return type(self)(self.text, tuple(dict.fromkeys((*self.signatures, *signatures))))

    def time_signed(self, key: NoteKey) -> int | None:
        """Return when a key has signed; None if it has not. One wrong signature in its name is as good as none."""
        mine = [raw for name, number, raw in self.signatures if (name, number) == (key.name, key.number)]
        times = [key.time_signed(self.text, raw) for raw in mine]
        return None if not times or None in times else max(time for time in times if time is not None)


def log_key(origin: str, signer: Signer) -> NoteKey:
    """Return the public key of who publishes a chain under this origin."""
    return log_keys(origin, signer)[-1]


def log_keys(origin: str, signer: Signer) -> list[NoteKey]:
    """Return the same with the keys that it had before, the oldest first."""
    return [NoteKey(origin, SIGNED, key.public_bytes_raw()) for key in signer.verifier.keys]


def signatures_in(text: str) -> tuple[tuple[str, bytes, bytes], ...]:
    """Return the signatures of a witness's answer; raise `OptionError` if it is none."""
    lines = text.split("\n")
    if lines[-1] or not 1 < len(lines) <= MOST_SIGNATURES + 1:
        raise _malformed()
    return tuple(_signature(line) for line in lines[:-1])


def _signature(line: str) -> tuple[str, bytes, bytes]:
    dash, name, body, *more = [*line.split(" "), "", ""]
    raw = _decoded(body)
    if dash != "—" or not _NAME.fullmatch(name) or raw is None or len(raw) <= 4 or any(more):
        raise _malformed()
    return name, raw[:4], raw[4:]


def _decoded(text: str) -> bytes | None:
    """Return what a text in base 64 says, if it says it in the one way in which it is written."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def _malformed() -> OptionError:
    return OptionError("this is no checkpoint: it must be a signed note of origin, size and root.")
