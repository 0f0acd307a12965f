"""The command line `dpi`. It decides nothing about privacy: every command is a few calls of the package."""


def main() -> None:
    """Run a command; `typer` and `rich` are loaded here, not by `import dpi`."""
    from dpi.cli.app import app

    app(prog_name="dpi")
