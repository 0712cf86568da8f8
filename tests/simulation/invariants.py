"""What must be true of every history; a function each, with the number of its guarantee in its name.

Each looks at what happened (`history`), at what the outside world saw, and at what the store holds at the end (`facts`), and
returns what is broken in words: an empty list is a good world.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from tests.simulation.invariants_family import g12_descendants, g12_no_child, gate_of
from tests.simulation.invariants_turns import g20_bounded, g20_order, g20_turns
from tests.simulation.programs import approves, expected, said
from tests.simulation.shut import g2_shut_is_shut
from torpor.core.ids import wait_name
from torpor.core.journal import RESOLVES, Kind
from torpor.core.run import Flag, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.facts import Ended
    from tests.simulation.world import World


def g1_one_writer(world: World) -> list[str]:
    """A commit is accepted only under the epoch and token of the run's last claim, at a head that never goes back."""
    broken = []
    taken = {(one.run, one.epoch): one for one in world.history.taken}
    newest: dict[int, int] = {}
    claims = iter([*world.history.taken, None])
    claim = next(claims)
    for one in world.history.accepted:
        while claim is not None and claim.place < one.place:
            if claim.epoch <= newest.get(claim.run, 0):
                broken.append(f"G1: run {claim.run} was claimed as epoch {claim.epoch} after {newest[claim.run]}")
            newest[claim.run] = claim.epoch
            claim = next(claims)
        lease = taken.get((one.run, one.epoch))
        if lease is None or lease.token != one.token:
            broken.append(f"G1: {one.process} wrote run {one.run} under epoch {one.epoch}, which was never claimed so")
        elif one.epoch < newest[one.run]:
            broken.append(
                f"G1: {one.process} wrote run {one.run} under epoch {one.epoch}, after {newest[one.run]} began"
            )
    return broken


def g2_one_copy(world: World) -> list[str]:
    """No place of a journal is committed twice, and of two copies only one goes on under a lease they both held.

    A commit that was under way when the copy was made is both's: who finds out that it happened goes on from there.
    """
    broken = []
    ends: dict[int, int] = {}
    for one in world.history.accepted:
        if one.head < ends.get(one.run, 0):
            broken.append(f"G2: {one.process} wrote run {one.run} at {one.head}, which lies before {ends[one.run]}")
        ends[one.run] = max(ends.get(one.run, 0), one.head + len(one.entries))
    for place, original, copy in world.history.copies:
        writers = defaultdict(set)
        for one in world.history.accepted:
            shared = any(t.run == one.run and t.epoch == one.epoch and t.place <= place for t in world.history.taken)
            other = copy if one.process == original else original
            both = (other, one.run, one.head) in world.history.found
            if one.place > place and one.process in {original, copy} and shared and not both:
                writers[one.run, one.epoch].add(one.process)
        broken += [
            f"G2: run {run}, epoch {epoch} was written by both copies"
            for (run, epoch), w in writers.items()
            if len(w) > 1
        ]
    return broken


def g3_committed_is_kept(world: World) -> list[str]:
    """What was accepted stands in the journal, once, as it was sent; nothing else was written by a worker."""
    broken = []
    sent = {}
    for one in world.history.accepted:
        for offset, entry in enumerate(one.entries, 1):
            sent[one.run, one.head + offset] = (one.epoch, entry.kind.word, entry.key or "")
    for ended in world.facts.runs.values():
        stored = {line.seq: line for line in ended.journal}
        for (run, seq), (epoch, kind, _) in sent.items():
            line = stored.get(seq) if run == ended.row.id else None
            if run == ended.row.id and (line is None or (line.epoch, line.kind) != (epoch, kind)):
                broken.append(f"G3: entry {seq} of run {run} ({kind}, epoch {epoch}) is not in its journal: {line}")
    return broken


def g3_spent_once(world: World) -> list[str]:
    """What was spent is what it cost: a commit whose answer was lost charged nobody twice."""
    broken = []
    for ended in _undisturbed(world):
        assert ended.wanted is not None
        cost = sum(act.n * 5000 for act in ended.wanted.acts() if act.kind == "money")
        if ended.spent and ended.spent != cost:
            broken.append(f"G3: run {ended.row.id} spent {ended.spent} instead of {cost}")
    return broken


def g4_once_is_once(world: World) -> list[str]:
    """An effect that is `once` is started once, and again only if a person said so, or a copy was past its gate."""
    broken = []
    starts = Counter(start.key for start in world.outside.starts if start.kind in {"once", "verify"})
    kinds = {start.key: start for start in world.outside.starts}
    for key, count in starts.items():
        allowed = 1 + world.people.again.get(key, 0) + _past_gate(world, key)
        if kinds[key].kind == "once" and count > allowed:
            broken.append(f"G4: {kinds[key].tag} of {kinds[key].run} was started {count} times, {allowed} were allowed")
    return broken


