"""`dpi serve token`: who may do what with a service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from dpi.certificates.chain import Entry
from dpi.cli.options import Json
from dpi.cli.output import document, note, say, table
from dpi.errors import OptionError
from dpi.events.slots import duration
from dpi.files import create_secret
from dpi.settings.declaration import Setting

_HERE = "command line"


def token(
    action: Annotated[str, Setting("create|list|revoke", "What to do.", argument=True)],
    identity: Annotated[str | None, Setting("ID", "Which one to revoke, as `list` names it.", argument=True)] = None,
    role: Annotated[str | None, Setting("ROLE", "admin, curator, analyst or auditor.")] = None,
    name: Annotated[str, Setting("NAME", "Whose it is, for the list.")] = "",
    expires: Annotated[str | None, Setting("DURATION", "From now on, such as 90d; never unless given.")] = None,
    out: Annotated[Path | None, Setting("FILE", "Write the new token to this file, for its owner alone.")] = None,
    tokens: Annotated[Path, Setting("FILE", "The file of the service's tokens.")] = Path("tokens.json"),
    acts: Annotated[Path | None, Setting("FILE", "Where it is noted; acts.ndjson beside the tokens.")] = None,
    json: Json = False,
) -> None:
    """Make, list and revoke the tokens of a service. A new one is printed once, or written to --out.

    The service's file keeps a hash of it.

    A running service hears of it at once. Roles: an admin opens and changes streams, a curator brings events, an
    analyst reads releases and asks questions, an auditor reads the chain.

    Examples:
      dpi serve token create --role curator --name gate --expires 90d --out curator.token
      dpi serve token list
      dpi serve token revoke 5f0c3f8e7a6b1d42
    """
    from dpi.service.audit_log import AuditLog
    from dpi.service.tokens import Tokens

    known, noted = Tokens(tokens), AuditLog(tokens.with_name("acts.ndjson") if acts is None else acts)
    match action:
        case "create":
            if role is None:
                raise OptionError("`--role` must be said: admin, curator, analyst or auditor.")
            end = None if expires is None else _end(expires)
            if out is not None:
                _check_new(out)
            made = known.create(role, name=name, expires=end)
            about: Entry = {"id": made.split("_")[1], "role": role, "name": name}
            noted.note("token created", by=_HERE, about=about)
            if out is not None:
                create_secret(out, made.encode() + b"\n")
            if json:
                document({"token": made, "role": role} if out is None else {"file": str(out), "role": role})
            elif out is not None:
                note(f"the token is in {out}, which its owner alone may read: keep it like a password.")
            else:
                print(made)
                note("this token is shown once: keep it like a password.")
        case "list" | "revoke" if out is not None:
            raise OptionError("`--out` is for `create`.")
        case "list":
            entries = known.entries()
            if json:
                plain = [{"id": e.id, "role": e.role, "name": e.name, "expires": e.expires, "revoked": e.revoked}
                         for e in entries]  # fmt: skip
                document({"tokens": plain})
            else:
                rows = [(e.id, e.role, e.name, e.expires or "never", "revoked" if e.revoked else "") for e in entries]
                table(["id", "role", "name", "expires", ""], rows, left=5)
        case "revoke":
            if identity is None:
                raise OptionError("name the token to revoke by its id: see `dpi serve token list`.")
            known.revoke(identity)
            noted.note("token revoked", by=_HERE, about={"id": identity})
            say(f"{identity} opens nothing any more.")
        case _:
            raise OptionError(f"ask to create, list or revoke a token. Got {action!r}.")


def _check_new(out: Path) -> None:
    """Refuse a file that cannot be made, before there is a token that would be lost."""
    if out.exists():
        raise OptionError(f"`--out` {str(out)!r} is there, and it is not replaced.")
    if not out.absolute().parent.is_dir():
        raise OptionError(f"`--out` must lie in a folder that exists. Got {str(out)!r}.")


def _end(text: str) -> datetime:
    try:
        return datetime.now(UTC) + timedelta(microseconds=duration(text, "expires"))
    except OverflowError:
        raise OptionError(f"`--expires` must be a duration such as 90d. Got {text!r}.") from None
