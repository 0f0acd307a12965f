"""`dpi serve`: the service, from a configuration or as a demonstration."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from dpi._version import how_to_install
from dpi.cli.config import Config
from dpi.cli.options import ANEW, STORE, Json, KeyFile, NewStore, NoWitness, SigningKey, WitnessFile
from dpi.cli.output import document, note
from dpi.errors import OptionError
from dpi.settings.budgets import size
from dpi.store import store_exists

NETWORK, LIMITS = "Network", "Limits"
NEEDED = ("httpx", "msgspec", "prometheus_client", "starlette", "uvicorn", "zstandard")


def serve(
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="STORE", rich_help_panel=STORE, help="A path, or postgresql://…"),
    ] = None,
    key_file: KeyFile = None,
    witness: WitnessFile = None,
    no_witness: NoWitness = False,
    new: NewStore = False,
    sign: SigningKey = None,
    tokens: Annotated[
        Path, typer.Option("--tokens", metavar="FILE", rich_help_panel=NETWORK, help="As dpi token makes it.")
    ] = Path("tokens.json"),
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", rich_help_panel=NETWORK, help="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", rich_help_panel=NETWORK, help="Where to listen.")] = 8321,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", rich_help_panel=NETWORK, help="Of TLS.")
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option("--private-key", metavar="FILE", rich_help_panel=NETWORK, help="Of TLS.")
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", rich_help_panel=NETWORK, help="A proxy in front does TLS.")
    ] = False,
    delay: Annotated[
        str,
        typer.Option(
            "--delay",
            metavar="DURATION",
            rich_help_panel=LIMITS,
            help="A release is seen so long after its slot has closed.",
        ),
    ] = "1s",
    body: Annotated[
        str, typer.Option("--body", metavar="SIZE", rich_help_panel=LIMITS, help="Of one request, also unpacked.")
    ] = "16MiB",
    requests: Annotated[
        int, typer.Option("--requests", metavar="N", rich_help_panel=LIMITS, help="Batches taken at a time.")
    ] = 32,
    of_one_token: Annotated[
        int, typer.Option("--of-one-token", metavar="N", rich_help_panel=LIMITS, help="Batches of one, with waiting.")
    ] = 64,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", rich_help_panel=LIMITS, help="For a body or a reader.")
    ] = 30.0,
    connections: Annotated[
        int, typer.Option("--connections", metavar="N", rich_help_panel=LIMITS, help="At a time, readers included.")
    ] = 800,
    lease: Annotated[
        str,
        typer.Option(
            "--lease",
            metavar="DURATION",
            rich_help_panel=STORE,
            help="On PostgreSQL: silence after which another replica takes over.",
        ),
    ] = "10s",
    acts: Annotated[
        Path | None,
        typer.Option(
            "--acts",
            metavar="FILE",
            rich_help_panel=NETWORK,
            help="The log of administrative acts; acts.ndjson beside the tokens unless given.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", metavar="FILE", rich_help_panel=NETWORK, help="Logs, in place of standard error; may be renamed."
        ),
    ] = None,
    keep_measurements: Annotated[
        int | None,
        typer.Option(
            "--keep-measurements",
            metavar="SLOTS",
            rich_help_panel=STORE,
            help="Drop measurements of older slots, see dpi compact; all are kept unless given.",
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a made-up shop whose visitors come and go while you look.")
    ] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Serve streams over HTTP: events come in, releases go out by the public clock.

    Streams are those of the store, and those that the configuration names in tables such as [streams.visits]. Without
    TLS files or a proxy in front it listens on this machine alone.

    Examples:
      dpi serve --demo
      dpi token create --role curator
      dpi serve --config dpi.toml
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise OptionError(f"a service needs {', '.join(missing)}: {how_to_install('service')}.")
    from dpi.service import config as settings
    from dpi.service import logs
    from dpi.service.running import serve as start

    if demo:
        from dpi.cli.serving import demonstrate

        demonstrate(host, port, json)
        return
    if store is None:
        raise OptionError("`--store` must be said, on the command line or under [serve] of --config.")
    told = None if config is None else settings.read_alerts(config)
    streams, keys, sources = ({}, {}, {}) if config is None else settings.read_streams(config)
    made = settings.Config(
        store=store,
        tokens=tokens,
        host=host,
        port=port,
        delay=delay,
        key_file=key_file,
        witness=witness,
        no_witness=no_witness,
        new=new,
        sign=sign,
        certificate=certificate,
        private_key=private_key,
        behind_proxy=behind_proxy,
        body=size(body),
        requests=requests,
        of_one_token=of_one_token,
        patience=patience,
        connections=connections,
        lease=lease,
        acts=acts,
        keep_measurements=keep_measurements,
        alerts=told,
        streams=streams,
        keys=keys,
        oidc=None if config is None else settings.read_oidc(config),
        sources=sources,
    )
    if new:
        if store_exists(store):
            raise OptionError("`--new` begins a store where there is none. There is one: leave it out.")
        note(ANEW)
    url = f"{'http' if certificate is None else 'https'}://{host}:{port}"
    if json:
        document({"url": url, "streams": sorted(streams)})
    else:
        note(f"serving on {url}/v1; the page is at {url}/")
    logs.set_up(path=log)
    start(made)
