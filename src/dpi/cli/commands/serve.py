"""`dpi serve`: the service, from a configuration or as a demonstration; `dpi serve token`: who may do what with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dpi._version import how_to_install
from dpi.certificates.chain import Entry
from dpi.cli._errors import check_folder
from dpi.cli.options import Config, Json
from dpi.cli.output import document, note, say, table
from dpi.cli.streams import ANEW
from dpi.errors import OptionError
from dpi.events.slots import duration
from dpi.files import create_secret, need_posix
from dpi.service import config as stated
from dpi.settings.declaration import Flags, Setting
from dpi.settings.rules import read_size
from dpi.store import store_exists

if TYPE_CHECKING:
    from dpi.service.audit_log import AuditLog
    from dpi.service.tokens import Tokens

_HERE = "command line"
NEEDED = ("httpx", "msgspec", "prometheus_client", "pyarrow", "starlette", "uvicorn", "zstandard")


def serve(
    settings: Annotated[stated.Config, Flags("store host port")],
    body: Annotated[
        str, Setting("SIZE", "Largest body of a request, also unpacked.", stated.LIMITS, flag=False)
    ] = "16MiB",
    log: Annotated[
        Path | None, Setting("FILE", "File for logs; standard error unless given.", stated.NETWORK, flag=False)
    ] = None,
    demo: Annotated[bool, Setting("", "Serve a made-up shop with live visitors.")] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Serve streams over HTTP: events come in, releases go out by the public clock.

    Streams are those of the store, and those that the configuration names in tables such as [streams.visits]. Without
    TLS files or a proxy in front it listens on this machine alone. TLS, limits and the store's guards are set in
    [serve] of dpi.toml: docs/cli.md lists them. `dpi serve token` makes tokens, `dpi serve top` shows how it does.

    Examples:
      dpi serve --demo
      dpi serve token create --role curator
      dpi serve --config dpi.toml
      dpi serve top http://127.0.0.1:8321 --token-file curator.token
    """
    need_posix("a service")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise OptionError(f"a service needs {', '.join(missing)}: {how_to_install('service')}.")
    from dpi.service import logs
    from dpi.service.running import serve as start

    if demo:
        from dpi.cli._serve_demo import demonstrate

        demonstrate(settings.host, settings.port, json)
        return
    if settings.store is None:
        raise OptionError("`store` is required, on the command line or under [serve] of --config.")
    if len(config or ()) > 1:
        raise OptionError("a service has one configuration: name one file.")
    made = replace(settings, body=read_size(body, "body"))
    if config:
        tables = stated.read_streams(config[0])._asdict()
        made = replace(made, alerts=stated.read_alerts(config[0]), oidc=stated.read_oidc(config[0]), **tables)
    if settings.new:
        if store_exists(settings.store):
            raise OptionError("`new` begins a store where there is none. There is one: leave it out.")
        note(ANEW)
    url = f"{'http' if settings.certificate is None else 'https'}://{settings.host}:{settings.port}"

    def say_where() -> None:
        if json:
            document({"url": url, "streams": sorted(made.streams)})
        else:
            note(f"serving on {url}/v1; the page is at {url}/")

    logs.set_up(path=log)
    start(made, say_where, partial(_read_limits, config[0], _said_beside(config[0], made)) if config else None)


def _said_beside(path: Path, made: stated.Config) -> Mapping[str, object]:
    """Return the limits that the command line states, and not the file."""
    return {
        name: getattr(made, name) for name, value in stated.read_limits(path).items() if getattr(made, name) != value
    }


def _read_limits(path: Path, said: Mapping[str, object]) -> Mapping[str, object]:
    """Return the limits of a configuration as it is now; what the command line says wins."""
    return {**stated.read_limits(path), **said}


def token(
    action: Annotated[str, Setting("create|list|revoke", "create, list or revoke.", argument=True)],
    identity: Annotated[
        str | None, Setting("ID", "Id of the token to revoke, as `list` shows it.", argument=True)
    ] = None,
    role: Annotated[str | None, Setting("ROLE", "admin, curator, analyst or auditor.")] = None,
    name: Annotated[str, Setting("NAME", "Name for the list.")] = "",
    expires: Annotated[
        str | None, Setting("DURATION", "Time until it expires, such as 90d; never unless given.")
    ] = None,
    out: Annotated[Path | None, Setting("FILE", "Write the new token to this file, for its owner alone.")] = None,
    tokens: Annotated[Path, Setting("FILE", "The file of the service's tokens.")] = Path("tokens.json"),
    acts: Annotated[Path | None, Setting("FILE", "Log of administrative acts; acts.ndjson beside the tokens.")] = None,
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
    if out is not None and action in ("list", "revoke"):
        raise OptionError("`--out` is for `create`.")
    match action:
        case "create":
            _create_token(known, noted, role, name, expires, out, json)
        case "list":
            _list_tokens(known, json)
        case "revoke":
            if identity is None:
                raise OptionError("name the token to revoke by its id: see `dpi serve token list`.")
            known.revoke(identity)
            noted.note("token revoked", by=_HERE, about={"id": identity})
            say(f"{identity} opens nothing any more.")
        case _:
            raise OptionError(f"ask to create, list or revoke a token. Got {action!r}.")


def _create_token(
    known: Tokens, noted: AuditLog, role: str | None, name: str, expires: str | None, out: Path | None, json: bool
) -> None:
    """Make a token, note it, and hand it out once: printed, or in a file for its owner."""
    if role is None:
        raise OptionError("`--role` is required: admin, curator, analyst or auditor.")
    end = None if expires is None else _end(expires)
    if out is not None:  # before there is a token that would be lost
        if out.exists():
            raise OptionError(f"`--out` {str(out)!r} is there, and it is not replaced.")
        check_folder(out, "--out")
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


def _list_tokens(known: Tokens, json: bool) -> None:
    """Print the tokens, without what opens anything."""
    entries = known.entries()
    if json:
        shown = ("id", "role", "name", "expires", "revoked")
        document({"tokens": [{field: getattr(each, field) for field in shown} for each in entries]})
    else:
        rows = [(e.id, e.role, e.name, e.expires or "never", "revoked" if e.revoked else "") for e in entries]
        table(["id", "role", "name", "expires", ""], rows, left=5)


def _end(text: str) -> datetime:
    try:
        return datetime.now(UTC) + timedelta(microseconds=duration(text, "expires"))
    except OverflowError:
        raise OptionError(f"`--expires` must be a duration such as 90d. Got {text!r}.") from None
