"""The judge: what every run is after each operation, in plain dicts. Never a stand-in for a store.

It is written from docs/guarantees.md, docs/lifecycle.md and the design, not from the engine, so that it can disagree. It
judges runs (state, epoch, head, branch, turn, flags, counters), leases and the fence, the journal, waits and decisions,
signals and messages, children and the cascade of a cancel, lines, deadlines, budgets, fork, rewind, retry, pruned runs:
each operation's reply and everything that is stored afterwards. It takes from a reply only what a store is free to
choose, the numbers of new runs; and of an event or a slot only whom it reached (`signal`, `born`). It does not judge
texts, streams, schedules, rates, compensations, rows: there the two stores judge each other, column by column.

A run is a dict of words and numbers: `journal` by number of entry, `waits` by slot, `signals` by number. What the stores
hold is brought into the same form by `differential.projection`, and must be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.model_shared import ENDED, PROGRAM, Dict, Shared, emptied
from torpor.core.family import members_of
from torpor.errors import Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from torpor.core.commit import Proposal

    Slot = tuple[int, int]

LEASE = 45_000_000
KEPT = 86_400_000_000
"""So long a run that ended is kept, in these tests."""
LASTING = frozenset({"cancel", "family", "line", "child", "independent"})


class Model(Shared):
    """All runs of a store, and what lies between them. `now` is the store's clock."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self.outbox: list[Dict] = []
        self.follow_ups: set[int] = set()

    # leases

    def claim(self, worker: int, limit: int, token: int, after: int) -> list[Any]:
        """Give ready runs of one tenant to a worker, by priority, then due time, with all that it needs to go on."""
        ready = {n: run for n, run in self.runs.items() if run["state"] == "ready"}
        tenants = sorted({run["tenant"] for run in ready.values()})
        turn = next((tenant for tenant in tenants if tenant > after), tenants[0] if tenants else None)
        order = sorted((run["prio"], run["due"], n) for n, run in ready.items() if run["tenant"] == turn)[:limit]
        for run in (self.runs[n] for _, _, n in order):
            run.update(state="running", epoch=run["epoch"] + 1)
            lease = {"token": token, "epoch": run["epoch"], "head": run["head"], "worker": worker}
            run["lease"] = {**lease, "expires": self.now + LEASE, "cancel": "cancel" in run["flags"]}
        return [self._given(n, self.runs[n]) for _, _, n in order]

    @staticmethod
    def _given(number: int, run: Dict) -> Any:
        entries = [n for n in sorted(run["journal"]) if n > run["point"]]
        slots = [slot for slot, w in sorted(run["waits"].items(), key=lambda pair: pair[1]["seq"]) if not w["over"]]
        unread = [n for n, signal in sorted(run["signals"].items()) if signal["unread"]]
        return number, run["epoch"], run["head"], run["turn"], entries, slots, unread

    def mine(self, number: int, token: int, epoch: int, head: int | None = None) -> Dict | None:
        """The lease, if it is still this one (G1); with `head` only if nobody, a copy neither, went on from there (G2)."""
        lease: Dict | None = self.runs.get(number, {}).get("lease")
        mine = lease is not None and (lease["token"], lease["epoch"]) == (token, epoch)
        return lease if mine and lease is not None and head in {None, lease["head"]} else None

    def renew(self, worker: int, held: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """Extend what is still held. Never makes a lease that is gone."""
        found = [(n, lease) for n, *rest in held if (lease := self.mine(n, *rest)) and lease["worker"] == worker]
        for _, lease in found:
            lease["expires"] = self.now + LEASE
        return [(n, lease["head"]) for n, lease in found]

    def reap(self, gone: Collection[int], unlocked: Collection[int], quiet: int) -> list[int]:
        """End leases of the dead. A lost lock alone proves nothing of who may be about to start an effect (G4)."""
        taken = []
        for number, run in sorted(self.runs.items()):
            if (lease := run["lease"]) is None:
                continue
            over = lease["expires"] <= self.now or (lease["worker"] in unlocked and not self.open_intents(run))
            if lease["worker"] in gone or (self.now >= quiet and over):
                taken.append(number)
                run["stalls"] = run["stalls"] + 1 if lease["head"] == run["head"] else 0
                run.update(state="ready", due=self.now, lease=None, head=lease["head"], takeovers=run["takeovers"] + 1)
        return taken

    @staticmethod
    def open_intents(run: Dict) -> list[int]:
        """The intents of this turn without an outcome."""
        turn = [(n, *entry[1:3]) for n, entry in run["journal"].items() if n > run["point"]]
        ended = {key: n for n, kind, key in turn if kind in {"outcome", "failure"}}
        return [n for n, kind, key in turn if kind == "intent" and ended.get(key, 0) < n]

    # commits

    def commit(self, p: Proposal) -> tuple[str, str]:
        """Why a proposal is refused, or nothing; and the run's state afterwards."""
        run = self.runs.get(p.run_id)
        if run is not None and (self._decided(run, p.closes) or (p.looked and run["inbox"] > p.seen)):
            return "answered", "running"  # G7, G10: it came before, so it counts
        if p.not_before > self.now:
            return "early", "running"  # G8
        why = self.refused(p, forbids=p.after.word in {"completed", "failed"})
        return (why, "running") if why else ("", self._written(p))

    def inside(self, p: Proposal, closing: Slot | None, work: Callable[[], Proposal | None]) -> tuple[str, str]:
        """The same with something done in its transaction (G6): `work` gives the proposal with what that added."""
        why = self.refused(p, forbids=not p.undoing)
        if not why and closing is not None and self._decided(self.runs[p.run_id], [closing]):
            why = "answered"
        whole = None if why else work()
        return ("", self._written(whole)) if whole is not None else (why or "nothing", "running")

    def refused(self, p: Proposal, *, forbids: bool) -> str:
        """Why the fence refuses a leaseholder, or nothing (G1, G2, G12)."""
        if (lease := self.mine(p.run_id, p.token, p.epoch, p.head)) is None:
            return "lost"
        starts = any(e.kind.word == "intent" for e in p.entries) or any(m.kind.spawns for m in p.messages)
        return "cancelled" if lease["cancel"] and (forbids or (starts and not p.undoing)) else ""

    @staticmethod
    def _decided(run: Dict, closes: Iterable[tuple[int, int]]) -> bool:
        return any(
            (w := run["waits"].get(slot)) and w["seq"] == seq and w["answered"] and not w["over"]
            for slot, seq in closes
        )

    def _written(self, p: Proposal) -> str:
        run, after, head = self.runs[p.run_id], p.after.word, p.head + len(p.entries)
        for n, entry in enumerate(p.entries, start=p.head + 1):
            run["journal"][n] = (p.epoch, entry.kind.name.lower(), entry.key, entry.body)
        if after == "running":
            run["lease"].update(head=head, expires=self.now + LEASE)
        else:
            flags = run["flags"] & LASTING | {w for w, on in (("person", p.needs_person), ("undoing", p.undoing)) if on}
            more = run["inbox"] > p.seen or ("cancel" in flags and not p.undoing)  # G7, G12: the code could go on
            state = "ready" if after == "waiting" and more else after
            run.update(state=state, head=head, seen=p.seen, stalls=0, flags=flags, lease=None)
            run["due"] = p.due_at if state == "waiting" else self.now
            if state in ENDED and flags & {"family", "line", "child"}:
                self.follow_ups.add(p.run_id)
        if p.state_body is not None:
            self._turned(run, p, p.state_body)
        for slot in (*p.over, *(slot for slot, _ in p.closes)):
            run["waits"][slot]["over"] = True
        for w in p.waits:
            wait = {"seq": p.head + w.seq if w.fresh else w.seq, "kind": w.kind.word, "due": w.due_at, "need": w.need}
            run["waits"][w.slot] = {**wait, "members": members_of(w.members), "answered": None, "over": False}
        for n in p.taken:  # G7: consumed exactly once, by this entry; only its key stays known
            run["signals"][n]["unread"] = False
            if run["signals"][n]["key"] is None:
                del run["signals"][n]
        for m in p.messages:
            what = {"target": m.target, "name": m.name, "key": m.key, "kind": m.kind.name.lower(), "own": m.detail}
            self.outbox.append({"run": p.run_id, **what})
        if p.spends:
            self.close(p.run_id)
        return str(run["state"])

    def _turned(self, run: Dict, p: Proposal, body: bytes) -> None:
        place = next(n for n, entry in enumerate(p.entries, start=1) if entry.kind.word == "checkpoint")
        if p.input_key is not None and run["point"] == 0:
            run["journal"][0] = (0, "checkpoint", p.input_key, run["body"])
        if (p.keep or p.told_in_rows) and p.turn % (p.keep or 10) == 0:
            for n in emptied(run["journal"], p.keep, told=p.told_in_rows):
                run["journal"][n] = (*run["journal"][n][:3], None)
        run.update(point=p.head + place, turn=p.turn, body=body)

    @staticmethod
    def whole(run: Dict) -> list[int]:
        """The checkpoints in the journal that can be gone back to, newest first."""
        return sorted((n for n, e in run["journal"].items() if e[1] == "checkpoint" and e[3] is not None), reverse=True)

    # what comes from outside: signals, decisions, time, cancel

    def signal(self, number: int, name: str, key: str | None, *, wake: bool = True) -> str:
        """Keep a signal, wake who waits. An equal key is one signal; a run that ended keeps nothing (G7)."""
        run = self.runs.get(number)
        if run is None or run["state"] in ENDED:
            return "no_run" if run is None else "final"
        if key is not None and key in {signal["key"] for signal in run["signals"].values()}:
            return "duplicate"
        run["inbox"] += 1
        run["signals"][run["inbox"]] = {"name": name, "key": key, "unread": True}
        if wake and "queued" not in run["flags"]:
            self.wake(run)
        return "new"

    def decide(self, number: int, seq: int, kind: str) -> str:
        """Write a person's decision: the first one wins; to what is over or expired there is none (G10)."""
        run = self.runs.get(number)
        if run is None or run["journal"].get(seq, (0, ""))[1] != "wait":
            raise NotFound("no such wait")
        wait = next((w for w in run["waits"].values() if w["seq"] == seq), None)
        if wait is not None and wait["kind"] != kind:
            raise UsageError("a wait of another kind")
        if wait is None or wait["answered"] or wait["over"] or run["state"] in ENDED:
            raise Conflict("somebody was first, or the run went on")
        if wait["due"] is not None and wait["due"] <= self.now:
            raise Conflict("it expired")
        self._answered(run, wait)
        return kind

    def _answered(self, run: Dict, wait: Dict) -> None:
        wait["answered"] = self.now
        run["inbox"] += 1
        self.wake(run)

    def settle_late(self, number: int, seq: int) -> bool:
        """Let an attempt settle its own `unknown`: while its turn goes on and nobody else did (G18)."""
        run = self.runs.get(number, {"state": "failed"})
        if run["state"] in ENDED or seq <= run["point"]:
            return False
        key = run["journal"].get(seq, (0, "", None))[2]
        asked = [w for w in run["waits"].values() if w["kind"] == "attention" and not w["over"] and not w["answered"]]
        mine = [w for w in asked if key and w["seq"] > seq and run["journal"][w["seq"]][2] == key]
        if mine:
            self._answered(run, min(mine, key=lambda w: int(w["seq"])))
        return bool(mine)

    def fire_timers(self) -> tuple[int, int]:
        """Wake whose time has come, never early (G8). Says how many, and when the next one is due."""
        asleep = [(run["due"], n) for n, run in self.runs.items() if run["state"] == "waiting" and run["due"]]
        due = [n for at, n in asleep if at <= self.now]
        for n in due:
            if "line" in self.runs[n]["flags"] and self.runs[n]["epoch"] == 0:
                self.queue(n, next(line for line in self.lines.values() if n in line["runs"]))
            else:
                self.runs[n]["state"] = "ready"
        return len(due), min((at for at, n in asleep if n not in due), default=0)

    def cancel(self, number: int) -> tuple[str, int]:
        """Ask a run to end. Says how it stands, and how many descendants will end with it (G12)."""
        if (run := self.runs.get(number)) is None:
            raise NotFound("no such run")
        if run["state"] in ENDED:
            return run["state"], 0
        self._ask_to_end([number])
        below = [number]
        for n in below:
            below += self._children(n)
        return run["state"], len(below) - 1

    def _ask_to_end(self, numbers: Iterable[int]) -> bool:
        fresh = [n for n in numbers if self.runs[n]["state"] not in ENDED and "cancel" not in self.runs[n]["flags"]]
        for run in (self.runs[n] for n in fresh):
            run.update(flags=run["flags"] | {"cancel"}, inbox=run["inbox"] + 1)
            self.wake(run)
            if run["lease"] is not None:
                run["lease"]["cancel"] = True
        families = {n for n in fresh if "family" in self.runs[n]["flags"]}
        self.follow_ups |= families
        return bool(families)

    def _children(self, number: int) -> list[int]:
        """The children that end with a run and have not ended."""
        mine = [(n, run) for n, run in self.runs.items() if run["parent"] == number and run["state"] not in ENDED]
        return [n for n, run in mine if "independent" not in run["flags"]]

    def cancel_late(self) -> tuple[int, int]:
        """Cancel whose deadline has passed. Says how many were looked at, and the next deadline."""
        late = [n for n, at in self.deadlines.items() if at <= self.now]
        self._ask_to_end(n for n in late if n in self.runs)
        self.deadlines = {n: at for n, at in self.deadlines.items() if n not in late}
        return len(late), min(self.deadlines.values(), default=0)

    # families

    def deliver(self, numbers: Iterable[int]) -> int:
        """Start the children that were asked for, and bring messages to their runs."""
        messages, self.outbox, new = self.outbox, [], iter(numbers)
        told = []
        for m in (m for m in messages if m["kind"] != "signal"):
            parent, bound = self.runs.get(m["run"]), m["kind"] == "spawn"
            if parent is None or (bound and self.falling(m["run"])):
                continue  # G12: nothing starts below what ended or ends
            told.append(m)
            mark = f"{m['run']}/{parent['branch']}/{m['own'] or m['key']}"
            if m["name"] != PROGRAM or mark in self.keys:
                continue
            flags = frozenset({"child"} if bound else {"child", "independent"})
            self.keys[mark] = next(new)
            same = {"tenant": parent["tenant"], "prio": parent["prio"]}
            self.born(self.keys[mark], parent=m["run"], flags=flags, body=b"7", **same)
            parent["flags"] |= {"family"} if bound else set()
        for m in told:
            self.signal(m["run"], f"~child:{m['key']}", f"~child:{m['key']}")
        for m in sorted((m for m in messages if m["kind"] == "signal"), key=lambda m: int(m["target"])):
            self.signal(m["target"], m["name"], m["key"])
        return len(messages)

    def falling(self, number: int) -> bool:
        """Whether a run, or whoever it ends with, ended or is being cancelled."""
        run = self.runs.get(number)
        if run is None or run["state"] in ENDED or "cancel" in run["flags"]:
            return run is not None
        return run["parent"] is not None and "independent" not in run["flags"] and self.falling(run["parent"])

    def follow(self) -> tuple[int, bool]:
        """Tell parents of ends, take children along, give places back. Says how many, and whether there is more."""
        notes, self.follow_ups = sorted(n for n in self.follow_ups if n in self.runs), set()
        ends = [n for n in notes if self.runs[n]["state"] in ENDED or "cancel" in self.runs[n]["flags"]]
        for n in notes:
            run = self.runs[n]
            if run["state"] in ENDED:
                self._tell(n, run)
                for line in (line for line in self.lines.values() if line["runs"].pop(n, "")):
                    line["stirred"] = True
        return len(notes), self._ask_to_end([child for n in ends for child in self._children(n)])

    def _tell(self, child: int, run: Dict) -> None:
        parent, name = self.runs.get(run["parent"] or 0), f"~done:{child}"
        if "child" not in run["flags"] or parent is None or self.signal(run["parent"], name, name, wake=False) != "new":
            return
        for wait in parent["waits"].values():
            if parent["state"] == "waiting" and child in wait["members"] and not wait["over"]:
                wait["need"] -= 1
                if wait["need"] == 0:  # once, when the last of them ended (G20)
                    self.wake(parent)

    def prune(self) -> bool:
        """Remove runs that ended long ago and owe nobody anything. Says whether there were any."""
        owes = {
            *self.follow_ups,
            *(m["run"] for m in self.outbox),
            *(n for one in self.lines.values() for n in one["runs"]),
        }
        old = {n for n, run in self.runs.items() if run["state"] in ENDED and run["due"] < self.now - KEPT} - owes
        for n in old:
            del self.runs[n]
            self.deadlines.pop(n, None)
        self.keys = {key: n for key, n in self.keys.items() if n not in old}
        self.holds = {place: hold for place, hold in self.holds.items() if place[0] not in old}
        self.shorts = {place: short for place, short in self.shorts.items() if place[0] not in old}
        return bool(old)

    # branches

    def point_of(self, number: int, at: int | None, verb: str) -> tuple[int, int, bytes]:
        """The checkpoint that a fork or a rewind may go on from: (number, turn that follows, state)."""
        if (run := self.runs.get(number)) is None:
            raise NotFound("no such run")
        ended = run["state"] in ENDED
        if (verb == "rewind" and (ended or run["epoch"] == 0 or "cancel" in run["flags"])) or (ended and at is None):
            raise Conflict("ended, not begun or being cancelled")
        if at is None or at == run["point"]:
            return run["point"], run["turn"], run["body"]
        entry = run["journal"].get(at)
        if entry is not None and entry[1] == "checkpoint" and entry[3] is not None:
            return at, int(entry[2].removeprefix("z:").split("/")[0]), entry[3]
        raise (Conflict if at == 0 or (entry and entry[1] == "checkpoint") else NotFound)("not kept, or no checkpoint")

    def fork(self, number: int, at: int | None, new: int) -> int:
        """Copy a run at a checkpoint: a new being, with no waits, signals, keys, budget, line or parent (G19)."""
        _, turn, body = self.point_of(number, at, "fork")
        run = self.runs[number]
        copy = {"branch": run["branch"] + 1, "prio": run["prio"], "tenant": run["tenant"]}
        mark = (0, "checkpoint", f"z:{turn}/1/{copy['branch']}", body)
        self.born(new, head=1, point=1, turn=turn, body=body, **copy)["journal"][1] = mark
        return turn

    def rewind(self, number: int, at: int) -> tuple[int, int]:
        """Put a run back on a new branch; whoever holds it is fenced; heads and turns never go down. (turn, branch)."""
        _, _, body = self.point_of(number, at, "rewind")
        run = self.runs[number]
        if run["point"] == 0:
            run["journal"].setdefault(0, (0, "checkpoint", f"z:{run['turn']}/1/{run['branch']}", run["body"]))
        head, turn, branch = run["lease"]["head"] if run["lease"] else run["head"], run["turn"] + 1, run["branch"] + 1
        self._again(run, head, [("note", None), ("checkpoint", f"z:{turn}/1/{branch}")])
        run["journal"][head + 2] = (*run["journal"][head + 2][:3], body)
        run.update(lease=None, branch=branch, point=head + 2, turn=turn, body=body)
        for wait in run["waits"].values():
            wait["over"] = True
        self.close(number)
        return turn, branch

    def _again(self, run: Dict, head: int, entries: Sequence[tuple[str, str | None]]) -> None:
        run.update(state="ready", due=self.now, head=head + len(entries), epoch=run["epoch"] + 1, stalls=0)
        run["flags"] -= {"person", "attention"}
        for n, (kind, key) in enumerate(entries, start=head + 1):
            run["journal"][n] = (run["epoch"], kind, key, ...)

    def retry(self, number: int, failed: Sequence[str]) -> list[str]:
        """Start a failed run again: its failures are superseded; without a living parent it is independent."""
        if (run := self.runs.get(number)) is None:
            raise NotFound("no such run")
        if run["state"] != "failed":
            raise Conflict("it has not failed")
        self._again(run, run["head"], [*(("retry", key) for key in failed), ("retry", None)])
        if self.falling(number):
            run["flags"] |= {"independent"}
        return [*failed]
