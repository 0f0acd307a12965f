"""Ed25519 signatures of a chain, with keys in files: the private one is its owner's alone.

A chain goes on under a new key when the old one was stolen or is due. A file of public keys then has all of them, the
oldest first. Along a chain a key never comes back, and the last entry must be signed with the newest: who has stolen an
older key cannot make a chain that such a file accepts.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpi.errors import OptionError
from dpi.files import create_secret, read_secret, write_file

if TYPE_CHECKING:
    import os

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


@dataclass(frozen=True, repr=False)
class Signer:
    """Signs digests.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/signing.pem"
    >>> signer = Signer.open(path)
    >>> signature = signer.sign("00ff")
    >>> signer.verifier.verify("00ff", signature), signer.verifier.verify("00fe", signature)
    (True, False)
    """

    key: Ed25519PrivateKey
    older: tuple[Ed25519PublicKey, ...] = ()
    """Keys that the chain was signed with before this one, as the file of public keys beside it says."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Signer:
        """Return the signer of a private key file, made with owner-only permissions if there is none."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if not Path(path).exists():
            pem = Ed25519PrivateKey.generate().private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            create_secret(path, pem)
        try:
            key = serialization.load_pem_private_key(read_secret(path), password=None)
        except (ValueError, TypeError):
            raise OptionError(f"{path} holds no private Ed25519 key in PEM form.") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise OptionError(f"{path} holds no Ed25519 key.")
        with suppress(OptionError):  # no such file, or another's
            beside = Verifier.open(Path(path).with_suffix(".pub"))
            if beside.key.public_bytes_raw() == key.public_key().public_bytes_raw():
                return cls(key, beside.older)
        return cls(key)

    def sign(self, digest: str) -> str:
        """Return the signature of a digest, as hexadecimal text."""
        return self.key.sign(digest.encode()).hex()

    @property
    def verifier(self) -> Verifier:
        """What others need to check the signatures."""
        return Verifier(self.key.public_key(), self.older)


def create_pair(private: Path, older: tuple[Ed25519PublicKey, ...] = ()) -> Verifier:
    """Make a private key in a file of its owner's alone, and beside it the file of public keys; replace neither."""
    public = private.with_suffix(".pub")
    for path in (private, public):
        if not path.absolute().parent.is_dir():
            raise OptionError(f"{path} must lie in a folder that exists.")
        if path.exists():
            raise OptionError(f"{path} exists already; it is not replaced.")
    made = Verifier(Signer.open(private).verifier.key, older)
    write_file(public, made.pem().encode(), mode=0o644)
    return made


@dataclass(frozen=True)
class Verifier:
    """Checks signatures."""

    key: Ed25519PublicKey
    """The newest key."""
    older: tuple[Ed25519PublicKey, ...] = ()
    """Those before it, the oldest first."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Verifier:
        """Return the verifier of a file of public keys: one, or several with the oldest first."""
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise OptionError(f"{path} cannot be read: {error.strerror}.") from None
        return cls.from_pem(text, str(path))

    @classmethod
    def from_pem(cls, text: bytes, name: str = "the text") -> Verifier:
        """Return the verifier of public keys in PEM form, the oldest first; `name` is what errors call the text."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        begin = b"-----BEGIN PUBLIC KEY-----"
        keys: list[Ed25519PublicKey] = []
        for part in text.split(begin)[1:] or [b""]:
            try:
                key = serialization.load_pem_public_key(begin + part)
            except ValueError:
                raise OptionError(f"{name} holds no public key in PEM form.") from None
            if not isinstance(key, Ed25519PublicKey):
                raise OptionError(f"{name} holds no Ed25519 key.")
            keys.append(key)
        return cls(keys[-1], tuple(keys[:-1]))

    @property
    def keys(self) -> tuple[Ed25519PublicKey, ...]:
        """All keys, the oldest first."""
        return (*self.older, self.key)

    def pem(self) -> str:
        """Return the public keys, for a file."""
        return b"".join(self._encoded(pem=True)).decode()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the public keys' DER forms, one after the other: what people compare."""
        return hashlib.sha256(b"".join(self._encoded(pem=False))).hexdigest()

    def _encoded(self, *, pem: bool) -> list[bytes]:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        form = Encoding.PEM if pem else Encoding.DER
        return [key.public_bytes(form, PublicFormat.SubjectPublicKeyInfo) for key in self.keys]

    def verify(self, digest: str, signature: str) -> bool:
        """Whether the signature is of this digest and one of the keys, in the one way in which it is written."""
        return self.place(digest, signature) is not None

    def place(self, digest: str, signature: str | None, since: int = 0) -> int | None:
        """Return which key has signed a digest, from number `since` on; None if none of them has."""
        from cryptography.exceptions import InvalidSignature

        try:
            raw = bytes.fromhex(signature or "")
        except ValueError:
            return None
        if raw.hex() != signature:
            return None
        for number, key in enumerate(self.keys[since:], since):
            try:
                key.verify(raw, digest.encode())
            except InvalidSignature:
                continue
            return number
        return None
