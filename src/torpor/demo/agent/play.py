"""The agent run once, looked at from outside: started, a person played, the unknown settled, and everything read at the end.

What became of an unknown commit is asked of git: if there is a commit it happened, and is told in the words that the tool
would have used; if there is none it is to be made.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from torpor.clock import as_datetime
from torpor.core.checkpoint import EMPTIED, was_emptied
from torpor.core.ids import parse_run
from torpor.core.replay import CallKind, kind_of, shown
from torpor.demo.agent import repository
from torpor.demo.agent.errand import NAME, Request, requests
from torpor.errors import Conflict, TorporError
from torpor.store import values
from torpor.store.protocol import Lane
from torpor.testing import showing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from torpor.client import Client
    from torpor.core.run import State
    from torpor.demo.agent.workers import Workers
    from torpor.store.protocol import Tx
    from torpor.testing.showing import Line, Wait

LOOK_SECONDS = 0.05
PERSON = "a person"

Consent: TypeAlias = "Callable[[Wait], Awaitable[bool]]"


async def yes(wait: Wait) -> bool:
    """Approve whatever it is."""
    del wait
    return True


@dataclass(slots=True)
class Played:
    """A run that has ended, and everything that is known of it from outside."""

    run: str
    state: str
    result: Any
    journal: list[Line]
    text: str
    """What it said, as its stream has it."""
    asked: list[Request]
    commits: list[str]
    takeovers: int
    settled: int

    @property
    def answers(self) -> list[Any]:
        """The model's answers that are on record."""
        return [line.value for line in self.journal if line.kind == "outcome" and _name(line) == "model"]

    @property
    def returns(self) -> list[tuple[str, Any]]:
        """What its tools gave back, as it is on record, in an order that chance has no part in."""
        from torpor.agent.outcomes import SETTLED_BY  # it loads pydantic-ai, which few commands of the demo need

        found = [(line.key, line.value) for line in self.journal if line.kind == "outcome" and _name(line) != "model"]
        told = [  # who said so is no part of it
            (
                key,
                {name: part for name, part in value.items() if name != SETTLED_BY}
                if isinstance(value, dict)
                else value,
            )
            for key, value in found
        ]
        return sorted(told, key=repr)

    @property
    def usage(self) -> dict[str, int]:
        """The tokens of all answers that are on record, and how many tools gave something back."""
        total = {"requests": len(self.answers), "tool_returns": len(self.returns)}
        for answer in self.answers:
            for name in ("input_tokens", "output_tokens"):
                total[name] = total.get(name, 0) + answer.get("usage", {}).get(name, 0)
        return total

    @property
    def repeated(self) -> int:
        """How many requests were made that had been made before."""
        return len(self.asked) - len({one.digest for one in self.asked})


def _name(line: Line) -> str:
    return line.key.partition("#")[0].partition("@")[0]


@dataclass(slots=True)
class Play:
    """One run, while it goes on. `consent` is asked when an approval is open."""

    client: Client
    workers: Workers
    folder: Path
    tag: str
    consent: Consent = yes
    run: str = ""
    settled: int = 0
    journal: list[Line] = field(default_factory=list)

    async def start(self, prompt: str) -> None:
        """Start the run."""
        self.run = (await self.client.start(NAME, prompt, tag=self.tag)).run_id

    async def to_the_end(self, moved: Callable[[list[Line]], None] | None = None) -> Played:
        """Be the person until the run has ended; return what it was. Raises TorporError, Conflict.

        `moved` is told the journal at each look.
        """
        number = parse_run(self.run)[1]
        store = self.client.store
        while True:
            self.workers.news.clear()
            state, takeovers, waits = await store.transact(_look, number, lane=Lane.READ)
            if moved is not None or state.final:
                self.journal = await store.transact(_lines, number, lane=Lane.READ)
            if moved is not None:
                moved(self.journal)
            if state.final:
                break
            if state.word == "waiting":
                for wait in waits:
                    await self._decide(wait)
            self.workers.refuse()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self.workers.news.wait()
            except TimeoutError:
                continue
        return await self._ended(state, takeovers)

    async def _decide(self, wait: Wait) -> None:
        if wait.answered or not wait.for_person:
            return
        try:
            if wait.kind == "approval":
                approved = await self.consent(wait)
                await (self.client.approve if approved else self.client.deny)(wait.name, by=PERSON)
            elif wait.kind == "attention" and wait.show.get("trouble") == "unknown_effect":
                await self._settle(wait)
            else:
                raise TorporError(f"{self.run} waits for a person: {wait.title}", hint=f"torpor show {self.run}")
        except Conflict:
            return  # somebody was first: the attempt that began it ended late, or the wait is over

    async def _settle(self, wait: Wait) -> None:
        """Look whether the commit is there; if it is to be made again, what the dead attempt began is put back first."""
        place = self.folder / "repository"
        await asyncio.to_thread(repository.put_back, place)
        found = await asyncio.to_thread(repository.commits, place)
        if found:
            words = await asyncio.to_thread(repository.told, place, found[-1])
            await self.client.answer(wait.name, happened=words, by=PERSON)
        else:
            await self.client.answer(wait.name, again=True, by=PERSON)
        self.settled += 1

    async def _ended(self, state: State, takeovers: int) -> Played:
        if state.word != "completed":
            last = self.journal[-1]
            raise TorporError(f"{self.run} {state.word}: {last.value}", hint=f"its logs are in {self.folder}")
        asked = await asyncio.to_thread(requests, self.folder / "asked.jsonl")
        commits = await asyncio.to_thread(repository.commits, self.folder / "repository")
        text = await self.client.text(self.run)
        result = self.journal[-1].value
        return Played(self.run, state.word, result, self.journal, text, asked, commits, takeovers, self.settled)


def _look(tx: Tx, number: int) -> tuple[State, int, list[Wait]]:
    row = tx.get_runs([number])[number]
    return row.state, row.takeovers, showing.wait_list(tx, number, as_datetime=as_datetime)


def _lines(tx: Tx, number: int) -> list[Line]:
    """Return a run's journal, its values as JSON: no class of the agent's is known here.

    The outcome of what is neither a step nor an effect, a reservation of money for example, is not called one.
    """
    found = []
    for entry in tx.journal(number):
        body = showing.whole(tx, entry.body)
        value = EMPTIED if was_emptied(entry) else None if body is None else values.plain(body)
        key = shown(entry.key) if entry.key else ""
        acted = not entry.key or kind_of(entry.key) in {CallKind.STEP, CallKind.EFFECT}
        word = entry.kind.word if acted else f"{entry.kind.word} of torpor's"
        found.append(showing.Line(entry.seq, entry.at, entry.epoch, word, key, value))
    return found
