"""Commands around a store and a project: init, migrate, bench, demo, completion."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from torpor.cli.options import Json, Store, store_url
from torpor.cli.reading import answered
from torpor.errors import UsageError

IGNORED = "torpor.db*"
_MODEL = "provider:name, as openai:gpt-5-mini"


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where; made if it is not there.")] = Path(),
    as_json: Json = False,
    agent: Annotated[bool, typer.Option("--agent", help="An agent, a tool that needs a person, and a test.")] = False,
    model: Annotated[
        str, typer.Option("--model", help="With --agent: its model, as openai:gpt-5-mini. [rehearsed, no key]")
    ] = "",
) -> None:
    """Write a first program: hello.py, or an agent and its test.

    And a line for .gitignore. Nothing is overwritten.
    """
    from torpor.agent.providers import known
    from torpor.cli.starters import AGENT, HELLO, TEST

    if model and not agent:
        raise UsageError("a flow asks no model", hint=f"torpor init --agent --model {model}")
    if model and not re.fullmatch(r"[\w.\-]+(/[\w.\-]+)?:[\w.:/@\-]+", model):
        raise UsageError(f"--model {model} is no model", hint=_MODEL)
    if model and not known(model):
        raise UsageError(f"--model {model}: pydantic-ai knows no provider of that name", hint=_MODEL)
    texts = {"agent.py": AGENT.format(model=model), "test_agent.py": TEST} if agent else {"hello.py": HELLO}
    folder.mkdir(parents=True, exist_ok=True)
    written, kept = [], []
    for name, text in texts.items():
        path = folder / name
        if path.exists():
            kept.append(str(path))
        else:
            path.write_text(text, "utf-8")
            written.append(str(path))
    ignore = folder / ".gitignore"
    lines = ignore.read_text("utf-8").splitlines() if ignore.exists() else []
    if IGNORED not in lines:
        ignore.write_text("\n".join([*lines, IGNORED, ""]), "utf-8")
        written.append(str(ignore))
    first = folder / next(iter(texts))
    following = [f'torpor run {first} support "Please refund order 88121"', f"pytest {folder / 'test_agent.py'}"]

    def said() -> list[str]:
        return [
            *(f"wrote {path}" for path in written),
            *(f"{path} is there already, left as it is" for path in kept),
            *([f"{model} needs its provider's key in the environment; the test needs none"] if model else []),
            *([f"next: {following[0]}", f"      {following[1]}"] if agent else [f"next: torpor dev {first}"]),
        ]

    answered({"written": written, "kept": kept}, lambda _: said(), as_json=as_json)


def migrate(store: Store = None, as_json: Json = False) -> None:
    """Bring the store's schema up to this torpor. A copy of an SQLite file is kept beside it; sleeping runs are untouched."""
    from torpor.store.opening import _unopened  # the schema is what is wrong with it, so nothing may check that first

    opened = _unopened(store_url(store), create=False, clock=None, durable=True)
    try:
        before = opened.schema()
        after = opened.migrate()
    finally:
        opened.close_now()
    said = f"schema {after}, nothing to do" if before == after else f"schema {before} is now {after}"
    answered({"before": before, "after": after}, lambda _: [said], as_json=as_json)


Own = Annotated[
    str | None,
    typer.Option("--store", show_default=False, help="postgresql://..., or sqlite for a file of its own. [sqlite]"),
]
"""Never TORPOR_STORE: what is measured or killed here is not to meet anybody's runs."""
_QUICK = {"runs": 100, "steps": 10, "history": 200, "trials": 1, "parked": 200}


def bench(  # noqa: PLR0913, PLR0917 - one for each option
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="w1 throughput, w2 sleeping, w3 resuming, w4 latency, w5 effects, w6 waking."
        ),
    ],
    store: Own = None,
    as_json: Json = False,
    runs: Annotated[int | None, typer.Option("--runs", show_default=False, help="How many runs. [500]")] = None,
    steps: Annotated[int | None, typer.Option("--steps", show_default=False, help="Steps of each. [10]")] = None,
    parked: Annotated[int | None, typer.Option("--parked", show_default=False, help="Runs asleep, w2. [1000]")] = None,
    history: Annotated[
        int | None, typer.Option("--history", show_default=False, help="Steps before, w3. [1000]")
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", show_default=False, help="How often. [3]")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first impression.")] = False,
) -> None:
    """Measure a workload on a store of its own."""
    from torpor.bench.rows import Wanted
    from torpor.bench.run import command

    usual = Wanted("")
    given = {"runs": runs, "steps": steps, "history": history, "trials": trials, "parked": parked}
    sizes = {
        name: number if number is not None else _QUICK[name] if quick else int(getattr(usual, name))
        for name, number in given.items()
    }
    raise typer.Exit(command(workload, Wanted(store or "sqlite", **sizes), json=as_json))


def demo(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER",
            help="The folder to audit, or the word `agent`: an agent mends a repository. [torpor's own source]",
        ),
    ] = None,
    store: Own = None,
    as_json: Json = False,
    sweep: Annotated[bool, typer.Option("--sweep", help="agent: die at every point there is, and compare.")] = False,
    every: Annotated[int, typer.Option("--every", help="agent, with --sweep: at each so many-th point only.")] = 1,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="agent: ask openai:gpt-5-mini, say, instead of a tape.")
    ] = "",
    ask: Annotated[bool, typer.Option("--ask", help="agent: you approve the commit, or deny it.")] = False,
) -> None:
    """Kill and freeze workers, and prove that nothing repeated.

    It audits a folder on three workers; one is killed in the middle of an effect, one is frozen past its lease.
    `torpor demo agent` has an agent mend a git repository meanwhile, through an MCP server, with a person's consent.
    """
    url = None if store == "sqlite" else store
    if path == "agent":
        from torpor.demo.agent.run import command as mend

        raise typer.Exit(mend(store=url, json=as_json, sweep=sweep, every=every, model=model, ask=ask))
    if sweep or model or ask or every != 1:
        raise UsageError("--sweep, --every, --model and --ask are the agent's", hint="torpor demo agent --sweep")
    from torpor.demo.run import command

    raise typer.Exit(command(path, store=url, json=as_json))


def completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print what completes commands, ids and programs in a shell."""
    from torpor.cli.completing import SCRIPTS

    if shell not in SCRIPTS:
        raise UsageError(f"there is no completion for {shell!r}", hint=f"one of: {', '.join(SCRIPTS)}")
    sys.stdout.write(SCRIPTS[shell])
