"""Fork, rewind and retry of runs that really work: what acts, what does not, and what late results change (G5, G18, G19)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import checkpoints, on
from torpor import App, Client, Conflict, Context, EffectContext, NeedsPerson, NotFound, Rows

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()


@app.effect(safety="keyed")
async def pay(ctx: EffectContext, amount: int) -> int:
    """Pay; the far side counts the key."""
    COUNTER.act(ctx.key)
    return amount


@app.effect
async def mail(to: str) -> str:
    """Send what nobody can take back."""
    COUNTER.act(f"mail {to}")
    return to


@dataclass
class Todo:
    """Amounts to be paid, one a turn, and those that were."""

    left: int
    paid: Rows[int] = field(default_factory=Rows)


@app.flow
async def pays(ctx: Context, state: Todo) -> Any:
    """Pay one amount a turn, then wait for a word, and say what was paid."""
    if state.left:
        state.paid.append(await ctx.effect(pay, 10 * state.left))
        state.left -= 1
        return ctx.again(state)
    word = await ctx.receive("word")
    return [word, [n async for n in state.paid]]


@app.flow
async def asks(ctx: Context, state: Todo) -> Any:
    """Ask in the second turn, then mail."""
    if state.left:
        return ctx.again(Todo(0))
    answer = await ctx.approval("Mail?", show=1)
    return await ctx.effect(mail, "ana") if answer.approved else "no"


@app.flow
async def doubles(_ctx: Context, number: int) -> int:
    """Double a number."""
    return 2 * number


@dataclass
class Joined:
    """A child that was started, and what it gave."""

    children: list[str]
    gave: list[int] = field(default_factory=list)


@app.flow
async def joins(ctx: Context, state: Joined) -> Any:
    """Start children in a turn, join them in the next, keep what they gave, and wait."""
    if not state.children:
        return ctx.again(Joined([await ctx.spawn("doubles", n) for n in (1, 2, 3)]))
    if not state.gave:
        first = await ctx.join(state.children[0])
        return ctx.again(Joined(state.children, [first, *await ctx.join_all(state.children[1:])]))
    return [await ctx.receive("word"), state.gave]


@pytest.mark.slow
def test_a_rewind_to_before_a_join(store: Store, moment: Moment) -> None:
    """The children whose ids the state has are joined again on the new branch, as often as it goes back, also killed (G19)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(joins, Joined([]))
        await lab.settle()
        started, joined = (await checkpoints(lab, run.name))[1:]
        for _ in range(2):
            await client.rewind(run.name, at=started, by="ana")
            await lab.settle()
            shown = await client.show(run.name)
            assert (shown.line.reason, shown.state["gave"]) == ("message word", [2, 4, 6])
        await client.rewind(run.name, at=joined, by="ana")
        await client.signal(run.name, "word", "done")
        assert await lab.result(run) == ["done", [2, 4, 6]]
        assert [line.program for line in await client.list(program="doubles")] == ["doubles"] * 3

    on(store, moment, app, check)


def test_a_fork_is_a_new_being(store: Store, moment: Moment) -> None:
    """It has the state and the rows of the checkpoint and keys of its own; the source goes on as it was (G5, G19)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(pays, Todo(3))
        await lab.settle()
        await lab.drain()
        assert await lab.signal(run, "word", "early")
        points = await checkpoints(lab, run.name)
        assert len(points) == 4
        assert points[0] == 0
        before = await lab.journal(run)
        look = await client.outlook(run.name, at=points[1])
        assert [(line.effect.partition("#")[0], line.outcome) for line in look.cannot_undo] == [("pay", "done")] * 2
        copy = await client.fork(run.name, at=points[1], by="ana")
        assert await lab.journal(run) == before
        await lab.settle()
        assert await lab.result(run) == ["early", [30, 20, 10]]
        shown = await client.show(copy.run_id)
        assert (shown.line.shown, shown.unread) == ("asleep", [])
        assert (shown.history.forked_from, shown.history.forked_at) == (run.name, points[1])
        assert COUNTER.count == COUNTER.keys == 5
        assert await client.signal(copy.run_id, "word", "late")
        await lab.settle()
        assert await client.result(copy.run_id) == ["late", [30, 20, 10]]
        assert (await client.show(run.name)).history.forks == [copy.run_id]

    on(store, moment, app, check)


def test_an_input_sent_as_json_is_gone_back_to(store: Store, moment: Moment) -> None:
    """It is read as the flow's annotation says again, in a rewind to it and in a copy of that, though it is no first turn."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(pays, {"left": 1})
        await lab.settle()
        await client.rewind(run.name, at=0, by="ana")
        back = (await checkpoints(lab, run.name))[-1]
        copy = await client.fork(run.name, at=back, by="ana")
        await lab.settle()
        for one in (run.name, copy.run_id):
            assert await client.signal(one, "word", "go")
        await lab.settle()
        for one in (run.name, copy.run_id):
            assert await client.result(one) == ["go", [10]]

    on(store, moment, app, check)


