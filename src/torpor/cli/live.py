"""What a run says while somebody looks on: texts as they come, tool calls in a line each, what is taken back replaced.

The story is a list of blocks. What can still change stands in the region at the lower end of the screen and is drawn again
as it changes: a text that the model still speaks, calls that have not ended. What is taken back (another worker took over, a
provider failed half-way) is gone from the region at once; if it has scrolled away by then, a line says so. Where there is no
terminal nothing can be drawn again, so a block is told once nothing can change it any more.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torpor.cli.region import Wrapped
from torpor.cli.screen import cells, clean
from torpor.core.stream import CALL, MILESTONE, PLAN, PRUNED, SAYS, TOOL, PartKind
from torpor.engine.queries.spoken import duration
from torpor.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torpor.cli.region import Region
    from torpor.cli.screen import Screen
    from torpor.client import Client, Part

REMEMBERED = 5_000
"""So many parts that scrolled away are remembered, to say what was taken back of them."""
_WORTH_MICROS = 1_000_000
"""How long a call takes is told from here."""
_QUOTED_LETTERS = 40
AGAIN_SECONDS = 1.0
"""A store that is away is asked again after so long."""


@dataclass(slots=True)
class Text:
    """A text, by the numbers of its parts."""

    parts: dict[int, str] = field(default_factory=dict)
    over: bool = False
    """Whether something else came after it: nothing of it is to follow."""
    wrapped: Wrapped | None = None

    @property
    def whole(self) -> str:
        """All of it."""
        return "".join(self.parts.values())


@dataclass(slots=True)
class Tool:
    """A call of a tool: the part that said it begins, and the one that said what became of it."""

    began: Part
    ended: Part | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.ended is not None


@dataclass(slots=True)
class Value:
    """Another value that a program emitted."""

    part: Part
    over: bool = True


Block = Text | Tool | Value


class Story:
    """The blocks that can still change, in order."""

    def __init__(self) -> None:
        """Begin with none."""
        self.blocks: list[Block] = []
        self.begun: dict[str, Part] = {}
        """With what calls began that have not ended and are settled already: a question came between."""
        self.told: OrderedDict[int, str] = OrderedDict()
        """The newest parts of blocks that are settled, with their text."""
        self.last_text = ""
        """The text that was told last."""

    def take(self, part: Part) -> str:
        """Take a part; return what is to be said about it if it changes what was settled."""
        if part.kind == PRUNED:
            self.blocks = []
            self.begun.clear()
            return "what came before is pruned"
        if part.kind == PartKind.RETRACT.word:
            return self._drop(part)
        last = self.blocks[-1] if self.blocks else None
        if isinstance(part.body, str):
            if not isinstance(last, Text) or last.over:
                last = Text()
                self.blocks.append(last)
            last.parts[part.n] = part.body
            if last.wrapped is not None:
                last.wrapped.add(part.body)
            return ""
        if isinstance(last, Text):
            last.over = True
        if isinstance(part.body, dict) and SAYS in part.body:
            return ""  # an answer begins: what was said before is another one
        call = part.body.get(CALL) if isinstance(part.body, dict) and TOOL in part.body else None
        if call is None:
            self.blocks.append(Value(part))
            return ""
        known = next((b for b in self.blocks if isinstance(b, Tool) and b.began.body.get(CALL) == call), None)
        if known is not None:
            known.ended = part
        elif "args" in part.body:
            self.blocks.append(Tool(part))
        else:
            self.blocks.append(Tool(self.begun.pop(call, part), part))
        return ""

    def _drop(self, part: Part) -> str:
        """Take parts back; return what to say of those that were settled."""
        gone = {n for first, last in part.body for n in range(first, last + 1)}
        for block in self.blocks:
            if isinstance(block, Text) and gone & block.parts.keys():
                block.parts = {n: text for n, text in block.parts.items() if n not in gone}
                block.wrapped = None
        self.blocks = [block for block in self.blocks if not _is_gone(block, gone)]
        self.begun = {call: part for call, part in self.begun.items() if part.n not in gone}
        texts = [self.told.pop(n) for n in sorted(gone & self.told.keys())]
        text = "".join(texts).strip()
        if not texts:
            return ""
        quoted = json.dumps(text[:_QUOTED_LETTERS], ensure_ascii=False)[1:-1]
        more = "..." if len(text) > _QUOTED_LETTERS else ""
        return f'taken back: "{quoted}{more}"; what follows replaces it'

    def settled(self, *, all_of_it: bool = False) -> Iterator[Block]:
        """Take out the blocks at the beginning that nothing is expected to change any more, as they were."""
        while self.blocks and (all_of_it or self.blocks[0].over):
            block = self.blocks.pop(0)
            for n, text in _texts(block):
                self.told[n] = text
            while len(self.told) > REMEMBERED:
                self.told.popitem(last=False)
            if isinstance(block, Text):
                self.last_text = block.whole
            if isinstance(block, Tool) and not block.over:
                self.begun[block.began.body[CALL]] = block.began
            yield block


def _is_gone(block: Block, gone: set[int]) -> bool:
    if isinstance(block, Text):
        return not block.parts
    return (block.began if isinstance(block, Tool) else block.part).n in gone


def _texts(block: Block) -> Iterable[tuple[int, str]]:
    if isinstance(block, Text):
        return block.parts.items()
    if isinstance(block, Value):
        return [(block.part.n, json.dumps(block.part.body, ensure_ascii=False))]
    return [(part.n, str(part.body[TOOL])) for part in (block.began, block.ended) if part is not None]


class View:
    """Tells a story as it comes, on a terminal (with a region) or in lines."""

    def __init__(self, screen: Screen, region: Region | None) -> None:
        """Begin at the start of a line."""
        self.screen = screen
        self.region = region
        self.n = 0
        """The number of the last part that was taken."""
        self._story = Story()
        self._thinks = ""

    # what comes

    async def follow(self, client: Client, run: str) -> None:
        """Tell what a run emits until it has ended. A store that is away is waited for."""
        while True:
            try:
                async with aclosing(client.stream(run, self.n)) as parts:
                    async for part in parts:
                        self.take(part)
                return
            except StoreUnavailable:
                await asyncio.sleep(AGAIN_SECONDS)

    async def catch_up(self, client: Client, run: str) -> None:
        """Tell what the run has emitted up to now."""
        with suppress(StoreUnavailable):
            async with aclosing(client.stream(run, self.n, follow=False)) as parts:
                async for part in parts:
                    self.take(part)

    async def pass_over(self, client: Client, run: str, first: int, last: int) -> None:
        """Tell nothing of the parts after `first` up to `last`, but know which calls began among them."""
        async with aclosing(client.stream(run, first, follow=False)) as parts:
            async for part in parts:
                if part.n > last:
                    break
                self._story.take(part)
        for _ in self._story.settled(all_of_it=True):
            pass
        self._story.told.clear()
        self._story.last_text = ""
        self.n = last

    def take(self, part: Part) -> None:
        """Take a part; one that was taken before changes nothing."""
        if part.n <= self.n:
            return
        self.n = part.n
        said = self._story.take(part)
        self._draw(said, retracts=part.kind == PartKind.RETRACT.word)

    def thinks(self, word: str) -> None:
        """Say below everything that the run is at work, or with an empty word that it is not."""
        if self.region is not None and word != self._thinks:
            self._thinks = word
            self._show(self._story.blocks)

    def say(self, line: str) -> None:
        """Say a line for good."""
        if self.region is None:
            self.screen.say(line)
        else:
            self.region.say(line)

    def settle(self, *, but: str | None = None) -> bool:
        """Tell everything that was not told yet. Return whether the last of it is the text `but`, told or not.

        Where lines are told once, that text is not: whoever asks is about to write it elsewhere.
        """
        self._thinks = ""
        blocks = list(self._story.settled(all_of_it=True))
        last = self._story.last_text.strip() == (but or "").strip()
        equal = bool(but) and last and (not blocks or isinstance(blocks[-1], Text))
        if self.region is not None:
            self._show(blocks)
            self.region.commit()
        else:
            for block in blocks[:-1] if equal and blocks else blocks:
                self._tell(block)
        return equal

    # how it is shown

    def _draw(self, said: str, *, retracts: bool) -> None:
        over = list(self._story.settled())
        if said:
            self.say(self.screen.paint(f"[{said}]", "dim"))
        if self.region is None:
            for block in over:
                self._tell(block)
            return
        if over:
            self._show(over, retracts=retracts, last=False)
            self.region.commit()
        self._show(self._story.blocks, retracts=retracts)

    def _show(self, blocks: list[Block], *, retracts: bool = False, last: bool = True) -> None:
        """Let the region show blocks, and below the last that the run is at work if nothing else shows it."""
        region = self.region
        if region is None:
            return
        lines = [line for block in blocks for line in self._lines(block, region.width)]
        silent = last and self._thinks and (not blocks or blocks[-1].over)
        passing = self.screen.paint(f"  {self._thinks}", "dim") if silent else ""
        if not region.draw(lines, passing):  # it has scrolled away, or stands there in another width
            region.commit()
            if retracts:
                region.say(self.screen.paint("[taken back; what follows replaces it]", "dim"))
            region.draw(lines, passing)

    def _tell(self, block: Block) -> None:
        for line in self._lines(block, None):
            self.screen.say(line)

    def _lines(self, block: Block, width: int | None) -> list[str]:
        """Return a block in lines of a width; None: lines as they are."""
        if isinstance(block, Tool):
            return self._tool_lines(block, width)
        if isinstance(block, Value):
            lines = [f"  {line}" for line in value_lines(block.part.body)]
            return [self.screen.paint(line if width is None else self.screen.fit(line, width), "dim") for line in lines]
        if width is None:
            return [clean(line.replace("\t", "    ").rstrip()) for line in block.whole.strip("\n").splitlines()]
        if block.wrapped is None:
            block.wrapped = Wrapped(width)
            block.wrapped.add(block.whole)
        lines = block.wrapped.lines
        return lines[:-1] if block.over and lines[-1:] == [""] else lines

    def _tool_lines(self, block: Tool, width: int | None) -> list[str]:
        """Return a call in a line if it fits, else what it gave in a second one."""
        screen, ended = self.screen, block.ended
        word = "running" if ended is None else "completed" if "gave" in ended.body else "failed"
        took = 0 if ended is None else ended.at - block.began.at
        gave = "" if ended is None else _gave(ended.body)
        time = duration(took) if took >= _WORTH_MICROS else ""
        second = f"{gave}   {time}".strip()
        first = _called(block.began.body)
        glyph = screen.glyph(word)
        if width is None or cells(first) + cells(second) + 7 <= width:
            line = f"{first}   {second}".rstrip()
            return [f"  {glyph} {screen.paint(line, 'dim')}"]
        kept = (
            f"{screen.fit(gave, width - 4 - len(time) - 3)}   {time}".strip() if time else screen.fit(gave, width - 4)
        )
        below = [f"    {screen.paint(kept, 'dim')}"] if kept else []
        return [f"  {glyph} {screen.paint(screen.fit(first, width - 4), 'dim')}", *below]


def value_lines(body: Any) -> list[str]:
    """Return a part with a value in lines: how a plan stands in words, all else as JSON."""
    told = body if isinstance(body, dict) else {}
    if isinstance(told.get(PLAN), list):
        return ["plan", *(clean(f"  {n}. {_plain(title)}") for n, title in enumerate(told[PLAN], start=1))]
    name = "plan" if PLAN in told else _plain(told.get(MILESTONE, ""))
    state = told.get(PLAN, told.get("state"))
    if not name or not isinstance(state, str):
        return [clean(json.dumps(body, ensure_ascii=False))]
    more = [_plain(told[word]) for word in ("by", "why") if told.get(word)]
    return [clean("   ".join([name, state, *more]))]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def call_words(body: Any) -> str:
    """Return a part about a call in a line: the tool, and its arguments or what it gave, or that it failed."""
    gave = _gave(body)
    if gave and "failed" in body:
        gave = f"failed: {gave}"
    return _called(body) + (f"   {gave}" if gave else "")


def _called(body: Any) -> str:
    """Return the tool and the arguments of a part about a call."""
    words = [str(body[TOOL]), *(f"{name}={_brief(value)}" for name, value in body.get("args", {}).items())]
    return clean(" ".join(words))


def _gave(body: Any) -> str:
    """Return what a call gave, in a line."""
    word = next((word for word in ("failed", "retry", "gave") if body.get(word) is not None), "")
    said = _brief(body[word]) if word else ""
    return clean(f"again: {said}" if word == "retry" else said)


def _brief(value: Any) -> str:
    """Return a value in a line: a text as it is if it is one word."""
    if isinstance(value, str) and value and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False)
