"""The life of a run: when it was awake, when it was asleep and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torpor.core.journal import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.journal import Stored
    from torpor.store.rows import RunRow


@dataclass(slots=True)
class Stretch:
    """A part of a run's life: `awake` under one lease, or `asleep` for a reason; `takeover` if a worker was lost before."""

    state: str
    began_at: int
    ended_at: int
    why: str = ""
    takeover: bool = False


def life_of(run: RunRow, entries: Sequence[Stored], slept: Mapping[int, str], now: int) -> list[Stretch]:
    """Return awake and asleep parts. A stretch's own beginning is not recorded, so it begins where the sleep ended."""
    if not entries:
        return []
    life: list[Stretch] = []
    began = run.created_at if entries[0].seq == 1 else entries[0].at
    takeover = False
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        lost = (
            following is not None
            and following.epoch != entry.epoch
            and not (entry.kind is Kind.NOTE and entry.key is None)
        )
        if entry.seq in slept:
            life.append(Stretch("awake", began, entry.at, takeover=takeover))
            began, takeover = following.at if following is not None else now, False
            life.append(Stretch("asleep", entry.at, began, slept[entry.seq]))
        elif lost:
            life.append(Stretch("awake", began, entry.at, takeover=takeover))
            began, takeover = entry.at, True
    last = entries[-1]
    if last.seq not in slept:
        life.append(Stretch("awake", began, last.at if run.state.final else now, takeover=takeover))
    return life
