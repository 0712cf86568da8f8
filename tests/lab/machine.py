"""A virtual machine under QEMU, and what is kept of one that sleeps.

Only what QEMU documents is used. The guest's RAM is a file. To sleep is `stop`, then `migrate` of the state of the devices
with `x-ignore-shared`, which leaves the RAM in its file, then the end of QEMU. To wake is a new QEMU on that file, which
loads the state and goes on. What is to be put to sleep again maps a copy of the file shared; a copy that only lives maps the
snapshot's own file privately, so any number of them can, and pages are read when they are touched. Each has a disk of its own
over the snapshot's.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.lab.agent import Agent, Program
from tests.lab.qmp import Gone, Monitor
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from types import TracebackType

QEMU = "qemu-system-x86_64"
MEGABYTES = 512
CPU = "Westmere"
"""numpy wants x86-64-v2."""
COMMAND_LINE = "console=ttyS0 quiet panic=-1 reboot=t tsc=reliable random.trust_cpu=on"


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a machine is made of. A state fits only the hardware it was saved on."""

    kernel: Path
    initrd: Path
    disks: tuple[Path, ...]
    """Read-only ones, after the root's own."""
    vmgenid: bool
    """Whether the guest's kernel is told that it was woken from a saved state."""
    accelerator: str = "tcg"

    def arguments(self, folder: Path, *, shared: bool) -> list[str]:
        """Return QEMU's command line, for a machine whose RAM, disk and sockets are in `folder`."""
        disks: list[dict[str, Any]] = [
            {"driver": "qcow2", "node-name": "disk0", "file": {"driver": "file", "filename": f"{folder}/disk"}}
        ]
        disks += [
            {"driver": "raw", "node-name": f"disk{number}", "read-only": True,
             "file": {"driver": "file", "filename": str(path)}}
            for number, path in enumerate(self.disks, 1)
        ]  # fmt: skip
        ram = f"memory-backend-file,id=ram,size={MEGABYTES}M,mem-path={folder}/ram,share={'on' if shared else 'off'}"
        words = [
            "-nodefaults -no-user-config -nographic -no-reboot",
            f"-accel {self.accelerator} -cpu {CPU} -smp 1 -m {MEGABYTES}",
            "-M pc,vmport=off,hpet=off,usb=off,smbus=off,memory-backend=ram",
            "-device virtio-serial-pci,id=serial -device virtserialport,bus=serial.0,chardev=agent,name=lab.agent",
            "-netdev user,id=net -device virtio-net-pci,netdev=net,romfile=",
            "-device vmgenid,guid=auto" if self.vmgenid else "",
        ]
        made = [QEMU, *" ".join(words).split(), "-object", ram]
        made += ["-qmp", f"unix:{folder}/qmp,server=on,wait=off", "-serial", f"file:{folder}/console"]
        made += ["-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off"]
        for disk in disks:
            made += ["-blockdev", json.dumps(disk), "-device", f"virtio-blk-pci,drive={disk['node-name']}"]
        return [*made, "-kernel", str(self.kernel), "-initrd", str(self.initrd), "-append", COMMAND_LINE]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A machine that sleeps: `ram`, `state` and `disk` in a folder, which nobody writes to any more."""

    folder: Path
    frozen: bool
    """Whether the programs were frozen by the agent, so that nothing runs before it lets them."""


class Machine:
    """A running guest. Ended when the `with` block is left, and with the process that started it."""

    def __init__(self, hardware: Hardware, folder: Path, *, asleep: bool = False, shared: bool = True) -> None:
        """Boot what is in `folder`, or with `asleep` load `state-before`, and stand still until `go_on`."""
        self.folder = folder
        self.hardware = hardware
        self.started_at = time.monotonic()
        self._shared = shared
        extra = ["-S", "-incoming", "defer"] if asleep else []
        with (folder / "qemu.log").open("wb") as log:
            self.qemu = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *hardware.arguments(folder, shared=shared), *extra],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            self._monitor = Monitor(folder / "qmp", self.qemu)
            self.agent = Agent(folder / "agent", self.qemu)
            if asleep:
                self._monitor.ask("migrate-incoming", uri=f"exec:cat {shlex.quote(str(folder / 'state-before'))}")
                self._monitor.migrated()
        except BaseException as error:
            self.close()
            if isinstance(error, Gone):
                raise Gone(f"{error}\n{(folder / 'qemu.log').read_text()}") from error
            raise

    def __enter__(self) -> Self:
        """Live in a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; if a test failed, with what the console said in its report."""
        if error is not None:
            error.add_note(f"the console of {self.folder.name}:\n{self.console[-2000:]}")
        self.close()

    @property
    def console(self) -> str:
        """What the guest printed so far in this life."""
        return (self.folder / "console").read_text(errors="replace")

    def start(self, *argv: str, env: dict[str, str] | None = None) -> Program:
        """Start a program in the guest, to talk to it."""
        reply = self.agent.ask("start", argv=list(argv), env=env or {})
        return Program(self.agent, reply["program"], reply["pid"])

    def the(self, program: Program) -> Program:
        """Return the program of another life of this machine in this one."""
        return Program(self.agent, program.number, program.pid)

    def run(self, *argv: str, env: dict[str, str] | None = None) -> str:
        """Run a command in the guest that must succeed, and return what it printed."""
        reply = self.agent.ask("run", argv=list(argv), env=env or {})
        assert reply["status"] == 0, reply
        return str(reply["out"])

    def clocks(self) -> dict[str, float]:
        """Return the guest's clocks, in seconds."""
        return {name: value for name, value in self.agent.ask("clocks").items() if name != "id"}

    def set_clock(self, wall_seconds: float) -> None:
        """Set the guest's wall clock."""
        self.agent.ask("set_clock", wall_seconds=wall_seconds)

    def put(self, path: str, text: str) -> None:
        """Write a file in the guest, whole or not at all."""
        self.agent.ask("put", path=path, text=text)

    def host_word(self, word: dict[str, Any]) -> None:
        """Write rouse's host file in the guest."""
        self.put("/run/rouse/generation", json.dumps(word))

    def freeze(self) -> None:
        """Freeze every program in the guest, by its kernel's cgroup freezer."""
        self.agent.ask("freeze")

    def thaw(self) -> None:
        """Let them go on."""
        self.agent.ask("thaw")

    def pause(self) -> None:
        """Let the whole machine stand still; its clocks too."""
        self._monitor.ask("stop")

    def go_on(self) -> None:
        """Let it go on."""
        self._monitor.ask("cont")

    def snapshot(self, *, freeze: bool = False) -> Snapshot:
        """Put the machine to sleep and end this life of it; with `freeze` its programs stand still first.

        Raises:
            RuntimeError: it maps another's RAM.
        """
        if freeze:
            self.freeze()
        self.agent.ask("ping")  # all that was said before has arrived then
        self.pause()
        self._save()
        self._monitor.ask("quit")
        self.qemu.wait(PATIENCE_SECONDS)
        self.close()
        return Snapshot(self.folder, freeze)

    def copied(self) -> Snapshot:
        """Copy a machine that is paused; it stays so, with every connection it has, and can go on.

        Raises:
            RuntimeError: it maps another's RAM.
        """
        self._save()
        place = Path(tempfile.mkdtemp(prefix="copy-", dir=self.folder))
        copied = [str(self.folder / name) for name in ("ram", "state", "disk")]
        subprocess.run(["cp", "--sparse=always", "--reflink=auto", *copied, str(place)], check=True)
        return Snapshot(place, frozen=False)

    def _save(self) -> None:
        """Save the state of the devices beside the RAM; the disk is whole then, too."""
        if not self._shared:
            raise RuntimeError("this machine maps another's RAM and keeps its own nowhere: wake it with savable=True")
        self._monitor.ask("migrate", uri=f"exec:cat > {shlex.quote(str(self.folder / 'state'))}")
        self._monitor.migrated()

    def close(self) -> None:
        """End QEMU, at once."""
        self.qemu.kill()
        self.qemu.wait()
        for line in ("_monitor", "agent"):
            if hasattr(self, line):
                getattr(self, line).close()
