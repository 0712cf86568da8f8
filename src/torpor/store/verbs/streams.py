"""Verbs about streams and views: what a run shows while it is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.stream import PartRow, StreamRow
    from torpor.store.rows import ViewRow


class StreamVerbs(Protocol):
    """Streams, their parts, views. Whoever writes has locked the run's lease, or its row if it has none."""

    def streams(self, ids: Sequence[int], *, lock: bool = False) -> dict[int, StreamRow]:
        """Return the streams of runs that ever emitted."""

    def put_streams(self, rows: Sequence[StreamRow]) -> None:
        """Write streams as they are now."""

    def add_parts(self, parts: Sequence[tuple[int, PartRow]]) -> None:
        """Add (run, part), dated now. A number that is taken is a defect: the store refuses it."""

    def parts(self, run: int, *, after: int, limit: int) -> list[PartRow]:
        """Return the parts of a run whose number is above `after`, in order."""

    def put_views(self, views: Sequence[tuple[int, bytes]]) -> None:
        """Overwrite the views of runs."""

    def views(self, ids: Sequence[int]) -> dict[int, ViewRow]:
        """Return the views of runs that show something."""
