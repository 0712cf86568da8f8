"""Steps and effects: attempts, pauses, timeouts, what an effect is told, effects inside the commit."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Context, EffectContext, NotDone, RetryPolicy, RunFailed, StepFailed, UsageError

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store, Tx
    from torpor.testing import Lab

app = App()


def sql(statement: str) -> str:
    """Return a statement about the author's own table."""
    return statement.replace("{table}", TABLE)


SHORT = RetryPolicy(retries=3, first_seconds=0.02, factor=2)
LONG = RetryPolicy(retries=3, first_seconds=3600, factor=2, most_seconds=100_000)
TABLE = f"calls_{os.getpid()}"


@app.step(retries=SHORT)
async def soon(fails: int) -> int:
    """Fail so many times."""
    attempt = COUNTER.act("soon")
    if attempt <= fails:
        raise ConnectionError(f"attempt {attempt}")
    return attempt


@app.step(retries=LONG)
async def later(fails: int) -> int:
    """Fail so many times, with an hour between."""
    attempt = COUNTER.act("later")
    if attempt <= fails:
        raise ConnectionError(f"attempt {attempt}")
    return attempt


@app.flow
async def retries(ctx: Context, state: tuple[bool, int]) -> Any:
    """Call a step that fails some times."""
    slow, fails = state
    try:
        return await ctx.step(later if slow else soon, fails)
    except StepFailed as error:
        return str(error)


@pytest.mark.parametrize("slow", [False, True])
def test_a_step_is_tried_again(store: Store, moment: Moment, *, slow: bool) -> None:
    """So often as its policy says, in short pauses or long ones; then it failed."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(retries, (slow, 3))) == 4
        COUNTER.clear()
        text = await lab.result(await lab.start(retries, (slow, 9)))
        assert "failed after 4 attempts: ConnectionError: attempt 4" in text
        assert COUNTER.count == 4

    on(store, moment, app, check)


@pytest.mark.slow
def test_attempts_survive_their_worker(store: Store, moment: Moment) -> None:
    """A recorded failure is never forgotten, an attempt without a record may be made again."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(retries, (True, 3), before=COUNTER.clear):
            assert await crash.result() in {4, 5}, crash
            notes = [line.value["attempt"] for line in await crash.journal() if line.kind == "note"]
            assert notes == sorted(set(notes)), crash
            assert COUNTER.count <= 5, crash

    on(store, moment, app, check)


def test_a_long_pause_needs_no_process(store: Store, moment: Moment) -> None:
    """Between two attempts an hour apart the run is put away."""

    async def check(lab: Lab) -> None:
        run = await lab.start(retries, (True, 1))
        await lab.settle()
        assert await lab.state(run) == "waiting"
        (wait,) = await lab.waits(run)
        assert (wait.kind, wait.title) == ("retry", "retry 1 of later#1")
        await lab.kill()
        await lab.pass_time(3000)
        assert COUNTER.count == 1
        await lab.pass_time(1000)
        assert await lab.result(run) == 2

    on(store, moment, app, check)


@app.step(timeout=0.01)
async def too_slow() -> None:
    """Take for ever."""
    await asyncio.Event().wait()


RELEASE = threading.Event()


@app.step(timeout=0.01)
def blocks() -> None:
    """Block a thread until the test is over."""
    RELEASE.wait()


@app.effect(timeout=0.01)
async def hangs() -> None:
    """Act, and never come back."""
    COUNTER.act("hangs")
    await asyncio.Event().wait()


@app.flow
async def times_out(ctx: Context, name: str) -> Any:
    """Call what takes too long."""
    try:
        if name == "hangs":
            return await ctx.effect(hangs)
        return await ctx.step(too_slow if name == "too_slow" else blocks)
    except StepFailed as error:
        return f"{error.kind}: {error.detail}"


@pytest.mark.parametrize("name", ["too_slow", "blocks"])
def test_a_timeout_ends_a_step(store: Store, moment: Moment, name: str) -> None:
    """A step that takes too long failed with TimeoutError, also one that blocks its thread; it says which limit that was."""

    async def check(lab: Lab) -> None:
        said = "TimeoutError: no answer within 0.01 s, its timeout"
        assert await lab.result(await lab.start(times_out, name)) == said

    RELEASE.clear()
    try:
        on(store, moment, app, check)
    finally:
        RELEASE.set()


def test_a_timeout_of_a_once_effect_is_unknown(store: Store, moment: Moment) -> None:
    """It acted, and nobody knows how far."""

    async def check(lab: Lab) -> None:
        run = await lab.start(times_out, "hangs")
        await lab.settle()
        assert (await lab.effects(run))[0].state == "unknown"

    on(store, moment, app, check)


@app.effect(safety="keyed", retries=SHORT, timeout=30)
async def told(ctx: EffectContext, x: int) -> Any:
    """Note what it was told."""
    COUNTER.act(ctx.key)
    if ctx.attempt < 3:
        raise NotDone("busy")
    assert ctx.deadline is not None
    return ctx.attempt, ctx.run_id, x


@app.flow
async def tells(ctx: Context) -> Any:
    """Call twice with equal arguments, at once, and once named."""
    got = await asyncio.gather(ctx.effect(told, 1), ctx.effect(told, 1), ctx.effect(told, 1, step_id="named"))
    return got, ctx.run_id


def test_an_effect_is_told_key_attempt_and_run(store: Store, moment: Moment) -> None:
    """Each logical call has its own key, equal in every attempt (G5)."""

    async def check(lab: Lab) -> None:
        got, run_id = await lab.result(await lab.start(tells))
        assert got == [(3, run_id, 1)] * 3
        assert COUNTER.keys == 3
        assert COUNTER.count == 9

    on(store, moment, app, check)


