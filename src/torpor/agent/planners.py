"""`app.agent(..., planner=, workers=, replan=)`: what an author declares about plans, read where the agent is registered."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torpor.agent.declared import Planning
from torpor.agent.delegate import description_of, startable
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_HINT = "planner=Agent(..., output_type=torpor.Plan), a program that app.agent returned, or def planner(goal)"


def planning_of(
    name: str,
    planner: Any,
    workers: Iterable[Callable[..., Any] | str],
    known: Collection[str] = (),
    *,
    replan: bool,
    conversation: bool = False,
    register: Callable[[str, Any], Callable[..., Any]],
) -> Planning | None:
    """Return what is declared about an agent's plans, or None without a planner; `register` makes an agent a program.

    `known` are the app's programs so far: a planner that is given by its name is one of them.

    Raises UsageError for what cannot plan, what cannot be a worker, and what does not go together.
    """
    if planner is None:
        if workers or replan:
            raise UsageError(f"agent {name} has workers or replan=, and no planner", hint="planner=, or app.delegate")
        return None
    if conversation:
        message = f"agent {name} has a planner and is a conversation"
        raise UsageError(message, hint="a plan has an end; let a conversation delegate to an agent that plans")
    if isinstance(planner, str) and planner not in known:
        raise UsageError(f"the planner of {name} is {planner!r}, and no program of the app is named so yet", hint=_HINT)
    return _planning(name, planner, workers, replan=replan, register=register)


def _planning(
    name: str,
    planner: Any,
    workers: Iterable[Callable[..., Any] | str],
    *,
    replan: bool,
    register: Callable[[str, Any], Callable[..., Any]],
) -> Planning:
    listed = [workers] if isinstance(workers, str) or callable(workers) else _listed(name, workers)
    does = {child: description_of(declared) for child, declared in map(startable, listed)}
    if _is_agent(planner):
        if planner.output_type is str:
            raise UsageError(f"the planner of {name} answers with a text, which is no plan", hint=_HINT)
        planner = register(f"{name}-planner", planner)
    if isinstance(planner, str) or _is_program(planner):
        return Planning(program=startable(planner)[0], workers=does, revises=replan)
    if not callable(planner):
        raise UsageError(f"the planner of {name} is {planner!r}", hint=_HINT)
    again = _takes_plan(name, planner)
    if replan and not again:
        message = f"the planner of {name} cannot revise a plan that it does not take"
        raise UsageError(message, hint="def planner(goal, plan=None): the plan so far, or None for the first one")
    return Planning(function=planner, workers=does, revises=again)


def _listed(name: str, workers: object) -> list[Any]:
    if not isinstance(workers, Iterable):
        raise UsageError(f"workers of agent {name} is {workers!r}", hint="workers=[writer], what app.agent returned")
    return [*workers]


def _is_agent(given: object) -> bool:
    return hasattr(given, "iter") and hasattr(given, "toolsets")


def _is_program(given: object) -> bool:
    try:
        startable(given)  # type: ignore[arg-type]  # whether it is one is the question
    except UsageError:
        return hasattr(given, "__torpor_program__")
    return True


def _takes_plan(name: str, function: Callable[..., Any]) -> bool:
    """Whether a planner that is a function takes the plan so far besides the goal. Raises UsageError."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # something built in
        return False
    wanted = [one for one in parameters if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]
    needed = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    if not wanted or len(needed) > 2:  # noqa: PLR2004 - goal and plan
        message = f"the planner of {name} takes {len(parameters)} parameters"
        raise UsageError(message, hint="def planner(goal) or def planner(goal, plan=None)")
    return len(wanted) > 1
