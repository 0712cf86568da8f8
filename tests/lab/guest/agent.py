"""The agent in a guest: carries out what the test asks, over a virtio-serial port. The standard library of Python alone.

One JSON object a line. A request has an `id` and an `op`, and gets one reply with that `id`; what programs say comes in
between as events with their number, `{"program": 3, "out": "..."}`.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PORT_NAME = "lab.agent"
PROGRAMS = Path("/sys/fs/cgroup/programs")
_BEHIND = 'echo $$ >/sys/fs/cgroup/programs/cgroup.procs; exec "$@"'
_REST_SECONDS = 0.005

programs: dict[int, subprocess.Popen[str]] = {}
_write_lock = threading.Lock()


def port() -> int:
    """Open the port of our name, waiting for it to appear."""
    while True:
        for each in Path("/sys/class/virtio-ports").glob("*/name"):
            if each.read_text().strip() == PORT_NAME:
                return os.open(f"/dev/{each.parent.name}", os.O_RDWR)
        threading.Event().wait(_REST_SECONDS)


def send(line: int, said: dict[str, Any]) -> None:
    """Write one object; waits while no host listens."""
    text = json.dumps(said).encode() + b"\n"
    with _write_lock:
        while text:
            text = text[os.write(line, text) :]


def start(line: int, argv: list[str], env: dict[str, str]) -> dict[str, Any]:
    """Start a program in the group that `freeze` freezes, and pass on each line it says."""
    number = len(programs) + 1
    program = subprocess.Popen(
        ["/bin/sh", "-c", _BEHIND, "sh", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, **env},
        cwd="/tmp",  # noqa: S108 - the guest's own
    )
    programs[number] = program

    def pass_on(stream: Any, name: str) -> None:
        for said in stream:
            send(line, {"program": number, name: said.rstrip("\n")})

    def follow() -> None:
        readers = [
            threading.Thread(target=pass_on, args=(stream, name), daemon=True)
            for stream, name in ((program.stdout, "out"), (program.stderr, "err"))
        ]
        for reader in readers:
            reader.start()
        status = program.wait()
        for reader in readers:
            reader.join()
        send(line, {"program": number, "status": status})

    threading.Thread(target=follow, daemon=True).start()
    return {"program": number, "pid": program.pid}


def write(number: int, text: str) -> dict[str, Any]:
    """Give a program one line on its standard input."""
    stdin = programs[number].stdin
    if stdin is None:
        raise ValueError(number)
    stdin.write(text + "\n")
    stdin.flush()
    return {}


def run(argv: list[str], env: dict[str, str]) -> dict[str, Any]:
    """Run a command to its end, outside the group that is frozen."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **env})
    return {"status": done.returncode, "out": done.stdout, "err": done.stderr}


def freeze(*, frozen: bool) -> dict[str, Any]:
    """Freeze or thaw every program, and return when the kernel says so."""
    with (PROGRAMS / "cgroup.events").open() as events:
        (PROGRAMS / "cgroup.freeze").write_text("1" if frozen else "0")
        changed = select.poll()
        changed.register(events, select.POLLPRI)
        while f"frozen {int(frozen)}" not in events.read():
            changed.poll(1000)
            events.seek(0)
    return {}


def put(path: str, text: str) -> dict[str, Any]:
    """Write a file beside its place and rename it there."""
    unfinished = Path(f"{path}.unfinished")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    unfinished.write_text(text)
    unfinished.rename(path)
    return {}


def clocks() -> dict[str, Any]:
    """Read every clock, in seconds; `rtc` is the machine's own, in whole seconds UTC."""
    names = ("REALTIME", "MONOTONIC", "MONOTONIC_RAW", "BOOTTIME", "TAI")
    read = {name.lower(): time.clock_gettime(getattr(time, f"CLOCK_{name}")) for name in names}
    return {**read, "rtc": float(Path("/sys/class/rtc/rtc0/since_epoch").read_text())}


def set_clock(wall_seconds: float) -> dict[str, Any]:
    """Set the wall clock."""
    time.clock_settime(time.CLOCK_REALTIME, wall_seconds)
    return {}


def answer(line: int, asked: dict[str, Any]) -> None:
    """Carry out one request and reply."""
    number, op = asked.pop("id"), asked.pop("op")
    try:
        reply = _carry_out(line, op, asked)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
        reply = {"error": repr(error)}
    send(line, {**reply, "id": number})


def _carry_out(line: int, op: str, asked: dict[str, Any]) -> dict[str, Any]:
    if op == "start":
        return start(line, **asked)
    if op == "kill":
        programs[asked["number"]].send_signal(asked["signal"])
        return {}
    if op in {"freeze", "thaw"}:
        return freeze(frozen=op == "freeze")
    known: dict[str, Callable[..., dict[str, Any]]] = {
        "write": write,
        "run": run,
        "put": put,
        "clocks": clocks,
        "set_clock": set_clock,
        "ping": dict,
    }
    return dict(known[op](**asked))


def main() -> None:
    """Serve for ever. A read gives nothing while no host is connected."""
    line = port()
    send(line, {"ready": time.clock_gettime(time.CLOCK_BOOTTIME)})
    rest = b""
    while True:
        came = os.read(line, 65536)
        if not came:
            threading.Event().wait(_REST_SECONDS)
            continue
        *whole, rest = (rest + came).split(b"\n")
        for text in whole:
            try:
                asked = json.loads(text)
            except ValueError:  # half of a line that was sent to another life of this machine
                continue
            if asked["op"] == "run":
                threading.Thread(target=answer, args=(line, asked), daemon=True).start()
            else:
                answer(line, asked)


if __name__ == "__main__":
    main()
