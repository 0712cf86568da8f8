"""Two copies woken from one snapshot: which random generators draw the same, without rouse and with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.guests import WORD, equal, kernel_knows, python, ready
from tests.lab.lab import PYTHON

if TYPE_CHECKING:
    from tests.lab.agent import Program
    from tests.lab.lab import Lab
    from tests.lab.machine import Machine

pytestmark = [pytest.mark.slow, pytest.mark.alone]

IN_MEMORY = {"random", "numpy", "numpy Generator", "tempfile", "ssl"}
"""Generators whose state lies in the process."""
OF_THE_KERNEL = {"urandom", "uuid4", "secrets"}
NODE = {"randomBytes", "randomUUID", "getRandomValues", "mathRandom"}


def drawn_by_two(
    lab: Lab, *words: str, vmgenid: bool, host: dict[str, Any] | None = None
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return what two copies of one machine draw first, and what a watch told in each. The host names both alike."""
    machine = lab.start(vmgenid=vmgenid)
    program = python(machine, "draws", *words)
    program.ask("draw")  # the kernel has just made its generator anew, if it was to
    snapshot = machine.snapshot(freeze=host is not None)
    drawn, told = [], []
    for _ in range(2):
        with lab.wake(snapshot, machine.hardware, word=host) as copy:
            if vmgenid:
                kernel_knows(copy)
            drawn.append(copy.the(program).ask("draw"))
            told.append(copy.the(program).ask("told"))
    return drawn, told


def test_without_rouse_copies_draw_the_same(lab: Lab) -> None:
    """With VMGENID only the kernel's generator differs."""
    drawn, _ = drawn_by_two(lab, vmgenid=True)
    assert equal(*drawn) == IN_MEMORY


def test_without_vmgenid_even_the_kernel_draws_the_same(lab: Lab) -> None:
    """Nothing in the guest knows that there are two."""
    drawn, _ = drawn_by_two(lab, vmgenid=False)
    assert equal(*drawn) == IN_MEMORY | OF_THE_KERNEL


def test_with_rouse_they_differ(lab: Lab) -> None:
    """The kernel's line tells, without a word of the host."""
    drawn, told = drawn_by_two(lab, "--rouse", vmgenid=True)
    assert equal(*drawn) == set()
    for [[kind, away_seconds, evidence]] in told:
        assert (kind, away_seconds) == ("copied", 0.0)
        assert evidence == ["the kernel's log says: random: crng reseeded due to virtual machine fork"]


def test_with_rouse_and_a_word_of_the_host_they_differ(lab: Lab) -> None:
    """Also where the kernel was not told; its own generator is fed too."""
    drawn, told = drawn_by_two(lab, "--rouse", vmgenid=False, host=WORD)
    assert equal(*drawn) == set()
    for [[kind, away_seconds, evidence]] in told:
        assert (kind, away_seconds) == ("copied", 3.5)
        assert evidence[0].endswith("the host says generation 2")


def node(machine: Machine, *before: str) -> Program:
    """Start Node in the guest, below a command."""
    return ready(machine.start(*before, "/usr/bin/node", "/source/programs/draws.js", env=PYTHON))


def drawn_by_two_nodes(
    lab: Lab, *before: str, vmgenid: bool, host: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return what Node draws first in two copies; below `run --restart` in the process that was started anew."""
    machine = lab.start(vmgenid=vmgenid)
    program = node(machine, *before)
    program.ask("draw")
    snapshot = machine.snapshot(freeze=host is not None)
    drawn = []
    for _ in range(2):
        with lab.wake(snapshot, machine.hardware, word=host) as copy:
            if vmgenid:
                kernel_knows(copy)
            its = copy.the(program)
            if before:
                its.error("restarted")
                ready(its)
            drawn.append(its.ask("draw"))
    return drawn


RUN = ("/usr/bin/python3", "-m", "torpor.rouse", "run", "--restart", "--")


def test_node_draws_the_same(lab: Lab) -> None:
    """Its generators live in its memory, so VMGENID does not help."""
    assert equal(*drawn_by_two_nodes(lab, vmgenid=True)) == NODE


def test_node_below_run_is_born_again(lab: Lab) -> None:
    """Restarted after the copy, it seeds itself from a kernel that knows."""
    assert equal(*drawn_by_two_nodes(lab, *RUN, vmgenid=True)) == set()


def test_node_below_run_is_born_again_of_a_kernel_that_was_not_told(lab: Lab) -> None:
    """Without VMGENID the host tells, and the kernel is fed before Node starts again."""
    assert equal(*drawn_by_two_nodes(lab, *RUN, vmgenid=False, host=WORD)) == set()
