"""What a process of a world holds at the database: its life lock, its ear for hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.machines import Machines
    from tests.simulation.process import Process


class Lock:
    """A life lock: `holders` says whose each is."""

    def __init__(self, machines: Machines, holders: dict[str, Process | None], name: str) -> None:
        """Know it by its name."""
        self._machines = machines
        self._holders = holders
        self.name = name

    def held(self) -> bool:
        """Whether the process that asks has it: a copy has not, whatever its memory says."""
        process = self._machines.present
        assert process is not None
        return self._holders.get(self.name) is (process.follows or process)

    def release(self) -> None:
        """Let go, if it is this process's."""
        if self.held():
            self._holders[self.name] = None


class Listening:
    """A subscription."""

    def __init__(self, listeners: list[Callable[[str], None]], heard: Callable[[str], None]) -> None:
        """Be among those who hear hints."""
        self._listeners, self._heard = listeners, heard
        listeners.append(heard)

    def close(self) -> None:
        """Stop listening."""
        if self._heard in self._listeners:
            self._listeners.remove(self._heard)
