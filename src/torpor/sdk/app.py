"""The registry: which flows, steps and effects an application has. It runs nothing and imports nothing heavy."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from torpor.core.checkpoint import KEEP_CHECKPOINTS
from torpor.core.effect import Safety
from torpor.core.names import AGENT
from torpor.errors import UsageError
from torpor.sdk.children import know
from torpor.sdk.keeping import Retention, checked_keep
from torpor.sdk.steps import define, mark

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from torpor.core.retry import RetryPolicy
    from torpor.sdk.schedules import Schedule
    from torpor.sdk.steps import Definition

F = TypeVar("F", bound="Callable[..., Any]")


_ROOMS = ("torpor.sdk.", "torpor.agent.")


@dataclass(slots=True)
class Flow:
    """A registered flow: an async function from (context, state) to `Again` or a result."""

    name: str
    version: int
    function: Callable[..., Any]
    source: str
    takes_state: bool
    keep_checkpoints: int = KEEP_CHECKPOINTS
    """So many checkpoints before the present one can be returned to."""
    told_in_rows: bool = False
    """Whether what calls with a plain `step_id` give back stands in the state's rows as well, from the next turn on."""
    retain: Retention | None = None
    state_type: Any = None
    """The annotation of the state parameter, for decoding input that came as plain JSON."""
    warns: Callable[[], str] | None = None
    """Returns what a worker says when it begins to serve it, empty if nothing."""
    hears: str = ""
    """The signal by which people speak to it, if it is an agent: its input and what follows are what they say."""
    traces: Callable[[str], tuple[str, dict[str, str | int]]] | None = None
    """Of a run, by its name: what the span of a stretch is called, and what is said in it besides."""
    upcasts: dict[int, Callable[[Any], Any]] = field(default_factory=dict)
    effects: dict[str, Definition] = field(default_factory=dict)
    """The app's effects by name: what a compensation is found by."""

    @property
    def versions(self) -> list[int]:
        """The versions whose sleeping runs this code can take up: its own, and those it has a chain of upcasts for."""
        served = [self.version]
        while served[-1] - 1 in self.upcasts:
            served.append(served[-1] - 1)
        return served

    def input_type(self, version: int) -> Any:
        """Return what the input of a run of this version is read as; None: as it was sent.

        An older one was made for older code: it is what the upcast says that it takes, if that says anything.
        """
        if version == self.version or version not in self.upcasts:
            return self.state_type
        upcast = self.upcasts[version]
        try:
            parameter = next(iter(inspect.signature(upcast).parameters.values()))
        except (ValueError, TypeError, StopIteration):  # made of something that has no signature
            return None
        return _annotation(upcast, parameter)


