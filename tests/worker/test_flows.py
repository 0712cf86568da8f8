"""What a flow may do, and that it does the same when its worker was killed anywhere (execution.md, A program)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Context, EffectContext, RunFailed, StepFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="untouched")
SEEN: list[Any] = []


@app.step
async def double(n: int) -> int:
    """Return twice the number."""
    COUNTER.act("double")
    return 2 * n


@app.step
def where(name: str) -> tuple[str, str]:
    """Say in which thread a blocking step runs, and which context it finds and leaves."""
    found = VARIABLE.get()
    VARIABLE.set(name)
    return threading.current_thread().name, found


@app.step
async def context_of(name: str) -> str:
    """Say which context an async step finds, and leave another one."""
    found = VARIABLE.get()
    VARIABLE.set(name)
    return found


@app.effect(safety="keyed")
async def tell(ctx: EffectContext, what: Any) -> Any:
    """Tell the outside world."""
    COUNTER.act(f"{ctx.key} {what}")
    return what


@app.flow
async def combined(ctx: Context) -> list[Any]:
    """Use asyncio's own tools."""
    first = await asyncio.gather(ctx.step(double, 1), ctx.step(double, 2))
    async with asyncio.TaskGroup() as group:
        parts = [group.create_task(ctx.step(double, n)) for n in (10, 20)]
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def feed() -> None:
        for n in (5, 6):
            await queue.put(await ctx.step(double, n))

    feeder = asyncio.create_task(feed())
    got = [await queue.get(), await queue.get()]
    await feeder
    waits: list[Awaitable[Any]] = [ctx.sleep(30), ctx.sleep(10)]
    done, _ = await asyncio.wait([asyncio.ensure_future(w) for w in waits], return_when=asyncio.FIRST_COMPLETED)
    try:
        async with asyncio.timeout(60):
            await ctx.receive("never")
    except TimeoutError:
        got.append(-1)
    return [*first, *(part.result() for part in parts), *got, len(done)]


@pytest.mark.slow
def test_asyncio_tools_replay(store: Store, moment: Moment) -> None:
    """gather, TaskGroup, Queue, wait and timeout give the same wherever the worker was killed."""

    async def drive(lab: Lab, run: Any) -> None:
        await lab.settle()
        await lab.pass_time(120)
        await lab.settle()
        assert await lab.state(run) == "completed", [str(line) for line in await lab.journal(run)]

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(combined, drive=drive):
            assert await crash.result() == [2, 4, 20, 40, 10, 12, -1, 1], crash

    on(store, moment, app, check)


@dataclass
class Progress:
    """A state that the flow changes before it calls anything."""

    left: list[int]
    tried: int = 0
    done: list[int] = field(default_factory=list)


FAIL_AT = {2}


@app.step(retries=1)
async def fragile(n: int) -> int:
    """Fail the first time for some numbers."""
    if n in FAIL_AT and COUNTER.act(f"fragile {n}") == 1:
        raise ValueError("not yet")
    return n


@app.flow
async def mutating(ctx: Context, state: Progress) -> Any:
    """Change the state, then call a step that fails."""
    SEEN.append(state)
    state.tried += 1
    if state.left:
        n = state.left.pop()
        state.done.append(await ctx.step(fragile, n))
        return ctx.again(state)
    return state.tried, state.done


@pytest.mark.slow
def test_a_state_changed_before_a_failing_step_is_right(store: Store, moment: Moment) -> None:
    """Each turn starts from a freshly decoded state, whatever happened to it before (execution.md)."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(mutating, Progress([3, 2, 1]), before=COUNTER.clear):
            assert await crash.result() == (4, [1, 2, 3]), crash

    on(store, moment, app, check)


def test_a_state_object_is_never_used_again(store: Store, moment: Moment) -> None:
    """Also while the run stays hot: what happens after a crash is what happens every time."""

    async def check(lab: Lab) -> None:
        SEEN.clear()
        run = await lab.start(mutating, Progress([4, 5]))
        assert await lab.result(run) == (3, [5, 4])
        assert len({id(state) for state in SEEN}) == len(SEEN) == 3

    on(store, moment, app, check)


@app.flow
async def outside(ctx: Context) -> Any:
    """Run steps that look around."""
    threads = [await ctx.step(where, name) for name in ("a", "b")]
    contexts = [await ctx.step(context_of, name) for name in ("c", "d")]
    return threads, contexts, VARIABLE.get()


def test_steps_run_outside_with_their_own_context(store: Store, moment: Moment) -> None:
    """A plain function runs in a thread, and no step sees another one's context variables."""

    async def check(lab: Lab) -> None:
        threads, contexts, own = await lab.result(await lab.start(outside))
        assert all(name.startswith("torpor-step") for name, _ in threads)
        assert [found for _, found in threads] == ["untouched", "untouched"]
        assert (contexts, own) == (["untouched", "untouched"], "untouched")

    on(store, moment, app, check)


@app.flow
async def recorded(ctx: Context) -> Any:
    """Draw values and tell the outside world about them."""
    drawn = (ctx.uuid(), ctx.random(), ctx.now())
    await ctx.effect(tell, drawn)
    later = ctx.uuid()
    await ctx.sleep(10)
    return drawn, later, ctx.now()


