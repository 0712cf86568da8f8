"""Completion in a shell: commands and flags from the program itself, ids and programs from the store, within 150 ms."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torpor.store.protocol import Tx

LIMIT_SECONDS = 0.15
MOST = 50
_RUNS = frozenset({"show", "tail", "signal", "cancel"})
_WAITS = frozenset({"inbox", "approve", "deny", "answer"})
_FIXED = {"completion": ("bash", "zsh", "fish"), "bench": ("w1", "w2", "w3", "w4", "w5", "w6")}

SCRIPTS = {
    "bash": """_torpor() {
    local IFS=$'\\n'
    local words="$(torpor __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)"
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -o bashdefault -F _torpor torpor
""",
    "zsh": """#compdef torpor
_torpor() {
    local -a found
    found=("${(@f)$(torpor __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n "$found" ]] && compadd -a found || _files
}
compdef _torpor torpor
""",
    "fish": """function __torpor_complete
    torpor __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c torpor -a '(__torpor_complete)'
""",
}


def candidates(commands: Iterable[str], app: typer.Typer, words: Sequence[str]) -> list[str]:
    """Return what may stand in the place of the last word. Says nothing when the store cannot answer in time."""
    last = words[-1]
    if len(words) == 1:
        return [name for name in commands if name.startswith(last)]
    command = words[0]
    if last.startswith("-"):
        return [flag for flag in _flags(app, command) if flag.startswith(last)]
    if len([word for word in words[1:] if not word.startswith("-")]) != 1:
        return []
    if command in _FIXED:
        return [word for word in _FIXED[command] if word.startswith(last)]
    reads: Mapping[str, Callable[[Tx], list[str]]] = {
        **dict.fromkeys(_RUNS, _runs),
        **dict.fromkeys(_WAITS, _waits),
        "start": _programs,
        "schedules": _schedules,
    }
    if command not in reads:
        return []
    return [word for word in _within(reads[command]) if word.lower().startswith(last.lower())]


def _flags(app: typer.Typer, command: str) -> list[str]:
    group: Any = typer.main.get_command(app)
    known = group.commands.get(command)
    return sorted(flag for option in known.params for flag in option.opts if flag.startswith("--")) if known else []


def _within(read: Callable[[Tx], list[str]]) -> list[str]:
    """Read from the store, but not for longer than the limit: whoever presses Tab waits for it."""
    from torpor.cli.options import store_url

    found: list[str] = []

    def ask() -> None:
        from torpor.errors import TorporError
        from torpor.store.opening import open_store
        from torpor.store.protocol import Lane

        try:
            store = open_store(store_url(os.environ.get("TORPOR_STORE")), create=False)
            found.extend(store.transact_now(read, lane=Lane.READ)[:MOST])
        except (TorporError, OSError):
            return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LIMIT_SECONDS)
    return list(found)


def _runs(tx: Tx) -> list[str]:
    from torpor.core.ids import run_name
    from torpor.store.rows import RunFilter

    programs = {row.id: row.name for row in tx.programs()}
    return [run_name(programs.get(run.program, "?"), run.id) for run in tx.list_runs(RunFilter(limit=MOST))]


def _waits(tx: Tx) -> list[str]:
    from torpor.core.ids import wait_name

    return [wait_name(wait.run_id, wait.seq) for wait in tx.people_waits(limit=MOST)]


def _programs(tx: Tx) -> list[str]:
    return sorted({row.name for row in tx.programs()})


def _schedules(tx: Tx) -> list[str]:
    return [row.name for row in tx.list_schedules(after="", limit=MOST)]
