"""Commands about a run's history: fork, rewind, retry, prune. What cannot be undone is listed before anything is done."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torpor.cli.deciding import Run
from torpor.cli.options import By, Json, Store, decider, value_of
from torpor.cli.reading import answered, asked
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.client.history import Pruned
    from torpor.engine.queries.outlook import Outlook

At = Annotated[int | None, typer.Option("--at", help="The checkpoint: its number in `torpor show`; 0 is the input.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def fork(
    run: Run,
    store: Store = None,
    as_json: Json = False,
    at: At = None,
    value: Annotated[
        str | None, typer.Option("--input", help="Another input in the place of the run's own, with --at 0.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="What the copy is for.")] = "",
    yes: Yes = False,
    by: By = None,
) -> None:
    """Copy a run at a checkpoint into a new run. The run itself goes on undisturbed."""
    who = decider(by)
    other = {} if value is None else {"input": value_of(value, "--input")}
    before = asked(store, lambda client: client.outlook(run, at=at, verb="fork"))
    _consent(
        before, "fork", f"torpor fork {before.run} --at {before.checkpoint} --yes", yes=yes, cuts=False, as_json=as_json
    )
    made = asked(store, lambda client: client.fork(run, at=before.checkpoint, by=who, title=title, **other))
    source = made.outlook
    said = f"{made.run_id} goes on from checkpoint {source.checkpoint} of {source.run}, turn {source.turn}"
    answered(
        {"run": made.run_id, "forked_from": _document(source)},
        lambda _: [said, *_stays(source), f"next: torpor show {made.run_id}"],
        as_json=as_json,
    )


def rewind(
    run: Run,
    at: Annotated[int, typer.Option("--at", help="The checkpoint: its number in `torpor show`; 0 is the input.")],
    store: Store = None,
    as_json: Json = False,
    yes: Yes = False,
    by: By = None,
) -> None:
    """Put a run back to a checkpoint, on a new branch. Whoever works on it stops."""
    who = decider(by)
    before = asked(store, lambda client: client.outlook(run, at=at, verb="rewind"))
    _consent(before, "rewind", f"torpor rewind {before.run} --at {at} --yes", yes=yes, cuts=True, as_json=as_json)
    done = asked(store, lambda client: client.rewind(run, at=at, by=who))
    name = done.outlook.run
    said = f"{name} goes on from checkpoint {at} as turn {done.turn}, branch {done.branch}"
    undo = f"torpor rewind {name} --at {done.previous}   brings back checkpoint {done.previous}"
    undone = [f"next: torpor show {name}", f"      {undo}" if done.previous_kept else "      there is no way back"]
    document = {"run": name, "turn": done.turn, "branch": done.branch, "rewound_to": _document(done.outlook)}
    document |= {"previous": done.previous, "previous_kept": done.previous_kept}
    answered(document, lambda _: [said, *_stays(done.outlook), *undone], as_json=as_json)


def retry(run: Run, store: Store = None, as_json: Json = False, by: By = None) -> None:
    """Start a failed run again at its checkpoint. What succeeded is used."""
    who = decider(by)
    done = asked(store, lambda client: client.retry(run, by=who))
    again = f"; again: {', '.join(done.again)}" if done.again else ""
    used = f", {len(done.reused)} recorded {'result is' if len(done.reused) == 1 else 'results are'} used"
    said = f"{done.run_id} starts again at checkpoint {done.checkpoint}{used}{again}"
    answered(
        {"run": done.run_id, "checkpoint": done.checkpoint, "reused": done.reused, "again": done.again},
        lambda _: [said, f"next: torpor show {done.run_id}"],
        as_json=as_json,
    )


def prune(
    store: Store = None,
    as_json: Json = False,
    program: Annotated[str | None, typer.Option("--program", help="Only runs of this program.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", help="What is older than 30d, 12h, ... [each program's retention]"),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            "--layer",
            help="Only this: runs (that ended), journal, checkpoints, stream, slots. [all; with --older-than: runs]",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    by: By = None,
) -> None:
    """Remove what is old, by age or by what each program says.

    Of runs that go on only what nothing needs any more goes. The waker does what a program's retention says by itself;
    this does it now.
    """
    who, age = decider(by), _age(older_than)
    gone = asked(
        store, lambda client: client.prune(program=program, older_than=age, layer=layer, by=who, dry_run=dry_run)
    )
    said = list(_gone(gone, dry_run=dry_run))
    if dry_run and any(gone):
        options = {"--program": program, "--older-than": older_than, "--layer": layer}
        words = "".join(f" {name} {value}" for name, value in options.items() if value is not None)
        said.append(f"next: torpor prune{words}")
    answered({**gone._asdict(), "dry_run": dry_run}, lambda _: said, as_json=as_json)


def _gone(gone: Pruned, *, dry_run: bool) -> Iterator[str]:
    """Yield what is gone, or would go: runs always, other layers if there is something of them."""
    from torpor.engine.queries.spoken import plural

    verb, size = ("would go", f", {gone.bytes:,} bytes") if dry_run else ("gone", "")
    journals = f" and the beginnings of {plural(gone.journals, 'journal')}" if gone.journals else ""
    yield f"{verb}: {plural(gone.runs, 'run')} that ended{journals}, {plural(gone.entries, 'entry', 'entries')}{size}"
    if gone.checkpoints:
        yield f"{verb}: the states in {plural(gone.checkpoints, 'checkpoint')}"
    if gone.parts:
        yield f"{verb}: {plural(gone.parts, 'part')} of {plural(gone.streams, 'stream')}"
    if gone.slots:
        yield f"{verb}: {plural(gone.slots, 'slot')} of schedules"


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = _AGE.fullmatch(text)
    try:
        if found is not None:
            return timedelta(**{_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        pass  # longer than any time there is
    raise UsageError(f"--older-than {text} is no duration", hint="30d, 12h, 90m or 0s")


def _document(outlook: Outlook) -> Any:
    from torpor.cli.documents import document

    return document(outlook)


def _stays(outlook: Outlook) -> Iterator[str]:
    from torpor.cli.screen import clean

    for line in outlook.cannot_undo:
        yield (
            f"  stays    {line.effect} {clean(line.args)}".rstrip()
            + f"   turn {line.turn}, {line.safety}, {line.outcome}"
        )


def _consent(outlook: Outlook, verb: str, command: str, *, yes: bool, cuts: bool, as_json: bool) -> None:
    """List what cannot be undone, and ask. Raises UsageError where nobody can be asked, Exit if it is not wanted."""
    if yes or not (cuts or outlook.cannot_undo):
        return
    from torpor.cli.screen import Screen, clean

    screen = Screen.of(sys.stderr)
    said = [f"{verb} of {outlook.run} to checkpoint {outlook.checkpoint}, the state of turn {outlook.turn}"]
    said += _stays(outlook)
    if cuts:
        said += [f"  ends     the wait for {clean(wait)}" for wait in outlook.waits]
        said += [f"  cuts     {count} of {name}" for name, count in outlook.cut_rows.items()]
    for line in said if not as_json else ():
        screen.say(line)
    count = len(outlook.cannot_undo)
    things = f"{count} cannot be undone"
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        names = ", ".join(line.effect for line in outlook.cannot_undo)
        raise UsageError(f"{things}{f' ({names})' if names else ''}; nothing was changed", hint=command)
    sys.stderr.write(f"{things}. {verb} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        screen.say("nothing was changed")
        raise typer.Exit(1)
