"""`torpor`: which commands there are, and what their ends mean.

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict (someone was first, or it changed), 5 needs a person, 6 store
unreachable or of another schema, 7 the doctor found errors, 124 `--timeout`, 130 Ctrl-C.

Nothing heavy is imported before a command runs: `torpor --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli import answering, deciding, history, making, reading, schedules, tailing, working

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTERRUPTED = 130
_EXAMPLES: dict[str, tuple[Callable[..., Any], str]] = {
    "init": (making.init, "torpor init"),
    "dev": (working.dev, "torpor dev hello.py"),
    "run": (working.run, "torpor run hello.py greet '\"Ana\"'"),
    "start": (deciding.start, "torpor start greet '\"Ana\"' --key greet-ana"),
    "worker": (working.worker, "torpor worker hello.py --name w1 --store postgresql://..."),
    "ps": (reading.ps, "torpor ps --state failed --program greet"),
    "show": (reading.show, "torpor show greet-7Q3D"),
    "tail": (tailing.tail, "torpor tail -f greet-7Q3D"),
    "signal": (deciding.signal, "torpor signal order-7Q3D paid '{\"eur\": 40}' --key payment-881"),
    "approve": (deciding.approve, "torpor approve w-7q3d-3"),
    "deny": (deciding.deny, 'torpor deny w-7q3d-3 "wrong order number"'),
    "answer": (
        answering.answer,
        'torpor answer w-7q3d-3 "the second one"',
    ),
    "cancel": (deciding.cancel, "torpor cancel greet-7Q3D"),
    "retry": (history.retry, "torpor retry greet-7Q3D"),
    "fork": (history.fork, "torpor fork greet-7Q3D --at 12"),
    "rewind": (history.rewind, "torpor rewind greet-7Q3D --at 12"),
    "inbox": (reading.inbox, "torpor inbox w-7q3d-3"),
    "schedules": (schedules.schedules, "torpor schedules report --pause"),
    "doctor": (reading.doctor, "torpor doctor --json"),
    "prune": (history.prune, "torpor prune --older-than 30d --dry-run"),
    "migrate": (making.migrate, "torpor migrate --store sqlite:///torpor.db"),
    "bench": (making.bench, "torpor bench w1 --store sqlite --json"),
    "demo": (making.demo, "torpor demo ./my-project"),
    "completion": (making.completion, "source <(torpor completion bash)"),
}

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from torpor import __version__

        typer.echo(f"torpor {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Every command takes --help, most take --store and --json. --debug shows where an error came from."
)
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A runtime for durable agents: runs that wait, survive, and go on at the exact step."""


for _name, (_command, _example) in _EXAMPLES.items():
    app.command(_name, epilog=f"Example: {_example}")(_command)


@app.command("__complete", hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []})
def _complete(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Print what may stand in the place of the last word; for the scripts of `torpor completion`."""
    from torpor.cli.completing import candidates

    sys.stdout.write("".join(f"{word}\n" for word in candidates(_EXAMPLES, app, words or [""])))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line, and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    debug = "--debug" in given[: given.index("--") if "--" in given else None]
    if debug:
        given.remove("--debug")
    code = _run(given, as_json="--json" in given, debug=debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more, which is no error
    sys.exit(code)


def _run(given: list[str], *, as_json: bool, debug: bool) -> int:
    try:
        result = typer.main.get_command(app)(given, prog_name="torpor", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except typer.Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return 0
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, a person is told what and what next
        if hasattr(error, "format_message"):  # the command line itself could not be read
            return _usage(error, given, as_json=as_json)
        from torpor.cli.problems import tell

        return tell(error, as_json=as_json, debug=debug)


def _usage(error: Any, given: Sequence[str], *, as_json: bool) -> int:
    from torpor.cli.problems import tell
    from torpor.errors import UsageError

    context = getattr(error, "ctx", None)
    message = str(error.format_message()).strip()
    command = next((word for word in given if word in _EXAMPLES), "")  # an option without its value has no context
    path = context.command_path if context is not None else f"torpor {command}".rstrip()
    return tell(UsageError(message[0].lower() + message[1:], hint=f"{path} --help"), as_json=as_json)
