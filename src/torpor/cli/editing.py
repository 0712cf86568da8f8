"""Editing what an approval shows: `--set PATH=JSON`, or the whole of it in $EDITOR."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torpor.cli.options import beyond
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.engine.queries.people import InboxItem


def edits_of(
    item: InboxItem, changed: Sequence[str], *, in_editor: bool, draft: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a person changes, by path; nothing if they change nothing. An editor begins with `draft`, if there is one.

    Raises UsageError.
    """
    if not changed and not in_editor:
        return {}
    if item.proposed is None:
        hint = f'torpor approve {item.wait}   or: torpor deny {item.wait} "reason"'
        raise UsageError(f"{item.wait} cannot be edited: its program did not allow it", hint=hint)
    edits = dict(_edit(text) for text in changed)
    if in_editor:
        if edits:
            raise UsageError("an edit is made with --set or with --edit, not both")
        given = _edited(item, (draft or {}).get("", item.proposed))
        edits = {} if given == item.proposed else {"": given}
    return edits


def _edit(text: str) -> tuple[str, Any]:
    """Return the path and the value of `amount=40` or `to=ana`: JSON if it is that, else a text."""
    path, mark, value = text.partition("=")
    if not mark or not path:
        raise UsageError(f"--set {text} is no edit", hint="--set amount=40 --set to=ana --set items[0].count=2")
    try:
        return path, json.loads(value)
    except json.JSONDecodeError:
        return path, value
    except (ValueError, RecursionError) as error:
        raise beyond(f"--set {path}", error) from error


def _edited(item: InboxItem, present: Any) -> Any:
    """Let a person edit JSON, and return it as they left it."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("no editor is set", hint="EDITOR=nano torpor approve WAIT --edit   or: --set PATH=JSON")
    with tempfile.TemporaryDirectory(prefix="torpor-") as folder:
        file = Path(folder) / f"{item.wait}.json"
        file.write_text(json.dumps(present, ensure_ascii=False, indent=2) + "\n", "utf-8")
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False)  # noqa: S603 - the person's own editor
        except OSError as error:
            raise UsageError(f"{editor} cannot be started: {error}", hint="set EDITOR to one that can") from error
        if ended.returncode:
            raise UsageError(f"{editor} ended with {ended.returncode}: nothing was approved")
        try:
            return json.loads(file.read_text("utf-8"))
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            raise UsageError(f"that is no JSON: {error.msg} at {place}; nothing was approved") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"that is no UTF-8: {error.reason}; nothing was approved") from error
        except OSError as error:
            raise UsageError(f"what was edited cannot be read: {error}; nothing was approved") from error
        except (ValueError, RecursionError) as error:
            raise beyond("that", error) from error
