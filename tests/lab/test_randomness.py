"""Two copies woken from one snapshot: which random generators draw the same, without rouse and with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

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
WORD = {"event": "generation 2", "kind": "copied", "away_seconds": 3.5}


def python(machine: Machine, name: str, *words: str) -> Program:
    """Start a program of ours in the guest, and wait until it is ready."""
    program = machine.start("/usr/bin/python3", f"/source/programs/{name}.py", *words, env=PYTHON)
    assert program.line() == '"ready"'
    return program


def equal(first: dict[str, Any], second: dict[str, Any]) -> set[str]:
    """Return the names under which both hold the same."""
    assert first.keys() == second.keys()
    return {name for name in first if first[name] == second[name]}


def drawn_by_two(lab: Lab, *words: str, vmgenid: bool, host: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return what two copies of one machine draw first, with what a watch told in each."""
    machine = lab.start(vmgenid=vmgenid)
    program = python(machine, "draws", *words)
    program.ask("draw")  # the kernel has just made its generator anew, if it was to
    snapshot = machine.snapshot(freeze=host is not None)
    drawn = []
    for _ in range(2):
        with lab.wake(snapshot, machine.hardware, word=host) as copy:
            its = copy.the(program)
            if not vmgenid or host or words:
                drawn.append({**its.ask("draw"), "told": its.ask("told")})
            else:
                told_by_kernel(copy)
                drawn.append({**its.ask("draw"), "told": its.ask("told")})
    return drawn


def told_by_kernel(machine: Machine) -> None:
    """Wait until the guest's kernel knows that it is a copy: its driver runs some milliseconds after the wake."""
    machine.run("/bin/sh", "-c", "until dmesg | grep -q 'crng reseeded due to virtual machine fork'; do :; done")


def test_without_rouse_copies_draw_the_same(lab: Lab) -> None:
    """With VMGENID only the kernel's generator differs."""
    first, second = drawn_by_two(lab, vmgenid=True)
    assert equal(first, second) - {"told"} == IN_MEMORY


def test_without_vmgenid_even_the_kernel_draws_the_same(lab: Lab) -> None:
    """Nothing in the guest knows that there are two."""
    first, second = drawn_by_two(lab, vmgenid=False)
    assert equal(first, second) - {"told"} == IN_MEMORY | OF_THE_KERNEL


def test_with_rouse_and_a_word_of_the_host_they_differ(lab: Lab) -> None:
    """Also where the kernel was not told: its own generator repeats, the process's do not."""
    first, second = drawn_by_two(lab, "--rouse", vmgenid=False, host=WORD)
    assert equal(first, second) - {"told"} == OF_THE_KERNEL
    [[kind, away, evidence]] = first["told"]
    assert (kind, away) == ("copied", 3.5)
    assert evidence[0].endswith("the host says generation 2")
