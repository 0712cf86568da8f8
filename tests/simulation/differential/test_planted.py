"""What is planted is found: bugs of each layer, by the driver and by Hypothesis."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.simulation.differential.coverage import Coverage
from tests.simulation.differential.driver import history
from tests.simulation.differential.machine import explore
from tests.simulation.differential.planted import MODEL, PLANTED, Planted, the_head_is_not_compared
from tests.simulation.differential.stores import Differs, Stores
from torpor.engine import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOST = 60
"""A bug is found within so many histories."""


@pytest.fixture
def make(
    tmp_path: Path, server_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[tuple[str, ...]], Stores]]:
    """Return what makes stores that are driven in step."""
    monkeypatch.setattr(events, "BATCH", 1)
    made: list[Stores] = []

    def stores(kinds: tuple[str, ...]) -> Stores:
        made.append(Stores(kinds, tmp_path, server_url))
        return made[-1]

    yield stores
    for one in made:
        one.close()


def histories(stores: Stores, count: int) -> int:
    """Do so many histories, from seed 0."""
    coverage = Coverage()
    for seed in range(count):
        try:
            history(stores, coverage, seed)
        except Differs as found:
            found.add_note(f"seed {seed}")
            raise
    return count


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=[f"{one.layer} {one.name}" for one in PLANTED])
def test_it_is_found(bug: Planted, make: Callable[[tuple[str, ...]], Stores]) -> None:
    """The driver finds it, and says at which seed and after what; without the bug the same histories agree."""
    stores = make(bug.stores)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        with pytest.raises(Differs) as found:
            histories(stores, MOST)
    (note,) = found.value.__notes__
    seed = int(note.removeprefix("seed "))
    assert histories(stores, seed + 1) == seed + 1
    done = str(found.value).split("after: ")[-1]
    sys.stdout.write(f"{bug.layer}: {bug.name}: {note}, after {done}\n")  # pytest -rP shows it


@pytest.mark.slow
def test_hypothesis_finds_it_too(make: Callable[[tuple[str, ...]], Stores], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any knowledge of where runs stand. By hand (`make differential`) it then makes the example small."""
    the_head_is_not_compared(monkeypatch)
    with pytest.raises(Differs, match=r"'lost'.*, the stores say"):
        explore(make(MODEL), Coverage(), examples=100, first=0, shrink=False)
