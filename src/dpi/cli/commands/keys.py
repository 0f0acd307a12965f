"""`dpi keys`: a pair of keys for signing the chain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.certificates.signature import Signer
from dpi.cli.config import Config
from dpi.cli.options import Json
from dpi.cli.output import document, say
from dpi.errors import OptionError


def keys(
    private: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="Where the private key goes.")],
    public: Annotated[
        Path | None,
        typer.Option("--public", metavar="FILE", help="Where the public key goes; FILE with .pub unless given."),
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Make a pair of Ed25519 keys: the private one, for its owner alone, signs; the public one checks.

    Examples:
      dpi keys signing.pem
      dpi run … --sign signing.pem
      dpi verify visits.db --public-key signing.pub
    """
    shown = private.with_suffix(".pub") if public is None else public
    for path in (private, shown):
        if not path.absolute().parent.is_dir():
            raise OptionError(f"{path} must lie in a folder that exists.")
        if path.exists():
            raise OptionError(f"{path} exists already; it is not replaced.")
    verifier = Signer.open(private).verifier
    shown.write_text(verifier.pem())
    if json:
        document({"private": str(private), "public": str(shown), "fingerprint": verifier.fingerprint})
    else:
        say(
            f"{private}: keep it secret (its permissions are 600).",
            f"{shown}: give it to those who verify.",
            f"Its fingerprint (SHA-256): {verifier.fingerprint}",
        )
