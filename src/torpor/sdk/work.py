"""What a flow runs outside itself: steps and effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from torpor.core.replay import CallKind
from torpor.sdk.calling import Calling
from torpor.sdk.steps import definition_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from torpor.core.effect import Safety

T = TypeVar("T")


class Work(Calling):
    """Steps and effects."""

    __slots__ = ()

    @overload
    def step(
        self, function: Callable[..., Awaitable[T]], /, *args: Any, step_id: str = "", **more: Any
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, function: Callable[..., T], /, *args: Any, step_id: str = "", **more: Any
    ) -> Coroutine[Any, Any, T]: ...
    def step(
        self, function: Callable[..., Any], /, *args: Any, step_id: str = "", **more: Any
    ) -> Coroutine[Any, Any, Any]:
        """Run a function that may be run again, and keep what it returns.

        It runs outside the flow: on the worker's loop if it is `async def`, else in a thread. Its arguments and result
        must be storable (`UnstorableValue` names the path). Raises StepFailed once its retries are used up.
        """
        definition = definition_of(function, effect=False, safety=None)
        number = self._promise("step", definition.name)
        return self._call(number, CallKind.STEP, definition.name, arguments(args, more), definition, step_id)

    @overload
    def effect(
        self,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        step_id: str = "",
        safety: Safety | str | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def effect(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        step_id: str = "",
        safety: Safety | str | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, T]: ...
    def effect(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        step_id: str = "",
        safety: Safety | str | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run a function that changes the world, as its safety allows, and keep what it returns.

        Its intent is durable before it starts (G4). `safety` is for a function that is not yours; your own says it where
        it is defined, with `@app.effect`. Raises StepFailed; a `once` effect whose outcome is not known waits for a person.
        """
        definition = definition_of(function, effect=True, safety=safety)
        number = self._promise("effect", definition.name)
        values = arguments(args, more)
        return self._call(number, CallKind.EFFECT, definition.name, values, definition, step_id, stubborn=True)


def arguments(args: tuple[Any, ...], more: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments as they are kept."""
    return {"args": [*args], "more": more} if more else {"args": [*args]}
