"""Schedules: registering them, firing their slots, and what people do to them.

Firing is three parts, so that working out slots, which may take a while after a long absence, keeps nobody from writing:
`due` reads whose turn it is, `plan` works out on plain values what becomes of which slot, `fire` carries the plans out.
Any number of wakers may do this at once. What makes a slot fire exactly once (G8):

- `fire` locks the schedule's row and does nothing unless it is just as it was when the plan was made;
- the runs, the slots' rows (`schedule, slot` is their key) and the row's next slot are one transaction;
- a run's key is made of schedule and slot, so even a schedule that was removed and made again starts no second one.

The waker calls them as one sweep: `look`, then `worked_out` outside any transaction, then what that returned.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torpor import almanac
from torpor.core.journal import BLOB_BYTES
from torpor.core.schedule import SECOND, Fate, Missed, Older, Rule, Settled, delay, settle, span
from torpor.engine import runs
from torpor.engine.sweeps import Swept
from torpor.errors import NotFound, UsageError
from torpor.store.rows import ScheduleRow, SlotRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import ProgramRow

log = logging.getLogger("torpor.schedules")

SWEEP = 100
"""So many schedules are looked at in one round."""
RUNS_AT_ONCE = 500
_LATE = 10 * SECOND
"""From here on it is said of a fired slot how late it was."""
_COUNTED_INSIDE = 2_000
"""So many passed slots are counted inside a transaction."""


class Definition(NamedTuple):
    """A schedule as somebody wants it. `body` is the encoded input of each run."""

    name: str
    program: str
    rule: Rule
    body: bytes
    tenant: str = "default"
    priority: int = 0


class Registered(NamedTuple):
    """What registering did: `created`, `unchanged` or `changed`; then `what` names the parts that differ."""

    name: str
    outcome: str
    what: tuple[str, ...] = ()


def rule_text(rule: Rule) -> str:
    """Return a rule as it is stored."""
    return json.dumps(asdict(rule), sort_keys=True)


def rule_of(row: ScheduleRow) -> Rule:
    """Return the rule of a stored schedule."""
    fields = json.loads(row.rule)
    return Rule(**{**fields, "missed": Missed(fields["missed"])})


# registering


def register(tx: Tx, definitions: Sequence[Definition]) -> list[Registered]:
    """Make schedules as they are defined here; one that already is so is left alone, a paused one stays paused.

    Raises UsageError, before anything is changed: an unknown program or zone, a malformed cron line, numbers out of range.
    """
    if not definitions:
        return []
    now, programs = tx.now(), runs.newest(tx.programs())
    for one in definitions:
        _check(one, programs, now)
    rows = {one.name: _new(one, now) for one in definitions}
    if len(rows) != len(definitions):
        raise UsageError(f"two schedules have one name: {', '.join(sorted(one.name for one in definitions))}")
    made = tx.insert_schedules(list(rows.values()))
    present = tx.get_schedules(sorted(set(rows) - made), lock=True)
    answers, changed, passed = [], [], list[SlotRow]()
    for one in definitions:
        what = _differences(present[one.name], one) if one.name in present else ()
        outcome = "changed" if what else "created" if one.name in made else "unchanged"
        answers.append(Registered(one.name, outcome, what))
        if what:
            row, slots = _changed(present[one.name], one, now)
            changed.append(row)
            passed += slots
    if changed:
        tx.change_schedules(changed)
        tx.add_slots(passed)
    if made or changed:
        tx.hint("schedules")
    return answers


def _check(one: Definition, programs: Mapping[str, ProgramRow], now: int) -> None:
    almanac.checked(one.name, one.rule, at=now)
    if one.program not in programs:
        message = f'schedule {one.name}: no program named "{one.program}"'
        raise UsageError(message, hint=f"the store has: {', '.join(sorted(programs)) or 'none yet'}")
    if len(one.body) > BLOB_BYTES:
        message = f"schedule {one.name}: its input has {len(one.body):,} bytes, at most {BLOB_BYTES:,} are kept"
        raise UsageError(message, hint="give the runs a name or path, and let a step read it")
    try:
        runs.check_prompt(programs[one.program], one.body)
    except UsageError as error:
        raise UsageError(f"schedule {one.name}: {error.message}", hint="give the schedule an input: a text") from error


def _new(one: Definition, now: int) -> ScheduleRow:
    since_at = now // SECOND * SECOND
    next_at, due_at = almanac.first(one.name, one.rule, since_at=since_at, after=now) or (None, None)
    text = rule_text(one.rule)
    return ScheduleRow(
        0, one.name, one.program, text, one.body, one.tenant, one.priority, 1, now, now, since_at, next_at, due_at
    )


def _differences(row: ScheduleRow, one: Definition) -> tuple[str, ...]:
    before, after = asdict(rule_of(row)), asdict(one.rule)
    named = {"every_micros": "every", "grace_micros": "grace", "jitter_micros": "jitter", "stagger_micros": "stagger"}
    what = [named.get(name, name) for name in before if before[name] != after[name]]
    pairs = {"program": one.program, "tenant": one.tenant, "priority": one.priority}
    what += [name for name, value in pairs.items() if getattr(row, name) != value]
    return (*what, *(("input",) if row.body != one.body else ()))


def _changed(row: ScheduleRow, one: Definition, now: int) -> tuple[ScheduleRow, list[SlotRow]]:
    """Return the changed row, and what became of slots that the old rule had and nobody settled yet."""
    old, new = rule_of(row), one.rule
    changed = row._replace(
        program=one.program,
        rule=rule_text(new),
        body=one.body,
        tenant=one.tenant,
        priority=one.priority,
        revision=row.revision + 1,
        changed_at=now,
    )
    if (old.cron, old.every_micros, old.zone) == (new.cron, new.every_micros, new.zone):
        due_at = None if row.due_at is None or row.next_at is None else row.next_at + delay(row.name, new, row.next_at)
        return changed._replace(due_at=due_at), []
    since_at = now // SECOND * SECOND
    next_at, due_at = almanac.first(row.name, new, since_at=since_at, after=now) or (None, None)
    changed = changed._replace(since_at=since_at, next_at=next_at, due_at=None if row.paused_at is not None else due_at)
    reason = "the schedule was changed before it started" if row.paused_at is None else _paused(row)
    return changed, _passed(row, now, reason)


def _passed(row: ScheduleRow, now: int, reason: str) -> list[SlotRow]:
    """Return one row for the slots from a schedule's next one to now, which will not be fired."""
    if row.next_at is None or row.next_at > now:
        return []
    rule = rule_of(row)
    found = almanac.due(row.name, rule, since_at=row.since_at, first_at=row.next_at, now=now, counted=_COUNTED_INSIDE)
    each = [slot_at for slot_at, _ in found.slots]
    older = found.older or Older(row.next_at, row.next_at, 0)
    last_at = now if found.more else max([older.last_at, *each])
    if not older.many + len(each):
        return []
    text = f"{reason}; not all of them were counted" if found.more else reason
    return [SlotRow(row.id, row.next_at, last_at, now, older.many + len(each), Fate.SKIPPED, text)]


