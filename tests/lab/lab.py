"""The lab: machines that a test wakes, asleep since they were booted once on this machine of ours."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.lab import recipe
from tests.lab.debian import system
from tests.lab.kept import Kept, making
from tests.lab.machine import QEMU, Hardware, Machine, Snapshot

_WARM = "import asyncio, ctypes, http.client, json, numpy, random, secrets, select, ssl, tempfile, urllib.request, uuid"
PYTHON = {"PYTHONPATH": "/source/src:/source/programs:/library", "PYTHONDONTWRITEBYTECODE": "1"}


def accelerator(kernel: Path) -> str:
    """Return `kvm` where it really works, else `tcg`.

    A device alone proves nothing: there are machines on which it opens and a guest never gets to its first line.
    """
    flags = set(Path("/proc/cpuinfo").read_text().split())
    able = flags & {"vmx", "svm"} and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return "kvm" if able and boots(kernel, "kvm") else "tcg"


def boots(kernel: Path, accel: str, seconds: float = 20.0) -> bool:
    """Whether a kernel without a disk gets as far as its panic, upon which QEMU ends."""
    argv = [
        QEMU,
        "-nodefaults",
        "-nographic",
        "-no-reboot",
        "-M",
        f"pc,accel={accel}",
        "-m",
        "256",
        "-kernel",
        str(kernel),
    ]
    try:
        done = subprocess.run(
            [*argv, "-append", "panic=-1 reboot=t"], capture_output=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


class Lab:
    """Machines for tests. All of them end with it."""

    def __init__(self, kept: Kept, folder: Path) -> None:
        """Make what is missing. Machines live in `folder`."""
        self._folder = folder
        self._numbers = itertools.count(1)
        self._kept = kept
        self._alive = ExitStack()
        self._accelerator = accelerator(system(kept) / "kernel")
        self._source = recipe.source_disk(folder / "source.img")
        version = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True).stdout
        self._parts = [version, self._accelerator, _WARM, _text("machine.py"), _text("lab.py")]
        self._parts += [_text(f"guest/{name}") for name in ("init", "first", "agent.py")]

    def close(self) -> None:
        """End every machine."""
        self._alive.close()

    def booted(self, *, vmgenid: bool) -> tuple[Path, Hardware]:
        """Return the folder of a machine that was booted and put to sleep, made if it is not there, and its hardware."""
        made, library = system(self._kept), recipe.library(self._kept)
        name = "booted-with-vmgenid" if vmgenid else "booted"

        def hardware(folder: Path) -> Hardware:
            disks = (library / "library.img", self._source)
            return Hardware(made / "kernel", folder / "initrd", disks, vmgenid, self._accelerator)

        def boot(folder: Path) -> None:
            recipe.initrd(self._kept, folder / "initrd")
            overlay(made / "root.img", "raw", folder / "disk")
            with (folder / "ram").open("wb") as ram:
                ram.truncate(512 << 20)
            with Machine(hardware(folder), folder) as machine:
                up_seconds = machine.agent.ready()
                self._kept.say(f"lab: {name}: the agent answers {time.monotonic() - machine.started_at:.1f} s after the start,"
                               f" {up_seconds:.1f} s by the guest's clock")  # fmt: skip
                machine.run("/usr/bin/python3", "-c", _WARM, env=PYTHON)  # what they read stays in memory
                machine.run("/usr/bin/node", "-e", "require('crypto').randomUUID()")
                machine.snapshot()

        folder = self._kept.get(name, [making(made), making(library), *self._parts], boot)  # its RAM knows their bytes
        return folder, hardware(folder)

    def start(self, *, vmgenid: bool = True, savable: bool = True) -> Machine:
        """Wake the booted machine, with our source at /source and the right wall clock."""
        folder, hardware = self.booted(vmgenid=vmgenid)
        machine = self._wake(folder, hardware, savable=savable)
        machine.go_on()
        machine.set_clock(time.time())
        machine.run("/bin/sh", "-c", "mount -t ext4 -o ro,noload /dev/vdc /source")
        return machine

    def wake(self, snapshot: Snapshot, hardware: Hardware, *, savable: bool = False, word: dict[str, Any] | None = None,
             wall_seconds: float | None = None) -> Machine:  # fmt: skip
        """Wake a snapshot, as often as you like. Nothing tells the guest but what is asked for here.

        Args:
            snapshot: what sleeps.
            hardware: of the machine that was put to sleep.
            savable: whether the copy will be put to sleep in its turn.
            word: what the host says in rouse's file. Of a frozen snapshot, before any program goes on.
            wall_seconds: what the wall clock is set to; before any program goes on as well.
        """
        machine = self._wake(snapshot.folder, hardware, savable=savable)
        machine.go_on()
        if wall_seconds is not None:
            machine.set_clock(wall_seconds)
        if word is not None:
            machine.host_word(word)
        if snapshot.frozen:
            machine.thaw()
        return machine

    def _wake(self, asleep: Path, hardware: Hardware, *, savable: bool) -> Machine:
        folder = self._folder / f"machine{next(self._numbers)}"
        folder.mkdir()
        if savable:
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", asleep / "ram", folder / "ram"], check=True)
        else:
            (folder / "ram").symlink_to(asleep / "ram")
        (folder / "state-before").symlink_to(asleep / "state")
        overlay(asleep / "disk", "qcow2", folder / "disk")
        machine = Machine(hardware, folder, asleep=True, shared=savable)
        self._alive.callback(shutil.rmtree, folder, ignore_errors=True)
        self._alive.callback(machine.close)
        return machine


def overlay(behind: Path, form: str, place: Path) -> None:
    """Make a disk that holds what differs from the one `behind` it."""
    asked = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(behind.resolve()), "-F", form, str(place)]
    subprocess.run(asked, check=True)


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text()
