"""Commands that act from outside: start, signal, cancel, and what people decide."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli.editing import edits_of
from torpor.cli.options import By, Json, Store, deadline_of, decider, moment_of, store_url, value_of
from torpor.cli.reading import answered, asked
from torpor.cli.screen import clean
from torpor.errors import UsageError

if TYPE_CHECKING:
    from torpor.client import Client, Started
    from torpor.engine.queries.people import InboxItem
    from torpor.engine.runs import Cancelled

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or its letters alone.")]
Wait = Annotated[str, typer.Argument(metavar="WAIT", help="A wait's id, from `torpor inbox`.")]


def start(  # noqa: PLR0913, PLR0917 - what can be said about a run
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="The program's name.")],
    value: Annotated[str | None, typer.Argument(metavar="INPUT", help="JSON, @FILE or - for standard input.")] = None,
    store: Store = None,
    as_json: Json = False,
    key: Annotated[
        str | None, typer.Option("--key", help="The same key finds the same run, however often it is said.")
    ] = None,
    app: Annotated[str | None, typer.Option("--app", help="APP.py, if no worker has served it yet.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="Not before: 2026-12-24T18:00, or +10m.")] = None,
    tenant: Annotated[str, typer.Option("--tenant", help="Whose run it is: tenants share workers fairly.")] = "default",
    priority: Annotated[int, typer.Option("--priority", help="Lower numbers go first.")] = 0,
    deadline: Annotated[
        str | None, typer.Option("--deadline", help="Cancel it then: 2h after its start, or 2026-12-24T18:00.")
    ] = None,
    tag: Annotated[str, typer.Option("--tag", help="Only workers with this tag take it.")] = "",
    line: Annotated[
        str, typer.Option("--line", help="At most --line-limit runs of this line hold a place; others wait their turn.")
    ] = "",
    line_limit: Annotated[int, typer.Option("--line-limit", min=1, help="How many places the line has.")] = 1,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="DOLLARS", help="What it and its children may spend.")
    ] = None,
    tenant_budget: Annotated[
        str | None, typer.Option("--tenant-budget", metavar="DOLLARS", help="What all runs of the tenant may spend.")
    ] = None,
    program_budget: Annotated[
        str | None, typer.Option("--program-budget", metavar="DOLLARS", help="What all runs of the program may spend.")
    ] = None,
) -> None:
    """Start a run. A worker takes it up; none is needed now."""
    given, moment, end = value_of(value, "the input"), moment_of(at), deadline_of(deadline)

    def wanted(name: str) -> Any:
        return asked(
            store,
            lambda client: client.start(
                name,
                given,
                key=key,
                tenant=tenant,
                priority=priority,
                at=moment,
                deadline=end,
                tag=tag,
                line=line,
                line_limit=line_limit,
                budget=budget,
            ),
        )

    if app is not None:
        make_known(app, program, store, given)
    for whose, limit in ((f"program:{program}", program_budget), (f"tenant:{tenant}", tenant_budget)):
        if limit is not None:
            asked(store, partial(_set_budget, whose, limit))
    started: Started = wanted(program)
    new = "started" if started.created else "was started before with this key; its input was not changed"
    other = [] if started.created else ["hint: a run with another input needs another --key"]
    answered(
        {"run": started.run_id, "created": started.created},
        lambda _: [f"{started.run_id} {new}", *other, f"next: torpor show {started.run_id}"],
        as_json=as_json,
    )


async def _set_budget(whose: str, limit: str, client: Client) -> None:
    await client.set_budget(whose, limit)


def make_known(place: str, program: str, store: str | None, value: Any) -> None:
    """Make an app's programs known to the store, as a worker would.

    Raises UsageError if it has not this one, or the input does not fit it.
    """
    import asyncio

    from torpor.core.lease import Proof
    from torpor.engine import runs
    from torpor.runtime import check_input, load_app, opened

    flows = load_app(place).flows
    if program not in flows:
        message = f'no program named "{program}" in {place} (it has: {", ".join(sorted(flows)) or "none"})'
        raise UsageError(message, hint=closest(program, sorted(flows)))
    check_input(flows[program], value)

    async def register() -> None:
        async with opened(store_url(store)) as place_opened:
            rows = await place_opened.transact(lambda tx: tx.workers())
            alive = frozenset(row.id for row in rows if place_opened.prove_death(row) is Proof.NONE)
            named = [(flow.name, flow.version, flow.source) for flow in flows.values()]
            await place_opened.transact(runs.register, named, alive=alive)

    asyncio.run(register())


def closest(word: str, known: list[str]) -> str:
    """Return a hint with the nearest known name, or none."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"torpor start {near[0]} INPUT" if near else ""