class App:
    """Your programs. `@app.flow`, `@app.step`, `@app.effect`; give it to `torpor dev FILE.py` or `torpor.run(app, ...)`."""

    def __init__(self) -> None:
        """Begin empty."""
        self.flows: dict[str, Flow] = {}
        self.effects: dict[str, Definition] = {}
        self._schedules: list[Schedule] = []

    @overload
    def flow(self, function: F, /) -> F: ...
    @overload
    def flow(
        self,
        function: None = None,
        /,
        *,
        name: str = "",
        version: int = 1,
        keep_checkpoints: int = KEEP_CHECKPOINTS,
        retain: Retention | None = None,
    ) -> Callable[[F], F]: ...
    def flow(
        self,
        function: Any = None,
        /,
        *,
        name: str = "",
        version: int = 1,
        keep_checkpoints: int = KEEP_CHECKPOINTS,
        retain: Retention | None = None,
    ) -> Any:
        """Register an async function as a flow.

        `version` goes up when the code changes in a way that sleeping runs must not meet half-way. `keep_checkpoints`
        before the present one can be forked from and rewound to; `retain` says how long what is kept. Raises UsageError.
        """

        def register(flow: Any) -> Any:
            self._add(flow, name or getattr(flow, "__name__", ""), version)
            added = self.flows[name or flow.__name__]
            added.keep_checkpoints, added.retain = checked_keep(keep_checkpoints, added.name), retain
            return flow

        return register if function is None else register(function)

    def _add(self, function: Callable[..., Any], name: str, version: int) -> None:
        if not inspect.iscoroutinefunction(function):
            message = f"a flow is an async function; {name or function!r} is not"
            raise UsageError(message, hint="async def, and put blocking work in a step")
        if not name.replace("_", "").replace("-", "").replace(".", "").isalnum() or len(name) > 100:  # noqa: PLR2004 - said below
            message = f"a flow cannot be named {name!r}"
            raise UsageError(message, hint="up to 100 letters, digits, - _ .")
        given: object = version
        if not isinstance(given, int) or given < 1:
            message = f"version={version!r} of {name} is not a whole number from 1"
            raise UsageError(message)
        if name in self.flows and self.flows[name].function is not function:
            message = f'two flows are named "{name}": {self.flows[name].source} and {_source(function)}'
            raise UsageError(message, hint="name one of them: @app.flow(name=...)")
        parameters = list(inspect.signature(function).parameters.values())
        if not 1 <= len(parameters) <= 2:  # noqa: PLR2004 - context and state
            message = f"flow {name} takes {len(parameters)} parameters; it takes a context and at most one state"
            raise UsageError(message, hint="async def f(ctx: Context, state: State): put several inputs in a dataclass")
        first = parameters[0].annotation
        if first is not inspect.Parameter.empty and "Context" not in str(getattr(first, "__name__", first)):
            message = f"flow {name} begins with {parameters[0]}; its first parameter is the context"
            raise UsageError(message, hint="async def f(ctx: Context, state: State)")
        state_type = _annotation(function, parameters[1]) if len(parameters) == 2 else None  # noqa: PLR2004 - as above
        takes_state = len(parameters) == 2  # noqa: PLR2004 - as above
        source = _source(function)
        self.flows[name] = Flow(
            name, version, function, source, takes_state, state_type=state_type, effects=self.effects
        )
        know(function, name)

    @overload
    def step(self, function: F, /) -> F: ...
    @overload
    def step(
        self,
        function: None = None,
        /,
        *,
        name: str = "",
        retries: int | RetryPolicy = 0,
        timeout: float | timedelta | None = None,
    ) -> Callable[[F], F]: ...
    def step(
        self,
        function: Any = None,
        /,
        *,
        name: str = "",
        retries: int | RetryPolicy = 0,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Declare a function that may be run again: it reads, or writes what does no harm twice."""

        def declare(function: Any) -> Any:
            return mark(
                function, define(function, safety=Safety.REPEATABLE, name=name, retries=retries, timeout=timeout)
            )

        return declare if function is None else declare(function)

    @overload
    def effect(self, function: F, /) -> F: ...
    @overload
    def effect(
        self,
        function: None = None,
        /,
        *,
        safety: Safety | str = Safety.ONCE,
        name: str = "",
        retries: int | RetryPolicy = 0,
        timeout: float | timedelta | None = None,
        verify: Callable[..., Any] | None = None,
    ) -> Callable[[F], F]: ...
    def effect(
        self,
        function: Any = None,
        /,
        *,
        safety: Safety | str = Safety.ONCE,
        name: str = "",
        retries: int | RetryPolicy = 0,
        timeout: float | timedelta | None = None,
        verify: Callable[..., Any] | None = None,
    ) -> Any:
        """Declare a function that changes the world, and what is known about doing it again.

        `safety` says what a crash between its intent and its outcome may do to it (docs/lifecycle.md).
        """

        def declare(function: Any) -> Any:
            made = define(function, safety=safety, name=name, retries=retries, timeout=timeout, verify=verify)
            self.effects.setdefault(made.name, made)
            return mark(function, made)

        return declare if function is None else declare(function)

    def schedule(
        self,
        cron: str = "",
        *,
        every: float | timedelta | None = None,
        zone: str = "UTC",
        input: Any = None,  # noqa: A002 - the word that authors use
        name: str = "",
        missed: str = "latest",
        **more: Any,
    ) -> Callable[[F], F]:
        """Start runs of a flow by a cron line (the wall clock of `zone`) or `every` so often; a worker makes it known.

        `missed` says what becomes of slots that nobody fired in time: `latest` makes up for the newest alone, `skip` for
        none, `all` for the last `up_to=10`. `grace`: a slot later than that is not fired any more. `jitter` and `stagger`
        spread starts; `tenant` and `priority` are the runs'. A flow's second schedule needs a `name`. Raises UsageError.
        """
        from torpor.sdk.schedules import Schedule, rule

        owner = {key: more.pop(key) for key in ("tenant", "priority") if key in more}
        unknown = sorted(set(more) - {"up_to", "grace", "jitter", "stagger"})
        if unknown:
            raise UsageError(
                f"a schedule has no {', '.join(unknown)}", hint="up_to, grace, jitter, stagger, tenant, priority"
            )
        made = rule(cron, every=every, zone=zone, missed=missed, name=name, **more)

        def declare(flow: F) -> F:
            self._schedules.append(Schedule(name, flow, made, input, **owner))
            return flow

        return declare

    @property
    def schedules(self) -> dict[str, tuple[Flow, Schedule]]:
        """The declared schedules by name, each with its flow. Raises UsageError: no flow, or two of one name."""
        found: dict[str, tuple[Flow, Schedule]] = {}
        for one in self._schedules:
            flow = next((flow for flow in self.flows.values() if flow.function is one.function), None)
            if flow is None:
                raise UsageError(f"{_source(one.function)} has a schedule and is no flow", hint="@app.flow beside it")
            name = one.name or flow.name
            if name in found:
                raise UsageError(f'two schedules are named "{name}"', hint="name one: @app.schedule(..., name=...)")
            found[name] = (flow, one)
        return found

    def upcast(self, old: int, function: Callable[[Any], Any], *, flow: str = "") -> None:
        """Say how a state of version `old` becomes one of version `old + 1`, so that sleeping runs wake in new code.

        `flow` names it when the app has several.
        """
        if not flow and len(self.flows) != 1:
            message = f"the app has {len(self.flows)} flows; which one does upcast({old}, ...) belong to?"
            raise UsageError(message, hint='app.upcast(1, fn, flow="audit")')
        name = flow or next(iter(self.flows))
        if name not in self.flows:
            message = f'no flow is named "{name}" (there are: {", ".join(sorted(self.flows)) or "none"})'
            raise UsageError(message)
        target = self.flows[name]
        if not 1 <= old < target.version:
            message = f"upcast({old}, ...) of {name}, whose version is {target.version}: old must be below it"
            raise UsageError(message)
        target.upcasts[old] = function


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return what the state is annotated as, resolved if it can be; None if it says nothing."""
    if parameter.annotation is inspect.Parameter.empty:
        return None
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    told = ModuleType("told")  # only this parameter's: what is wrong with the others says nothing about it
    told.__annotations__ = {parameter.name: parameter.annotation}
    try:
        known = inspect.unwrap(function).__globals__
        return inspect.get_annotations(told, globals=known, eval_str=True)[parameter.name]
    except Exception:  # noqa: BLE001 - a name that is not importable at run time: the annotation is advice only
        return None


def module_name(function: Callable[..., Any]) -> str:
    """Return the module a function belongs to; a script's own is its file's stem, so that run and import agree."""
    return _importable(getattr(function, "__module__", "") or "")


def agent_source(name: str) -> str:
    """Return where an agent is registered under a name: the module of the code that does it, torpor's own left out."""
    frame = sys._getframe(1)  # noqa: SLF001 - as warnings and logging look for their caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_ROOMS):
        frame = frame.f_back
    return f"{_importable(frame.f_globals.get('__name__', ''))}:{name}{AGENT}"


def _importable(name: str) -> str:
    if name == "__main__":
        file = getattr(sys.modules.get("__main__"), "__file__", None)
        from pathlib import Path

        return Path(file).stem if file else name
    return name


def _source(function: Callable[..., Any]) -> str:
    return f"{module_name(function)}:{getattr(function, '__qualname__', '?')}"
