"""What a worker does with a run that it holds, or believes to hold: proposals, and what happens inside a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.checkpoint import Mark
from torpor.core.commit import MessageKind, NewMessage, NewReply, NewWait
from torpor.core.event import prints_of, wanted_match
from torpor.core.family import counted, done_name, wishes
from torpor.core.journal import Entry, Kind
from torpor.core.run import State
from torpor.core.stream import NewPart, PartKind, StreamRow, StreamWrite
from torpor.core.wait import WaitKind
from torpor.engine.commit import commit as commit_all
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.differential.draws import Draws
    from tests.simulation.differential.world import View, World
    from torpor.core.commit import Proposal
    from torpor.engine.commit import Reply

    Build = Callable[[World, Draws, View], Proposal]

SECOND = 1_000_000
NOTHING = Entry(Kind.NOTE, None, b"1")


def told(reply: Reply) -> tuple[str, str]:
    """Return a reply to a proposal in the model's words."""
    refused = reply.refused.name.lower() if reply.refused is not None else ""
    return "answered" if reply.answered else "early" if reply.early else refused, reply.state.word


def committed(build: Build) -> Callable[[World, Draws, tuple[int, int]], bool]:
    """Return what proposes one thing."""

    def act(world: World, draws: Draws, target: tuple[int, int]) -> bool:
        view = world.view(target)
        return commit(world, [(view, build(world, draws, view))])[0]

    return act


def commit(world: World, proposed: Sequence[tuple[View, Proposal]]) -> list[bool]:
    """Commit a batch everywhere. Says which were accepted."""
    proposals, before = [p for _, p in proposed], world.signals()
    said = world.ask(
        lambda _: [world.model.commit(p) for p in proposals],
        lambda replies: [told(reply) for reply in replies],
        commit_all,
        proposals,
    )
    accepted = [told(reply)[0] == "" for reply in said]
    for (view, p), yes in zip(proposed, accepted, strict=True):
        world.sent.setdefault(p.run_id, []).append((p, yes))
        if yes:
            world.moved(view, p)
    if any(wait.matches is not None for p in proposals for wait in p.waits):
        world.reached(before)
    return accepted


def batch(world: World, draws: Draws, target: tuple[int, int]) -> bool:
    """Propose for several runs in one transaction, stale ones among them: each stands for itself."""
    chosen = {target[0]: target}
    for number, age in world.held():
        if number not in chosen and (age == 0 or draws.maybe()):
            chosen[number] = (number, age)
    kinds = [HOT, HOT, MIXED][draws.one([0, 1, 2])]
    proposed = [(world.view(one), draws.one(kinds)(world, draws, world.view(one))) for one in chosen.values()]
    return any(commit(world, proposed))


# entries and nothing else


def step(world: World, draws: Draws, view: View) -> Proposal:
    """Return an outcome of a step: the hot commit."""
    key = draws.one(["s:step#{}", "s:look@{}", "s:inside@0/other.1/{}"])  # the second kind may stand in rows as well
    entries = [Entry(Kind.OUTCOME, key.format(view.lease.head + n), b"1") for n in range(draws.one([1, 1, 2, 3]))]
    return world.propose(view, *entries)


def intent(world: World, draws: Draws, view: View) -> Proposal:
    """Return the intent of an effect."""
    del draws
    return world.propose(view, Entry(Kind.INTENT, f"e:pay#{view.lease.head}", b"{}"))


def outcome(world: World, draws: Draws, view: View) -> Proposal:
    """Return the outcome of an effect, or its failure."""
    run = world.model.runs.get(view.lease.run_id)
    opened = [run["journal"][n][2] for n in world.model.open_intents(run)] if run is not None else []
    kind = draws.one([Kind.OUTCOME, Kind.FAILURE])
    return world.propose(view, Entry(kind, draws.one([*opened, "e:pay#none"]), values.encode({"error": "x"})))


# the end of a turn


def turn(world: World, draws: Draws, view: View) -> Proposal:
    """Return the end of a turn: a checkpoint, with what the turn leaves behind."""
    body = values.encode({"turn": view.turn + 1})
    mark = Mark(view.turn + 1, 1, view.branch)
    more: dict[str, Any] = {"state_body": body, "turn": view.turn + 1, "keep": draws.one([0, 1, 2]), "spends": True}
    more["told_in_rows"] = draws.maybe()
    if view.point == 0:
        more["input_key"] = Mark(view.turn, 1, view.branch).text
    open_waits = world.waits(view.lease.run_id)
    more["over"] = [slot for slot, _ in open_waits]
    last = Entry(
        Kind.OUTCOME, f"s:look@{view.lease.head}", b"1"
    )  # it travels with the checkpoint, as what came last does
    return world.propose(view, last, Entry(Kind.CHECKPOINT, mark.text, body), **more)


def complete(world: World, draws: Draws, view: View) -> Proposal:
    """Return a good end."""
    del draws
    return world.propose(view, Entry(Kind.OUTCOME, None, b"42"), after=State.COMPLETED, spends=True)


