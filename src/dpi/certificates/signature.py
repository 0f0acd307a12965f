"""Ed25519 signatures of a chain, with keys in files: the private one is its owner's alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpi.errors import OptionError
from dpi.files import create_secret, read_secret

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

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Signer:
        """The signer of a private key file, made with owner-only permissions if there is none."""
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
        return cls(key)

    def sign(self, digest: str) -> str:
        """The signature of a digest, as hexadecimal text."""
        return self.key.sign(digest.encode()).hex()

    @property
    def verifier(self) -> Verifier:
        """What others need to check the signatures."""
        return Verifier(self.key.public_key())


@dataclass(frozen=True)
class Verifier:
    """Checks signatures."""

    key: Ed25519PublicKey

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Verifier:
        """The verifier of a public key file."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            key = serialization.load_pem_public_key(Path(path).read_bytes())
        except OSError as error:
            raise OptionError(f"{path} cannot be read: {error.strerror}.") from None
        except ValueError:
            raise OptionError(f"{path} holds no public key in PEM form.") from None
        if not isinstance(key, Ed25519PublicKey):
            raise OptionError(f"{path} holds no Ed25519 key.")
        return cls(key)

    def pem(self) -> str:
        """Return the public key, for a file."""
        return self._encoded(pem=True).decode()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the public key's DER form: what people compare."""
        return hashlib.sha256(self._encoded(pem=False)).hexdigest()

    def _encoded(self, *, pem: bool) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.key.public_bytes(Encoding.PEM if pem else Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def verify(self, digest: str, signature: str) -> bool:
        """Whether the signature is of this digest and key, in the one way in which it is written."""
        from cryptography.exceptions import InvalidSignature

        try:
            raw = bytes.fromhex(signature)
            self.key.verify(raw, digest.encode())
        except (InvalidSignature, ValueError):
            return False
        return raw.hex() == signature
