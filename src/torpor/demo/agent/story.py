"""One run with two deaths: a worker killed between an answer of the model and its record, another inside the commit.

The first was paid for and is lost: the model is asked again. The second is unknown to the journal and known to git, which
is asked; and the commit is not made again.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.demo.agent import repository
from torpor.demo.agent.errand import PROMPT, Errand
from torpor.demo.agent.play import Play, yes
from torpor.demo.agent.proof import Point
from torpor.demo.agent.screen import Journal, Screen
from torpor.testing.mortal import Place

if TYPE_CHECKING:
    from pathlib import Path

    from torpor.client import Client
    from torpor.demo.agent.play import Played
    from torpor.demo.agent.workers import Event, Workers
    from torpor.testing.showing import Wait

LEASE_SECONDS = 5.0


@dataclass(slots=True)
class Story:
    """The run that people look at."""

    client: Client
    workers: Workers
    screen: Screen
    folder: Path
    url: str
    tag: str
    model: str = ""
    ask: bool = False

    async def play(self) -> tuple[list[Point], Played]:
        """Run it; return where workers died, and what came of it. Raises TorporError."""
        await asyncio.to_thread(repository.make, self.folder / "repository")
        first = self._errand("w1", point=2, what="model")
        self.workers.start(first)
        await self.workers.ready(first.who)
        play = Play(self.client, self.workers, self.folder, self.tag, self._consent)
        await play.start(PROMPT)
        self.screen.event(f"{play.run} begins on w1")
        telling = asyncio.create_task(self._tell())
        try:
            played = await play.to_the_end(Journal(self.screen).moved)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        return [self._point(event) for event in self.workers.events if self._died(event)], played

    def _errand(self, who: str, *, point: int, what: str) -> Errand:
        return Errand(
            who=f"{self.tag}-{who}",
            url=self.url,
            folder=str(self.folder),
            tag=self.tag,
            lease_seconds=LEASE_SECONDS,
            model=self.model,
            place=Place.ACTED.value,
            point=point,
            what=what,
        )

    def _died(self, event: Event) -> bool:
        return event["event"] == "killed" and str(event["who"]).startswith(self.tag)

    def _point(self, event: Event) -> Point:
        return Point(Place.ACTED, 1, event["what"])

    async def _tell(self) -> None:
        """Say who died and who took over, and bring the next worker."""
        told, dead = 0, False
        following = {"w1": "w2", "w2": "w3"}
        while True:
            self.workers.news.clear()
            for event in self.workers.events[told:]:
                told += 1
                if not str(event["who"]).startswith(self.tag):
                    continue
                who = str(event["who"]).rpartition("-")[2]
                if event["event"] == "killed":
                    what = {
                        "model": "the model has answered, the journal does not have it",
                        "commit": "git has the commit, the journal does not have it",
                    }[event["what"]]
                    self.screen.event(f"{who} SIGKILL: {what}", "red")
                    dead = True
                elif event["event"] == "ended" and who in following:
                    self.workers.start(self._errand(following[who], point=1, what="commit"))
                elif event["event"] == "awake" and who != "w1":
                    self.screen.event(f"{who} {'took over' if dead else 'wakes with the run'}")
                    dead = False
            await self.workers.news.wait()

    async def _consent(self, wait: Wait) -> bool:
        """Show what is asked, and ask the person at the terminal, or be one."""
        self.screen.event("asleep: a person is to approve the commit, no process is needed", "bold yellow")
        show_patch(self.screen, wait)
        if not self.ask:
            self.screen.event("approved by the demo; --ask lets you decide")
            return await yes(wait)
        answer = await asyncio.to_thread(_asked, "  commit it? [y/N] ")
        return answer.strip().lower() in {"y", "yes"}


def _shown(wait: Wait) -> dict[str, Any]:
    shown = wait.show.get("show", wait.show) if isinstance(wait.show, dict) else {}
    return dict(shown) if isinstance(shown, dict) else {}


def show_patch(screen: Screen, wait: Wait) -> None:
    """Show what is to be committed: the message as git will have it, and the whole patch."""
    args = _shown(wait)
    screen.quoted("message", str(args.get("message", wait.title)), {})
    screen.quoted("", str(args.get("patch", "")), {"+": "green", "-": "red", "@": "cyan"})


def _asked(question: str) -> str:
    sys.stdout.write(question)
    sys.stdout.flush()
    return sys.stdin.readline()
