"""Log lines: structlog in front, the standard library's logging behind, so that an application's own set-up decides."""

from __future__ import annotations

import logging
from typing import Any

import structlog


def logger(part: str, **fields: Any) -> Any:
    """Return a logger of `torpor.PART` whose lines carry these fields."""
    return structlog.wrap_logger(
        logging.getLogger(f"torpor.{part}"),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        **fields,
    )
