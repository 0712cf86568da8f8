"""What a flow loop refuses: the outside world, and everything whose order would differ when a turn is replayed.

A refusal is raised where the author's code made the call, so the traceback ends at the author's line. Nothing of asyncio is
patched. Where asyncio asks the loop for something (a task, a future), the loop looks at who asks; where it asks nobody
(`all_tasks`), a witness that is no task stands in its registry and speaks up inside flow bodies only.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from torpor.errors import UsageError
from torpor.sdk.loop_parts import PUT_IT_IN_A_STEP, FlowFuture, FlowTask, without_addresses

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from types import FrameType

DRIVEN_FROM_OUTSIDE = "a flow loop is driven by `pump()`, it does not run by itself"
_AS_COMPLETED = asyncio.as_completed.__code__
_TASKS_MODULE = asyncio.tasks.__dict__
_WAIT = asyncio.tasks._wait.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - to know who asks; see `check_waited`
WRAP_FUTURE = asyncio.wrap_future.__code__
_DEPTH = 5  # frames between `create_task` and `as_completed`, on every Python that torpor supports


class Refused:
    """A method that a flow loop does not have; calling it says so, and what to do instead."""

    def __init__(self, *, hint: str = PUT_IT_IN_A_STEP) -> None:
        """Refuse with this hint."""
        self.hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn which method this is."""
        self.name = name

    def __get__(self, loop: object, owner: type) -> partial[NoReturn]:
        """Return something that can be called, so that `hasattr` still tells the truth about asyncio's interface."""
        return partial(self._refuse)

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        message = f"a flow body called the event loop's `{self.name}`, and a flow loop has no such thing"
        raise UsageError(message, hint=self.hint)


class NoOutsideWorld(asyncio.AbstractEventLoop):
    """An event loop without files, sockets, processes, threads and signals."""

    run_forever: Any = Refused(hint=DRIVEN_FROM_OUTSIDE)
    run_until_complete: Any = Refused(hint=DRIVEN_FROM_OUTSIDE)
    stop: Any = Refused(hint=DRIVEN_FROM_OUTSIDE)
    close: Any = Refused(hint=DRIVEN_FROM_OUTSIDE)
    shutdown_asyncgens: Any = Refused(hint=DRIVEN_FROM_OUTSIDE)
    shutdown_default_executor: Any = Refused(hint=DRIVEN_FROM_OUTSIDE)
    run_in_executor: Any = Refused()
    set_default_executor: Any = Refused()
    getaddrinfo: Any = Refused()
    getnameinfo: Any = Refused()
    create_connection: Any = Refused()
    create_server: Any = Refused()
    start_tls: Any = Refused()
    sendfile: Any = Refused()
    create_unix_connection: Any = Refused()
    create_unix_server: Any = Refused()
    connect_accepted_socket: Any = Refused()
    create_datagram_endpoint: Any = Refused()
    connect_read_pipe: Any = Refused()
    connect_write_pipe: Any = Refused()
    subprocess_shell: Any = Refused()
    subprocess_exec: Any = Refused()
    add_reader: Any = Refused()
    remove_reader: Any = Refused()
    add_writer: Any = Refused()
    remove_writer: Any = Refused()
    sock_recv: Any = Refused()
    sock_recv_into: Any = Refused()
    sock_recvfrom: Any = Refused()
    sock_recvfrom_into: Any = Refused()
    sock_sendall: Any = Refused()
    sock_sendto: Any = Refused()
    sock_connect: Any = Refused()
    sock_accept: Any = Refused()
    sock_sendfile: Any = Refused()
    add_signal_handler: Any = Refused()
    remove_signal_handler: Any = Refused()
    set_task_factory: Any = Refused(hint="start tasks with `asyncio.create_task` or a `TaskGroup`")
    set_exception_handler: Any = Refused(hint="await the task, or catch the error inside it")
    get_exception_handler: Any = Refused(hint="await the task, or catch the error inside it")


def from_as_completed(caller: FrameType | None) -> FrameType | None:
    """Find the frame of `as_completed` above the caller of `create_task`, if asyncio itself is that caller.

    `as_completed` puts its arguments into a set first. Coroutines hash by address there, so it would start them in another
    order on replay. Tasks hash by number, and with them it is as deterministic as the rest.
    """
    for _ in range(_DEPTH):
        if caller is None or caller.f_globals is not _TASKS_MODULE:
            return None
        if caller.f_code is _AS_COMPLETED:
            return caller
        caller = caller.f_back
    return None


def refuse_as_completed(asked: FrameType, body: Generator[Any, Any, Any] | Coroutine[Any, Any, Any]) -> NoReturn:
    """Refuse `as_completed` over coroutines, and close those that can still be reached."""
    body.close()
    given = asked.f_locals.get("fs")
    for other in given if isinstance(given, (list, tuple, set, frozenset)) else ():
        if asyncio.iscoroutine(other):
            other.close()
    message = (
        "asyncio.as_completed was given coroutines; it would start them in another order when the turn is replayed"
    )
    raise UsageError(message, hint="give it tasks: `as_completed([asyncio.create_task(c) for c in coroutines])`")


def check_asker(asker: FrameType, loop: asyncio.AbstractEventLoop) -> None:
    """Refuse to make the future for `wrap_future`, or for a `wait` on futures that have no number or another loop."""
    if asker.f_code is WRAP_FUTURE:
        message = "a flow body waits for a future of another thread"
        raise UsageError(message, hint=PUT_IT_IN_A_STEP)
    if asker.f_code is not _WAIT:
        return
    for future in asker.f_locals["fs"]:
        if future.get_loop() is not loop:
            message = f"asyncio.wait was given something that is not the flow's: {without_addresses(repr(future))}"
            raise UsageError(message, hint=PUT_IT_IN_A_STEP)
        if not isinstance(future, (FlowFuture, FlowTask)):
            message = (
                f"asyncio.wait was given {future!r}, whose place in the set would differ when the turn is replayed"
            )
            raise UsageError(message, hint="await it in a task of its own, and give `wait` the task")


def refuse_inside(task: asyncio.Task[Any]) -> NoReturn:
    """Refuse to pump while a task of another loop runs in this thread: Python 3.14 has one current task per thread."""
    message = f"a flow loop was pumped inside {task!r}"
    raise UsageError(message, hint="pump it from a plain callback: `loop.call_soon(flow_loop.pump)`")


class _Witness:
    """Stands among asyncio's tasks to say that `all_tasks` has no order. Invisible to every other loop."""

    __slots__ = ("__weakref__",)

    def get_loop(self) -> None:
        """Belong to no loop; before Python 3.14 `all_tasks` asks this first of each task of the process."""
        self._refuse()

    def done(self) -> bool:
        """Be over; Python 3.14 asks this first."""
        self._refuse()
        return True

    def _refuse(self) -> None:
        if isinstance(asyncio._get_running_loop(), NoOutsideWorld):  # noqa: SLF001 - asyncio's own API for loop authors
            message = "asyncio.all_tasks has no order that would be the same when the turn is replayed"
            raise UsageError(
                message, hint="keep your tasks in a list or a `TaskGroup`; leftovers are cancelled for you"
            )


_WITNESS = _Witness()
asyncio._register_task(cast("Any", _WITNESS))  # noqa: SLF001 - asyncio's own API for task authors