def _paused(row: ScheduleRow) -> str:
    return f"paused by {row.paused_by}" if row.paused_by else "paused"


# firing


class Plan(NamedTuple):
    """What is to become of a schedule's due slots, worked out at `now` for the row as it was then."""

    row: ScheduleRow
    now: int
    settled: list[Settled]
    next_at: int | None
    due_at: int | None


def due(tx: Tx, *, limit: int = SWEEP) -> tuple[list[ScheduleRow], int]:
    """Return schedules with a due slot, and the store's clock."""
    now = tx.now()
    return tx.due_schedules(before=now, limit=limit), now


def plan(row: ScheduleRow, now: int) -> Plan:
    """Work out what becomes of a schedule's due slots. Pure and bounded. Raises UsageError: no such zone here."""
    rule = rule_of(row)
    first_at = row.next_at if row.next_at is not None else now
    found = almanac.due(row.name, rule, since_at=row.since_at, first_at=first_at, now=now)
    settled = [
        one._replace(reason=_fired(row.name, rule, one.slot_at, now)) if one.fate is Fate.FIRED else one
        for one in settle(rule, found.older, found.slots, now=now, more=found.more)
    ]
    next_at, due_at = found.upcoming or (None, None)
    return Plan(row, now, settled, next_at, due_at)


def _fired(name: str, rule: Rule, slot_at: int, now: int) -> str:
    late = now - slot_at - delay(name, rule, slot_at)
    parts = [almanac.stand_in(rule, slot_at), f"{span(late)} late" if late >= _LATE else ""]
    return "; ".join(part for part in parts if part)


class Fired(NamedTuple):
    """What a round did: runs started, schedules settled, and whether some were left for the next round."""

    started: int
    settled: int
    more: bool


def fire(tx: Tx, plans: Sequence[Plan]) -> Fired:
    """Carry plans out: start runs, write what became of each slot, move on. Bounded; what changed meanwhile is left alone.

    Each schedule's row is locked; one that another waker has locked is being done there (G8, G20).
    """
    rows = tx.get_schedules(sorted(one.row.name for one in plans), lock=True, skip_locked=True)
    now, programs = tx.now(), runs.newest(tx.programs())
    valid = [one for one in plans if rows.get(one.row.name) == one.row and one.now <= now]
    taken, starting = list[Plan](), 0
    for one in valid:
        if taken and starting >= RUNS_AT_ONCE:
            break
        taken.append(one)
        starting += sum(slot.fate is Fate.FIRED for slot in one.settled)
    wanted = [
        (one, slot) for one in taken for slot in one.settled if slot.fate is Fate.FIRED and one.row.program in programs
    ]
    started = runs.start(tx, [_start(one.row, slot.slot_at) for one, slot in wanted])
    run_of = {(one.row.id, slot.slot_at): run.run_id for (one, slot), run in zip(wanted, started, strict=True)}
    tx.add_slots([_slot_row(one, slot, now, run_of) for one in taken for slot in one.settled])
    tx.change_schedules(
        [one.row._replace(revision=one.row.revision + 1, next_at=one.next_at, due_at=one.due_at) for one in taken]
    )
    behind = any(one.due_at is not None and one.due_at <= now for one in taken)
    return Fired(len(started), len(taken), len(taken) < len(valid) or behind)


