"""Commands that do the work: worker, run, dev."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from torpor.cli.options import By, Json, Store, decider, store_url, value_of
from torpor.errors import UsageError


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


File = Annotated[
    str, typer.Argument(metavar="APP.py", help="A file or a module; APP.py:app names one of several Apps.")
]


def worker(  # noqa: PLR0913, PLR0917 - what a worker can be told
    app: File,
    store: Store = None,
    name: Annotated[str | None, typer.Option("--name", show_default=False, help="For people. [made up]")] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, show_default=False, help="Runs at once. [500]")
    ] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when nothing is ready or soon due.")] = False,
    lease_seconds: Annotated[
        float | None,
        typer.Option("--lease-seconds", min=1.0, max=86_400.0, show_default=False, help="A lease's length. [45]"),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", show_default=False, help="Take runs with this tag, too. Repeatable.")
    ] = None,
    only_tags: Annotated[bool, typer.Option("--only-tags", help="Take no runs without one of these tags.")] = False,
    program: Annotated[
        list[str] | None, typer.Option("--program", show_default=False, help="Only this program. Repeatable. [all]")
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=0, max=65535, show_default=False, help="Prometheus: /metrics here. [none]"),
    ] = None,
    metrics_host: Annotated[str, typer.Option("--metrics-host", help="Where they are listened for.")] = "127.0.0.1",
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="Lines on standard error.")] = LogFormat.TEXT,
) -> None:
    """Work on an app's runs until told to stop.

    A worker and a waker in one process. SIGTERM and Ctrl-C drain: effects end, runs are given back.
    """
    import asyncio

    from torpor.cli.serving import serve

    if only_tags and not tag:
        raise UsageError(
            "--only-tags without --tag would take nothing", hint="torpor worker APP.py --tag gpu --only-tags"
        )
    options = {
        "name": name,
        "concurrency": concurrency,
        "lease_seconds": lease_seconds,
        "until_idle": until_idle,
        "tags": tag or (),
        "only_tags": only_tags,
        "programs": program or (),
        "metrics_port": metrics_port,
        "metrics_host": metrics_host,
        "log_format": log_format.value,
    }
    code = asyncio.run(serve(app, store_url(store), options))
    if code:
        raise typer.Exit(code)


def run(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[APP.py] PROGRAM [INPUT]",
            help="APP.py may be left out if there is one. INPUT: JSON, @FILE or - for standard input; a text for an agent.",
        ),
    ],
    store: Store = None,
    as_json: Json = False,
    new: Annotated[bool, typer.Option("--new", help="Start another run, though this command has an open one.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="The same key goes on with the same run, whatever its input.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.0, help="Wait so many seconds (code 124).")
    ] = None,
    by: By = None,
) -> None:
    """Start a run, work here until it ends, and print its result.

    It shows what the run says, and asks in the terminal when it needs a person; elsewhere it stops with exit code 5. An agent
    that converses is spoken to at the prompt; Ctrl-D leaves it. Ctrl-C leaves the run asleep: the same command (the same
    program and input, by the same person) goes on with it until it has ended, and then starts another one.
    """
    import asyncio

    from torpor.cli.naming import command_of, named, prompt_of
    from torpor.cli.running import Wanted, run_here

    out = sys.stdout
    if as_json:
        sys.stdout = sys.stderr  # what the program prints must not get between
    if new and key is not None:
        raise UsageError("--new starts a run of its own, --key names one", hint="another --key is another run")
    place, app, program, text = named(words)
    value = prompt_of(text, program) if app.flows[program].hears else value_of(text, "the input")
    wanted = Wanted(place, program, value, key, new, timeout, decider(by), not as_json, command_of(sys.argv))
    code = asyncio.run(run_here(app, wanted, store_url(store), out, as_json=as_json))
    if code:
        raise typer.Exit(code)


def dev(
    app: Annotated[str | None, typer.Argument(metavar="APP.py", help="A file or module. [the only app here]")] = None,
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines on standard output.")] = False,
    name: Annotated[str, typer.Option("--name", help="The worker's name, for people.")] = "w1",
) -> None:
    """Work on an app's runs here, and reload when its code changes.

    A worker and a waker in one process. Ctrl-C stops it; runs stay asleep in the store and wake when it comes back.
    """
    import asyncio

    from torpor.cli.developing import choose_app, develop, start_again

    out = sys.stdout
    if as_json:
        sys.stdout = sys.stderr  # what the program prints must not get between
    place = app if app is not None else choose_app()
    code = asyncio.run(develop(place, store_url(store), name, out, as_json=as_json))
    if code is None:
        start_again()
    if code:
        raise typer.Exit(code)
