"""`torpor schedules`: what there is, what comes next, what became of the last slots; making, pausing, running, removing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli.options import By, Json, Store, decider, value_of
from torpor.cli.reading import answered, asked
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torpor.cli.screen import Screen
    from torpor.engine.queries.schedules import ScheduleLine, SlotLine

_LAST = 12
_COLOURS = {"#": "", "-": "dim", "+": "blue", "x": "red"}


def schedules(  # noqa: PLR0913, PLR0917 - what can be said about a schedule
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One schedule, to read or change it.")] = None,
    store: Store = None,
    as_json: Json = False,
    pause: Annotated[bool, typer.Option("--pause", help="Start nothing until it is resumed.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on; the slots of the pause are skipped.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Start a run now, as an extra slot.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it; its runs stay.")] = False,
    program: Annotated[str | None, typer.Option("--program", help="Make or change it: whose runs it starts.")] = None,
    cron: Annotated[str, typer.Option("--cron", help="Minute, hour, day of month, month, day of week.")] = "",
    every: Annotated[float | None, typer.Option("--every", help="An interval in seconds, in place of --cron.")] = None,
    zone: Annotated[str, typer.Option("--zone", help="The time zone of --cron, as Europe/Berlin.")] = "UTC",
    value: Annotated[str | None, typer.Option("--input", help="JSON, @FILE or -: the input of each run.")] = None,
    missed: Annotated[
        str, typer.Option("--missed", help="Of slots nobody fired in time: latest, skip, all.")
    ] = "latest",
    grace: Annotated[float | None, typer.Option("--grace", help="Seconds after which a slot is not fired.")] = None,
    by: By = None,
) -> None:
    """List schedules and the fate of their slots, or change one.

    In a strip # is fired, - skipped, + coalesced into a later one, x failed to start.
    """
    wanted = [
        flag
        for flag, given in (("--pause", pause), ("--resume", resume), ("--run", run), ("--remove", remove))
        if given
    ]
    making = program is not None or bool(cron) or every is not None
    if len(wanted) + making > 1:
        given = [*wanted, *(["--program"] if making else [])]
        hint = f"torpor schedules {name or 'NAME'} {given[0]}"
        raise UsageError(f"one thing at a time: {', '.join(given)}", hint=hint)
    if name is None:
        if wanted or making:
            raise UsageError(
                "which schedule?", hint=f"torpor schedules NAME {(wanted or ['--program P --cron LINE'])[0]}"
            )
        _listed(store, as_json=as_json)
    elif making:
        if program is None:
            raise UsageError("whose runs does it start?", hint=f"torpor schedules {name} --program PROGRAM --cron LINE")
        more: dict[str, Any] = {"every": every, "zone": zone, "missed": missed, "grace": grace}
        _made(store, name, program, cron, {**more, "input": value_of(value, "--input")}, as_json=as_json)
    elif wanted:
        _changed(store, name, wanted[0], decider(by), as_json=as_json)
    else:
        found = asked(store, lambda client: client.schedule(name))
        answered(_document(found), lambda screen: _read(screen, found), as_json=as_json)


def _listed(store: str | None, *, as_json: bool) -> None:
    found = asked(store, lambda client: client.schedules())
    answered({"schedules": [_document(line) for line in found]}, lambda screen: _table(screen, found), as_json=as_json)


def _made(store: str | None, name: str, program: str, cron: str, more: dict[str, Any], *, as_json: bool) -> None:
    done = asked(store, lambda client: client.create_schedule(name, program, cron, **more))
    what = f": {', '.join(done.what)}" if done.what else ""
    answered(
        {"schedule": name, "outcome": done.outcome, "what": list(done.what)},
        lambda _: [f"{name} {done.outcome}{what}", f"next: torpor schedules {name}"],
        as_json=as_json,
    )


def _changed(store: str | None, name: str, flag: str, who: str, *, as_json: bool) -> None:
    if flag == "--run":
        started = asked(store, lambda client: client.run_schedule(name, by=who))
        said = [f"{started.run_id} started, as an extra slot of {name}", f"next: torpor show {started.run_id}"]
        answered({"schedule": name, "run": started.run_id}, lambda _: said, as_json=as_json)
        return
    if flag == "--pause":
        done = asked(store, lambda client: client.pause_schedule(name, by=who))
        text = "paused" if done else "was paused already"
        said = [f"{name} {text}", f"next: torpor schedules {name} --resume"]
    elif flag == "--resume":
        done = asked(store, lambda client: client.resume_schedule(name))
        text = "goes on" if done else "was not paused"
        said = [f"{name} {text}", f"next: torpor schedules {name}"]
    else:
        asked(store, lambda client: client.remove_schedule(name))
        done, text = True, "removed"
        said = [f"{name} removed; an app that declares it makes it again when its worker starts"]
    answered({"schedule": name, "did": text, "changed": done}, lambda _: said, as_json=as_json)


def _document(line: ScheduleLine) -> Any:
    from torpor.cli.documents import document

    return {**document(line), "strip": line.strip}


def _table(screen: Screen, lines: Sequence[ScheduleLine]) -> Iterator[str]:
    from torpor.cli.screen import Column

    if not lines:
        yield "No schedule. One is registered by the worker of an app that says:"
        yield '  @app.schedule("0 9 * * 1-5", zone="Europe/Berlin")'
        yield "  @app.flow"
        yield "  async def report(ctx: Context) -> None:"
        yield "      ..."
        return
    columns = [Column("SCHEDULE", fixed=True), Column("WHEN"), Column("NEXT", least=16), Column("LAST SLOTS")]
    rows = [[line.schedule, line.says, _next(line), line.strip[-_LAST:]] for line in lines]
    words = ["failed" if line.state == "overdue" or line.strip.endswith("x") else "" for line in lines]
    yield from screen.table(columns, rows, words)
    yield f"next: torpor schedules {lines[0].schedule}"


def _next(line: ScheduleLine) -> str:
    return _moment(line.upcoming[0]) if line.state == "on" and line.upcoming else _state(line)


def _state(line: ScheduleLine) -> str:
    if not line.reason:
        return line.state
    return f"{line.state} {line.reason}" if line.state == "paused" else f"{line.state}: {line.reason}"


def _moment(text: str) -> str:
    from datetime import datetime

    return datetime.fromisoformat(text).strftime("%a %d %b %Y %H:%M:%S %z")


def _read(screen: Screen, line: ScheduleLine) -> Iterator[str]:
    from torpor.cli.screen import clean

    yield f"{line.schedule}  {line.says}  {clean(_state(line))}"
    yield f"starts {line.program}; missed slots: {line.missed}"
    yield from (f"next  {_moment(text)}" for text in line.upcoming)
    if line.slots:
        yield ""
        yield "".join(screen.paint(slot.sign, _COLOURS[slot.sign]) for slot in line.slots)
        yield from (_slot(line, slot) for slot in line.slots[-_LAST:])
    yield ""
    act = "--resume" if line.state == "paused" else "--pause"
    yield f"next: torpor schedules {line.schedule} {act}"
    yield f"      torpor schedules {line.schedule} --run"


def _slot(line: ScheduleLine, slot: SlotLine) -> str:
    from torpor.cli.screen import clean

    many = f" and {slot.many - 1:,} more until {_moment(_in_zone(line, slot.last_at))}" if slot.many > 1 else ""
    parts = [f"{slot.fate:<9}", slot.run or "", "extra" if slot.extra else "", clean(slot.reason)]
    said = "  ".join(part for part in parts if part).rstrip()
    return f"{slot.sign} {_moment(_in_zone(line, slot.slot_at))}{many}  {said}"


def _in_zone(line: ScheduleLine, at: int) -> str:
    from torpor import almanac
    from torpor.errors import TorporError

    try:
        zone = almanac.zone_of(line.zone)
    except TorporError:
        zone = almanac.zone_of("UTC")
    return almanac.shown(zone, at)
