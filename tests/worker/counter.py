"""The outside world of a test: it counts what really happened, and what it was told about each call."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counter:
    """Counts calls, and how many different keys they had."""

    calls: list[str] = field(default_factory=list)

    def act(self, key: str = "") -> int:
        """Let it happen; return how often it happened."""
        self.calls.append(key)
        return len(self.calls)

    def clear(self) -> None:
        """Forget everything."""
        self.calls.clear()

    @property
    def count(self) -> int:
        """How often it happened."""
        return len(self.calls)

    @property
    def keys(self) -> int:
        """How many different keys there were: how often it counted for a far side that knows them."""
        return len(set(self.calls))


COUNTER = Counter()
"""The one of this process: an app's functions find it here."""
