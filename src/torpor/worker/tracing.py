"""OpenTelemetry spans: one for each stretch of a run, below it one for each attempt of a step or effect.

All stretches of a run, on whatever worker, belong to one trace: that in which the run was started (its traceparent is kept
with the run, and a child is given that of the stretch which starts it), else one whose id follows from the store and the
number of the run. Nothing is written while runs go on.

Whoever does not trace pays one look at an attribute for each stretch and each attempt: `tracing` returns None unless the
process has a tracer provider, and nothing of the library is imported before. A span says names and numbers, never an
argument or a result; the text of an error is struck as it is in the journal (G15).
"""

from __future__ import annotations

import contextvars
import sys
from asyncio import CancelledError
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torpor.core.replay import shown
from torpor.errors import StoreError
from torpor.sdk.tracing import TRACED, Traced
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from torpor.core.wait import Open
    from torpor.sdk.app import Flow
    from torpor.store.protocol import Store
    from torpor.store.rows import Claimed

T = TypeVar("T")


class Named(NamedTuple):
    """What a stretch or an attempt is called in its span, and what is said of it."""

    name: str
    attributes: dict[str, str | int]


def stretch_of(run: str, flow: Flow, version: int, worker: str) -> Named:
    """Return what the span of a stretch says; a flow may have a name of its own for it, and more to say."""
    said: dict[str, str | int] = {
        "torpor.run": run,
        "torpor.program": flow.name,
        "torpor.version": version,
        "torpor.worker": worker,
    }
    name, more = (f"torpor.stretch {flow.name}", {}) if flow.traces is None else flow.traces(run)
    return Named(name, {**said, **more})


def tracing(provider: TracerProvider | None, store: Store, token_key: str) -> Tracing | None:
    """Return what traces with a provider, by default with the process's own; None if it has none."""
    if provider is None:
        api = sys.modules.get("opentelemetry.trace")
        provider = None if api is None else api.get_tracer_provider()
        if api is None or provider is None or isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
            return None
    return Tracing(provider, store, token_key)


class Tracing:
    """Begins the spans of one worker's stretches."""

    def __init__(self, provider: TracerProvider, store: Store, token_key: str) -> None:
        """Use a provider. `token_key` is the store's own secret: two stores never name a trace alike."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("torpor")
        self._sampler = getattr(provider, "sampler", None)
        self._extract = TraceContextTextMapPropagator().extract
        self._store = store
        self._token_key = token_key

    async def parents(self, claimed: Sequence[Claimed]) -> Mapping[int, str]:
        """Return the traceparents that are kept with runs. None if the store is away: their work is what matters."""
        if not claimed:
            return {}
        try:
            return await self._store.transact(lambda tx: tx.traces([one.run.id for one in claimed]), lane=Lane.READ)
        except StoreError:
            return {}

    def stretch(self, claimed: Claimed, told: Named, parent: str, strike: Callable[[str], str]) -> Stretch:
        """Begin a stretch below a traceparent, or, without one, in the run's own trace."""
        from opentelemetry.context import Context

        said = {"traceparent": parent or self._own(claimed.run.id, told.name)}
        context = self._extract(said, Context())
        lease = {"torpor.turn": claimed.state.turn, "torpor.epoch": claimed.lease.epoch}
        span = self._tracer.start_span(told.name, context, attributes={**told.attributes, **lease})
        return Stretch(self._provider, self._tracer, span, strike)

    def _own(self, run_id: int, name: str) -> str:
        """Return the traceparent of a run that was started in no trace: the same on every worker, sampled or not."""
        from opentelemetry.context import Context

        text = f"{self._token_key}\0{run_id}".encode()
        trace = blake2b(text, digest_size=16, person=b"torpor.trace")
        span = blake2b(text, digest_size=8, person=b"torpor.span")
        kept = True
        if self._sampler is not None:  # asked here, because below a parent it would not decide
            decision = self._sampler.should_sample(Context(), int(trace.hexdigest(), 16), name).decision
            kept = decision.is_sampled()
        return f"00-{trace.hexdigest()}-{span.hexdigest()}-{int(kept):02x}"


class Stretch:
    """The span of one stretch."""

    __slots__ = ("_provider", "_span", "_strike", "_tracer", "traceparent")

    def __init__(self, provider: TracerProvider, tracer: Tracer, span: Span, strike: Callable[[str], str]) -> None:
        """Take a span that was begun; `strike` takes out of a text what may not be told."""
        self._provider = provider
        self._tracer = tracer
        self._span = span
        self._strike = strike
        own = span.get_span_context()
        self.traceparent = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
        """What a child that is started now belongs to."""

    def note(self, name: str, **attributes: str) -> None:
        """Put an event into the span."""
        self._span.add_event(f"torpor.{name}", {f"torpor.{key}": value for key, value in attributes.items()})

    def waits(self, waits: Sequence[Open]) -> None:
        """Put an event for each wait that the run is put away for into the span."""
        for wait in waits:
            self.note("wait", kind=wait.kind.word, call=shown(wait.key))

    def end(self, how: str) -> None:
        """End it: the word of the state that the run has now, or `lost`."""
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("torpor.ended", how)
        if how in {"failed", "lost"}:
            self._span.set_status(StatusCode.ERROR, how)
        self._span.end()

    def attempt(
        self,
        told: Named,
        done: Callable[[Any, BaseException | None], None],
        own: contextvars.Context | None,
    ) -> tuple[contextvars.Context, Callable[[Any, BaseException | None], None]]:
        """Begin an attempt: return the context in which its function runs, and a `done` that also ends the span.

        A function with a context of its `own` runs in that, and is only told which attempt it is.
        """
        from opentelemetry import context, trace

        span = self._begin(told)
        within = contextvars.copy_context() if own is None else own
        if own is None:
            within.run(context.attach, trace.set_span_in_context(span, context.Context()))
        within.run(TRACED.set, Traced(self._provider, span))

        def ended(result: Any, error: BaseException | None) -> None:
            self._end(span, error)
            done(result, error)

        return within, ended

    def inside(self, told: Named, act: Callable[[], T]) -> T:
        """Do an attempt in this thread."""
        from opentelemetry import trace

        span = self._begin(told)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                result = act()
        except BaseException as error:
            self._end(span, error)
            raise
        self._end(span, None)
        return result

    def _begin(self, told: Named) -> Span:
        from opentelemetry import context, trace

        above = trace.set_span_in_context(self._span, context.Context())
        return self._tracer.start_span(told.name, above, attributes=told.attributes)

    def _end(self, span: Span, error: BaseException | None) -> None:
        from opentelemetry.trace import StatusCode

        if isinstance(error, CancelledError):
            span.set_attribute("torpor.ended", "cancelled")
        elif error is None:
            span.set_attribute("torpor.ended", "returned")
        else:
            kind, text = type(error).__name__, self._strike(str(error))
            span.set_attribute("torpor.ended", "raised")
            span.add_event("exception", {"exception.type": kind, "exception.message": text})
            span.set_status(StatusCode.ERROR, f"{kind}: {text}")
        span.end()
