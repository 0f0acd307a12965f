"""`dpi keys`: a pair of keys for signing the chain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dpi.certificates.signature import Signer
from dpi.cli.options import Json
from dpi.cli.output import answer
from dpi.errors import OptionError
from dpi.settings.declaration import Setting


def keys(
    private: Annotated[Path, Setting("FILE", "Where the private key goes.", argument=True)],
    json: Json = False,
) -> None:
    """Make a pair of Ed25519 keys: the private one, for its owner alone, signs; the public one checks.

    Examples:
      dpi keys signing.pem
      dpi run … --config sign=signing.pem
      dpi verify visits.db --public-key signing.pub
    """
    public = private.with_suffix(".pub")
    for path in (private, public):
        if not path.absolute().parent.is_dir():
            raise OptionError(f"{path} must lie in a folder that exists.")
        if path.exists():
            raise OptionError(f"{path} exists already; it is not replaced.")
    verifier = Signer.open(private).verifier
    public.write_text(verifier.pem())
    answer(
        json,
        {"private": str(private), "public": str(public), "fingerprint": verifier.fingerprint},
        f"{private}: keep it secret (its permissions are 600).",
        f"{public}: give it to those who verify.",
        f"Its fingerprint (SHA-256): {verifier.fingerprint}",
    )
