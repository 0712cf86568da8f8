"""What `torpor run` asks in the terminal: approvals with what is bound, questions, troubles, budgets, and the next message.

A question is withdrawn if somebody else answers it first, on whatever other way: then it says who did. What was typed before a
question stood on the screen answers nothing. Ctrl-D leaves a question open.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

from torpor import clock
from torpor.cli import render
from torpor.cli.bound import asked_lines, edited_lines
from torpor.cli.editing import edits_of
from torpor.cli.following import PEOPLE
from torpor.cli.keyboard import Overtaken
from torpor.cli.options import value_of
from torpor.cli.screen import clean
from torpor.client.listening import until
from torpor.engine.answers import answer_of
from torpor.engine.queries.people import why_of
from torpor.errors import Conflict, NeedsPerson, NotFound, UsageError

if TYPE_CHECKING:
    from torpor.cli.keyboard import Keyboard
    from torpor.cli.live import View
    from torpor.client import Client
    from torpor.engine.queries.fleet import RunLine
    from torpor.engine.queries.people import InboxItem

MESSAGE = "> "
"""The prompt at which the next message to an agent is typed."""
ANSWER = "answer> "
"""The prompt at which a question is answered: whoever talks to an agent sees that this is none of its messages."""
_GENERATIONS = 50
_FIELD_LETTERS = 40
"""So much of a field's present value stands before the cursor: all of it stands above."""
_NEWS = frozenset({"ended", "ready"})
"""What is hinted at when a wait was decided: its run can go on."""