def signal(  # noqa: PLR0913, PLR0917 - what can be said about a signal
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run's id, or its letters alone; not with --event.")
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The signal's name.")] = None,
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="JSON, @FILE or - for standard input.")] = None,
    store: Store = None,
    as_json: Json = False,
    key: Annotated[
        str | None, typer.Option("--key", help="The same key is one signal, however often it comes.")
    ] = None,
    sender: Annotated[str | None, typer.Option("--sender", help="Who sends it.")] = None,
    interrupt: Annotated[
        bool, typer.Option("--interrupt", help="End what the run is doing now; it lives on. Takes no NAME.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why it is interrupted; the program is told.")] = "",
    event: Annotated[
        str | None,
        typer.Option("--event", metavar="NAME", help="Publish to every run that waits for it: --event NAME VALUE"),
    ] = None,
) -> None:
    """Send a signal to a run, interrupt it, or publish an event.

    A signal goes to one run, an event to all that wait for it. A signal is kept if it comes early; an event is kept for
    a day, for runs that wait for it later.
    """
    if event is not None:
        if name is not None or sender is not None or interrupt or reason:
            raise UsageError(
                "an event has a name and a value, no run and no sender", hint="torpor signal --event NAME VALUE"
            )
        _publish(event, value_of(run, "the value"), key, store, as_json=as_json)
        return
    if run is None:
        raise UsageError("a signal goes to a run, under a name", hint="torpor signal RUN NAME VALUE")
    if interrupt:
        _interrupt(run, name, store, as_json=as_json, key=key, reason=reason, by=decider(sender))
        return
    if name is None or reason:
        raise UsageError(
            "a signal has a name; --reason belongs to --interrupt",
            hint="torpor signal RUN NAME   or   torpor signal RUN --interrupt --reason TEXT",
        )
    given = value_of(value, "the value")

    async def send(client: Client) -> tuple[bool, str, list[str]]:
        before = await client.get(run)
        new = await client.signal(run, name, given, key=key, sender=sender)
        return new, before.run, [wait.title.removeprefix("message ") for wait in before.waits if wait.kind == "message"]

    new, full, awaited = asked(store, send)
    unheard = "; nothing waits for it now, it is read when the program asks for it"
    other = "" if name in awaited else f"; it waits for: {clean(', '.join(awaited))}" if awaited else unheard
    shown = clean(name)
    said = f"{shown} is kept for {full}{other}" if new else f"{shown} with this key came before: nothing changed"
    answered({"run": full, "signal": name, "kept": new}, lambda _: [said, f"next: torpor show {full}"], as_json=as_json)


def _interrupt(
    run: str, name: str | None, store: str | None, *, as_json: bool, key: str | None, reason: str, by: str
) -> None:
    if name is not None:
        raise UsageError(f"an interrupt has no name, {name!r} was given", hint="--reason TEXT says why")

    async def send(client: Client) -> tuple[bool, str]:
        full = (await client.get(run)).run
        return await client.interrupt(full, reason=reason, by=by, key=key), full

    new, full = asked(store, send)
    said = f"{full} is interrupted; what it was doing ends" if new else "this key came before: nothing changed"
    answered({"run": full, "interrupted": new}, lambda _: [said, f"next: torpor show {full}"], as_json=as_json)


def _publish(name: str, value: Any, key: str | None, store: str | None, *, as_json: bool) -> None:
    done = asked(store, lambda client: client.publish(name, value, key=key))
    shown = clean(name)
    on_its_way = "; more are on its way" if done.going else ""
    runs = f"{done.reached} {'run' if done.reached == 1 else 'runs'}"
    said = (
        f"event {shown} reached {runs}{on_its_way}; it is kept for a day"
        if done.new
        else f"event {shown} with this key came before"
    )
    answered(
        {"event": name, "new": done.new, "reached": done.reached, "going": done.going},
        lambda _: [said, "next: torpor ps"],
        as_json=as_json,
    )


