"""OpenTelemetry spans: what they say, what nests below them, and that all of a run's belong to one trace."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler

from tests.worker.labs import on
from torpor import App, Client, Context, EffectContext
from torpor.core.lease import Proof
from torpor.engine import leases
from torpor.testing import Place
from torpor.testing.lab import run_of
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Tracer

    from tests.stores import Moment
    from tests.stores import Place as Database
    from torpor.store.protocol import Store
    from torpor.testing import Lab

SECRET = "a-long-secret"  # noqa: S105 - not one

app = App()


@app.step
async def double(n: int) -> int:
    """Have a span of one's own."""
    with TRACER[0].start_as_current_span("inner"):
        return 2 * n


@app.step
def halve(n: int) -> int:
    """Have one in a thread."""
    with TRACER[0].start_as_current_span("inner in a thread"):
        return n // 2


@app.effect(safety="keyed")
async def pay(ctx: EffectContext, n: int) -> str:
    """Act."""
    del ctx
    return f"paid {n}"


@app.effect(safety="transactional")
def book(connection: Any, n: int) -> int:
    """Act inside the commit."""
    del connection
    with TRACER[0].start_as_current_span("inner in the commit"):
        return n


@app.effect(safety="keyed", retries=1)
async def leaks(ctx: EffectContext) -> None:
    """Fail with a secret in the text."""
    raise ValueError(f"no, {ctx.secret('word')} is wrong")


@app.flow
async def shop(ctx: Context, n: int) -> int:
    """Do one of each."""
    small = await ctx.step(halve, await ctx.step(double, n))
    await ctx.effect(pay, small)
    await ctx.sleep(60)
    return await ctx.effect(book, small)


@app.flow
async def fails(ctx: Context) -> None:
    """Fail."""
    await ctx.effect(leaks)


@app.flow
async def family(ctx: Context) -> int:
    """Start a child and wait for it."""
    child = await ctx.spawn("shop", 4)
    result: int = await ctx.join(child)
    return result


TRACER: list[Tracer] = []


class Spans:
    """A provider that keeps spans in memory."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        """Keep none yet."""
        self.kept = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self.kept))
        TRACER[:] = [self.provider.get_tracer("author")]

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans with a name, in the order in which they ended."""
        return [span for span in self.kept.get_finished_spans() if span.name == name]

    @property
    def traces(self) -> set[int]:
        """The ids of all traces."""
        return {span.context.trace_id for span in self.kept.get_finished_spans() if span.context is not None}