@pytest.mark.slow
def test_drawn_values_are_recorded_before_any_intent(store: Store, moment: Moment) -> None:
    """now, random and uuid are the same in every attempt, and the effect was told what is on record."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(recorded, before=COUNTER.clear):
            drawn, later, end = await crash.result()
            assert COUNTER.keys == 1, crash
            assert COUNTER.calls[0].endswith(str(drawn)), crash
            assert later != drawn[0]
            assert end - drawn[2] == timedelta(seconds=10), crash
            kinds = [line.kind for line in await crash.journal()]
            assert kinds[:4] == ["note", "note", "note", "intent"], crash

    on(store, moment, app, check)


@app.flow
async def talkative(ctx: Context) -> None:
    """Log around a step."""
    ctx.log("begin", n=1)
    await ctx.step(double, 1)
    ctx.log.warning("half", n=2)
    await ctx.sleep(10)
    ctx.log("end")


def test_a_log_line_is_written_once(store: Store, moment: Moment, caplog: pytest.LogCaptureFixture) -> None:
    """Lines before the last record are not written again when the turn is replayed."""
    caplog.set_level("INFO", logger="torpor.worker")

    async def check(lab: Lab) -> None:
        run = await lab.start(talkative)
        await lab.settle()
        await lab.kill()
        await lab.pass_time(10)
        assert await lab.state(run) == "completed"
        for word in ("begin", "half", "end"):
            assert sum(f"event='{word}'" in message for message in caplog.messages) == 1, word

    on(store, moment, app, check)


@app.step
async def raising() -> None:
    """Fail for good."""
    raise KeyError("gone")


@app.flow
async def catching(ctx: Context) -> Any:
    """Catch what a step failed with."""
    try:
        await ctx.step(raising)
    except StepFailed as error:
        return error.kind, error.detail, str(error)


@app.flow
async def failing(ctx: Context) -> None:
    """Let it through."""
    await ctx.step(raising)


@pytest.mark.slow
def test_a_failed_step_fails_the_same_way_in_replay(store: Store, moment: Moment) -> None:
    """The error a flow catches is the recorded one; uncaught, it fails the run."""

    async def check(lab: Lab) -> None:
        texts = {await crash.result() async for crash in lab.every_crash(catching)}
        assert texts == {("KeyError", "'gone'", "raising failed: KeyError: 'gone'")}
        run = await lab.start(failing)
        with pytest.raises(RunFailed, match="raising failed: KeyError"):
            await lab.result(run)

    on(store, moment, app, check)


@app.flow
async def foreign(_ctx: Context) -> None:
    """Await something that is not torpor's."""
    await asyncio.to_thread(print)


@app.flow
async def stuck(_ctx: Context) -> None:
    """Wait for what nobody will ever settle."""
    await asyncio.Event().wait()


@app.flow
async def endless(ctx: Context) -> None:
    """Never wait for anything."""
    while ctx.turn:  # noqa: ASYNC110 - the mistake itself
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("flow", "said"),
    [(foreign, "put it in a step"), (stuck, "nothing durable will ever settle"), (endless, "without")],
)
def test_what_cannot_be_replayed_fails_with_a_hint(store: Store, moment: Moment, flow: Any, said: str) -> None:
    """A foreign await, a wait for nothing, a loop without an end: the run fails and says what to do."""

    async def check(lab: Lab) -> None:
        run = await lab.start(flow)
        with pytest.raises(RunFailed, match=said):
            await lab.result(run)

    on(store, moment, app, check)


@app.flow
async def unstorable_result(_ctx: Context) -> Any:
    """Return what cannot be stored."""
    return {"deep": [1, lambda: None]}


@app.step
async def give_socket() -> Any:
    """Return what cannot be stored."""
    return {"socket": threading.Lock()}


@app.flow
async def unstorable_step(ctx: Context) -> Any:
    """Call a step whose result cannot be stored."""
    await ctx.step(give_socket)


@app.flow
async def unstorable_argument(ctx: Context) -> Any:
    """Call a step with an argument that cannot be stored."""
    await ctx.step(double, threading.Lock())


@app.flow
async def unstorable_state(ctx: Context, _state: Any) -> Any:
    """End a turn with a state that cannot be stored."""
    return ctx.again({"ok": 1, "items": [1, {"bad": threading.Lock()}]})


@pytest.mark.parametrize(
    ("flow", "path"),
    [
        (unstorable_result, "the result.deep[1]"),
        (unstorable_step, "the result of give_socket.socket"),
        (unstorable_argument, "the arguments of double.args[0]"),
        (unstorable_state, "state.items[1].bad"),
    ],
)
def test_an_unstorable_value_is_named_by_its_path(store: Store, moment: Moment, flow: Any, path: str) -> None:
    """What would not come back as it was is refused, and the run says where it is (G14)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(flow)
        with pytest.raises(RunFailed) as caught:
            await lab.result(run)
        assert path in str(caught.value)

    on(store, moment, app, check)
