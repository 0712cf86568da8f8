"""Log lines: structlog in front, the standard library's logging behind, so that an application's own set-up decides."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping


_KEY_VALUES = structlog.processors.KeyValueRenderer(key_order=["event"])


def _rendered(logger: Any, name: str, fields: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """Render a line for people, and let its fields travel beside it for formatters that want them apart."""
    kept = dict(fields)
    return (str(_KEY_VALUES(logger, name, fields)),), {"extra": {"fields": kept}}


def logger(part: str, **fields: Any) -> Any:
    """Return a logger of `torpor.PART` whose lines carry these fields."""
    return structlog.wrap_logger(
        logging.getLogger(f"torpor.{part}"),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _rendered,
        ],
        **fields,
    )
