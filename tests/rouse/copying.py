"""A script: copies itself past the at-fork hooks and reports what both copies know. `python copying.py SCENARIO`.

Each copy reports one JSON object; the last line on standard output is the list of them, the original first.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from torpor import rouse

if TYPE_CHECKING:
    from collections.abc import Callable

SYS_CLONE = {"x86_64": 56, "aarch64": 220}
SYS_FORK = {"x86_64": 57}
ANSWER_SECONDS = 60.0

Report = dict[str, Any]

room: Any = importlib.import_module("torpor.rouse.incarnation")  # `rouse.incarnation` is the function

hooks_run: list[int] = []
os.register_at_fork(after_in_child=lambda: hooks_run.append(os.getpid()))


def raw_clone() -> int:
    """`clone(SIGCHLD)` as a bare system call: no hook of Python or of the C library runs. Keeps the interpreter lock.

    No other thread may be asking for that lock at the moment: the copy would hand it over to a thread that it has not,
    and wait for ever. So those that ask are let through first, and those that come after ask later.
    """
    libc = ctypes.PyDLL(None)
    libc.syscall.restype = ctypes.c_long
    zeros = [ctypes.c_long(0)] * 4
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    for _ in range(25):  # longer than a thread that asked before takes to say so, on a crowded machine too
        threading.Event().wait(0.004)
    pid = int(libc.syscall(ctypes.c_long(SYS_CLONE[platform.machine()]), ctypes.c_long(signal.SIGCHLD), *zeros))
    sys.setswitchinterval(usual)
    return pid


def raw_fork() -> int:
    """The `fork` system call, where the processor still has one."""
    number = SYS_FORK.get(platform.machine())
    if number is None:
        return raw_clone()
    libc = ctypes.PyDLL(None)
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(ctypes.c_long(number)))


def in_copy(report: Callable[[], Report], copy: Callable[[], int]) -> Report:
    """Copy this process, let the copy report and end, give its report; `{"hung": True}` if it does not come."""
    reader, writer = os.pipe()
    pid = copy()
    if pid == 0:
        status = 1
        try:
            os.write(writer, json.dumps(report()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    readable, _, _ = select.select([reader], [], [], ANSWER_SECONDS)
    answer = os.read(reader, 65536) if readable else b'{"hung": true}'
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
    return dict(json.loads(answer or b'{"died": true}'))


def describe(born_in: rouse.Incarnation, watcher: rouse.Watcher, guarded: rouse.Guard[str]) -> Report:
    """What this process knows of itself, the first call first."""
    now = rouse.incarnation()
    try:
        used = guarded.get()
    except rouse.Stale:
        used = "stale"
    rousal = watcher.check()
    return {
        "born_in": born_in,
        "incarnation": now,
        "used": used,
        "kind": None if rousal is None else rousal.kind,
        "before": None if rousal is None else rousal.before,
        "after": None if rousal is None else rousal.after,
        "at_the_end": rouse.incarnation(),
        "told_again": watcher.check() is not None,
        "hooks_run": len(hooks_run),
    }


def two_copies(copy: Callable[[], int]) -> list[Report]:
    """Copy twice from one state, then copy the copy."""
    born_in = rouse.incarnation()
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=60.0))
    guarded = rouse.guard("connection")

    def report() -> Report:
        return describe(born_in, watcher, guarded)

    def copy_of_the_copy() -> Report:
        return in_copy(report, copy)

    copies = [in_copy(report, copy), in_copy(report, copy), in_copy(copy_of_the_copy, copy)]
    return [report(), *copies]


def equal_number() -> list[Report]:
    """The copies see the number of the original, as the first processes of two pid namespaces do."""
    number = os.getpid()
    os.getpid = lambda: number
    return two_copies(raw_clone)


def number_alone() -> list[Report]:
    """A kernel that cannot wipe the page: the number must do."""
    room._page_wiped_on_fork = lambda: bytearray(1)  # noqa: SLF001 - an older kernel
    room.end(rouse.incarnation())
    return two_copies(raw_clone)


def lock_held() -> list[Report]:
    """Another thread is inside a callback, holding the watcher's lock, when the process is copied."""
    now = 0
    watcher = rouse.Watcher(clocks=rouse.Clocks(monotonic=lambda: now, boottime=lambda: now, wall=lambda: now))
    entered, leave = threading.Event(), threading.Event()

    @watcher.on_rousal
    def block_in_the_original(rousal: rouse.Rousal) -> None:
        if rousal.kind is rouse.Kind.FROZEN:
            entered.set()
            leave.wait()

    now = 60_000_000
    thread = threading.Thread(target=watcher.check)
    thread.start()
    entered.wait()
    born_in, guarded = rouse.incarnation(), rouse.guard("connection")
    copy = in_copy(lambda: describe(born_in, watcher, guarded), raw_clone)
    leave.set()
    thread.join()
    return [describe(born_in, watcher, guarded), copy]


def mid_check() -> list[Report]:
    """A detector copies the process in the middle of a check; both copies go on inside it."""
    born_in, guarded = rouse.incarnation(), rouse.guard("connection")
    copies: list[Report] = []
    inside: list[int] = []

    def copying(_before: rouse.Reading, _now: rouse.Reading) -> None:
        if not inside:
            inside.append(1)
            reader, writer = os.pipe()
            inside.append(raw_clone())
            if inside[1] == 0:
                inside.append(writer)
                return
            os.close(writer)
            copies.append(dict(json.loads(os.read(reader, 65536))))
            os.waitpid(inside[1], 0)

    limits = rouse.Limits(tick_seconds=60.0)
    watcher = rouse.Watcher(limits, detectors=[copying, *rouse.default_detectors(limits)])
    rousal = watcher.check()
    mine = {"kind": None if rousal is None else rousal.kind} | {
        "incarnation": rouse.incarnation(),
        "born_in": born_in,
        "used": "stale" if guarded.is_stale() else "connection",
    }
    if inside[1] == 0:
        os.write(inside[2], json.dumps(mine).encode())
        os._exit(0)
    return [mine, *copies]


def mid_birth() -> list[Report]:
    """The process is copied while the name of a new life is being drawn; both copies go on with it."""
    reader, writer = os.pipe()
    children: list[int] = []
    drawn = os.urandom

    def copy_first(size: int) -> bytes:
        name_part = drawn(size)  # before the copy: both hold the same random bytes
        if not children:
            children.append(raw_clone())
        return name_part

    os.urandom = copy_first
    now = room.end(rouse.incarnation())
    mine = {"incarnation": now, "again": rouse.incarnation()}
    if children == [0]:
        os.write(writer, json.dumps(mine).encode())
        os._exit(0)
    os.close(writer)
    copy = dict(json.loads(os.read(reader, 65536)))
    os.waitpid(children[0], 0)
    return [mine, copy]


SCENARIOS: dict[str, Callable[[], list[Report]]] = {
    "raw_clone": lambda: two_copies(raw_clone),
    "raw_fork": lambda: two_copies(raw_fork),
    "os_fork": lambda: two_copies(os.fork),
    "equal_number": equal_number,
    "number_alone": number_alone,
    "lock_held": lock_held,
    "mid_check": mid_check,
    "mid_birth": mid_birth,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(SCENARIOS[sys.argv[1]]()) + "\n")
