"""What a flow asks of other runs: to begin as its children, and how they ended."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from torpor.core.ids import parse_run
from torpor.core.money import micros_of
from torpor.core.names import check_name, storable
from torpor.core.replay import CallKind
from torpor.errors import UsageError
from torpor.sdk.calling import Calling

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from decimal import Decimal

    from torpor.sdk.again import Again

T = TypeVar("T")
_KEY_LETTERS = 500
_MARK = "__torpor_program__"
_SEVERAL = ""


def know(function: Callable[..., Any], name: str) -> None:
    """Remember under which name a function was registered, so that it can be named by itself."""
    known = getattr(function, _MARK, name)
    with suppress(AttributeError):  # what takes no attributes is named by its name
        setattr(function, _MARK, name if known == name else _SEVERAL)


def program_of(program: Callable[..., Any] | str) -> str:
    """Return the name of a program that was given by its function or its name. Raises UsageError."""
    if isinstance(program, str):
        return program
    name = getattr(program, _MARK, None)
    if isinstance(name, str) and name:
        return name
    called = getattr(program, "__name__", None) or repr(program)
    if name == _SEVERAL:
        raise UsageError(f"{called} is registered under several names", hint="give the program's name, a text")
    message = f"{called} is no program"
    raise UsageError(message, hint="@app.flow above it, what app.agent returned, or a program's name")


class Children(Calling):
    """Child, spawn, join."""

    __slots__ = ()

    @overload
    def child(
        self,
        program: str,
        input: Any = None,
        *,
        key: str = "",
        budget: Decimal | str | int | None = None,
        step_id: str = "",
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def child(
        self,
        program: Callable[..., Coroutine[Any, Any, Again[Any] | T]],
        input: Any = None,
        *,
        key: str = "",
        budget: Decimal | str | int | None = None,
        step_id: str = "",
    ) -> Coroutine[Any, Any, T]: ...
    def child(
        self,
        program: Callable[..., Any] | str,
        input: Any = None,  # noqa: A002 - as everywhere: what a program is started with
        *,
        key: str = "",
        budget: Decimal | str | int | None = None,
        step_id: str = "",
    ) -> Coroutine[Any, Any, Any]:
        """Run a program, a flow or an agent, as a child and return its result: `spawn` and `join` in one.

        The run sleeps while the child works. `program` is what `@app.flow` or `app.agent` made, or a name. Raises
        ChildFailed if it failed or was cancelled, and what `spawn` raises.
        """
        name = program_of(program)
        values = _wanted(name, input, key, independent=False, budget=budget)
        return self._child(self._promise("child", name), name, values, step_id)

    async def _child(self, number: int, name: str, values: dict[str, Any], step_id: str) -> Any:
        return await self.join(await self._call(number, CallKind.SPAWN, name, values, step_id=step_id))

    def spawn(
        self,
        program: str,
        input: Any = None,  # noqa: A002 - as everywhere: what a program is started with
        *,
        key: str = "",
        independent: bool = False,
        budget: Decimal | str | int | None = None,
        step_id: str = "",
    ) -> Coroutine[Any, Any, str]:
        """Start a run of a program as a child, with this run's tenant and priority, and return its id.

        It starts exactly once, however often this run is interrupted. When this run ends or is cancelled, its children
        are cancelled too, joined or not; an `independent` one goes on. With a `key`, this run has one child of that
        program and key, and asking again, in a later turn, returns it. A `budget` in dollars is its own below this run's:
        what it spends counts in both; without one it spends from this run's. Raises UsageError for an unknown program
        and for a budget that does not fit below this run's.
        """
        values = _wanted(program, input, key, independent=independent, budget=budget)
        return self._call(self._promise("spawn", program), CallKind.SPAWN, program, values, step_id=step_id)

    def join(self, child: str) -> Coroutine[Any, Any, Any]:
        """Sleep until a child has ended, and return its result. Each child's end is given out once.

        Raises ChildFailed if it failed or was cancelled, UsageError for a run that is not a child of this one.
        """
        self._check_child(child)
        return self._call(self._promise("join", child), CallKind.JOIN, child, {"children": [child]})

    def join_all(self, children: Iterable[str], *, return_exceptions: bool = False) -> Coroutine[Any, Any, list[Any]]:
        """Sleep until all these children have ended, and return their results in the order of their ids.

        It is one wait: the run is woken once, by the last of them. If any failed, raises ChildFailed for the first in
        that order, when all have ended; with `return_exceptions` its ChildFailed stands in the place of its result.
        """
        ids = [*children]
        for child in ids:
            self._check_child(child)
        name = f"{len(ids)} children"
        return self._join_all(self._promise("join_all", name), name, ids, return_exceptions=return_exceptions)

    async def _join_all(self, number: int, name: str, ids: list[str], *, return_exceptions: bool) -> list[Any]:
        if not ids:
            self._port.unbegun.pop(number, None)
            return []
        values = {"children": ids, "all": True, "exceptions": bool(return_exceptions)}
        results: list[Any] = await self._call(number, CallKind.JOIN, name, values)
        return results

    def _check_child(self, child: str) -> None:
        given: object = child
        if not isinstance(given, str):
            raise UsageError(f"a child is named by the id that ctx.spawn returned, not by {given!r}")
        if parse_run(child)[1] == parse_run(self._port.run_id)[1]:
            raise UsageError(
                f"{child} is this run: it cannot wait for its own end", hint="join what ctx.spawn returned"
            )


def _wanted(
    program: str,
    given: object,
    key: str,
    *,
    independent: bool,
    budget: Decimal | str | int | None,
) -> dict[str, Any]:
    """Return what the start of a child is about. Raises UsageError for a name, key or budget that can be none."""
    check_name(program, "a program's name")
    if len(key) > _KEY_LETTERS or not storable(key):
        message = f"a child's key has at most {_KEY_LETTERS} letters, no U+0000 and no half of a surrogate pair"
        raise UsageError(message, hint="take a key that is plain and short text")
    values: dict[str, Any] = {"input": given, "key": key, "independent": bool(independent)}
    if budget is not None:
        values["budget"] = micros_of(budget, "a child's budget", positive=True)
    return values
