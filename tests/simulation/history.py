"""The history of a world: every transaction that happened, in order, and what it changed; for the invariants and for people."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.ids import parse_run
from torpor.core.lease import LostAnswer
from torpor.engine import commit as commits
from torpor.engine import decisions, effects, leases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.machines import Machines
    from tests.simulation.process import Process
    from torpor.core.commit import Proposal
    from torpor.core.journal import Entry
    from torpor.core.run import State
    from torpor.store.rows import Claimed, RunRow


class Accepted(NamedTuple):
    """A commit that the store accepted: by whom, in which place, under what. `place` counts events of the world."""

    place: int
    at: int
    process: str
    run: int
    token: int
    epoch: int
    head: int
    entries: Sequence[Entry]
    after: State
    not_before: int
    intent: bool


class Taken(NamedTuple):
    """A run that was claimed."""

    place: int
    process: str
    run: int
    epoch: int
    token: int
    head: int
    entries: int
    many: int


class Turn(NamedTuple):
    """What a claim took, and which other runs were ready then."""

    place: int
    process: str
    limit: int
    taken: Sequence[RunRow]
    left: Sequence[RunRow]


class Gated(NamedTuple):
    """A look at the gate, for a run at its head and epoch."""

    place: int
    process: str
    run: int
    epoch: int


class History:
    """What happened."""

    def __init__(self, machines: Machines) -> None:
        """Begin with nothing."""
        self._machines = machines
        self._digest = blake2b(digest_size=16)
        self.lines: list[str] = []
        self.keep_lines = False
        self.accepted: list[Accepted] = []
        self.taken: list[Taken] = []
        self.turns: list[Turn] = []
        self.unheard: set[int] = set()
        """The places of transactions that happened without their sender's hearing of it."""
        self.births: list[tuple[int, int, int]] = []
        """(place, parent, child) of each child that was started."""
        self._left: Sequence[RunRow] = ()
        self.gated: list[Gated] = []
        self.cancelled: dict[int, int] = {}
        """When cancel was acknowledged for a run: the place of the event."""
        self.decided: list[tuple[int, str, bool, str]] = []
        """Every decision that counted: place, wait, whether approved, by whom."""
        self.rewound: dict[int, int] = {}
        """How often a run was put back: it has a new branch each time."""
        self.reaped: list[tuple[int, int, int]] = []
        """(place, run, epoch) of each lease that was taken away."""
        self.copies: list[tuple[int, str, str]] = []
        """(place, original, copy)."""
        self.found: set[tuple[str, int, int]] = set()
        """(process, run, head) of each commit that a process found out to have happened: it was under way, and is its own."""
        self.deaths: dict[str, int] = {}
        self.shut: list[list[Any]] = []
        """[place, place, process] of each worker that was shut, from its waking to its mending."""

    @property
    def place(self) -> int:
        """The number of the present event."""
        return self._machines.schedule.events

    @property
    def digest(self) -> str:
        """What all of it comes to: equal histories have equal digests."""
        return self._digest.hexdigest()

    def note(self, who: str, what: str) -> None:
        """Write a line."""
        line = f"{self._machines.schedule.now / 1e6:11.6f} {who:<9} {what}"
        self._digest.update(line.encode())
        if self.keep_lines:
            self.lines.append(line)

    def failed(self, who: str, moment: str, error: BaseException) -> None:
        """Take note of a transaction that did not happen."""
        self.note(who, f"{moment}: {type(error).__name__} {error}")

    def happened(self, process: Process, moment: str, op: Any, args: Sequence[Any], value: Any, at: int) -> None:
        """Take note of a transaction that happened."""
        note: Callable[..., str] | None = _NOTES.get(op) or _BY_NAME.get(op.__name__)
        said = note(self, process.name, args, value, at) if note is not None else ""
        if said or moment not in _QUIET:
            self.note(process.name, f"{moment} {said}")

    def settled(self, born: Sequence[tuple[int, int]], left: Sequence[RunRow]) -> None:
        """Take note of the children that a transaction started, and of the runs that a claim left ready."""
        self.births += [(self.place, parent, child) for parent, child in born]
        self._left = tuple(left)

    # what each says

    def _commit(self, who: str, args: Sequence[Any], replies: Any, at: int) -> str:
        said = []
        for proposal, reply in zip(args[0], replies, strict=True):
            said.append(self._one(who, proposal, reply, at))
        return "; ".join(said)

    def _one(self, who: str, proposal: Proposal, reply: Any, at: int) -> str:
        words = ",".join(f"{entry.kind.word} {(entry.key or '').split('@')[0]}".strip() for entry in proposal.entries)
        good = reply is not None and reply.refused is None and not reply.answered and not reply.early
        if good:
            self.accepted.append(
                Accepted(
                    self.place,
                    at,
                    who,
                    proposal.run_id,
                    proposal.token,
                    proposal.epoch,
                    proposal.head,
                    tuple(proposal.entries),
                    proposal.after,
                    proposal.not_before,
                    proposal.has_intent,
                )
            )
        end = f" -> {reply.state.word}" if good and proposal.after is not proposal.after.RUNNING else ""
        verdict = "" if good else f" REFUSED {reply}"
        return f"run {proposal.run_id} e{proposal.epoch} h{proposal.head} [{words}]{end}{verdict}"

    def _inside(self, who: str, _args: Sequence[Any], value: Any, at: int) -> str:
        whole, reply = value
        return self._one(who, whole, reply, at) if reply is not None else "nothing"

    def _claim(self, who: str, args: Sequence[Any], value: Any, _at: int) -> str:
        claimed: list[Claimed] = value[0]
        if claimed:
            self.turns.append(Turn(self.place, who, args[2], [one.run for one in claimed], self._left))
        for one in claimed:
            lease = one.lease
            told = Taken(
                self.place, who, one.run.id, lease.epoch, lease.token, lease.head, len(one.entries), len(claimed)
            )
            self.taken.append(told)
        return " ".join(f"run {one.run.id} e{one.lease.epoch} h{one.lease.head}" for one in claimed)

    def _gate(self, who: str, _args: Sequence[Any], found: Any, _at: int) -> str:
        for lease in found.values():
            self.gated.append(Gated(self.place, who, lease.run_id, lease.epoch))
        return " ".join(f"run {run} e{lease.epoch} h{lease.head}" for run, lease in found.items())

    def _reap(self, _who: str, _args: Sequence[Any], value: Any, _at: int) -> str:
        self.reaped += [(self.place, one.run_id, one.epoch) for one in value]
        return " ".join(f"run {one.run_id} e{one.epoch} {one.proof.name}" for one in value)

    def _cancel(self, _who: str, args: Sequence[Any], value: Any, _at: int) -> str:
        run = parse_run(args[0])[1]
        if not value.state.final:
            self.cancelled.setdefault(run, self.place)
        return f"{args[0]} {value.state.word}"

    def _rewind(self, _who: str, args: Sequence[Any], _value: Any, _at: int) -> str:
        run = parse_run(args[0])[1]
        self.rewound[run] = self.rewound.get(run, 0) + 1
        return f"{args[0]} to {args[1]}"

    def _decide(self, _who: str, args: Sequence[Any], value: Any, _at: int) -> str:
        decision = args[0]
        if not isinstance(value, Exception):
            content = decision.content
            self.decided.append((self.place, decision.wait, bool(content.get("approved")), content.get("by", "")))
        return f"{decision.wait} {decision.content} {'too late' if isinstance(value, Exception) else ''}"

    def _found_out(self, who: str, args: Sequence[Any], value: Any, _at: int) -> str:
        if value[0] is LostAnswer.HAPPENED:
            self.found.add((who, args[0].run_id, args[0].head))
        return f"run {args[0].run_id} h{args[0].head} {value[0].name}"


_QUIET = frozenset({"sweep", "reap", "claim", "news", "gate", "deliver", "renew", "lambda", "workers", "inbox"})
_NOTES: dict[Any, Any] = {
    commits.commit: History._commit,  # noqa: SLF001 - its own
    commits.find_out: History._found_out,  # noqa: SLF001 - its own
    effects.commit_with: History._inside,  # noqa: SLF001 - its own
    effects.commit_inside: History._inside,  # noqa: SLF001 - its own
    effects.look: History._gate,  # noqa: SLF001 - its own
    leases.claim: History._claim,  # noqa: SLF001 - its own
    leases.reap: History._reap,  # noqa: SLF001 - its own
    decisions.decide: History._decide,  # noqa: SLF001 - its own
}
_BY_NAME: dict[str, Any] = {"_cancel": History._cancel, "rewind": History._rewind}  # noqa: SLF001 - its own
"""Operations of the client's own, by name."""
