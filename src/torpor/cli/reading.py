"""Commands that look: ps, show, inbox, doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from torpor.cli.options import Json, Store, store_url
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from torpor.cli.screen import Screen
    from torpor.client import Client

T = TypeVar("T")
DOCTOR_FOUND_ERRORS = 7


def asked(store: str | None, question: Callable[[Client], Awaitable[T]]) -> T:
    """Open the store, ask one question and return the answer."""
    import asyncio

    from torpor.client import Client

    async def ask() -> T:
        async with Client.connect(store_url(store)) as client:
            return await question(client)

    return asyncio.run(ask())


def answered(value: Any, lines: Callable[[Screen], Iterable[str]], *, as_json: bool) -> None:
    """Write an answer: one document, or lines for people."""
    if as_json:
        from torpor.cli.documents import write

        write(value)
        return
    from torpor.cli.screen import Screen

    screen = Screen.of()
    pasted = False
    for line in lines(screen):
        pasted = pasted or line.startswith("next: ")  # commands stay whole
        below = len(line) - len(line.lstrip()) + 2
        for part in [line] if pasted or "\x1b" in line else screen.wrapped("", line, below):
            screen.say(part)


def ps(
    store: Store = None,
    as_json: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Every run, newest first.")] = False,
    state: Annotated[str | None, typer.Option("--state", help="ready, running, waiting, completed, failed...")] = None,
    program: Annotated[str | None, typer.Option("--program", help="Only runs of this program.")] = None,
    before: Annotated[str | None, typer.Option("--before", help="Only runs older than this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="At most so many.")] = 50,
) -> None:
    """List runs: what is not asleep, and the next to wake."""
    from torpor import clock
    from torpor.cli import render
    from torpor.core.run import State

    states = {known.word: known for known in State}
    if state is not None and state not in states:
        raise UsageError(f"--state {state} is no state", hint=f"one of: {', '.join(states)}")
    if everything or state or program or before:
        wanted = [states[state]] if state is not None else None
        runs = asked(store, lambda client: client.list(states=wanted, program=program, limit=limit, before=before))
        only = f"{f' --state {state}' if state else ''}{f' --program {program}' if program else ''}" or " --all"
        older = f"torpor ps{only} --before {runs[-1].run}" if len(runs) == limit else ""
        last = [f"next: {older}"] if older else [f"next: torpor show {runs[0].run}"] if runs else []
        answered(
            {"runs": _documents(list(runs)), "more": len(runs) == limit},
            lambda screen: [*render.runs_table(screen, runs, clock.wall()), *last] if runs else ["No such run."],
            as_json=as_json,
        )
        return
    fleet = asked(store, lambda client: client.fleet(limit=limit))
    answered(fleet, lambda screen: render.fleet_lines(screen, fleet), as_json=as_json)


def _documents(values: Any) -> Any:
    from torpor.cli.documents import document

    return document(values)


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or its letters alone.")],
    store: Store = None,
    as_json: Json = False,
    entries: Annotated[int, typer.Option("--entries", min=1, help="So many lines of its story.")] = 20,
) -> None:
    """Show one run: why it is where it is, and what happened."""
    from torpor.cli import render

    found = asked(store, lambda client: client.show(run))
    answered(found, lambda screen: render.shown_lines(screen, found, entries=entries), as_json=as_json)


def inbox(
    wait: Annotated[str | None, typer.Argument(metavar="WAIT", help="One wait, to read it in full.")] = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List what needs a person, or read one wait in full."""
    from torpor import clock
    from torpor.cli import render

    if wait is None:
        found = asked(store, lambda client: client.inbox())
        answered(found, lambda screen: render.inbox_lines(screen, found), as_json=as_json)
        return
    item = asked(store, lambda client: client.wait(wait))
    answered(item, lambda screen: render.item_lines(screen, item, clock.wall()), as_json=as_json)


def doctor(
    store: Store = None,
    as_json: Json = False,
    check: Annotated[
        bool, typer.Option("--check", help="Read a large SQLite file whole, too, to find damage.")
    ] = False,
    reset_clock: Annotated[
        bool, typer.Option("--reset-clock", help="Bring stored times that are ahead of a clock set right back to it.")
    ] = False,
) -> None:
    """Say what is wrong or stuck, and if it is safe to stop now.

    Exit code 7 if there are errors.
    """
    from torpor.cli import health

    if reset_clock:
        reset = asked(store, lambda client: client.reset_clock())
        answered(reset._asdict(), lambda _: health.reset_lines(reset), as_json=as_json)
        return
    found = asked(store, lambda client: client.doctor(check=True if check else None))
    answered(
        {**_documents(found), "errors": found.errors, "warnings": found.warnings},
        lambda screen: health.doctor_lines(screen, found),
        as_json=as_json,
    )
    if found.errors:
        raise typer.Exit(DOCTOR_FOUND_ERRORS)