def _past_gate(world: World, key: str) -> int:
    """Return how many copies were made while an effect stood between its gate and its end."""
    starts = [start for start in world.outside.starts if start.key == key]
    run = _number(world, starts[0].run)
    count = 0
    for place, original, copy in world.history.copies:
        gates = [
            one.place
            for one in world.history.gated
            if one.run == run and one.process == original and one.place <= place
        ]
        if gates and {start.process for start in starts} & {copy} and all(start.place > max(gates) for start in starts):
            count += 1
    return count


def g5_one_key(world: World) -> list[str]:
    """Every attempt of one call has one key and the same arguments; another run, branch or call has another."""
    broken = []
    by_key: dict[str, set[tuple[str, str]]] = defaultdict(set)
    by_call: dict[tuple[str, str], set[str]] = defaultdict(set)
    for start in world.outside.starts:
        by_key[start.key].add((start.run, start.tag))
        by_call[start.run, start.tag.split("=")[0]].add(start.key)
    broken += [f"G5: key {key} stands for {sorted(calls)}" for key, calls in by_key.items() if len(calls) > 1]
    for (run, tag), keys in by_call.items():
        branches = 1 + world.history.rewound.get(_number(world, run), 0)
        if len(keys) > branches:
            broken.append(f"G5: {tag} of {run} had {len(keys)} keys on {branches} branches")
    return broken


def g6_transactional_once(world: World) -> list[str]:
    """The author's rows are as many as the records of their effects."""
    recorded = sum(
        entry.kind is Kind.OUTCOME and (entry.key or "").startswith("e:book#")
        for one in world.history.accepted
        for entry in one.entries
    )
    rows = len(world.facts.booked)
    return [] if rows == recorded else [f"G6: {rows} rows were booked, {recorded} are recorded"]


def g7_g14_as_undisturbed(world: World) -> list[str]:
    """A run's result is what it is without any fault: every signal consumed once and in order, every value as it was."""
    broken = []
    for ended in world.facts.runs.values():
        wanted = ended.wanted
        if wanted is None or ended.row.state is not State.COMPLETED:
            continue
        acts = [act for turn in wanted.script.turns for act in turn]
        got = ended.result
        if [pair[0] for pair in got] != [act.tag for act in acts]:
            broken.append(f"G3: run {ended.row.id} did {[pair[0] for pair in got]}")
            continue
        for act, (_, value) in zip(acts, got, strict=True):
            right = expected(act, wanted.script.label, wanted.senders)
            if right != value and not (value == "interrupted" and _interrupted(world, wanted.script.label)):
                number = "G7" if act.kind in {"receive", "race", "letter", "event", "callback"} else "G14"
                broken.append(f"{number}: {act.kind} {act.tag} of run {ended.row.id} gave {value!r}, not {right!r}")
    return broken


def g8_timers(world: World) -> list[str]:
    """No timer is consumed before it is due by the database's clock, and none twice."""
    broken = [
        f"G8: run {one.run} consumed at {one.at} a timer due at {one.not_before}"
        for one in world.history.accepted
        if one.at < one.not_before
    ]
    for ended in world.facts.runs.values():
        resolved: set[str] = set()
        for line in ended.journal:
            if line.kind in {"checkpoint", "retry"}:
                resolved.clear()
            elif line.kind in _RESOLVES and (key := ended.keys[line.seq]):
                if key in resolved:
                    broken.append(f"G8: {key} of run {ended.row.id} ended twice in one turn: {line}")
                resolved.add(key)
    return broken


_RESOLVES = {kind.word for kind in RESOLVES}


def g9_bounded_resume(world: World) -> list[str]:
    """A claim reads what came after the last checkpoint, no more."""
    checkpoints: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in world.history.accepted:
        for offset, entry in enumerate(one.entries, 1):
            if entry.kind is Kind.CHECKPOINT:
                checkpoints[one.run].append((one.place, one.head + offset))
    broken = []
    for claim in world.history.taken:
        last = max((seq for place, seq in checkpoints[claim.run] if place < claim.place), default=0)
        if claim.entries > claim.head - last:
            broken.append(f"G9: {claim.entries} entries of run {claim.run} were read, {claim.head - last} were new")
    return broken


