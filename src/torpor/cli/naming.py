"""What a command line means that names a program: which app, which program, which input."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

from torpor.cli.deciding import closest
from torpor.cli.developing import choose_app
from torpor.cli.options import text_of
from torpor.errors import UsageError
from torpor.runtime import load_app

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.sdk.app import App

_MOST = 3


def named(words: Sequence[str]) -> tuple[str, App, str, str | None]:
    """Return the app's place, the app, the program and the input of `[APP.py] PROGRAM [INPUT]`. Raises UsageError.

    A first word that ends in `.py`, or is one of three, is an app. One of two is if the only app here has no program of that
    name, and there is a module of that name.
    """
    first, rest = words[0], list(words[1:])
    if _is_file(first) or (len(words) == _MOST and _is_module(first)):
        place = first
    elif len(words) <= _MOST - 1:
        place, app = _here(first, module=bool(rest))
        if place == first:
            return (place, *_of(place, app, rest))
        return (place, *_of(place, app, list(words)))
    else:
        raise _not_one_text(words)
    return (place, *_of(place, load_app(place), rest))


def _here(first: str, *, module: bool) -> tuple[str, App]:
    """Return the app in this folder, or the module of a name if that app has no such program."""
    if module and _is_module(first):
        try:
            place = choose_app("run")
            app = load_app(place)
        except UsageError:
            return first, load_app(first)
        return (place, app) if first in app.flows else (first, load_app(first))
    place = choose_app("run")
    return place, load_app(place)


def _of(place: str, app: App, words: Sequence[str]) -> tuple[App, str, str | None]:
    has = ", ".join(sorted(app.flows)) or "none"
    if not words:
        raise UsageError(f"which program of {place}? (it has: {has})", hint=f"torpor run {place} PROGRAM INPUT")
    if len(words) > _MOST - 1:
        raise _not_one_text(words)
    program = words[0]
    if program not in app.flows:
        near = closest(program, sorted(app.flows)).replace("torpor start", f"torpor run {place}")
        raise UsageError(f'no program named "{program}" in {place} (it has: {has})', hint=near)
    return app, program, words[1] if len(words) > 1 else None


def _not_one_text(words: Sequence[str]) -> UsageError:
    program, said = words[0], " ".join(words[1:])
    message = f"an input is one word to a shell, and these are {len(words) - 1}: {said}"
    return UsageError(message, hint=f"an input of several words needs quotes: torpor run {program} {shlex.quote(said)}")


def _is_file(word: str) -> bool:
    return word.partition(":")[0].endswith(".py")


def _is_module(word: str) -> bool:
    """Whether a word names a module that can be imported here."""
    name = word.partition(":")[0]
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def prompt_of(text: str | None, program: str) -> Any:
    """Return what is said to an agent: a text, or the text or list that it is the JSON of. Raises UsageError without one."""
    if text is None:
        raise UsageError(f"{program} is an agent, and nothing is said to it", hint=f'torpor run {program} "..."')
    said = text_of(text).strip()
    if not said:
        raise UsageError(f"what is said to {program} is empty", hint=f'torpor run {program} "..."')
    try:
        meant = json.loads(said)
    except (ValueError, RecursionError):
        return said
    return meant if isinstance(meant, str | list) and meant else said


def command_of(arguments: Sequence[str]) -> str:
    """Return the command line that goes on with what this one began."""
    return shlex.join(["torpor", *(word for word in arguments[1:] if word != "--new")])
