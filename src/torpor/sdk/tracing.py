"""The span of the attempt that runs now, for what an agent does inside of it. None where nobody traces."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider


class Traced(NamedTuple):
    """An attempt's span, and the provider that spans below it come from."""

    provider: TracerProvider
    span: Span


TRACED: ContextVar[Traced | None] = ContextVar("torpor_traced", default=None)
"""Set by the worker in the context of an attempt that is traced."""