def said(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes, without the prefix."""
    return {name.removeprefix("torpor."): value for name, value in (span.attributes or {}).items()}


def below(span: ReadableSpan, above: ReadableSpan) -> bool:
    """Whether a span is a child of another one."""
    return span.parent is not None and above.context is not None and span.parent.span_id == above.context.span_id


def test_a_span_for_each_stretch_and_below_it_for_each_attempt(store: Store, moment: Moment) -> None:
    """They say names and numbers; the author's own nest below, also those in threads and inside a commit."""
    spans = Spans()

    async def check(lab: Lab) -> None:
        run = await lab.start(shop, 4)
        await lab.pass_time(61)
        assert await lab.result(run) == 4
        first, second = spans.named("torpor.stretch shop")
        assert {"run": str(run), "program": "shop", "version": 1, "turn": 1}.items() <= said(first).items()
        assert [said(span)["ended"] for span in (first, second)] == ["waiting", "completed"]
        assert said(first)["epoch"] < said(second)["epoch"]
        assert said(first)["worker"]
        assert [(event.name, dict(event.attributes or {})["torpor.kind"]) for event in first.events] == [
            ("torpor.wait", "timer")
        ]
        (paid,), (booked,) = spans.named("torpor.step pay"), spans.named("torpor.step book")
        assert said(paid).items() >= {"safety": "keyed", "attempt": 1, "ended": "returned"}.items()
        assert said(paid)["key"] != said(booked)["key"]
        for outer, inner, stretch in (
            ("double", "inner", first),
            ("halve", "inner in a thread", first),
            ("book", "inner in the commit", second),
        ):
            (step,) = spans.named(f"torpor.step {outer}")
            assert below(step, stretch)
            assert below(spans.named(inner)[0], step)
        assert len(spans.traces) == 1

    on(store, moment, app, check, tracer_provider=spans.provider)


def test_an_error_is_recorded_without_secrets(store: Store, moment: Moment) -> None:
    """Each attempt has a span with what it raised, and the stretch that fails says so (G15)."""
    spans = Spans()

    async def check(lab: Lab) -> None:
        run = await lab.start(fails)
        await lab.pass_time(60)
        assert await lab.state(run) == "failed"
        attempts = spans.named("torpor.step leaks")
        assert [said(span)["attempt"] for span in attempts] == [1, 2]
        for span in attempts:
            assert said(span)["ended"] == "raised"
            assert dict(span.events[0].attributes or {})["exception.type"] == "ValueError"
            assert "[secret word]" in str(span.status.description)
        assert said(spans.named("torpor.stretch fails")[-1])["ended"] == "failed"
        assert SECRET not in "".join(span.to_json() for span in spans.kept.get_finished_spans())

    on(store, moment, app, check, tracer_provider=spans.provider, secrets={"word": SECRET})


def test_a_run_and_its_children_belong_to_the_trace_that_started_it(store: Store, moment: Moment) -> None:
    """A child's stretches are below the stretch that started it."""
    spans = Spans()

    async def check(lab: Lab) -> None:
        with TRACER[0].start_as_current_span("request") as request:
            started = await Client(store).start("family", key="once")
        assert not (await Client(store).start("family", key="once")).created
        run = run_of(started.run_id)
        await lab.pass_time(61)
        assert await lab.result(run) == 4
        assert spans.traces == {request.get_span_context().trace_id}
        for stretch in spans.named("torpor.stretch family"):
            assert stretch.parent is not None
            assert stretch.parent.span_id == request.get_span_context().span_id
        parents = {span.context.span_id for span in spans.named("torpor.stretch family") if span.context is not None}
        for stretch in spans.named("torpor.stretch shop"):
            assert stretch.parent is not None
            assert stretch.parent.span_id in parents

    on(store, moment, app, check, tracer_provider=spans.provider)


def test_runs_of_their_own_have_traces_of_their_own(store: Store, moment: Moment) -> None:
    """A child is in its parent's also when nobody traced the start."""
    spans = Spans()

    async def check(lab: Lab) -> None:
        mine = [await lab.start(family) for _ in range(2)]
        await lab.pass_time(61)
        assert [await lab.result(run) for run in mine] == [4, 4]
        assert len(spans.traces) == 2

    on(store, moment, app, check, tracer_provider=spans.provider)


def test_a_killed_worker_and_its_successor_write_one_trace(store: Store, moment: Moment) -> None:
    """The stretch of the dead is never told; its steps that ended are, and what the successor does is beside them."""
    spans = Spans()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(shop, 4, places=(Place.AFTER,)):
            assert await crash.result() == 4
            mine = [span for span in spans.named("torpor.stretch shop") if said(span)["run"] == str(crash.run)]
            assert mine
            assert len({span.context.trace_id for span in mine if span.context is not None}) == 1

    on(store, moment, app, check, tracer_provider=spans.provider)


def test_the_provider_s_sampler_decides(store: Store, moment: Moment) -> None:
    """Also about the traces of runs that were started in none."""
    spans = Spans(ALWAYS_OFF)

    async def check(lab: Lab) -> None:
        run = await lab.start(shop, 4)
        await lab.pass_time(61)
        assert await lab.result(run) == 4
        assert spans.kept.get_finished_spans() == ()

    on(store, moment, app, check, tracer_provider=spans.provider)


def test_two_workers_write_one_trace(make_place: Callable[[str], Database]) -> None:
    """The first loses its lease in the middle of a step; the second goes on, on another connection to the same file."""
    database = make_place("sqlite")
    spans, own = Spans(), App()
    begun, let_go = asyncio.Event(), asyncio.Event()

    @own.step
    async def slow(n: int) -> int:
        if not begun.is_set():
            begun.set()
            await let_go.wait()
        return n

    @own.flow
    async def crosses(ctx: Context) -> int:
        return await ctx.step(slow, 7)

    async def main() -> None:
        stores = [database.open(), database.open()]
        first, second = (
            Worker(one, own.flows, name=name, tracer_provider=spans.provider)
            for one, name in zip(stores, ("first", "second"), strict=True)
        )
        lives = [asyncio.create_task(first.run())]
        await first.ready.wait()
        client = Client(stores[0])
        started = await client.start("crosses")
        await begun.wait()
        first.concurrency = 0  # or it might be the first to take the run again
        await stores[0].transact(lambda tx: tx.now())  # behind a claim that is under way
        proofs = {first.number: Proof.PROCESS_GONE}
        assert await stores[1].transact(lambda tx: leases.reap(tx, proofs, quiet_until=0))
        lives.append(asyncio.create_task(second.run()))
        assert await client.result(started.run_id) == 7
        let_go.set()
        for worker in (first, second):
            worker.stop()
        await asyncio.gather(*lives)
        for one in stores:
            await one.close()

    asyncio.run(main())
    ended = {said(span)["worker"]: said(span)["ended"] for span in spans.named("torpor.stretch crosses")}
    assert ended == {"first": "lost", "second": "completed"}
    assert len(spans.traces) == 1


OFF = """
import asyncio, sys
from torpor import App, Client, Context
from torpor.runtime import Process, opened
app = App()
@app.step
async def one(): return 1
@app.flow
async def counts(ctx: Context) -> int: return await ctx.step(one)
async def main():
    async with opened(":memory:") as store:
        process = Process(store, app)
        working = asyncio.create_task(process.run())
        await process.worker.ready.wait()
        client = Client(store)
        print(await client.result((await client.start("counts")).run_id))
        process.worker.stop()
        await working
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


@pytest.mark.slow
def test_nothing_is_imported_when_off() -> None:
    """A process that uses no OpenTelemetry works without loading it."""
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "[]"]), done.stderr


def test_no_provider_means_no_span(store: Store, moment: Moment) -> None:
    """The library alone is not enough: without a provider no stretch has a span."""

    async def check(lab: Lab) -> None:
        Spans()
        run = await lab.start(shop, 4)
        worker = await lab.worker()
        assert worker._tracing is None  # noqa: SLF001 - that nothing is there is the point
        await lab.pass_time(61)
        assert await lab.result(run) == 4

    on(store, moment, app, check)
