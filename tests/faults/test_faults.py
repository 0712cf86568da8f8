"""Short trials of real faults; the long ones are `make faults` (docs/development.md).

Each brings about its faults one after the other, however long that takes, and asserts what must be true of any history:
it knows no pace. What fails prints the line that repeats it.
"""

from __future__ import annotations

import pytest

from tests.faults.trial import Wanted, tried

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(900)]
SEED = 20_261


@pytest.mark.parametrize(
    ("store", "kinds"),
    [
        ("sqlite", ("kill", "drain", "stop", "clock", "full")),
        ("postgres", ("kill", "stop", "crash", "cut", "full")),
    ],
)
def test_nothing_is_lost_and_nothing_repeated(store: str, kinds: tuple[str, ...]) -> None:
    """Each fault once, under load (G1, G3 to G8, G12, G13)."""
    wanted = Wanted(store, kinds, SEED, faults=len(kinds), workers=3, open_runs=10)
    record = tried(wanted)
    assert not record.wrong, record.text()
    assert set(record.counts["faults"]) == set(kinds)
    assert record.counts["effects"] > 0


def test_two_hosts_and_a_link_that_is_cut() -> None:
    """Workers of two network namespaces, each cut off from the server in its turn (G1, G4)."""
    wanted = Wanted("postgres", ("link",), SEED, faults=2, workers=2, open_runs=8)
    record = tried(wanted)
    assert not record.wrong, record.text()
    assert record.counts["faults"] == {"link": 2}