def fail(world: World, draws: Draws, view: View) -> Proposal:
    """Return a bad end, which names the call that it came from."""
    key = f"s:step#{view.lease.head}"
    said = values.encode({"error": "x"})
    calls = draws.one([[key], []])
    end = Entry(Kind.FAILURE, None, values.encode({"calls": calls}))
    return world.propose(view, Entry(Kind.FAILURE, key, said), end, after=State.FAILED, spends=True)


def end_cancelled(world: World, draws: Draws, view: View) -> Proposal:
    """Return the end of a run that was cancelled."""
    del draws
    return world.propose(view, Entry(Kind.NOTE, None, b"1"), after=State.CANCELLED, spends=True)


def give_back(world: World, draws: Draws, view: View) -> Proposal:
    """Return a yield: others wait."""
    return world.propose(view, NOTHING, after=State.READY, seen=_seen(world, draws, view))


# waits


def _seen(world: World, draws: Draws, view: View) -> int:
    """What the worker saw of the inbox: as of its claim, or as it is now."""
    run = world.model.runs.get(view.lease.run_id)
    return view.inbox if run is None else draws.one([run["inbox"], run["inbox"], view.inbox])


def _due(world: World, draws: Draws) -> int | None:
    return draws.one([None, world.now + SECOND, world.now + 30 * SECOND])


def _waits(world: World, draws: Draws, view: View, wait: NewWait, entry: Entry, *, stays: bool = False) -> Proposal:
    after = draws.one([State.WAITING, State.WAITING, State.RUNNING]) if stays else State.WAITING
    dues = [one["due"] for _, one in world.waits(view.lease.run_id) if one["due"] is not None and not one["answered"]]
    due_at = min([*dues, *([] if wait.due_at is None else [wait.due_at])], default=None)
    needs = wait.kind.for_person or any(
        WaitKind[w["kind"].upper()].for_person for _, w in world.waits(view.lease.run_id)
    )
    seen = _seen(world, draws, view)
    return world.propose(view, entry, waits=[wait], after=after, due_at=due_at, needs_person=needs, seen=seen)


def sleep(world: World, draws: Draws, view: View) -> Proposal:
    """Return a timer."""
    wait = NewWait(world.slot(view.lease.run_id), 1, WaitKind.TIMER, world.now + draws.one([1, 5]) * SECOND, "")
    return _waits(world, draws, view, wait, Entry(Kind.NOTE, f"t:sleep#{view.lease.head}", b"1"))


def listen(world: World, draws: Draws, view: View) -> Proposal:
    """Return a wait for a message."""
    wait = NewWait(world.slot(view.lease.run_id), 1, WaitKind.MESSAGE, _due(world, draws), "go")
    return _waits(world, draws, view, wait, Entry(Kind.NOTE, f"m:go#{view.lease.head}", b"1"), stays=True)


def question(world: World, draws: Draws, view: View) -> Proposal:
    """Return a question for a person."""
    kind = draws.one([WaitKind.APPROVAL, WaitKind.APPROVAL, WaitKind.QUESTION])
    wait = NewWait(world.slot(view.lease.run_id), 1, kind, _due(world, draws), "Send it?")
    return _waits(world, draws, view, wait, Entry(Kind.WAIT, f"a:ok#{view.lease.head}", b"{}"), stays=True)


def trouble(world: World, draws: Draws, view: View) -> Proposal:
    """Return a wait for a person about trouble: an effect of which nobody knows, or the run as a whole."""
    run = world.model.runs.get(view.lease.run_id)
    opened = [run["journal"][n][2] for n in world.model.open_intents(run)] if run is not None else []
    wait = NewWait(world.slot(view.lease.run_id), 1, WaitKind.ATTENTION, None, "unknown")
    return _waits(world, draws, view, wait, Entry(Kind.WAIT, draws.one([*opened, *opened, None]), b"{}"))


def hook(world: World, draws: Draws, view: View) -> Proposal:
    """Return a wait for a callback."""
    wait = NewWait(world.slot(view.lease.run_id), 1, WaitKind.CALLBACK, _due(world, draws), "hook")
    return _waits(world, draws, view, wait, Entry(Kind.WAIT, f"c:hook#{view.lease.head}", b"{}"), stays=True)


def expect(world: World, draws: Draws, view: View) -> Proposal:
    """Return a wait for an event, of any or of one that has a field."""
    where = draws.one([{}, {"n": 1}])
    match = wanted_match("paid", prints_of(where))
    wait = NewWait(world.slot(view.lease.run_id), 1, WaitKind.EVENT, _due(world, draws), "paid", matches=match)
    asked = Entry(Kind.WAIT, f"n:paid#{view.lease.head}", values.encode({"name": "paid", "where": where}))
    return _waits(world, draws, view, wait, asked, stays=True)


def join(world: World, draws: Draws, view: View) -> Proposal:
    """Return a wait for all of a run's children."""
    number = view.lease.run_id
    names = [done_name(n) for n, run in world.model.runs.items() if run["parent"] == number]
    need, members = counted(names, {signal["name"] for _, signal in world.unread(number)})
    slot = world.slot(number)
    wait = NewWait(slot, 1, WaitKind.CHILDREN, _due(world, draws), "children", need=need, members=members)
    return _waits(world, draws, view, wait, Entry(Kind.NOTE, f"j:join#{view.lease.head}", b"1"))


