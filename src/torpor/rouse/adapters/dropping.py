"""Letting go of a connection without a word: nothing is sent, and a copy that shares the socket does not notice.

Libraries say goodbye when they close (TLS close_notify, SQL Terminate, QUIT, GOAWAY), and some call `shutdown()`, which closes
for everybody who holds the socket. So nobody is asked to close. The descriptor is made to lead nowhere instead: `dup2` puts a
dead socket in its place, in one step and in this process only. Whatever the library does with it from then on, goodbye
included, fails at once and reaches nobody; a library that looks whether its idle connection is still good finds that it is not.

What was the last reference to the old socket closes it, as the end of the process would, and the kernel then says FIN. In a
copied *machine* that FIN may reach the peer of the other copy too; nothing in user space can prevent that.

**In flight.** A thread that waits in the kernel on the old socket would go on waiting. In the process where the connection was
born, `shutdown(SHUT_RD)` wakes it: for TCP that sends nothing, it only ends reading here. Never in a copy of the process: there
the other one reads from the same socket, and there is no other thread to wake.

**asyncio** watches the socket, not the descriptor. In the process where the connection was born its transport is aborted, in
its loop; that sends nothing either. In a copy the loop's epoll is shared with the original and must not be touched: the
descriptor is diverted, the protocol is told, and the transport is kept for ever, so that its number is not used again.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .waking import buried

if TYPE_CHECKING:
    from collections.abc import Callable


def divert(descriptor: int) -> None:
    """Let the number lead nowhere: the first read says ECONNRESET, later ones end, a write says EPIPE."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"\0")  # unread when the other end closes: this is what makes the first read an error and not an end
        theirs.close()
        os.dup2(ours.fileno(), descriptor, inheritable=False)


def drop(descriptor: int, *, process_copied: bool) -> None:
    """Let go of a socket that threads use; wake those that wait on it. Does nothing if it is closed or no socket."""
    if descriptor < 0:
        return
    try:
        old = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return
    with old:
        divert(descriptor)
        if not process_copied:
            with suppress(OSError):  # not connected (any more)
                old.shutdown(socket.SHUT_RD)


def lose(transport: Any, *, process_copied: bool) -> None:
    """Let go of an asyncio transport; whoever waits on it is told."""
    if transport is None:
        return
    if not process_copied:
        in_loop_of(transport, transport.abort)
        return
    shared = transport.get_extra_info("socket")
    if shared is None or shared.fileno() < 0:
        return
    buried.append(transport)
    divert(shared.fileno())
    transport.get_protocol().connection_lost(ConnectionResetError("dropped: this process is a copy"))


def in_loop_of(owner: Any, act: Callable[[], object]) -> None:
    """Call `act` now if the owner's loop runs in this thread, or not at all; else in that loop, at its next turn."""
    loop = getattr(owner, "_loop", None)  # asyncio and uvloop call it so, and have no public name for it
    asyncio: Any = sys.modules["asyncio"]
    if loop is None or not loop.is_running() or asyncio._get_running_loop() is loop:  # noqa: SLF001 - documented
        if loop is None or not loop.is_closed():
            act()
    else:
        loop.call_soon_threadsafe(act)
