"""Copies draw the same numbers, until they are reseeded: `random`, numpy, `ssl.RAND_bytes`."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import random
import signal
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from tests.rouse.adapters import trials
from tests.rouse.copying import SYS_CLONE, in_copy, raw_clone
from torpor import rouse

if TYPE_CHECKING:
    from collections.abc import Callable

CLONE_NEWPID = 0x20000000
CLONE_NEWUSER = 0x10000000

own = random.Random(7)  # noqa: S311 - what copies draw from it is the question
of_numpy: list[Any] = []


def clone_into_own_pids() -> int:
    """Copy this process into a pid namespace of its own, where it is number 1; a negative number if that is not allowed."""
    libc = ctypes.PyDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    zeros = [ctypes.c_long(0)] * 4
    pid = -1
    for flags in (CLONE_NEWPID, CLONE_NEWPID | CLONE_NEWUSER):
        if pid < 0:
            number = ctypes.c_long(SYS_CLONE[platform.machine()])
            pid = int(libc.syscall(number, ctypes.c_long(signal.SIGCHLD | flags), *zeros))
    return pid


def draw() -> trials.Report:
    """One number from each source."""
    numpy: Any = importlib.import_module("numpy")
    return {
        "pid": os.getpid(),
        "random": random.getrandbits(64),
        "own": own.getrandbits(64),
        "numpy": int(numpy.random.randint(0, 2**62)),
        "numpy_own": int(of_numpy[0].integers(0, 2**62)),
        "ssl": ssl.RAND_bytes(8).hex(),
        "kernel": os.urandom(8).hex(),
        "tempfile": next(importlib.import_module("tempfile")._get_candidate_names()),  # noqa: SLF001 - what it would take
    }


def woken() -> trials.Report:
    """The same after a rousal."""
    trials.wake(rouse.Kind.COPIED)
    return draw()


def trial() -> trials.Report:
    """Runs in a process of its own: four copies of one state, and again where each copy is number 1."""
    of_numpy.append(importlib.import_module("numpy").random.default_rng(7))
    draw()
    rouse.adapt(own, of_numpy[0])
    copies: list[Callable[[], trials.Report]] = [draw, draw, woken, woken]
    clones = [in_copy(each, raw_clone) for each in copies]
    forks = [in_copy(each, os.fork) for each in copies[:2]]

    def number_one() -> trials.Report:
        """The copies of a number 1 are number 1, each in a namespace of its own, as after a copy of the machine."""
        draw()
        return {"ones": [in_copy(each, clone_into_own_pids) for each in copies]}

    probe = clone_into_own_pids()
    if probe == 0:
        os._exit(0)
    if probe > 0:
        os.waitpid(probe, 0)
    ones = in_copy(number_one, clone_into_own_pids)["ones"] if probe > 0 else []
    return {"clones": clones, "forks": forks, "ones": ones}


def same(reports: list[trials.Report]) -> set[str]:
    """The sources from which two copies drew the same."""
    first, second = reports
    return {name for name in first if first[name] == second[name]}


@pytest.mark.slow
def test_copies_draw_the_same_until_they_are_reseeded() -> None:
    """Everything that lives in the process. OpenSSL and tempfile look at the process number, and reseed if it changed.

    CPython's own hook reseeds the generator behind `random.random()` after `os.fork`, and no other.
    """
    told = trials.report("test_random_numbers")
    assert same(told["clones"][:2]) == {"random", "own", "numpy", "numpy_own"}
    assert same(told["clones"][2:]) == set()
    assert same(told["forks"]) == {"own", "numpy", "numpy_own"}
    if told["ones"]:  # equal numbers, as in a copied machine; where no pid namespace may be made this shows nothing
        assert same(told["ones"][:2]) == {"pid", "random", "own", "numpy", "numpy_own", "ssl", "tempfile"}
        assert same(told["ones"][2:]) == {"pid"}
