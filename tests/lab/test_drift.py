"""Copies of OpenSSL's generator go on equal for some 16.6 million calls, and then drift apart.

A public observation, restated. OpenSSL's public generator takes new entropy from its primary one after 2^16 requests, and that
from the kernel after 2^8 of those (crypto/rand/rand_local.h: SECONDARY_RESEED_INTERVAL, PRIMARY_RESEED_INTERVAL; EVP_RAND(7)).
Each counts from 1, so the public one reseeds every 65,535 calls, and its 254th time is the primary's first. Besides, the public
one reseeds after 7 minutes of the wall clock and the primary one after an hour, whichever comes first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.lab import drift
from tests.lab.guests import equal, kernel_knows, python

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.lab import Lab

pytestmark = [pytest.mark.slow, pytest.mark.alone]

FULL = "TORPOR_LAB_FULL"
"""Set: draw until the copies drift apart, which takes minutes; else for a few reseeds of the public generator."""
CALLS_BETWEEN = 65_535
CALLS_BEFORE = range(1, 20)
"""Our program draws once before it is copied, and Node itself a few times when it starts."""
FEW = 4 * drift.BLOCK


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("which", drift.COMMANDS)
def test_copies_drift_only_when_the_primary_generator_reseeds(
    which: str, figure: Callable[[str, object], None]
) -> None:
    """Nobody tells them apart before: equal process numbers, equal memory."""
    full = FULL in os.environ
    calls = drift.equal_calls(which, drift.MOST_CALLS if full else FEW)
    if full:
        assert calls is not None
        assert 254 * CALLS_BETWEEN - calls in CALLS_BEFORE
        figure(f"{which}: calls equal in both copies", calls)
    else:
        assert calls is None


def test_a_wall_clock_set_forward_by_an_hour_parts_them(lab: Lab) -> None:
    """In real copies of a machine, with VMGENID: after 7 minutes new entropy comes from a copied primary, after an hour not."""
    machine = lab.start()
    program = python(machine, "draws")
    snapshot = machine.snapshot()
    drawn: dict[float, list[dict[str, object]]] = {}
    for step_seconds in (500.0, 500.0, 3700.0, 3700.0):
        with lab.wake(snapshot, machine.hardware) as copy:
            kernel_knows(copy)
            copy.set_clock(copy.clocks()["realtime"] + step_seconds)
            drawn.setdefault(step_seconds, []).append(copy.the(program).ask("draw"))
    assert "ssl" in equal(*drawn[500.0])
    assert "ssl" not in equal(*drawn[3700.0])