def g10_consent(world: World) -> list[str]:
    """One decision counts for each wait, and what the run did is what was decided."""
    counted = Counter(wait for _, wait, _, _ in world.history.decided)
    broken = [f"G10: {count} decisions counted for {wait}" for wait, count in counted.items() if count > 1]
    decided = {wait: (approved, by) for _, wait, approved, by in world.history.decided}
    for ended in world.facts.runs.values():
        asked: dict[str, int] = {}
        for line in ended.journal:
            key, said_so = ended.keys[line.seq], line.value if isinstance(line.value, dict) else {}
            if line.kind == "wait" and str(said_so.get("title", "")).startswith("do "):
                asked[key] = line.seq
            elif line.kind == "consumed" and key in asked and "by" in said_so:
                found = decided.get(wait_name(ended.row.id, asked.pop(key)))
                if found != (bool(said_so.get("approved")), said_so["by"]):
                    broken.append(f"G10: run {ended.row.id} consumed {said_so}, decided was {found}")
    tags = {act.tag for wanted in world.plan.wanted for act in wanted.acts() if act.kind == "approve"}
    done = {start.tag for start in world.outside.starts} & tags
    return broken + [f"G10: {tag} was done and never approved" for tag in done if not approves(tag)]


def g11_stream(world: World) -> list[str]:
    """Whoever reads a run's stream ends with what its steps said, each once."""
    broken = []
    for ended in _undisturbed(world):
        assert ended.wanted is not None
        acts = [act for turn in ended.wanted.script.turns for act in turn if act.kind == "say"]
        right = "".join("".join(said(act.tag, act.n)) for act in acts)
        if ended.text != right:
            broken.append(f"G11: run {ended.row.id} said {ended.text!r}, not {right!r}")
    return broken


def g12_cancel(world: World) -> list[str]:
    """After a cancel was acknowledged no intent is accepted and no effect passes its gate; what was to be undone is."""
    broken = []
    for run, place in _cancelled(world):
        ended = world.facts.runs[run]
        late = [one for one in world.history.accepted if one.run == run and one.place > place and one.intent]
        broken += [f"G12: {one.process} recorded an intent of run {run} after its cancel" for one in late]
        for start in world.outside.starts:
            if start.run == ended.name and start.place > place and start.kind != "undo":
                gate = gate_of(world, run, start)
                if gate is None or gate >= place:
                    broken.append(f"G12: {start.kind} {start.tag} of run {run} began after its cancel")
        if ended.row.state is not State.CANCELLED:
            broken.append(f"G12: run {run} was cancelled and is {ended.row.state.word}")
    return broken


def g13_nothing_stuck(world: World) -> list[str]:
    """Every run has ended, or waits for something with a name."""
    return [
        f"G13: run {ended.row.id} is {ended.row.state.word} and waits for nothing"
        for ended in world.facts.runs.values()
        if not ended.row.state.final
        and not any(w.answered_at is None for w in ended.waits)
        and not (Flag.QUEUED in ended.row.flags and ended.wanted is not None and ended.wanted.line)
    ]


def g18_late_is_harmless(world: World) -> list[str]:
    """A lease that was taken away accepts nothing any more."""
    ended = {(run, epoch): place for place, run, epoch in world.history.reaped}
    return [
        f"G18: {one.process} wrote run {one.run} under epoch {one.epoch} after it was taken away"
        for one in world.history.accepted
        if one.place > ended.get((one.run, one.epoch), one.place)
    ]


def g19_a_copy_is_new(world: World) -> list[str]:
    """A fork acts under keys of its own, and nothing of it was decided by what its source was asked."""
    keys: dict[str, str] = {}
    return [
        f"G19: {start.run} acted under a key of {keys[start.key]}"
        for start in world.outside.starts
        if keys.setdefault(start.key, start.run) != start.run
    ]


def _undisturbed(world: World) -> Iterator[Ended]:
    """Runs that completed without anybody's turning them back or interrupting them."""
    for ended in world.facts.runs.values():
        if ended.row.state is State.COMPLETED and ended.wanted is not None and not ended.copy:
            label = ended.wanted.script.label
            if not world.history.rewound.get(ended.row.id) and not _interrupted(world, label):
                yield ended


def _interrupted(world: World, label: str) -> bool:
    return any(
        operation.kind == "interrupt" and world.plan.wanted[operation.run].script.label == label
        for operation in world.plan.operations
    )


def _number(world: World, name: str) -> int:
    return next(ended.row.id for ended in world.facts.runs.values() if ended.name == name)


def _cancelled(world: World) -> Iterator[tuple[int, int]]:
    """Runs whose cancel was recorded while they had not ended, and when."""
    yield from world.history.cancelled.items()


ALL: tuple[Callable[[World], list[str]], ...] = (
    g1_one_writer,
    g2_one_copy,
    g2_shut_is_shut,
    g3_committed_is_kept,
    g3_spent_once,
    g4_once_is_once,
    g5_one_key,
    g6_transactional_once,
    g7_g14_as_undisturbed,
    g8_timers,
    g9_bounded_resume,
    g10_consent,
    g11_stream,
    g12_cancel,
    g12_no_child,
    g12_descendants,
    g13_nothing_stuck,
    g18_late_is_harmless,
    g19_a_copy_is_new,
    g20_bounded,
    g20_turns,
    g20_order,
)
