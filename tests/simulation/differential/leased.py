"""What a worker does with a lease beside proposing: stream, renew, find out; and money and rates, inside a commit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.differential.holders import NOTHING, SECOND, counter, stream_of, told
from tests.simulation.differential.stores import Differs
from torpor.core.budget import Lost
from torpor.core.lease import LostAnswer
from torpor.core.rate import Rate
from torpor.core.run import State
from torpor.core.stream import NewPart, PartKind, StreamWrite, accepts
from torpor.engine import leases, rates, spending, streams
from torpor.engine.commit import find_out
from torpor.engine.effects import commit_inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.differential.draws import Draws
    from tests.simulation.differential.world import View, World
    from torpor.core.commit import Proposal


def emit(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Write to a stream between two commits, at the number that is next or at one that is not."""
    view = world.view(target)
    number, _, epoch, *_ = view.lease
    from_n = draws.one([counter(world, view), counter(world, view), 7])
    write = StreamWrite(from_n, [NewPart(1, PartKind.TEXT, b"x")], drops=draws.one([(), (1,)]))
    fits = accepts(stream_of(world, number), epoch=epoch, from_n=from_n)
    said = world.ask(
        lambda _: [world.model.mine(number, view.lease.token, epoch) is not None and fits],
        lambda counters: [one is not None for one in counters],
        streams.append,
        [streams.Said(number, view.lease.token, epoch, write)],
    )
    return said[0] is not None


def renew(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Extend a lease."""
    lease = world.view(target).lease
    worker = draws.one([lease.worker, lease.worker, lease.worker + 1])
    held = [(lease.run_id, lease.token, lease.epoch)]
    return bool(
        world.ask(
            lambda _: world.model.renew(worker, held),
            lambda renewed: [(one.run_id, one.head) for one in renewed],
            leases.renew,
            worker,
            held,
        )
    )


def look_back(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Find out what became of a commit whose answer was lost (G3): what is known of it here must not be contradicted."""
    lease = world.view(target).lease
    sent = [(p, yes) for p, yes in world.sent.get(lease.run_id, []) if p.token == lease.token]
    p, accepted = draws.one([*sent[-3:], (world.propose(world.view(target), NOTHING), False)])
    accepted = accepted or any(yes and _equal(p, other) for other, yes in sent)
    verdict, _ = world.only(find_out, p)
    run = world.model.runs.get(p.run_id)
    mine = world.model.mine(p.run_id, p.token, p.epoch)
    untouched = run is not None and (mine or run)["head"] == p.head + len(p.entries) and run["epoch"] == p.epoch
    fresh = accepted and untouched and (mine is not None) == (p.after is State.RUNNING)
    if (verdict is LostAnswer.HAPPENED and not accepted) or (fresh and verdict is not LostAnswer.HAPPENED):
        raise Differs(f"accepted: {accepted}, and found out: {verdict}")
    if (verdict is LostAnswer.SEND_AGAIN) != (mine is not None and mine["head"] == p.head):
        raise Differs(f"it may be sent again while nobody went on: {verdict}, {mine}")
    return verdict is LostAnswer.HAPPENED


def _equal(p: Proposal, other: Proposal) -> bool:
    """Whether a copy proposed the same: only its life lock tells it that it is not the one that was heard."""
    return (p.epoch, p.head, list(p.entries)) == (other.epoch, other.head, list(other.entries))


def _inside(
    world: World,
    view: View,
    work: Callable[[Any], Any],
    judged: Callable[[], str],
    closing: tuple[int, int] | None = None,
) -> bool:
    """Do something inside a commit. `judged` does it in the model and says the kind of the last entry."""
    p = world.propose(view)

    def mine(said: Any) -> tuple[str, str]:
        def added() -> Proposal | None:
            kind = judged()
            if kind == "nothing":
                return None
            whole: Proposal = said[0]
            if kind not in {"", whole.entries[-1].kind.word}:
                raise Differs(f"the model says {kind}, the stores wrote {whole.entries[-1]}")
            return whole

        return world.model.inside(p, closing, added)

    def theirs(said: Any) -> tuple[str, str]:
        return ("nothing", "running") if said[1] is None else told(said[1])

    whole, said = world.ask(mine, theirs, commit_inside, p, work, closing)
    if said is None or told(said)[0]:
        return False
    world.moved(view, whole)
    return True


def reserve(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Reserve money, or ask again after a wait for it."""
    view = world.view(target)
    number = view.lease.run_id
    asked = [(slot, wait) for slot, wait in world.waits(number) if wait["kind"] == "budget"][:1]
    lost = draws.one([Lost.FREE, Lost.SPENT])
    wish = spending.Wish(number, f"b:reserve#{view.lease.head}", draws.one([0, 1, 4, 9]), lost, world.slot(number))
    closing = None
    for slot, wait in asked:
        wish = wish._replace(key=str(world.model.runs[number]["journal"][wait["seq"]][2]))
        if wait["answered"] and draws.one([True, True, False]):
            wish = wish._replace(answered=slot, slot=slot, note=b"1", once=draws.maybe())
        else:
            closing = (slot, wait["seq"])
            wish = wish._replace(asked=closing)
    return _inside(world, view, partial(_reserve, wish), lambda: world.model.reserve(wish), closing)


def _reserve(wish: spending.Wish, tx: Any) -> Any:
    return spending.reserve(tx, wish)


def settle(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Settle a reservation, or one that is not there."""
    view = world.view(target)
    number = view.lease.run_id
    held = [key for run, key in world.model.holds if run == number]
    hold, cost, call = draws.one([*held, *held, "b:reserve#none"]), draws.one([0, 1, 6]), f"b:settle#{view.lease.head}"

    def judged() -> str:
        world.model.settle(number, hold, cost)
        return "outcome"

    return _inside(world, view, lambda tx: spending.settle(tx, number, call, hold, cost), judged)


def left(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Ask what may still be reserved."""
    del draws
    view = world.view(target)
    number, call = view.lease.run_id, f"b:left#{view.lease.head}"

    def judged() -> str:
        world.model.above(number)
        return "outcome"

    return _inside(world, view, lambda tx: spending.left(tx, number, call), judged)


def pace(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Take from a rate bucket, arrive at it, or push it."""
    view, kind = world.view(target), draws.one(["take", "arrive", "push", "limited"])
    key = f"r:pace#{view.lease.head}"
    taker = rates.Taker(key, "api", draws.one([1, 2]), Rate(2, SECOND, draws.one([1, 2])), waited=kind == "arrive")

    def work(tx: Any) -> Any:
        if kind == "push":
            return rates.push(tx, key, "api", SECOND)
        return rates.limited(tx, key, "api", SECOND, {}) if kind == "limited" else rates.take(tx, taker)

    return _inside(world, view, work, lambda: "")
