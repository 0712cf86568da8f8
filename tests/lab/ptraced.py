"""Copy any program, not only one of ours, as a copy of its machine would: it makes the system call, and does not know.

By ptrace(2), on x86-64: the program's own thread, which stands in a system call, is made to do `clone` into a pid namespace of
its own, so that each copy has the number that the original has if it is the first of one. Original and copies then begin
their system call again. Other threads are not copied: a program must be able to do without.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from pathlib import Path

SYS_READ, SYS_MADVISE, SYS_CLONE = 0, 28, 56
MADV_DOFORK = 11
CLONE_NEWPID = 0x20000000
SYSCALL_BYTES = 2
"""The length of the instruction."""

_STEP, _GET, _SET, _ATTACH, _DETACH, _OPTIONS, _MESSAGE = 9, 12, 13, 16, 17, 0x4200, 0x4201
_TRACE_FORK = 2
_WALL = 0x40000000
_NOTHING = ctypes.c_ulong(-1).value
_LAST_ERROR = 4095
_REST_SECONDS = 0.005

_NAMES = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs"


class Registers(ctypes.Structure):
    """`struct user_regs_struct` of <sys/user.h>."""

    _fields_ = tuple((name, ctypes.c_ulong) for name in _NAMES.split())


def copy(pid: int, times: int) -> list[int]:
    """Copy a process that waits for its standard input, or soon will, so many times; the numbers of the copies.

    Raises:
        OSError: it may not be traced, or not be copied.
    """
    before = _stopped_in_read(pid)
    _ptrace(_OPTIONS, pid, 0, _TRACE_FORK)
    again = _changed(before, rip=before.rip - SYSCALL_BYTES, rax=before.orig_rax, orig_rax=_NOTHING)
    for start, size in _not_copied(pid):
        _write(pid, _changed(again, rax=SYS_MADVISE, rdi=start, rsi=size, rdx=MADV_DOFORK))
        _carried_out(pid)
    copies = []
    for _ in range(times):
        flags = signal.SIGCHLD | CLONE_NEWPID
        _write(pid, _changed(again, rax=SYS_CLONE, rdi=flags, rsi=0, rdx=0, r10=0, r8=0))
        made = _carried_out(pid)
        os.waitpid(made, _WALL)  # it begins stopped
        copies.append(made)
        _write(made, again)
        _ptrace(_DETACH, made)
    _write(pid, again)
    _ptrace(_DETACH, pid)
    return copies


def _stopped_in_read(pid: int) -> Registers:
    """Attach to a process where it reads its standard input, trying until it does."""
    while True:
        _ptrace(_ATTACH, pid)
        os.waitpid(pid, 0)
        registers = _read(pid)
        if (registers.orig_rax, registers.rdi) == (SYS_READ, 0):
            return registers
        _ptrace(_DETACH, pid)
        threading.Event().wait(_REST_SECONDS)


def _not_copied(pid: int) -> list[tuple[int, int]]:
    """Return start and size of the memory that the program asked the kernel not to give to a copy; V8 does so with its heap."""
    found, start, end = [], 0, 0
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            start, end = (int(each, 16) for each in first.split("-"))
        elif first == "VmFlags:" and "dc" in rest:
            found.append((start, end - start))
    return found


def _carried_out(pid: int) -> int:
    """Let a process make the call it stands before; the number of the copy, if one came of it."""
    made = ctypes.c_ulong(0)
    while True:
        _ptrace(_STEP, pid)
        _, status = os.waitpid(pid, 0)
        if status >> 16:
            _ptrace(_MESSAGE, pid, 0, ctypes.addressof(made))
            continue
        result = _read(pid).rax
        if result > _NOTHING - _LAST_ERROR:
            number = _NOTHING - result + 1
            raise OSError(number, f"the process cannot be copied: {os.strerror(number)}")
        return made.value


def _read(pid: int) -> Registers:
    registers = Registers()
    _ptrace(_GET, pid, 0, ctypes.addressof(registers))
    return registers


def _write(pid: int, registers: Registers) -> None:
    _ptrace(_SET, pid, 0, ctypes.addressof(registers))


def _changed(registers: Registers, **values: int) -> Registers:
    made = Registers.from_buffer_copy(registers)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _ptrace(request: int, pid: int, address: int = 0, value: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, pid, address, value) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")