def test_a_fork_of_an_ended_run_says_where_from(store: Store, moment: Moment) -> None:
    """Without a checkpoint it is refused with the command that works; with it, it works; with another input too."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(pays, Todo(1))
        await lab.signal(run, "word", "a")
        assert await lab.result(run) == ["a", [10]]
        last = (await checkpoints(lab, run.name))[-1]
        with pytest.raises(Conflict) as refused:
            await client.fork(run.name, by="ana")
        assert refused.value.hint == f"torpor fork {run.name} --at {last}   (its last one)"
        copy = await client.fork(run.name, at=last, by="ana", title="again")
        other = await client.fork(run.name, at=0, by="ana", input={"left": 2})
        await lab.settle()
        for one, paid in ((copy, [10]), (other, [20, 10])):
            await client.signal(one.run_id, "word", "b")
            await lab.settle()
            assert await client.result(one.run_id) == ["b", paid]

    on(store, moment, app, check)


def test_a_rewind_goes_back_and_forth(store: Store, moment: Moment) -> None:
    """State and rows land on the same point; heads and turns go up; going forward brings the rows back unpaid (G5)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(pays, Todo(3))
        await lab.settle()
        points = await checkpoints(lab, run.name)
        shown = await client.show(run.name)
        look = await client.outlook(run.name, at=points[1], verb="rewind")
        assert look.cut_rows == {"paid": 2}
        assert look.waits == ["message word"]
        back = await client.rewind(run.name, at=points[1], by="ana")
        assert (back.turn, back.branch, back.previous, back.previous_kept) == (5, 1, points[3], True)
        await lab.settle()
        assert COUNTER.count == COUNTER.keys == 5
        later = await client.show(run.name)
        assert later.head > shown.head
        forward = await client.rewind(run.name, at=points[3], by="ana")
        assert [line.turn for line in forward.outlook.cannot_undo] == [5, 6]
        assert (forward.outlook.turn, forward.turn, forward.branch) == (4, 8, 2)
        await lab.signal(run, "word", "end")
        assert await lab.result(run) == ["end", [30, 20, 10]]
        assert COUNTER.count == 5

    on(store, moment, app, check)


def test_an_approval_stays_with_its_branch(store: Store, moment: Moment) -> None:
    """A rewind asks anew, in the copy as well; an old answer is refused (G10, G19)."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(asks, Todo(1))
        await lab.settle()
        (old,) = await lab.waits(run)
        copy = await client.fork(run.name, by="ana")
        point = (await checkpoints(lab, run.name))[-1]
        await client.rewind(run.name, at=point, by="ana")
        with pytest.raises(Conflict):
            await client.approve(old.name, by="ben")
        await lab.settle()
        (new,) = await lab.waits(run)
        assert new.seq > old.seq
        await client.approve(new.name, by="ben")
        await lab.settle()
        assert await lab.result(run) == "ana"
        with pytest.raises(NeedsPerson):
            await client.result(copy.run_id, person="raise")
        assert COUNTER.calls == ["mail ana"]

    on(store, moment, app, check)


def test_what_cannot_be_gone_back_to(store: Store, moment: Moment) -> None:
    """No such entry, no checkpoint, an ended run, a cancelled one: each says what would work."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(pays, Todo(1))
        await lab.settle()
        last = (await checkpoints(lab, run.name))[-1]
        with pytest.raises(NotFound, match="has no entry 99") as nowhere:
            await client.rewind(run.name, at=99, by="ana")
        assert f"torpor rewind {run.name} --at {last}" in nowhere.value.hint
        with pytest.raises(NotFound, match=f"has no entry {2**70}"):
            await client.rewind(run.name, at=2**70, by="ana")
        with pytest.raises(NotFound, match="has no entry -1"):
            await client.fork(run.name, at=-1, by="ana")
        with pytest.raises(NotFound, match=r"entry 1 of .* is no checkpoint but an intent"):
            await client.rewind(run.name, at=1, by="ana")
        with pytest.raises(Conflict, match="only a failed run is retried"):
            await client.retry(run.name, by="ana")
        await lab.drain()
        await lab.cancel(run)
        with pytest.raises(Conflict, match=r"cancel of .* is recorded"):
            await client.rewind(run.name, at=last, by="ana")
        await lab.settle()
        with pytest.raises(Conflict, match="is cancelled: a run that has ended is not rewound") as ended:
            await client.rewind(run.name, at=last, by="ana")
        assert ended.value.hint == f"torpor fork {run.name} --at {last}"
        with pytest.raises(Conflict, match="is cancelled") as cancelled:
            await client.retry(run.name, by="ana")
        assert cancelled.value.hint.startswith(f"torpor fork {run.name} --at {last}")

    on(store, moment, app, check)


def test_only_so_many_checkpoints_are_kept(store: Store, moment: Moment) -> None:
    """Older states are emptied now and then; the input stays; what was emptied is said (G9)."""
    small = App()

    @small.flow(keep_checkpoints=3)
    async def counts(ctx: Context, n: int) -> Any:
        return ctx.again(n + 1) if n < 20 else await ctx.receive("never")

    @small.flow(keep_checkpoints=0)
    async def forgets(ctx: Context, n: int) -> Any:
        return ctx.again(n + 1) if n < 4 else await ctx.receive("never")

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run, other = await lab.start(counts, 0), await lab.start(forgets, 0)
        await lab.settle()
        points = (await client.show(run.name)).history.checkpoints
        assert points[-1].checkpoint == 0
        assert 4 <= len(points) <= 8
        assert [one.turn for one in points[:4]] == [21, 20, 19, 18]
        with pytest.raises(Conflict, match=r"the state of checkpoint 1 of .* is not kept any more"):
            await client.fork(run.name, at=1, by="ana")
        copy = await client.fork(run.name, at=points[2].checkpoint, by="ana")
        assert copy.outlook.turn == points[2].turn == 19
        await lab.settle()
        assert (await client.show(copy.run_id)).line.turn == 21
        assert len((await client.show(other.name)).history.checkpoints) == 1
        with pytest.raises(Conflict, match=r"the input of .* is not kept"):
            await client.fork(other.name, at=0, by="ana")
        assert (await client.fork(other.name, by="ana")).outlook.turn == 5

    on(store, moment, small, check)
