"""The command line `dpi`. It decides nothing about privacy: every command is a few calls of the package."""


def main() -> None:
    """Run a command; `typer` and `rich` are loaded here, not by `import dpi`."""
    try:
        from dpi.cli.app import app
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app(prog_name="dpi")
