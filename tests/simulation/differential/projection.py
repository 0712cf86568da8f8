"""What the stores hold, in the model's words; and where the model disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.differential.stores import Differs
from torpor.core.budget import Short
from torpor.core.commit import MessageKind
from torpor.core.family import members_of
from torpor.core.journal import Kind
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.differential.reading import Snapshot
    from tests.simulation.model import Model

_STANDS = ("queued", "held", "later")
Dict = dict[str, Any]


def project(snapshot: Snapshot) -> Dict:
    """Return a snapshot in the model's words."""
    whose = {row["id"]: row["name"] or f"run:{row['run_id']}" for row in snapshot["budgets"]}
    lines = {row["id"]: row for row in snapshot["lines"]}
    return {
        "runs": {row["id"]: _run(row, snapshot) for row in snapshot["runs"]},
        "keys": len(snapshot["run_keys"]),
        "outbox": [_message(row) for row in sorted(snapshot["outbox"], key=lambda row: int(row["id"]))],
        "follow_ups": {row["run_id"] for row in snapshot["follow_ups"]},
        "deadlines": {row["run_id"]: row["due_at"] for row in snapshot["deadlines"]},
        "lines": {line["name"]: _line(line, snapshot["places"]) for line in lines.values()},
        "budgets": {whose[row["id"]]: _budget(row) for row in snapshot["budgets"]},
        "holds": {(row["run_id"], row["key"]): _hold(row, whose) for row in snapshot["holds"]},
        "shorts": {(row["run_id"], row["key"]): _short(row, whose) for row in snapshot["shorts"]},
    }


def _run(row: Dict, snapshot: Snapshot) -> Dict:
    number = row["id"]
    state = next(one for one in snapshot["states"] if one["run_id"] == number)
    own = ("parent", "tenant", "epoch", "head", "inbox", "seen", "branch", "prio", "takeovers", "stalls")
    return {
        **{name: row[name] for name in own},
        "state": State(row["state"]).word,
        "due": row["due_at"],
        "flags": frozenset(flag.name.lower() for flag in Flag(row["flags"]) if flag.name is not None),
        "point": state["seq"],
        "turn": state["turn"],
        "body": state["body"],
        "lease": next((_lease(one) for one in snapshot["leases"] if one["run_id"] == number), None),
        "journal": {one["seq"]: _entry(one) for one in _of(number, snapshot["journal"])},
        "waits": {one["slot"]: _wait(one) for one in _of(number, snapshot["waits"])},
        "signals": {one["seq"]: _signal(one) for one in _of(number, snapshot["inbox"])},
    }


def _of(number: int, rows: Iterable[Dict]) -> Iterable[Dict]:
    return (row for row in rows if row["run_id"] == number)


def _lease(row: Dict) -> Dict:
    cancel = bool(row["flags"] & Flag.CANCEL)
    return {
        **{name: row[name] for name in ("token", "epoch", "head", "worker")},
        "expires": row["expires_at"],
        "cancel": cancel,
    }


def _entry(row: Dict) -> tuple[int, str, str | None, bytes | None]:
    return row["epoch"], Kind(row["kind"]).name.lower(), row["key"], row["body"]


def _wait(row: Dict) -> Dict:
    told = {"seq": row["seq"], "kind": WaitKind(row["kind"]).word, "due": row["due_at"], "need": row["need"]}
    return {**told, "members": members_of(row["members"]), "answered": row["answered_at"], "over": bool(row["over"])}


def _signal(row: Dict) -> Dict:
    return {"name": row["name"], "key": row["key"], "unread": row["body"] is not None}


def _message(row: Dict) -> Dict:
    kind = MessageKind(row["kind"]).name.lower()
    return {
        **{name: row[name] for name in ("target", "name", "key")},
        "run": row["run_id"],
        "kind": kind,
        "own": row["detail"],
    }


def _line(line: Dict, places: Iterable[Dict]) -> Dict:
    runs = {place["run_id"]: _STANDS[place["held"]] for place in places if place["line"] == line["id"]}
    return {"places": line["places"], "stirred": bool(line["stirred"]), "runs": runs}


def _budget(row: Dict) -> Dict:
    return {"most": row["most"], "spent": row["spent"], "held": row["held"], "short": Short(row["short"]).name.lower()}


def _hold(row: Dict, whose: dict[int, str]) -> Dict:
    above = [whose[int(n)] for n in row["budgets"].split()]
    return {"amount": row["amount"], "kept": row["amount"] if row["lost"] else 0, "budgets": above}


def _short(row: Dict, whose: dict[int, str]) -> Dict:
    return {"whose": whose[row["budget"]], "wants": row["wants"], "woken": bool(row["woken"]), "at": row["at"]}


def judge(model: Model, snapshot: Snapshot) -> None:
    """Compare what the stores hold with what the model says. Raises Differs, with the first things that differ."""
    held = project(snapshot)
    _forgive(model, held["runs"])
    said = {name: getattr(model, name) for name in held}
    said["keys"] = len(model.keys)
    found = list(_differences("", said, held))
    if found:
        raise Differs("the model and the stores disagree:\n" + "\n".join(found[:20]))


def _forgive(model: Model, runs: dict[int, Dict]) -> None:
    """Leave out bodies that the engine writes itself: the model says `...` for them."""
    for number, run in model.runs.items():
        for n, entry in run["journal"].items():
            if entry[3] is ... and number in runs and n in runs[number]["journal"]:
                runs[number]["journal"][n] = (*runs[number]["journal"][n][:3], ...)


def _differences(where: str, said: Any, held: Any) -> Iterable[str]:
    if isinstance(said, dict) and isinstance(held, dict):
        for key in [*said, *(key for key in held if key not in said)]:
            yield from _differences(f"{where} {key}", said.get(key, "nothing"), held.get(key, "nothing"))
    elif said != held:
        yield f"{where.strip()}: the model says {said!r}, the stores hold {held!r}"
