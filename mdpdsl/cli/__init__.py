"""The command line: one file per command, imported only when it is used."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

#: Each command with its line in `mdpdsl --help`; its module has the same name, or is in MODULES.
COMMANDS = {
    "new": "Draft a model file from a log or an environment.",
    "check": "Find every mistake in model files.",
    "fmt": "Put model files into the canonical layout.",
    "explore": "Explore a system, simulated, live or logged.",
    "compare": "Compare explorers over trials, as in the table of the paper.",
    "allocate": "Find the best possible allocation of visits.",
    "solve": "Find the best policy for rewards, or for reaching a label.",
    "simulate": "Write a trajectory of a model as a log.",
    "estimate": "Estimate a model from logs, with confidence sets.",
    "plan": "Plan what to run next after an estimate.",
    "report": "Write runs to one HTML page with figures and maps.",
    "plot": "Draw one figure of runs as PNG, SVG or PDF.",
    "show": "Show the size, classes and complexity of a model, or draw it.",
    "models": "List the shipped models, or print one.",
    "export": "Write a model, or all models that a run allows, in another format.",
    "import": "Read the model of another tool and write it as a model file.",
    "lsp": "Run the language server for editors.",
}

#: Commands whose module cannot have their name.
MODULES = {"import": "importing"}


class _LazyGroup(click.Group):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"mdpdsl.cli.{MODULES.get(cmd_name, cmd_name)}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from mdpdsl.diagnostics import did_you_mean

            hint = did_you_mean(args[0], COMMANDS) or f"the commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no such command `{args[0]}`; {hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="mdpdsl")
def cli() -> None:
    """Model, explore, estimate and solve Markov decision processes.

    MODEL is the path of an .mdp file, the name of a shipped model, the folder of a run with an
    estimate, an .npz file of a graph, or a model of another tool (.tra, .json, gym:ID). With
    --json, every command prints one JSON object. Exit status: 0 success, 1 the run failed, 2 the
    input is wrong.
    """


def main() -> None:
    """Run the command line and exit."""
    from mdpdsl.cli.console import plain_error, print_error, print_json
    from mdpdsl.diagnostics import Error

    as_json = "--json" in sys.argv
    _show_warnings(as_json)
    try:
        status = cli.main(standalone_mode=False)
    except Error as error:
        print_error(error, as_json)
        status = error.status
    except click.ClickException as error:
        if as_json:
            kind = "usage" if isinstance(error, click.UsageError) else "run"
            print_json({"errors": [plain_error(error.format_message(), kind)]})
        else:
            error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        status = 1
    except BrokenPipeError:
        # The reader has closed the pipe (as `head` does); nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        if error.filename is not None and as_json:
            message = f"cannot write {error.filename}: {error.strerror or error}"
            print_json({"errors": [plain_error(message, "run")]})
        else:
            place = f"cannot write {error.filename}: " if error.filename is not None else ""
            click.echo(f"Error: {place}{error.strerror or error}", err=True)
        if error.filename is None:  # standard output itself failed, and would again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def _show_warnings(as_json: bool) -> None:
    """Print the library's warnings as they occur; leave them out with --json."""
    import warnings

    from mdpdsl.cli.console import print_warning
    from mdpdsl.diagnostics import MdpdslWarning

    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, MdpdslWarning):
            usual(message, category, *rest)
        elif not as_json:
            print_warning(str(message))

    warnings.showwarning = show  # type: ignore[assignment]
    warnings.simplefilter("always", MdpdslWarning)
