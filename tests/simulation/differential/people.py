"""What people and other programs do to a run, by its number: the engine's functions, with arguments that are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.model_shared import ENDED
from torpor.core.ids import code, parse_run, wait_name
from torpor.core.reply import key_of_request
from torpor.core.run import Flag
from torpor.core.token import Named, call_number, token
from torpor.core.wait import INTERRUPT, WaitKind
from torpor.engine import branching, callbacks, decisions, effects, replies, runs, waits
from torpor.errors import Conflict, NotFound, TorporError
from torpor.store import values
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
    from tests.simulation.differential.draws import Draws
    from tests.simulation.differential.world import World

SECRET = "one key for both"  # noqa: S105 - the stores' key in these tests
_CONTENT: dict[WaitKind, dict[str, Any]] = {
    WaitKind.APPROVAL: {"approved": True, "by": "Ana"},
    WaitKind.ATTENTION: {"again": True, "by": "Ana"},
    WaitKind.QUESTION: {"value": 1, "by": "Ana"},
    WaitKind.BUDGET: {"raise": 9, "by": "Ana"},
}


def signal(world: World, draws: Draws, number: int) -> bool:
    """Send a signal, with a key or without."""
    return _signal(world, number, draws.one(["go", "stop"]), draws.one([None, None, "k1", "k2"]))


def interrupt(world: World, draws: Draws, number: int) -> bool:
    """Interrupt: a signal under torpor's own name."""
    del draws
    return _signal(world, number, INTERRUPT, None)


def _signal(world: World, number: int, name: str, key: str | None) -> bool:
    kept = world.ask(
        lambda _: [world.model.signal(number, name, key)],
        lambda reply: [one.name.lower() for one in reply],
        waits.signal,
        [NewSignal(number, name, b"1", key, "ana")],
    )
    return bool(kept == [Kept.NEW])


def cancel(world: World, draws: Draws, number: int) -> bool:
    """Ask a run to end."""
    said = world.ask(
        lambda _: world.model.cancel(number),
        lambda reply: (reply.state.word, reply.descendants),
        runs.cancel,
        number,
        draws.one(["", "enough"]),
    )
    return not isinstance(said, TorporError) and not said.state.final


def decide(world: World, draws: Draws, number: int) -> bool:
    """Decide a wait, of this or another kind, perhaps for the second time."""
    run = world.model.runs.get(number, {"waits": {}, "journal": {}})
    asked = [(wait["seq"], WaitKind[wait["kind"].upper()]) for _, wait in world.waits(number, over=True)]
    older = [(n, WaitKind.APPROVAL) for n, entry in run["journal"].items() if entry[1] == "wait"]
    seq, kind = draws.one([*asked[-3:], *asked[-3:], *older[:1], (1, WaitKind.APPROVAL)])
    kind = draws.one([kind, kind, kind, WaitKind.QUESTION]) if kind in _CONTENT else WaitKind.APPROVAL
    said = world.ask(
        lambda _: _decided(world, number, seq, kind),
        lambda _: kind.word,
        decisions.decide,
        decisions.Decision(wait_name(number, seq), _CONTENT[kind], kind),
    )
    return not isinstance(said, TorporError)


def _decided(world: World, number: int, seq: int, kind: WaitKind) -> str:
    said = world.model.decide(number, seq, kind.word)
    if kind is WaitKind.BUDGET:
        asked = values.plain(world.model.runs[number]["journal"][seq][3])["budget"]
        row = next(one for one in world.snapshot["budgets"] if one["id"] == asked)
        world.model.more(row["name"] or f"run:{row['run_id']}", 9)
    return said


def settle_late(world: World, draws: Draws, number: int) -> bool:
    """Let an attempt settle its own unknown effect."""
    journal = world.model.runs.get(number, {"journal": {}})["journal"]
    intents = [n for n, entry in journal.items() if entry[1] == "intent"]
    seq = draws.one([*intents[-2:], *intents[-2:], 1])
    answer = values.encode({"happened": True, "by": "itself"})
    return bool(
        world.ask(lambda _: world.model.settle_late(number, seq), bool, effects.settle_late, number, seq, answer)
    )


def gate(world: World, draws: Draws, number: int) -> bool:
    """Look at the lease as the gate before an effect does."""
    del draws

    def judged(_: Any) -> dict[int, tuple[int, bool]]:
        run = world.model.runs.get(number, {"lease": None})
        if (lease := run["lease"]) is None:
            return {}
        ends = lease["cancel"] or ("child" in run["flags"] and world.model.falling(number))
        return {number: (lease["head"], ends)}

    def told(reply: Any) -> dict[int, tuple[int, bool]]:
        return {n: (lease.head, Flag.CANCEL in lease.flags) for n, lease in reply.items()}

    return bool(world.ask(judged, told, effects.look, [number]))


