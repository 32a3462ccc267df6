"""`mdpdsl lsp`: a language server for editors."""

from __future__ import annotations

import click

from mdpdsl.cli.console import print_json
from mdpdsl.cli.options import json_option


@click.command("lsp")
@click.option("--stdio", is_flag=True, help="Ignored; editors pass it, and there is no other mode.")
@json_option
def command(stdio: bool, as_json: bool) -> None:
    """Run the language server for editors, on standard input and output.

    It shows mistakes as you type, what a name means and where it is declared and used; it also
    completes, formats and outlines. It needs `pip install "mdpdsl[editor]"`. With --json, list the
    features of the server and exit.
    """
    try:
        from mdpdsl.editor.server import make_server
    except ImportError as error:
        package = (error.name or "pygls").partition(".")[0]
        message = f'the server needs `{package}`: pip install "mdpdsl[editor]"'
        raise click.ClickException(message) from None
    server = make_server()
    if as_json:
        features = sorted(server.protocol.fm.features)
        record = {"name": "mdpdsl", "version": server.version, "transport": "stdio"}
        print_json({**record, "features": features})
        return
    server.start_io()
