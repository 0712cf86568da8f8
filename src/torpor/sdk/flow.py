"""A turn of a flow: its body begun on a loop of its own, its state brought up to the code's version, its end understood."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from torpor.errors import UsageError
from torpor.sdk.again import Again
from torpor.sdk.context import Context
from torpor.sdk.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.sdk.app import Flow
    from torpor.sdk.loop import FlowTask
    from torpor.sdk.port import Port


def begin(flow: Flow, port: Port, state: Any) -> FlowTask[Any]:
    """Begin a turn on the port's loop; nothing runs before the loop is pumped."""
    context = Context(port)
    body = flow.function(context, state) if flow.takes_state else flow.function(context)
    return port.loop.start(body)


def upcast(flow: Flow, state: Any, version: int) -> Any:
    """Return a state of an older version as the flow's code wants it, by the chain of its upcasts.

    Raises UsageError if a link is missing; what an upcast raises goes through.
    """
    for old in range(version, flow.version):
        if old not in flow.upcasts:
            what = f"{flow.name} is version {flow.version}, this run's state is {version}"
            message = f"{what}, and nothing turns {old} into {old + 1}"
            raise UsageError(message, hint=f'app.upcast({old}, fn, flow="{flow.name}")')
        state = flow.upcasts[old](state)
    return state


def rows_of(state: Any) -> Iterator[tuple[str, Rows[Any]]]:
    """Yield the `Rows` fields of a state: top-level fields only."""
    if isinstance(state, dict):
        named = list(state.items())
    elif is_dataclass(state) and not isinstance(state, type):
        named = [(field.name, getattr(state, field.name)) for field in fields(state)]
    else:
        named = list(getattr(state, "__dict__", {}).items())
    for name, value in named:
        if isinstance(value, Rows):
            yield str(name), value


def next_state(result: Any) -> tuple[bool, Any]:
    """Return whether the turn's result asks for another turn, and the state or the run's result."""
    return (True, result.state) if isinstance(result, Again) else (False, result)
