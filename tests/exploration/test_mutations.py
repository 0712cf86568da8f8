"""Each bold rule of the protocol, replaced by a wrong one: the small world must find the harm, by a short trace.

A rule that can be left out without harm is either not needed or not explored; both would be worth knowing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.exploration import wrong
from tests.exploration.configurations import (
    CALM,
    CHARGED,
    EFFECT,
    FAILOVER,
    RACED,
    blind,
    copied,
    crash,
    lost,
    unlocked,
)
from tests.exploration.explorer import STUCK, explore
from tests.exploration.rules import Recovery, Rules
from tests.exploration.world import Configuration, Faults
from torpor.core.effect import Safety
from torpor.core.lease import Proof

REAL = Rules()


@dataclass(frozen=True)
class Mutation:
    """A rule of the protocol, the world without it, where it shows, what it breaks and how soon."""

    rule: str
    world: Rules
    where: Configuration
    breaks: str
    steps: int = 16


def without(**fields: object) -> Rules:
    """Return the real rules with something replaced."""
    return replace(REAL, **fields)  # type: ignore[arg-type]  # a mutation is untyped on purpose: one field by name


ONCE, VERIFY, KEYED = Safety.ONCE, Safety.VERIFY, Safety.KEYED
OPEN, PROVE, READ = Recovery.OPEN, Recovery.PROVE, Recovery.READ
UNLOCKED_VERIFY = Configuration("life lock lost", VERIFY, EFFECT, Faults(lock=1, expiry=1, again=1))
LOCKSTEP = Configuration("lockstep", ONCE, EFFECT, Faults(copy=1), blind_copies=True)
SPENT = replace(FAILOVER, faults=Faults(failover=2))
REISSUED = replace(lost(ONCE), note_beliefs=True)

MUTATIONS = (
    # Claim
    Mutation(
        "the cancel flag is read at the claim",
        without(cancelled_at_claim=lambda flags: flags is None),
        crash(Safety.REPEATABLE),
        "G12",
    ),
    Mutation(
        "a claim raises the epoch", without(next_epoch=lambda epoch: max(epoch, 1)), REISSUED, "G1 a claim does not"
    ),
    # Commit
    Mutation("the token is compared", without(fence=wrong.fence_without_token), SPENT, "G1 a commit by somebody"),
    Mutation(
        "the epoch is compared", without(fence=wrong.fence_without_epoch), crash(KEYED), "G1 a commit by somebody"
    ),
    Mutation("the head is compared", without(fence=wrong.fence_without_head), LOCKSTEP, "G3"),
    Mutation(
        "an intent is refused once cancel was asked", without(fence=wrong.fence_without_cancel), crash(ONCE), "G12"
    ),
    Mutation(
        "so is a transactional effect",
        without(refused_once_cancelled=wrong.only_intents_refused),
        crash(Safety.TRANSACTIONAL),
        "G12 a transactional",
    ),
    Mutation(
        "so is an end that is not `cancelled`",
        without(refused_once_cancelled=wrong.ends_anyway),
        crash(ONCE),
        "G12 a can",
    ),
    Mutation("every commit writes an entry", without(broken_rule=lambda _: None), CHARGED, "G3 one commit is charged"),
    # Lost answer
    Mutation(
        "a digest alone is not enough",
        without(after_lost_answer=wrong.digest_alone),
        lost(ONCE),
        "G3 a commit is believed",
    ),
    Mutation("the lease must be mine", without(after_lost_answer=wrong.lease_not_asked), lost(ONCE), "G1 goes on"),
    Mutation("the life lock is proven (a nonce is not enough)", without(recovery=(OPEN, READ)), copied(ONCE), "G2"),
    Mutation("open, then prove, then read", without(recovery=(PROVE, OPEN, READ)), copied(ONCE), "G2"),
    Mutation(
        "no connection of another incarnation is used", without(connection_usable=lambda *_: True), copied(ONCE), "G2"
    ),
    Mutation(
        "a new connection is proven before anything is sent", REAL, replace(copied(ONCE), blind_copies=True), "G2"
    ),
    # Effect
    Mutation(
        "the gate reads the store: the lease",
        without(gate=wrong.gate_without_store),
        crash(ONCE),
        "G2 an effect passes",
    ),
    Mutation(
        "the gate reads the store: cancel", without(gate=wrong.gate_without_store), crash(ONCE), "G12 an effect passes"
    ),
    Mutation("the gate asks the life lock", without(gate=wrong.gate_without_life_lock), blind(ONCE), "G4 the effect"),
    Mutation(
        "`once` is unknown after a takeover", without(on_resume=wrong.once_runs_again), crash(ONCE), "G4 the effect"
    ),
    Mutation(
        "`verify` asks only when the holder is gone", without(on_resume=wrong.verify_without_proof), crash(VERIFY), "G4"
    ),
    Mutation("and writes an intent of its own", without(again_writes_intent=False), crash(VERIFY), "G4 the effect"),
    Mutation(
        "`again` is free only when the holder is gone",
        without(may_do_again=wrong.again_without_warning),
        crash(ONCE),
        "G4",
    ),
    Mutation("the key is derived from the call", without(key_of=wrong.key_with_epoch), crash(KEYED), "G5"),
    # Suspend, signal
    Mutation(
        "suspend looks at early signals", without(parked_as=wrong.parked_blind_to_inbox), RACED, "G7 waits although"
    ),
    Mutation("the loser of a race takes nothing", without(taken=wrong.loser_takes_too), RACED, "G7 a signal is lost"),
    Mutation(
        "consumed is journaled and replayed", without(replay=wrong.ForgetfulReplay), RACED, "G3 a call is resolved"
    ),
    Mutation("the run's row holds the due time", without(due_at=wrong.no_timer), RACED, "G13 waits and nothing"),
    Mutation("a timer is asked for again at the commit", without(early=lambda *_: False), RACED, "G8"),
    # Sweeps
    Mutation("the reaper looks again", without(still_reapable=lambda *_, **__: True), crash(ONCE), "G1 a finished"),
    Mutation("the waker looks again", without(still_due=lambda due: due is not None), RACED, "G1 a finished"),
    # Renew, reap
    Mutation(
        "a renewal counts only with nothing in flight", without(stranger_wrote=wrong.renewal_looks_always), CALM, "G13"
    ),
    Mutation(
        "an open intent waits for its time or proof",
        without(reapable=wrong.reapable_on_any_lock),
        unlocked(ONCE, same_host=True),
        "G4 a living holder",
    ),
    Mutation(
        "only a host-local lock proves the process",
        without(proves_process=lambda proof: proof > Proof.NONE),
        UNLOCKED_VERIFY,
        "G4 the effect",
    ),
    Mutation("a failover is no mass reap", without(reapable=wrong.reapable_at_once), FAILOVER, "G20"),
    # Cancel
    Mutation(
        "cancel wakes what waits", without(parked_as=wrong.woken_only_by_inbox), RACED, "G12 a cancelled run is left"
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_without_the_rule_it_breaks(mutation: Mutation) -> None:
    """The world without the rule breaks the promise it stands for, by a trace that a person can read."""
    explored = explore(mutation.where, mutation.world, until=mutation.breaks)
    found = [(name, trace) for name, trace in explored.broken.items() if name.startswith(mutation.breaks)]
    assert found, f"{mutation.rule}: {explored.states} states and only {sorted(explored.broken)}"
    assert len(found[0][1]) <= mutation.steps, explored.told()


@pytest.mark.slow
def test_a_world_without_reapers_is_stuck() -> None:
    """Liveness can fail: when nobody is ever reaped, a crash is the end of the run."""
    explored = explore(crash(ONCE), without(reapable=lambda *_, **__: False))
    assert STUCK in explored.broken
