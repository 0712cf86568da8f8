"""What is to be done if a run is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.names import storable
from torpor.core.replay import CallKind
from torpor.errors import UsageError
from torpor.sdk.calling import Calling
from torpor.sdk.steps import definition_of
from torpor.sdk.work import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class OnCancel(Calling):
    """Compensations."""

    __slots__ = ()

    def on_cancel(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> Coroutine[Any, Any, str]:
        """Register an effect to be run if this run is cancelled; return what `drop_on_cancel` takes it back by.

        It is kept from turn to turn. A cancel runs what is registered, the newest first, each as its own safety says,
        although no other effect may start any more; then the run ends. A run that ends otherwise runs none of them. The
        effect must be one of the app's, declared with `@app.effect`, so that any worker finds it by name.
        """
        definition = definition_of(function, effect=True, safety=None)
        number = self._promise("on_cancel", definition.name)
        return self._call(number, CallKind.COMPENSATION, definition.name, arguments(args, more), definition)

    def drop_on_cancel(self, compensation: str) -> Coroutine[Any, Any, None]:
        """Take back what `on_cancel` registered: it is settled and must not be undone any more."""
        given: object = compensation
        if not isinstance(given, str) or not storable(given):
            raise UsageError(f"drop_on_cancel takes what ctx.on_cancel returned, not {compensation!r}")
        number = self._promise("drop_on_cancel", compensation)
        return self._call(number, CallKind.COMPENSATION, "drop_on_cancel", {"drop": compensation})