@app.flow
async def parallel(ctx: Context) -> list[Any]:
    """Intend three effects at once."""
    return await asyncio.gather(*(ctx.effect(told, n) for n in range(3)))


def test_intents_of_parallel_calls_go_in_one_commit(store: Store, moment: Moment) -> None:
    """One commit, then the gates (protocol, Effect)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(parallel)
        await lab.result(run)
        kinds = [line.kind for line in await lab.journal(run)]
        assert kinds[:3] == ["intent"] * 3

    on(store, moment, app, check)


@app.effect(safety="transactional")
def write(connection: Any, statement: str) -> str:
    """Do what the test says with the lent connection."""
    for part in statement.split(";"):
        connection.execute(sql(part))
    return "written"


@app.effect(safety="transactional", retries=SHORT)
def write_again(connection: Any) -> int:
    """Write, and fail the first time."""
    connection.execute(sql("INSERT INTO {table} (n) VALUES (5)"))
    if COUNTER.act("write") == 1:
        raise OSError("not yet")
    return COUNTER.count


@app.effect(safety="transactional")
def unstorable(connection: Any) -> Any:
    """Write, and return what cannot be stored."""
    connection.execute(sql("INSERT INTO {table} (n) VALUES (6)"))
    return threading.Lock()


@app.flow
async def writes(ctx: Context, statement: str) -> Any:
    """Write inside the commit."""
    if statement in {"again", "unstorable"}:
        return await ctx.effect(write_again if statement == "again" else unstorable)
    return await ctx.effect(write, statement)


def lent(store: Store, statement: str) -> int:
    """Run a statement as an author would; return the first number it gives, if any."""

    def run(tx: Tx) -> int:
        with tx.lend() as connection:
            cursor = connection.execute(statement)
            return int(cursor.fetchone()[0]) if cursor.description is not None else 0

    return store.transact_now(run)


@pytest.fixture
def table(store: Store) -> Any:
    """Make a table of the author's own."""
    lent(store, sql("CREATE TABLE {table} (n int)"))
    yield TABLE
    lent(store, sql("DROP TABLE {table}"))


INSERT = "INSERT INTO {table} (n) VALUES (1)"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"{INSERT}; COMMIT", "must not"),
        (f"{INSERT}; SELECT no_such_thing", "no_such_thing"),
        (f"{INSERT}; ROLLBACK", "must not"),
        ("unstorable", "the result of unstorable"),
    ],
)
def test_a_refused_write_leaves_nothing(store: Store, moment: Moment, statement: str, said: str) -> None:
    """What the author's function raises, or must not do, rolls everything back, and the run fails with it (G6)."""

    async def check(lab: Lab) -> None:
        run = await lab.start(writes, statement)
        with pytest.raises(RunFailed, match=said):
            await lab.result(run)
        assert await asyncio.to_thread(lent, store, sql("SELECT count(*) FROM {table}")) == 0

    on(store, moment, app, check)


@pytest.mark.usefixtures("table")
def test_a_write_is_tried_again_whole(store: Store, moment: Moment) -> None:
    """The first attempt leaves nothing, the second one row."""

    async def check(lab: Lab) -> None:
        assert await lab.result(await lab.start(writes, "again")) == 2
        assert await asyncio.to_thread(lent, store, sql("SELECT count(*) FROM {table}")) == 1

    on(store, moment, app, check)


@app.flow
async def mixed(ctx: Context) -> Any:
    """Effects inside the commit beside everything else."""
    got = await asyncio.gather(
        ctx.effect(write, INSERT),
        ctx.step(soon, 0),
        ctx.effect(write, INSERT),
        ctx.effect(told, 1),
        ctx.effect(write, INSERT),
    )
    return got[0], got[2], got[4]


@pytest.mark.slow
@pytest.mark.usefixtures("table")
def test_effects_inside_the_commit_mix_with_others(store: Store, moment: Moment) -> None:
    """Three at once, beside a step and another effect: each exactly once, wherever the worker dies."""

    async def check(lab: Lab) -> None:
        def before() -> None:
            COUNTER.clear()
            lent(store, sql("DELETE FROM {table}"))

        async for crash in lab.every_crash(mixed, before=before):
            assert await crash.result() == ("written",) * 3, crash
            assert await asyncio.to_thread(lent, store, sql("SELECT count(*) FROM {table}")) == 3, crash

    on(store, moment, app, check)


def test_what_cannot_be_kept_is_refused_where_it_is_declared() -> None:
    """Retries on `once`, an effect called as a step, a timeout inside the commit: errors with a hint."""
    with pytest.raises(UsageError, match="retried"):
        app.effect(retries=3)(lambda: None)
    with pytest.raises(UsageError, match="verify=f"):
        app.effect(safety="verify")(lambda: None)
    with pytest.raises(UsageError, match="2 seconds"):
        app.effect(safety="transactional", timeout=5)(lambda _connection: None)


@app.flow
async def wrong_kind(ctx: Context) -> None:
    """Call an effect as a step."""
    await ctx.step(told, 1)


def test_an_effect_is_not_a_step(store: Store, moment: Moment) -> None:
    """It would run again after a crash."""

    async def check(lab: Lab) -> None:
        with pytest.raises(RunFailed, match="called as a step"):
            await lab.result(await lab.start(wrong_kind))

    on(store, moment, app, check)
