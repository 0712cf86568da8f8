"""The OpenTelemetry trace that is active where a run is started, if that library is used here at all."""

from __future__ import annotations

import sys


def active() -> str:
    """Return the W3C traceparent of the present span, or nothing. A process that never imported the library has none."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return ""
    span = api.get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}" if span.is_valid else ""