def _start(row: ScheduleRow, slot_at: int) -> runs.Start:
    return runs.Start(row.program, row.body, f"~slot/{row.name}/{slot_at}", row.tenant, row.priority)


def _slot_row(one: Plan, slot: Settled, now: int, run_of: dict[tuple[int, int], int]) -> SlotRow:
    run_id, fate, reason = run_of.get((one.row.id, slot.slot_at)), slot.fate, slot.reason
    if fate is Fate.FIRED and run_id is None:
        fate, reason = Fate.FAILED, f'no program named "{one.row.program}" in the store'
    return SlotRow(one.row.id, slot.slot_at, slot.last_at, now, slot.many, fate, reason, run_id)


def look(tx: Tx) -> Swept:
    """Find schedules with a due slot, and when the next one is due."""
    rows, now = due(tx)
    return Swept(due_at=tx.next_slot_due() or 0) if not rows else Swept(found=(rows, now))


def worked_out(found: tuple[list[ScheduleRow], int]) -> Callable[[Tx], Swept]:
    """Return what carries out what is to become of due slots. One schedule that cannot be followed here stops no other."""
    plans = []
    for row in found[0]:
        try:
            plans.append(plan(row, found[1]))
        except UsageError as error:
            log.warning("schedule %s cannot be followed here: %s", row.name, error.message)
    return partial(_carry_out, plans=plans, full=len(found[0]) >= SWEEP)


def _carry_out(tx: Tx, plans: Sequence[Plan], *, full: bool) -> Swept:
    done = fire(tx, plans)
    more = done.settled > 0 and (done.more or full)
    next_at = tx.next_slot_due()
    # what is due and not done is another waker's, or past help here: looked at again with the next tick, not at once
    ahead = next_at if next_at is not None and next_at > tx.now() else 0
    return Swept(done.started, more, ahead)


# people


def find(tx: Tx, name: str, *, lock: bool = False) -> ScheduleRow:
    """Return a schedule. Raises NotFound, with the names there are."""
    row = tx.get_schedules([name], lock=lock).get(name)
    if row is None:
        known = ", ".join(one.name for one in tx.list_schedules(after="", limit=10)) or "none"
        raise NotFound(f'there is no schedule "{name}" (there are: {known})', hint="torpor schedules lists them")
    return row


def pause(tx: Tx, name: str, *, by: str = "") -> bool:
    """Start nothing until it is resumed; False: it was paused already. Raises NotFound."""
    row = find(tx, name, lock=True)
    if row.paused_at is not None:
        return False
    tx.change_schedules(
        [row._replace(revision=row.revision + 1, due_at=None, paused_at=tx.now(), paused_by=by or None)]
    )
    return True


def resume(tx: Tx, name: str) -> bool:
    """Go on with the next slot; those of the pause are skipped, with that reason. False: it was not paused. Raises NotFound."""
    row = find(tx, name, lock=True)
    if row.paused_at is None:
        return False
    now = tx.now()
    next_at, due_at = row.next_at, None
    if next_at is not None and next_at <= now:
        tx.add_slots(_passed(row, now, _paused(row)))
        next_at, due_at = almanac.first(row.name, rule_of(row), since_at=row.since_at, after=now) or (None, None)
    elif next_at is not None:
        due_at = next_at + delay(row.name, rule_of(row), next_at)
    tx.change_schedules(
        [row._replace(revision=row.revision + 1, next_at=next_at, due_at=due_at, paused_at=None, paused_by=None)]
    )
    tx.hint("schedules")
    return True


def run_now(tx: Tx, name: str, *, by: str = "") -> runs.Started:
    """Start a run at once, as an extra slot; the schedule's own slots are not touched. Raises NotFound, UsageError.

    An extra slot never lies on a whole second, where the schedule's own are.
    """
    row = find(tx, name, lock=True)
    taken = {slot.slot_at for slot in tx.newest_slots([row.id], limit=SWEEP)[row.id]}
    slot_at = tx.now()
    while slot_at in taken or slot_at % SECOND == 0:
        slot_at += 1
    started = runs.start(tx, [_start(row, slot_at)])[0]
    reason = f"run by {by}" if by else "run by hand"
    tx.add_slots([SlotRow(row.id, slot_at, slot_at, tx.now(), 1, Fate.FIRED, reason, started.run_id, extra=True)])
    return started


def remove(tx: Tx, name: str) -> None:
    """Remove a schedule and what is known of its slots; its runs stay. Raises NotFound."""
    tx.drop_schedules([find(tx, name, lock=True).id])
