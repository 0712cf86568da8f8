"""Log lines: structlog in front, the standard library's logging behind, so that an application's own set-up decides."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping


_KEY_VALUES = structlog.processors.KeyValueRenderer(key_order=["event"])


def _rendered(logger: Any, name: str, fields: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """Render a line for people, and let its fields travel beside it for formatters that want them apart."""
    kept = dict(fields)
    return (str(_KEY_VALUES(logger, name, fields)),), {"extra": {"fields": kept}}


def struck_fields(fields: Mapping[str, Any], struck: Callable[[str], str]) -> dict[str, Any]:
    """Return what a line says without secrets, however deep they lie (G15). What has none stays what it is."""
    return {name: _struck(value, struck) for name, value in fields.items()}


def _struck(value: Any, struck: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return struck(value)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, dict):
        return {_struck(key, struck): _struck(one, struck) for key, one in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_struck(one, struck) for one in value)
    for text in (repr(value), str(value)):  # a line is rendered by the one, as JSON by the other
        if (clean := struck(text)) != text:
            return clean
    return value


def logger(part: str, *, struck: Callable[[str], str] | None = None, **fields: Any) -> Any:
    """Return a logger of `torpor.PART` whose lines carry these fields. `struck` takes secrets out of texts."""

    def without_secrets(_logger: Any, _name: str, said: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return said if struck is None else struck_fields(said, struck)

    return structlog.wrap_logger(
        logging.getLogger(f"torpor.{part}"),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            without_secrets,
            _rendered,
        ],
        **fields,
    )
