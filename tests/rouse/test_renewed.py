"""A thing per life."""

from __future__ import annotations

import importlib
from typing import Any

from torpor import rouse

room: Any = importlib.import_module("torpor.rouse.incarnation")


def test_each_life_has_its_own() -> None:
    """Made once, at the first use; the old one is kept until somebody lets it go."""
    made = iter(range(9))
    renewed = rouse.Renewed(lambda: next(made))
    assert (renewed.get(), renewed.get(), renewed.let_go()) == (0, 0, [])
    room.end(rouse.incarnation())
    assert renewed.get() == 1
    assert (renewed.let_go(), renewed.let_go(), renewed.get()) == ([0], [], 1)