# what others answer


def callback(world: World, draws: Draws, number: int) -> bool:
    """Deliver the answer to a callback, of this turn or of one that is over."""
    run = world.model.runs.get(number, {"waits": {}, "journal": {}, "branch": 0, "turn": 1})
    opened = [run["journal"][w["seq"]][2] for _, w in world.waits(number, over=True) if w["kind"] == "callback"]
    key = draws.one([*opened[-2:], *opened[-2:], "c:hook#0"])
    named = Named(number, run["branch"], run["turn"] - draws.one([0, 0, 0, 1]), call_number(key))
    delivered = world.ask(
        lambda _: _called_back(world, named, key),
        lambda reply: reply.new,
        callbacks.deliver,
        token(named, SECRET),
        b"1",
    )
    return not isinstance(delivered, TorporError) and bool(delivered.new)


def _called_back(world: World, named: Named, key: str) -> bool:
    """The rules of a callback: it counts once, early ones are kept, and nothing is taken that nobody would consume."""
    run = world.model.runs.get(named.run_id)
    if run is None:
        raise NotFound("the run is gone")
    if named.signal in {one["key"] for one in run["signals"].values()}:
        return False
    if run["state"] in ENDED or "cancel" in run["flags"] or (run["branch"], run["turn"]) != (named.branch, named.turn):
        raise Conflict("it went on")
    opened = [n for n, entry in run["journal"].items() if n > run["point"] and entry[1:3] == ("wait", key)]
    wait = next((w for _, w in world.waits(named.run_id) if w["seq"] in opened[:1] and w["kind"] == "callback"), None)
    if opened and (wait is None or (wait["due"] is not None and wait["due"] <= world.now)):
        raise Conflict("it is over")
    return world.model.signal(named.run_id, named.signal, named.signal) == "new"


def request(world: World, draws: Draws, number: int) -> bool:
    """Ask a run something that it may answer: the same question under the same key."""
    key = draws.one(["q1", "q2"])
    answered = {row["key"] for row in world.snapshot["replies"]}

    def judged(_: Any) -> bool:
        if number not in world.model.runs:
            raise NotFound("no such run")
        if f"{number}:{key}" not in answered and world.model.signal(number, "ask", key_of_request(key)) == "final":
            raise Conflict("it has ended")
        return True

    said = world.ask(judged, lambda _: True, replies.ask, code(number), NewSignal(0, "ask", b"1", key, "client"), None)
    return not isinstance(said, TorporError)


# branches


def _places(world: World, number: int) -> list[int]:
    run = world.model.runs.get(number, {"point": 0, "journal": {}, "head": 0})
    whole = [n for n, entry in run["journal"].items() if entry[1] == "checkpoint"]
    return [run["point"], run["point"], *whole[-3:], 0, 1, run["head"] + 9]


def fork(world: World, draws: Draws, number: int) -> bool:
    """Copy a run at a checkpoint, or at what is none."""
    at = draws.one([None, *_places(world, number)])
    made = world.ask(
        lambda reply: world.model.fork(number, at, parse_run(reply.run_id)[1] if reply is not None else -1),
        lambda reply: reply.outlook.turn,
        branching.fork,
        branching.Fork(code(number), at, "ana"),
    )
    return not isinstance(made, TorporError)


def rewind(world: World, draws: Draws, number: int) -> bool:
    """Put a run back."""
    at = draws.one(_places(world, number))
    back = world.ask(
        lambda _: world.model.rewind(number, at),
        lambda reply: (reply.turn, reply.branch),
        lambda tx: branching.rewind(tx, code(number), at, by="ana"),
    )
    return not isinstance(back, TorporError)


def retry(world: World, draws: Draws, number: int) -> bool:
    """Start a failed run again."""
    del draws
    journal = world.model.runs.get(number, {"journal": {}})["journal"]
    last = journal[max(journal)] if journal else (0, "", None, None)
    ended = last[1] == "failure" and last[2] is None
    failed = values.plain(last[3] or b"")["calls"] if ended else []
    again = world.ask(
        lambda _: len(world.model.retry(number, failed)),
        lambda reply: len(reply.again),
        lambda tx: branching.retry(tx, code(number), by="ana"),
    )
    return not isinstance(again, TorporError)
