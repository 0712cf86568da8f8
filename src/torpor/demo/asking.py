"""Asking the counting service: one short HTTP request each, from the steps of the audit and from the demo itself."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any

ANSWER_SECONDS = 90.0
"""An answer may be held for long; nobody waits longer than this."""


def publish(port: int, key: str, name: str) -> int:
    """Publish something and return the service's receipt. Raises OSError if the service cannot be reached."""
    return int(_ask(port, "POST", "/publish", {"key": key, "name": name})["receipt"])


def confirm(port: int, receipt: int) -> int:
    """Return how often the service counted what has this receipt. Raises OSError."""
    return int(_ask(port, "GET", f"/confirm/{receipt}")["counted"])


def counts(port: int) -> dict[str, dict[str, Any]]:
    """Return everything that was counted: the name and the receipts of each key. Raises OSError."""
    return _ask(port, "GET", "/counts")


def hold(port: int, **numbers: int) -> None:
    """Tell the service which answers to hold: `hold(port, publish=3)`. Raises OSError."""
    _ask(port, "POST", "/hold", numbers)


def release(port: int) -> None:
    """Tell the service to let all held answers go. Raises OSError."""
    _ask(port, "POST", "/release", {})


def _ask(port: int, method: str, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request(method, path, None if content is None else json.dumps(content))
        answer = connection.getresponse()
        said: dict[str, Any] = json.loads(answer.read())
        if answer.status >= 400:  # noqa: PLR2004 - HTTP's own border
            message = f"the counting service answered {answer.status} to {method} {path}: {said}"
            raise OSError(message)
        return said
    except HTTPException as error:
        message = f"the counting service broke off its answer to {method} {path}: {error!r}"
        raise OSError(message) from error
    finally:
        connection.close()
