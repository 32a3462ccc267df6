"""`mdpdsl fmt`: the canonical layout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from mdpdsl.cli.console import print_diagnostics, print_json
from mdpdsl.cli.options import json_option
from mdpdsl.diagnostics import Diagnostic, ModelError


@click.command("fmt")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option(
    "is_check", "--check", is_flag=True, help="Change nothing; exit with 1 if a file would change."
)
@json_option
def command(models: tuple[str, ...], is_check: bool, as_json: bool) -> None:
    """Put model files into the canonical layout.

    Comments and the meaning stay the same. A file with a syntax error is left unchanged. `-` reads
    standard input and writes to standard output.
    """
    from mdpdsl.compile.check_file import format_text
    from mdpdsl.files import replace_text

    records: list[dict[str, object]] = []
    diagnostics: list[Diagnostic] = []
    for path in models:
        try:
            before = _read(path)
            after = format_text(before, "<stdin>" if path == "-" else path)
        except ModelError as error:
            diagnostics += error.diagnostics
            continue
        changed = after != before
        records.append({"path": path, "changed": changed})
        if path == "-":
            if as_json:
                records[-1]["text"] = after
            elif not is_check:
                click.echo(after, nl=False)
        elif changed:
            if not is_check:
                replace_text(Path(path).resolve(), after)
            if not as_json:
                click.echo(f"{path}: {'would change' if is_check else 'formatted'}")
    if as_json:
        errors = [d.record() for d in diagnostics]
        print_json({"files": records} | ({"errors": errors} if errors else {}))
    else:
        print_diagnostics(diagnostics)
    would_change = is_check and any(record["changed"] for record in records)
    sys.exit(2 if diagnostics else 1 if would_change else 0)


def _read(path: str) -> str:
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is not UTF-8"
        message = f"cannot read {path}: {reason}"
        raise ModelError([Diagnostic("E603", message, None, "give paths of .mdp files")]) from None
