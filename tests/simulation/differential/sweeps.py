"""What wakers and claims do: to whatever run it concerns; and what is done to the store as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.differential.world import TENANTS, View
from tests.simulation.model_shared import PROGRAM
from torpor.core.lease import Proof
from torpor.core.schedule import Missed, Rule
from torpor.engine import budgets, deadlines, events, follow_ups, leases, lines, retention, runs, schedules, waits
from torpor.errors import TorporError, UsageError
from torpor.store import values

if TYPE_CHECKING:
    from tests.simulation.differential.draws import Draws
    from tests.simulation.differential.world import World
    from torpor.engine.sweeps import Swept
    from torpor.store.protocol import Tx

SECOND = 1_000_000
DAY = 86_400 * SECOND


def start(world: World, draws: Draws) -> bool:
    """Start one run or two, in a line or not, now or later, with a key, a deadline, a budget or without."""
    line = draws.one(["", "", "till"])
    later = draws.one([None, None, None, world.now + 10 * SECOND])
    deadline = draws.one([None, None, None, (later or world.now) + 20 * SECOND, world.now])
    one = runs.Start(
        draws.one([*[PROGRAM] * 9, "none"]),
        values.encode("input"),
        key=draws.one([None, None, "a", "b"]),
        tenant=draws.one(TENANTS),
        priority=draws.one([0, 0, 1, -1]),
        due_at=later,
        line=line,
        line_limit=draws.one([1, 1, 2]),
        deadline_at=deadline,
        budget=draws.one([None, 5, 10]),
    )
    wanted = [one, one._replace(body=values.encode("other"))][: draws.one([1, 1, 2])]
    started = world.ask(
        lambda said: world.model.start(wanted, [one.run_id for one in said or ()], TENANTS),
        lambda said: [one.created for one in said],
        runs.start,
        wanted,
    )
    return not isinstance(started, TorporError) and started[0].created


def claim(world: World, draws: Draws) -> bool:
    """Claim for a worker."""
    world.tokens += 1
    worker, limit, after = draws.one(world.workers), draws.one([1, 2, 10, 10]), draws.one([0, 0, 1, 2])

    def told(said: Any) -> list[Any]:
        return [
            (
                *(one.run.id, one.run.epoch, one.run.head, one.state.turn),
                [entry.seq for entry in one.entries],
                [wait.slot for wait in one.waits],
                [signal.seq for signal in one.unread],
            )
            for one in said[0]
        ]

    claimed, _ = world.ask(
        lambda _: world.model.claim(worker, limit, world.tokens, after),
        told,
        leases.claim,
        *(worker, world.programs, limit, world.tokens, after),
    )
    for one in claimed:
        view = View(one.lease, one.run.inbox, one.state.turn, one.state.seq, one.run.branch)
        world.views.setdefault(one.run.id, []).append(view)
    return bool(claimed)


def reap(world: World, draws: Draws) -> bool:
    """End leases of the silent, or of a worker of whose death there is a proof."""
    proof = draws.one([Proof.NONE, Proof.NONE, Proof.LOCK_GONE, Proof.LOCK_GONE, Proof.PROCESS_GONE])
    worker, quiet = draws.one(world.workers), draws.one([0, 0, 0, world.now + 1])
    proofs = {} if proof is Proof.NONE else {worker: proof}
    gone, unlocked = ([worker] if proof is one else [] for one in (Proof.PROCESS_GONE, Proof.LOCK_GONE))
    return bool(
        world.ask(
            lambda _: world.model.reap(gone, unlocked, quiet),
            lambda said: [one.run_id for one in said],
            lambda tx: leases.reap(tx, proofs, quiet_until=quiet),
        )
    )


def fire_timers(world: World, draws: Draws) -> bool:
    """Fire what is due."""
    del draws
    said: Swept = world.ask(
        lambda _: world.model.fire_timers(), lambda said: (said.done, said.due_at), waits.fire_timers
    )
    return said.done > 0


def deliver(world: World, draws: Draws) -> bool:
    """Bring messages to their runs, and start children."""
    del draws
    known = set(world.model.runs)

    def judged(_: Any) -> int:
        numbers = sorted(row["id"] for row in world.stores.snapshot()["runs"] if row["id"] not in known)
        return world.model.deliver(numbers)

    said: Swept = world.ask(judged, lambda said: said.done, waits.deliver)
    return said.done > 0


def follow(world: World, draws: Draws) -> bool:
    """Tell of ends, take children along, give places back."""
    del draws
    said: Swept = world.ask(lambda _: world.model.follow(), lambda said: (said.done, said.more), follow_ups.settle)
    return said.done > 0


def admit(world: World, draws: Draws) -> bool:
    """Pass on places."""
    del draws
    said: Swept = world.ask(lambda _: world.model.admit(), lambda said: (said.done, said.more), lines.admit)
    return said.done > 0


def cancel_late(world: World, draws: Draws) -> bool:
    """Cancel whose deadline has passed."""
    del draws
    judged = world.model.cancel_late
    said: Swept = world.ask(lambda _: judged(), lambda said: (said.done, said.due_at), deadlines.cancel_late)
    return said.done > 0


def wake_short(world: World, draws: Draws) -> bool:
    """Wake who waits for a budget and fits."""
    del draws
    said: Swept = world.ask(lambda _: world.model.wake_short(), lambda said: said.done, budgets.wake)
    return said.done > 0


def prune(world: World, draws: Draws) -> bool:
    """Remove what ended long ago."""
    del draws
    said: Swept = world.ask(lambda _: world.model.prune(), lambda said: said.more, retention.sweep)
    return said.more


def limit(world: World, draws: Draws) -> bool:
    """Give a tenant or a program a budget."""
    names = {"tenant:default": "tenant:1", "tenant:acme": "tenant:2", "program:shop": "program:shop"}
    name, most = draws.one([*names, "program:none"]), draws.one([3, 8, 30])

    def judged(_: Any) -> int:
        if name not in names:
            raise UsageError("no such program")
        world.model.limit(names[name], most)
        return most

    said = world.ask(judged, lambda row: row.most, budgets.set_root, name, most)
    return not isinstance(said, TorporError)


# judged by each other alone: events and schedules; the model is told whom they reached


def publish(world: World, draws: Draws) -> bool:
    """Publish an event."""
    before = world.signals()
    body, key = values.encode({"n": draws.one([1, 2])}), draws.one([None, None, "e1", "e2"])
    kept_seconds = draws.one([60.0, 5.0])
    said = world.only(lambda tx: events.publish(tx, "paid", body, key=key, kept_seconds=kept_seconds))
    reached = world.reached(before)
    assert not said.new or reached == said.reached
    return bool(said.new)


def fan_out(world: World, draws: Draws) -> bool:
    """Hand an event to more runs."""
    del draws
    before = world.signals()
    said: Swept = world.only(events.fan_out)
    assert world.reached(before) == said.done
    return said.done > 0


def tidy(world: World, draws: Draws) -> bool:
    """Let go of events and answers whose time is over."""
    del draws
    rows = world.snapshot["events"]
    world.only(events.tidy)
    return world.stores.snapshot()["events"] != rows


def schedule(world: World, draws: Draws) -> bool:
    """Define a schedule, or define it otherwise."""
    missed = draws.one([Missed.LATEST, Missed.SKIP, Missed.ALL])
    rule = Rule(every_micros=draws.one([10, 60]) * SECOND, missed=missed, up_to=2)
    named = schedules.Definition(draws.one(["a", "b"]), draws.one([*[PROGRAM] * 5, "none"]), rule, values.encode(1))
    said = world.only(schedules.register, [named])
    return not isinstance(said, TorporError) and said[0].outcome != "unchanged"


def tend(world: World, draws: Draws) -> bool:
    """Pause a schedule, resume it, run it now, or remove it."""
    act, name = draws.one(["pause", "resume", "run_now", "remove"]), draws.one(["a", "b"])
    said = world.only(getattr(schedules, act), name)
    world.adopt(world.stores.snapshot())
    return not isinstance(said, TorporError) and said is not False


def fire_slots(world: World, draws: Draws) -> bool:
    """Fire the slots of schedules that are due."""
    del draws
    said: Swept = world.only(_slots)
    new = world.adopt(world.stores.snapshot())
    assert len(new) <= said.done
    return bool(new)


def _slots(tx: Tx) -> Swept:
    swept = schedules.look(tx)
    return swept if swept.found is None else schedules.worked_out(swept.found)(tx)


def wait(world: World, draws: Draws) -> bool:
    """Let time pass: to the very moment at which something falls due, one microsecond short of it, or anywhere."""
    runs_ = world.model.runs.values()
    moments = [run["due"] for run in runs_ if run["state"] == "waiting" and run["due"] is not None]
    moments += [run["lease"]["expires"] for run in runs_ if run["lease"] is not None]
    moments += world.model.deadlines.values()
    ahead = min((at - world.now for at in moments if at > world.now), default=SECOND)
    world.advance(draws.one([ahead, ahead, ahead - 1, 1, 11 * SECOND, 45 * SECOND, -3 * SECOND]))
    return True


def wait_long(world: World, draws: Draws) -> bool:
    """Let so much time pass that what ended is old."""
    del draws
    world.advance(DAY + SECOND)
    return True