class Asker:
    """Asks one person about one run and its descendants."""

    def __init__(self, client: Client, view: View, keyboard: Keyboard, *, by: str, asks: bool, again: str) -> None:
        """Ask at `keyboard` in the name of `by`; without `asks` nothing is asked here. `again` is the command that goes on."""
        self._client = client
        self._view = view
        self._keyboard = keyboard
        self._by = by
        self._asks = asks and keyboard.there
        self._again = again
        self._may_ask = asks
        self._parents: dict[str, str | None] = {}
        self._open = ""
        """The wait that is asked about now."""

    async def attend(self, run: str) -> None:
        """Ask what the run or a descendant waits for a person with. Raises NeedsPerson if it cannot be or is not answered."""
        line = await self._client.get(run)
        for wait, of in await self._waits(line):
            try:
                item = await self._client.wait(wait)
            except (Conflict, NotFound):
                continue  # decided meanwhile
            if not self._asks:
                every = [command for command, _ in render.verbs(item)]
                command = "   or   ".join(every) if item.asks == "answer" else every[0]
                first = f"{self._again}   asks in a terminal;   or " if self._may_ask else ""
                hint = f"{first}{command}   first" if first else f"{command}   then {self._again}"
                raise NeedsPerson(f"{item.run} needs a person: {item.asks} {item.what}{why_of(item)}", hint=hint)
            await self._view.catch_up(self._client, run)
            self._view.settle()
            self._open = wait
            try:
                await self._ask(item, of)
            except (Conflict, Overtaken) as first:
                self._view.say(first.message if isinstance(first, Conflict) else str(first))
            self._open = ""

    async def withdraw(self) -> None:
        """Say why a question that stands there is not asked any more: the run has ended meanwhile."""
        if self._open:
            try:
                await self._client.wait(self._open)
            except (Conflict, NotFound) as over:
                self._view.say(over.message)

    async def _waits(self, line: RunLine) -> list[tuple[str, str]]:
        """Return the open waits for people of a run, and of its descendants, each with the run's name if it is another."""
        if line.shown == "needs you":
            return [(wait.wait, "") for wait in line.waits if wait.kind in PEOPLE]
        if not any(wait.kind in {"child", "children"} for wait in line.waits):
            return []
        found = (await self._client.inbox()).items
        return [(item.wait, item.run) for item in found if await self._descends(item.run, line.run)]

    async def _descends(self, run: str, ancestor: str) -> bool:
        above: str | None = run
        for _ in range(_GENERATIONS):
            if above is None or above == ancestor:
                return above is not None
            if above not in self._parents:
                self._parents[above] = (await self._client.get(above)).parent
            above = self._parents[above]
        return False

    async def message(self, run: str, name: str) -> bool:
        """Ask for what is said next to an agent that waits for it, and send it. False: the person leaves (Ctrl-D)."""

        async def look() -> str | None:
            line = await self._client.get(run)
            return None if hears(line, name) else ""

        while True:
            try:
                said = await self._keyboard.line_unless(MESSAGE, until(self._client.store, _NEWS, look), text=True)
            except Overtaken:  # somebody else spoke to it
                return True
            if said is None:
                return False
            if said:
                await self._client.signal(run, name, said, sender=self._by.replace("~", "-"))
                return True

    # one wait

    async def _ask(self, item: InboxItem, of: str) -> None:
        self._keyboard.forget()
        if item.asks in {"approve", "answer"}:
            for line in asked_lines(self._view.screen, item, of=of):
                self._view.say(line)
            await (self._approve(item) if item.asks == "approve" else self._answer(item))
            return
        for line in render.item_lines(self._view.screen, item, clock.wall()):
            if line.startswith("next: "):
                break
            self._view.say(line)
        await (self._ask_for_money(item) if item.asks == "budget" else self._settle(item))

    async def _line(self, item: InboxItem, question: str) -> str:
        """Return what is typed. Raises Overtaken if the wait is over by then, NeedsPerson at Ctrl-D."""

        async def look() -> str | None:
            try:
                await self._client.wait(item.wait)
            except (Conflict, NotFound) as over:
                return over.message
            return None

        said = await self._keyboard.line_unless(question, until(self._client.store, _NEWS, look))
        if said is None:
            raise self._left(item)
        return said

    async def _key(self, item: InboxItem, question: str, known: str) -> str:
        """Ask until one of the letters is typed that a question names, and return it."""
        while True:
            said = (await self._line(item, question)).lower()[:1]
            if said and said in known:
                return said

    def _left(self, item: InboxItem) -> NeedsPerson:
        return NeedsPerson(f"{item.run} needs a person: {item.asks} {item.what}", hint=f"torpor inbox {item.wait}")

    async def _approve(self, item: InboxItem) -> None:
        """Ask until it is approved, as it is or edited, or denied. The decision is bound to what was shown (G10).

        An edit that does not fit is kept, to be edited further: a yes to it is never one to what was shown before.
        """
        edits: dict[str, Any] = {}
        editable = item.proposed is not None
        keys = "[y]es, [n]o, [e]dit" if editable else "[y]es, [n]o"
        while True:
            question = f"approve {clean(item.what)}{' as edited' if edits else ''} {keys} "
            said = (await self._line(item, question)).lower()
            if said in {"y", "yes"}:
                try:
                    await self._client.approve(item.wait, by=self._by, digest=item.digest, edits=edits or None)
                except UsageError as refused:  # what was edited does not fit
                    self._view.say(refused.message)
                else:
                    return
            elif said in {"n", "no"}:
                note = await self._line(item, "why? (Enter: no reason) ")
                await self._client.deny(item.wait, by=self._by, note=note)
                return
            elif said in {"e", "edit"} and editable:
                edits = await self._edit(item, edits)

    async def _edit(self, item: InboxItem, edits: dict[str, Any]) -> dict[str, Any]:
        """Let a person change what is shown, in their editor or field by field, and show what they made of it."""
        present = edits.get("", item.proposed)
        if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
            try:
                edits = await asyncio.to_thread(edits_of, item, [], in_editor=True, draft=edits)
            except UsageError as error:
                self._view.say(error.message)
                return edits
        else:
            given = await self._fields(item, present)
            edits = {} if given == item.proposed else {"": given}
        if not edits:
            self._view.say("nothing is changed")
            for line in asked_lines(self._view.screen, item):
                self._view.say(line)
            return edits
        for line in edited_lines(self._view.screen, edits[""], item.proposed):
            self._view.say(line)
        try:
            await self._client.edited(item.wait, edits)
        except UsageError as refused:
            self._view.say(refused.message)
        return edits

    async def _fields(self, item: InboxItem, present: Any) -> Any:
        """Ask for each field of what is shown, beginning with what it is at present."""
        before = item.proposed
        if not isinstance(present, dict):
            return await self._field(item, "the value", present, text=isinstance(before, str))
        there = before if isinstance(before, dict) else {}
        return {
            name: await self._field(item, name, value, text=isinstance(there.get(name, value), str))
            for name, value in present.items()
        }

    async def _field(self, item: InboxItem, name: str, value: Any, *, text: bool) -> Any:
        """Ask for a field's new value: as it is typed if the field is a `text`, else JSON; Enter keeps it."""
        plain = text and isinstance(value, str)
        shown = clean(" ".join((value if plain else json.dumps(value, ensure_ascii=False)).split()))
        shown = shown if len(shown) <= _FIELD_LETTERS else f"{shown[: _FIELD_LETTERS - 3]}..."
        while True:
            said = await self._line(item, f"  {clean(name)} [{shown}] ")
            if not said or text:
                return said or value
            try:
                return value_of(said, name)
            except UsageError as error:
                self._view.say(error.message)

    async def _answer(self, item: InboxItem) -> None:
        """Ask until the answer fits."""
        while True:
            said = await self._line(item, ANSWER)
            if not said:
                continue
            try:
                await self._client.answer(item.wait, value=answer_of(item.content, said), by=self._by)
            except UsageError as refused:
                self._view.say(refused.message)
            else:
                return

    async def _settle(self, item: InboxItem) -> None:
        settles = item.asks == "settle"
        question = f"{'did it happen? [h]appened, ' if settles else ''}[a]gain, [f]ailed, [l]eave it "
        said = await self._key(item, question, "hafl" if settles else "afl")
        if said == "h":
            await self._client.answer(item.wait, happened=await self._result(item), by=self._by)
        elif said == "a":
            await self._client.answer(item.wait, again=True, by=self._by)
        elif said == "f":
            why = await self._line(item, "why? ")
            await self._client.answer(item.wait, fail=why or "a person said so", by=self._by)
        else:
            raise self._left(item)

    async def _result(self, item: InboxItem) -> Any:
        while True:
            given = await self._line(item, "what did it give back? JSON, empty for nothing: ")
            try:
                return value_of(given or None, "that")
            except UsageError as error:
                self._view.say(error.message)

    async def _ask_for_money(self, item: InboxItem) -> None:
        while True:
            said = await self._key(item, "[r]aise the limit, allow it [o]nce, [n]o, [l]eave it ", "ronl")
            try:
                if said == "r":
                    more = await self._line(item, "by how many dollars? ")
                    await self._client.raise_budget(item.wait, more, by=self._by)
                elif said == "o":
                    await self._client.allow_once(item.wait, by=self._by)
                elif said == "n":
                    await self._client.refuse_budget(item.wait, await self._line(item, "why? "), by=self._by)
                else:
                    raise self._left(item)
            except UsageError as error:  # no amount, or none that is enough
                self._view.say(error.message)
            else:
                return


def hears(line: RunLine, name: str) -> bool:
    """Whether a run only waits for a message of this name."""
    return line.shown == "asleep" and any(
        wait.kind == "message" and wait.title.removeprefix("message ") == name for wait in line.waits
    )
