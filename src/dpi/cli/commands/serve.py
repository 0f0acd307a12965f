"""`dpi serve`: the service, from a configuration or as a demonstration."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from dpi._version import how_to_install
from dpi.cli.options import Config, Json
from dpi.cli.output import document, note
from dpi.cli.streams import ANEW, StoreSettings
from dpi.errors import OptionError
from dpi.settings.declaration import STORE, Flags, Setting
from dpi.settings.rules import read_size
from dpi.store import store_exists

NETWORK, LIMITS = "Network", "Limits"
NEEDED = ("httpx", "msgspec", "prometheus_client", "starlette", "uvicorn", "zstandard")


@dataclass(frozen=True, kw_only=True)
class ServeSettings(StoreSettings):
    """What a service is told, beside its streams."""

    tokens: Annotated[Path, Setting("FILE", "As dpi serve token makes it.", NETWORK)] = Path("tokens.json")
    host: Annotated[str, Setting("ADDRESS", "Where to listen.", NETWORK)] = "127.0.0.1"
    port: Annotated[int, Setting("N", "Where to listen.", NETWORK)] = 8321
    certificate: Annotated[Path | None, Setting("FILE", "Of TLS.", NETWORK)] = None
    private_key: Annotated[Path | None, Setting("FILE", "Of TLS.", NETWORK)] = None
    behind_proxy: Annotated[bool, Setting("", "A proxy in front does TLS.", NETWORK)] = False
    delay: Annotated[str, Setting("DURATION", "A release is seen so long after its slot has closed.", LIMITS)] = "1s"
    requests: Annotated[int, Setting("N", "Batches taken at a time.", LIMITS)] = 32
    of_one_token: Annotated[int, Setting("N", "Batches of one, with waiting.", LIMITS)] = 64
    patience: Annotated[float, Setting("SECONDS", "For a body or a reader.", LIMITS)] = 30.0
    connections: Annotated[int, Setting("N", "At a time, readers included.", LIMITS)] = 800
    lease: Annotated[str, Setting("DURATION", "On PostgreSQL: silence of a replica.", STORE)] = "10s"
    acts: Annotated[Path | None, Setting("FILE", "The log of acts; acts.ndjson beside the tokens.", NETWORK)] = None
    keep_measurements: Annotated[int | None, Setting("SLOTS", "As dpi ledger compact; all unless given.", STORE)] = None


def serve(
    settings: Annotated[ServeSettings, Flags("store host port")],
    body: Annotated[str, Setting("SIZE", "Of one request, also unpacked.", LIMITS, flag=False)] = "16MiB",
    log: Annotated[Path | None, Setting("FILE", "Logs; else standard error.", NETWORK, flag=False)] = None,
    demo: Annotated[bool, Setting("", "Serve a made-up shop whose visitors come and go while you look.")] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Serve streams over HTTP: events come in, releases go out by the public clock.

    Streams are those of the store, and those that the configuration names in tables such as [streams.visits]. Without
    TLS files or a proxy in front it listens on this machine alone. TLS, limits and the store's guards are said in
    [serve] of dpi.toml: docs/cli.md lists them. `dpi serve token` makes tokens, `dpi serve top` shows how it does.

    Examples:
      dpi serve --demo
      dpi serve token create --role curator
      dpi serve --config dpi.toml
      dpi serve top http://127.0.0.1:8321 --token-file curator.token
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise OptionError(f"a service needs {', '.join(missing)}: {how_to_install('service')}.")
    from dpi.service import config as stated
    from dpi.service import logs
    from dpi.service.running import serve as start

    if demo:
        from dpi.cli._serve_demo import demonstrate

        demonstrate(settings.host, settings.port, json)
        return
    if settings.store is None:
        raise OptionError("`store` must be said, on the command line or under [serve] of --config.")
    if len(config or ()) > 1:
        raise OptionError("a service has one configuration: name one file.")
    file = config[0] if config else None
    streams, keys, sources = ({}, {}, {}) if file is None else stated.read_streams(file)
    made = stated.Config(
        **vars(settings),
        body=read_size(body, "body"),
        alerts=None if file is None else stated.read_alerts(file),
        streams=streams,
        keys=keys,
        oidc=None if file is None else stated.read_oidc(file),
        sources=sources,
    )
    if settings.new:
        if store_exists(settings.store):
            raise OptionError("`new` begins a store where there is none. There is one: leave it out.")
        note(ANEW)
    url = f"{'http' if settings.certificate is None else 'https'}://{settings.host}:{settings.port}"
    if json:
        document({"url": url, "streams": sorted(streams)})
    else:
        note(f"serving on {url}/v1; the page is at {url}/")
    logs.set_up(path=log)
    start(made)