def cancel(
    run: Run,
    store: Store = None,
    as_json: Json = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept and shown.")] = "",
) -> None:
    """Ask a run and its descendants to end as cancelled. No new effect and no child starts in it from now on."""

    async def end(client: Client) -> tuple[str, Cancelled]:
        full = (await client.get(run)).run
        return full, await client.cancel(full, reason=reason)

    name, (state, descendants, more) = asked(store, end)
    some = f"{'more than ' if more else ''}{descendants:,} descendant{'s' if descendants != 1 else ''}"
    soon = f"cancel of {name} is recorded; it is {state.word} and ends soon{f', with {some}' if descendants else ''}"
    said = f"{name} was {state.word} already" if state.final else soon
    answer = {"run": name, "state": state.word, "already_ended": state.final, "descendants": descendants}
    answered(answer, lambda _: [said, f"next: torpor show {name}"], as_json=as_json)


def approve(  # noqa: PLR0913, PLR0917 - what can be said about it
    wait: Wait,
    store: Store = None,
    as_json: Json = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Approve what it shows now, or your edit of it, unseen.")
    ] = False,
    digest: Annotated[
        str | None, typer.Option("--digest", help="Approve only if it still shows what had this digest.")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Why.")] = "",
    changed: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=JSON", help="Change a part of what is shown; can be repeated."),
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change what is shown in $EDITOR first.")] = False,
    by: By = None,
) -> None:
    """Approve what a wait shows, or what you make of it.

    The first decision wins (exit code 4: somebody was first, or it changed).
    """
    who = decider(by)
    item = decidable(wait, store, "approve")
    edits = edits_of(item, changed or [], in_editor=edit)
    after = asked(store, lambda client: client.edited(item.wait, edits)) if edits else None
    if not yes and digest is None:
        if not _terminal():
            options = [*(f"--set {shlex.quote(one)}" for one in changed or ()), *(["--edit"] if edit else [])]
            hint = " ".join(["torpor approve", item.wait, *options, "--digest", item.digest])
            raise UsageError(f"{item.wait} would be approved unseen: {item.what}", hint=hint)
        digest = _consent(item, after, edited=bool(edits))
        if digest is None:
            raise typer.Exit(1)
    bound = digest or (item.digest if edits else None)  # an edit was made of what stood there, and of nothing else
    done = asked(store, lambda client: client.approve(wait, by=who, note=note, digest=bound, edits=edits or None))
    decided(done, item.run, "edited and approved" if edits else "approved", who, as_json=as_json)


def decidable(wait: str, store: str | None, *asks: str) -> InboxItem:
    """Return an open wait. Raises UsageError with the commands that answer it if this one does not, and as `Client.wait`."""
    from torpor.cli.render import verbs

    item = asked(store, lambda client: client.wait(wait))
    if item.asks not in asks:
        commands = "   or   ".join(command for command, _ in verbs(item))
        wants = "waits for a callback:" if item.asks == "callback" else f"asks to {item.asks}"
        raise UsageError(f"{item.wait} {wants} {item.what}", hint=commands)
    return item


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _consent(item: InboxItem, after: Any, *, edited: bool) -> str | None:
    """Show everything and ask; return the digest of what was shown if it is approved (G10). `after`: what was made of it."""
    from torpor import clock
    from torpor.cli import render
    from torpor.cli.bound import edited_lines
    from torpor.cli.screen import Screen

    screen = Screen.of(sys.stderr)
    for line in render.item_lines(screen, item, clock.wall()):
        if line.startswith("next: "):
            break
        screen.say(line)
    for line in edited_lines(screen, after, item.proposed) if edited else ():
        screen.say(line)
    sys.stderr.write(f"approve {clean(item.what)}{' as edited' if edited else ''} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        screen.say("not approved; it still waits")
        return None
    return item.digest


def deny(
    wait: Wait,
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why; the program is told.")] = "",
    store: Store = None,
    as_json: Json = False,
    by: By = None,
) -> None:
    """Deny what a wait asks for."""
    who = decider(by)
    item = decidable(wait, store, "approve")
    done = asked(store, lambda client: client.deny(wait, by=who, note=reason))
    decided(done, item.run, "denied", who, as_json=as_json)


def decided(wait: str, run: str, what: str, who: str, *, as_json: bool) -> None:
    """Say what was decided, by whom."""
    said = [f"{wait} {what}, by {clean(who)}", f"next: torpor show {run}"]
    answered({"wait": wait, "run": run, "decision": what, "by": who}, lambda _: said, as_json=as_json)
