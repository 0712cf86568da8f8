"""What is proven: a run whose worker died at some point is the same as the one that nobody disturbed.

Compared is what three witnesses say who know nothing of each other: the file that counts the model's requests, git, and
the run's journal and stream. The numbers are those of `torpor demo agent --json`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torpor.demo.agent.deaths import between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.demo.agent.play import Played
    from torpor.testing.mortal import Place


@dataclass(frozen=True, slots=True)
class Point:
    """Where a worker died, or was frozen until its lease was over. `what` says what it was doing."""

    place: Place
    number: int
    what: str
    freeze: bool = False

    @property
    def between(self) -> bool:
        """Whether it was between an answer of the model and its record."""
        return between(self.place, self.what)

    def __str__(self) -> str:
        """Say it for people."""
        return f"{'frozen' if self.freeze else 'killed'} {self.place.value}: {self.what}"


@dataclass
class Proof:
    """What was compared so far. `complaints` says in words what does not fit; empty means proven."""

    undisturbed: Played | None
    """What the others are compared with; without it a run is only counted."""
    points: Counter[str] = field(default_factory=Counter)
    """How often what was done where."""
    model_calls_repeated: int = 0
    """Requests that were made twice although their answer was on record, or never came."""
    paid_lost: int = 0
    """Answers that died with their process, so that they were asked for again: at most one for each death."""
    may_be_lost: int = 0
    effects_repeated: int = 0
    usage_equal: bool = True
    commits: Counter[int] = field(default_factory=Counter)
    """How many runs ended with how many commits."""
    settled: int = 0
    takeovers: int = 0
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Look at the run that nobody disturbed, too."""
        if self.undisturbed is not None:
            self._expect(self.undisturbed.repeated == 0, "undisturbed, the model was asked twice")
            self._count(self.undisturbed)

    def take(self, points: Sequence[Point], played: Played) -> bool:
        """Compare a run that was disturbed, usually once; return whether it is the same."""
        before = len(self.complaints)
        self.points.update(f"{'frozen' if point.freeze else 'killed'} {point.place.value}" for point in points)
        may_be_lost = sum(point.between for point in points)
        lost = min(played.repeated, may_be_lost)
        self.may_be_lost += may_be_lost
        self.paid_lost += lost
        self.model_calls_repeated += played.repeated - lost
        self._expect(played.repeated == lost, f"{played.repeated} model calls were repeated, {may_be_lost} may be")
        self.takeovers += played.takeovers
        self._count(played)
        if self.undisturbed is None:
            same = len(played.answers) == len(played.asked) - played.repeated
            self._expect(same, f"{len(played.asked)} requests, and {len(played.answers)} answers on record")
        else:
            same = played.usage == self.undisturbed.usage
            self._expect(same, f"usage is {played.usage}, and was {self.undisturbed.usage}")
            self._compare(played, self.undisturbed)
        self.usage_equal = self.usage_equal and same
        where = ", ".join(map(str, points)) or "no death"
        self.complaints[before:] = [f"{where}: {complaint} ({played.run})" for complaint in self.complaints[before:]]
        return len(self.complaints) == before

    def expect_deaths(self, died: int, wanted: int) -> None:
        """Complain if not so many workers died as were to: what did not happen proves nothing."""
        self._expect(died == wanted, f"{wanted} workers were to be killed, it was {died}")

    def _compare(self, played: Played, other: Played) -> None:
        told = {one.digest for one in played.asked}
        self._expect(told == {one.digest for one in other.asked}, "the model was told something else")
        self._expect(played.asked[-1].digest == other.asked[-1].digest, "the model was told something else in the end")
        self._expect(played.returns == other.returns, "its tools gave something else back")
        self._expect(played.result == other.result, f"its result is {played.result}")
        self._expect(played.text == other.text, f"its stream says {played.text!r}")
        self._expect(played.commits == other.commits, f"its commits are {played.commits}")

    def _count(self, played: Played) -> None:
        self.settled += played.settled
        self.commits[len(played.commits)] += 1
        repeated = max(0, len(played.commits) - 1)
        self.effects_repeated += repeated
        self._expect(repeated == 0, f"git has {len(played.commits)} commits")

    def _expect(self, holds: bool, complaint: str) -> None:  # noqa: FBT001 - the claim comes first, as in an assertion
        if not holds:
            self.complaints.append(complaint)

    def numbers(self) -> dict[str, Any]:
        """Return the object of `--json`. `commits` is how many each run made; if they differ there is a complaint."""
        return {
            "points": sum(self.points.values()),
            "model_calls_repeated": self.model_calls_repeated,
            "paid_lost": self.paid_lost,
            "effects_repeated": self.effects_repeated,
            "usage_equal": self.usage_equal,
            "commits": max(self.commits),
        }

    def table(self) -> list[tuple[str, str, bool]]:
        """Return what is proven for people: what, how much, whether it is as promised."""
        runs = sum(self.commits.values())
        commits = " or ".join(str(number) for number in sorted(self.commits))
        return [
            ("workers killed or frozen", f"{sum(self.points.values())}", bool(self.points)),
            ("runs taken over by another worker", f"{self.takeovers}", True),
            (
                "model calls repeated whose answer was on record",
                f"{self.model_calls_repeated}",
                not self.model_calls_repeated,
            ),
            ("answers paid and lost, of deaths before their record", f"{self.paid_lost} of {self.may_be_lost}", True),
            ("commits that were unknown, and settled by asking git", f"{self.settled}", True),
            ("commits repeated", f"{self.effects_repeated}", not self.effects_repeated),
            (f"commits at the end of each of {runs} runs", commits, len(self.commits) == 1),
            ("usage, tool results, stream and report equal", "no" if self.complaints else "yes", not self.complaints),
        ]