# the ends of waits


def consume(world: World, draws: Draws, view: View) -> Proposal:
    """Return the consumption of the oldest signal, or of a decision."""
    del draws
    number = view.lease.run_id
    unread, answered = world.unread(number)[:1], [slot for slot, w in world.waits(number) if w["answered"]][:1]
    listening = [slot for slot, w in world.waits(number) if w["kind"] == "message"][:1] if unread else []
    entry = Entry(Kind.CONSUMED, f"m:go#{view.lease.head}", b"1")
    return world.propose(view, entry, taken=[n for n, _ in unread], over={*answered, *listening})


def expire(world: World, draws: Draws, view: View) -> Proposal:
    """Return the end of a timer, which may be early."""
    del draws
    timers = [(slot, wait["due"]) for slot, wait in world.waits(view.lease.run_id) if wait["due"] is not None][:1]
    entry = Entry(Kind.CONSUMED, f"t:sleep#{view.lease.head}", b"1")
    return world.propose(
        view, entry, over=[slot for slot, _ in timers], not_before=max((at for _, at in timers), default=0)
    )


def withdraw(world: World, draws: Draws, view: View) -> Proposal:
    """Return the withdrawal of a wait: refused if an answer came first."""
    closes = [(slot, wait["seq"]) for slot, wait in world.waits(view.lease.run_id)][:1]
    looked = draws.maybe()
    return world.propose(view, NOTHING, closes=closes, looked=looked, seen=_seen(world, draws, view))


# others


def send(world: World, draws: Draws, view: View) -> Proposal:
    """Return a message to another run."""
    key = draws.one([f"x{view.lease.run_id}.{view.lease.head}", f"x{view.lease.run_id}"])
    message = NewMessage(draws.one(world.numbers()), "go", key, b"1")
    return world.propose(view, Entry(Kind.OUTCOME, f"x:go#{view.lease.head}", b"1"), messages=[message])


def spawn(world: World, draws: Draws, view: View) -> Proposal:
    """Return the wish for a child, bound or independent, under a key of its own or not."""
    kind = draws.one([MessageKind.SPAWN, MessageKind.SPAWN, MessageKind.SPAWN_INDEPENDENT])
    key, own = f"p{view.lease.head}", draws.one(["", "", wishes("mine", None)])
    message = NewMessage(0, draws.one(["shop", "shop", "shop", "none"]), key, b"7", kind, own)
    return world.propose(view, Entry(Kind.WAIT, f"p:shop#{view.lease.head}", b"{}"), messages=[message])


def reply(world: World, draws: Draws, view: View) -> Proposal:
    """Return the answer to a client."""
    answer = NewReply(f"{view.lease.run_id}:{draws.one(['q1', 'q2'])}", b"1")
    return world.propose(view, Entry(Kind.OUTCOME, f"y:reply#{view.lease.head}", b"1"), replies=[answer])


def undo(world: World, draws: Draws, view: View) -> Proposal:
    """Return a compensation of a cancelled run: it may start, and wait. Of another run it is an effect like any."""
    undone, lease = Entry(Kind.INTENT, f"k:undo#{view.lease.head}", b"{}"), view.lease
    mine = world.model.mine(lease.run_id, lease.token, lease.epoch)
    if draws.maybe() or (mine is not None and not mine["cancel"]):
        return world.propose(view, undone, undoing=mine is None or mine["cancel"])
    wait = NewWait(world.slot(view.lease.run_id), 2, WaitKind.RETRY, world.now + SECOND, "")
    more: dict[str, Any] = {"waits": [wait], "due_at": wait.due_at, "seen": _seen(world, draws, view)}
    return world.propose(view, undone, NOTHING, undoing=True, after=State.WAITING, **more)


def speak(world: World, draws: Draws, view: View) -> Proposal:
    """Return a commit that writes to the run's stream and shows something."""
    said = [NewPart(1, PartKind.TEXT, b"x")]
    write = StreamWrite(counter(world, view), said, keeps=draws.one([(), (1,)]), ends=draws.maybe())
    return world.propose(view, Entry(Kind.OUTCOME, f"o:emit#{view.lease.head}", b"1"), stream=write, view=b"1")


def stream_of(world: World, number: int) -> StreamRow | None:
    """Return a run's stream as it stands."""
    row = next((one for one in world.snapshot["streams"] if one["run_id"] == number), None)
    return None if row is None else StreamRow(number, row["n"], row["epoch"], row["loose"])


def counter(world: World, view: View) -> int | None:
    """Return the number of the last part that a worker wrote, None before its first."""
    row = stream_of(world, view.lease.run_id)
    return row.n if row is not None and row.epoch == view.lease.epoch else None


HOT: list[Build] = [step, intent, outcome]
MIXED: list[Build] = [step, turn, sleep, question, consume, send, complete, spawn, withdraw, expire, give_back, reply]
