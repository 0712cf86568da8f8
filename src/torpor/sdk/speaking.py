"""What a flow lets others see while it runs: its stream and its view."""

from __future__ import annotations

from torpor.errors import UsageError
from torpor.sdk.calling import Calling


class Speaking(Calling):
    """Stream and view."""

    __slots__ = ()

    def emit(self, part: object) -> None:
        """Put a text or a storable value into the run's stream: `torpor tail -f`, `Client.stream`.

        It is written with this turn's next commit, at once as a rule, and never again in replay. A step or effect emits
        while it runs with a context of its own (`EffectContext.emit`). Raises UnstorableValue, UsageError if it is large.
        """
        self._refuse_elsewhere("emit")
        self._port.emit(part)

    def show(self, value: object) -> None:
        """Let people see a storable value as the present view of this run: `torpor show`, `Client.view`.

        It overwrites what was shown before, with the next commit or within a second, at most a few times a second.
        Nothing depends on it: it is not part of replay. Raises UnstorableValue, UsageError if it is large.
        """
        self._refuse_elsewhere("show")
        self._port.show(value)

    def _refuse_elsewhere(self, what: str) -> None:
        import asyncio  # as in `calling`: not before it is needed

        self._refuse_if_closing()
        if asyncio._get_running_loop() is not self._port.loop:  # noqa: SLF001 - the same without the exception
            message = f"ctx.{what} was called outside its flow"
            raise UsageError(message, hint="a step emits with a context of its own: def step(ctx: EffectContext, ...)")
