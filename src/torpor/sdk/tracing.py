"""The span of the attempt that runs now, for what an agent does inside of it. None where nobody traces."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from contextvars import Context

    from opentelemetry.trace import Span, TracerProvider


class Traced(NamedTuple):
    """An attempt's span, and the provider that spans below it come from."""

    provider: TracerProvider
    span: Span


TRACED: ContextVar[Traced | None] = ContextVar("torpor_traced", default=None)
"""Set by the worker in the context of an attempt that is traced."""


def carry(into: Context) -> None:
    """Say in another context, in which a part of this attempt is about to run, what attempt it is."""
    into.run(TRACED.set, TRACED.get())
