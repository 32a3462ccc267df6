"""`mdpdsl fmt`: the canonical layout."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click

from mdpdsl.cli.arguments import json_option
from mdpdsl.cli.output import print_diagnostics, print_json
from mdpdsl.diagnostics import Diagnostic, ModelError, Source
from mdpdsl.syntax.format import format_file
from mdpdsl.syntax.parse import parse


@click.command("fmt")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option(
    "is_check", "--check", is_flag=True, help="Change nothing; exit with 1 if a file would change."
)
@json_option
def command(models: tuple[str, ...], is_check: bool, as_json: bool) -> None:
    """Put model files into the canonical layout.

    Comments stay, and the meaning does. A file with a syntax mistake is left as it is. `-` reads
    standard input and writes standard output.
    """
    records: list[dict[str, object]] = []
    diagnostics: list[Diagnostic] = []
    for path in models:
        try:
            source, text = _formatted(path)
        except ModelError as error:
            diagnostics += error.diagnostics
            continue
        changed = text != source.text
        records.append({"path": path, "changed": changed})
        if path == "-":
            if as_json:
                records[-1]["text"] = text
            elif not is_check:
                click.echo(text, nl=False)
        elif changed:
            if not is_check:
                _replace(Path(path).resolve(), text)
            if not as_json:
                click.echo(f"{path}: {'would change' if is_check else 'formatted'}")
    if as_json:
        errors = [d.record() for d in diagnostics]
        print_json({"files": records} | ({"errors": errors} if errors else {}))
    else:
        print_diagnostics(diagnostics)
    would_change = is_check and any(record["changed"] for record in records)
    sys.exit(2 if diagnostics else 1 if would_change else 0)


def _formatted(path: str) -> tuple[Source, str]:
    """Read one file and return it with its canonical text."""
    source = _read(path)
    parsed = parse(source)
    if parsed.diagnostics:
        raise ModelError(parsed.diagnostics)
    return source, format_file(parsed.file, source)


def _read(path: str) -> Source:
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return Source(content.decode("utf-8"), "<stdin>" if path == "-" else path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        message = f"cannot read {path}: {reason}"
        raise ModelError([Diagnostic("E603", message, None, "give paths of .mdp files")]) from None


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all, keeping its permissions."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.chmod(name, path.stat().st_mode)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
