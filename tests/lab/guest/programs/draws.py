"""Draws from every random generator of Python. With `--rouse` under its care; it asks `pass_gate` before it draws."""

from __future__ import annotations

import os
import random
import secrets
import ssl
import sys
import tempfile
import uuid

import numpy as np
from talking import serve  # type: ignore[import-not-found] # beside it in the guest

from torpor import rouse

own = np.random.default_rng()
names = tempfile._get_candidate_names()  # type: ignore[attr-defined] # noqa: SLF001 - what mkstemp draws from


def draw() -> dict[str, object]:
    """Draw once from each."""
    return {
        "random": random.random(),  # noqa: S311 - what copies draw from it is the question
        "numpy": float(np.random.random()),  # noqa: NPY002 - the hidden generator is the one looked at
        "numpy Generator": float(own.random()),
        "tempfile": next(names),
        "ssl": ssl.RAND_bytes(8).hex(),
        "urandom": os.urandom(8).hex(),
        "uuid4": str(uuid.uuid4()),
        "secrets": secrets.token_hex(8),
    }


def safely() -> dict[str, object]:
    """Look first, as what must not happen twice does."""
    rouse.pass_gate()
    return draw()


told: list[rouse.Rousal] = []
if "--rouse" in sys.argv:
    rouse.adapt(own)
    rouse.on_rousal(told.append)
    rouse.watch()

draw()
serve(
    {
        "draw": safely if "--rouse" in sys.argv else draw,
        "told": lambda: [[each.kind, each.away_seconds, list(each.evidence)] for each in told],
    }
)
