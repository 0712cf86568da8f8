"""Answers as lines for people: first the answer, then the facts, then `next:` with what can be pasted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torpor.cli.fields import fact, field_lines, pasteable
from torpor.cli.fitting import answers
from torpor.cli.following import steps_of
from torpor.cli.screen import Column, Screen, clean
from torpor.cli.spoken import moment, one_day, stamp
from torpor.cli.strip import share, strip
from torpor.core.names import AGENT
from torpor.engine.queries.people import parent_of, why_of
from torpor.engine.queries.spoken import duration, plural
from torpor.store.values import MISFIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torpor.engine.queries.fleet import Fleet, RunLine
    from torpor.engine.queries.kin import Family
    from torpor.engine.queries.people import Inbox, InboxItem
    from torpor.engine.queries.show import RunShown


_ABOUT = 3
"""So many arguments of an approval stand in a line of the inbox, each with so many letters at most."""
_WORD_LETTERS = 27


def word_of(line: RunLine) -> str:
    """Return the display word whose glyph and colour a run has: an unknown effect is more than a person's wait."""
    return "unknown" if line.shown == "needs you" and line.reason.startswith("settle ") else line.shown


def state_text(line: RunLine) -> str:
    """Return a run's state with its reason, as people read it."""
    cancelling = " (cancelling)" if line.cancelling else ""
    if line.shown == "running":
        return f"running {line.reason}{cancelling}"
    return f"{line.shown}{': ' if line.reason else ''}{line.reason}{cancelling}"


def next_text(line: RunLine, now: int) -> str:
    """Return what comes next and when."""
    if line.next_at is None:
        return "no date" if line.shown == "asleep" else "-"
    if line.next_is == "lease":
        left = line.next_at - now
        return f"lease {duration(left)}" if left > 0 else "lease over"
    if line.next_is == "expires":
        return f"expires {moment(line.next_at, now)}"
    return moment(line.next_at, now) if line.next_at > now else f"due since {duration(now - line.next_at)}"


def _short(text: str) -> str:
    return text.replace("expires ", "exp. ", 1)


_RUN_COLUMNS = [
    Column("RUN", fixed=True),
    Column("PROGRAM", spare=True),
    Column("STATE", least=30),
    Column("SINCE", least=6, right=True),
    Column("NEXT", least=19),
]


def runs_table(screen: Screen, lines: Sequence[RunLine], now: int) -> list[str]:
    """Return runs as a table."""
    rows = [
        [line.run, line.program, state_text(line), duration(now - line.since_at), _short(next_text(line, now))]
        for line in lines
    ]
    return screen.table(_RUN_COLUMNS, rows, [word_of(line) for line in lines])


def fleet_lines(screen: Screen, fleet: Fleet) -> Iterator[str]:
    """Yield `torpor ps`."""
    if not fleet.runs:
        yield "No run here yet."
        yield ""
        yield "next: torpor start PROGRAM INPUT"
        return
    yield from runs_table(screen, fleet.runs, fleet.at)
    if fleet.asleep_more:
        about = "more than " if fleet.counts["waiting"] >= fleet.counted_to else ""
        yield screen.paint(
            f"all that are not asleep, and the next to wake; {about}{fleet.asleep_more:,} more asleep", "dim"
        )
    ended = [
        f"{fleet.counts[word]:,}{'+' if fleet.counts[word] >= fleet.counted_to else ''} {word}"
        for word in ("completed", "failed", "cancelled")
        if fleet.counts[word] > sum(line.state == word for line in fleet.runs)
    ]
    if ended:
        yield screen.paint(f"{', '.join(ended)} in all; torpor ps --all lists them", "dim")
    needs = any(line.shown == "needs you" for line in fleet.runs)
    yield f"next: {'torpor inbox' if needs else f'torpor show {fleet.runs[0].run}'}"


def inbox_lines(screen: Screen, inbox: Inbox) -> Iterator[str]:
    """Yield `torpor inbox`."""
    if not inbox.items:
        yield "Nothing needs you."
        return
    count = len({item.run for item in inbox.items})
    oldest = duration(inbox.at - inbox.items[0].opened_at)
    who = "1 run cannot" if count == 1 else f"{count}{'+' if inbox.more else ''} runs cannot"
    yield f"{who} go on without a person. The oldest wait is {oldest} old."
    columns = [
        Column("WAIT", fixed=True),
        Column("ASKS", least=7),
        Column("WHAT", least=20),
        Column("RUN", fixed=True),
        Column("AGE", least=6, right=True),
        Column("EXPIRES"),
    ]
    rows = [
        [
            item.wait,
            item.asks,
            item.what + _about(item) + why_of(item) + parent_of(item),
            item.run,
            duration(inbox.at - item.opened_at),
            moment(item.expires_at, inbox.at) if item.expires_at is not None else "-",
        ]
        for item in inbox.items
    ]
    yield from screen.table(columns, rows, [_item_word(item) for item in inbox.items])
    first = inbox.items[0]
    yield from pasteable(screen, [(f"torpor inbox {first.wait}", "read it in full"), *verbs(first)])


def _about(item: InboxItem) -> str:
    """Return what an approval would do, in brief, to be put behind its title: ` to=ana usd=40.0 +2`; or nothing."""
    shown = item.content.get("show") if item.asks == "approve" and isinstance(item.content, dict) else None
    if not isinstance(shown, dict):
        return ""
    words = [f"{name}={_word(value)}" for name, value in shown.items()]
    more = f" +{len(words) - _ABOUT}" if len(words) > _ABOUT else ""
    return f" {' '.join(words[:_ABOUT])}{more}" if words else ""


def _word(value: Any) -> str:
    """Return a value as one word of a line, cut where it is long."""
    text = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    text = text if len(text) <= _WORD_LETTERS else f"{text[: _WORD_LETTERS - 3]}..."
    return f'"{text}"' if isinstance(value, str) and (not text or " " in text) else text


def _item_word(item: InboxItem) -> str:
    return {"settle": "unknown", "callback": "asleep"}.get(item.asks, "needs you")


def verbs(item: InboxItem) -> list[tuple[str, str]]:
    """Return the commands that decide a wait, each with what it means."""
    if item.asks == "approve":
        edit = [(f"torpor approve {item.wait} --edit", "or --set PATH=JSON")] if item.proposed is not None else []
        return [(f"torpor approve {item.wait}", ""), *edit, (f'torpor deny {item.wait} "reason"', "")]
    if item.asks == "answer":
        return answers(item.wait, item.content)
    if item.asks == "callback":
        return [(f"torpor answer {item.wait} 'JSON'", "in the place of whoever has its secret")]
    if item.asks == "budget":
        lacks = str(item.content.get("lacks", "")).lstrip("$").replace(",", "")
        return [
            (f"torpor answer {item.wait} --raise {lacks}", "the limit, for good"),
            (f"torpor answer {item.wait} --once", "this one; the limit stays"),
            (f'torpor answer {item.wait} --fail "reason"', "the program is told"),
        ]
    if item.asks == "settle":
        again = "it may happen twice" if item.content.get("safety") == "once" else ""
        return [
            (f"torpor answer {item.wait} --happened 'JSON'", "its result, or null"),
            (f"torpor answer {item.wait} --again", again),
            (f'torpor answer {item.wait} --fail "reason"', ""),
        ]
    if MISFIT in item.what:
        return [
            (f"torpor cancel {item.run}", "its input cannot be changed"),
            (f"torpor start {item.run.rpartition('-')[0]} INPUT", "with one that fits"),
            (f"torpor answer {item.wait} --again", "if the code was wrong and is mended"),
        ]
    return [
        (f"torpor answer {item.wait} --again", "try the run again"),
        (f'torpor answer {item.wait} --fail "reason"', ""),
        (f"torpor cancel {item.run}", ""),
    ]


_HIDDEN = frozenset({"digest", "due_at", "args", "more", "trouble", "editable"})


def item_lines(screen: Screen, item: InboxItem, now: int) -> Iterator[str]:
    """Yield `torpor inbox WAIT`: everything that is needed to decide, nothing cut."""
    word = _item_word(item)
    yield from screen.wrapped(f"{screen.glyph(word)} {screen.state(word, item.asks)} ", clean(item.what), 2)
    yield ""
    yield f"  wait     {item.wait}"
    yield f"  run      {item.run}{parent_of(item)}"
    expires = f", expires {moment(item.expires_at, now)}" if item.expires_at is not None else ""
    yield f"  asked    {duration(now - item.opened_at)} ago{expires}"
    if item.digest:
        yield f"  digest   {item.digest}"
    content = item.content if isinstance(item.content, dict) else {"content": item.content}
    for name, value in content.items():
        if name not in _HIDDEN and value is not None:
            yield from field_lines(screen, name, value)
    for n, value in enumerate(content.get("args") or ()):
        yield from field_lines(screen, f"arg {n + 1}", value)
    for name, value in (content.get("more") or {}).items():
        yield from field_lines(screen, name, value)
    yield ""
    yield from pasteable(screen, verbs(item))


def shown_lines(screen: Screen, run: RunShown, *, entries: int) -> Iterator[str]:
    """Yield `torpor show RUN`."""
    line = run.line
    is_agent = run.source.endswith(AGENT)
    what = f"{'agent' if is_agent else 'flow'} {line.program} version {line.version}"
    yield from screen.wrapped("", f"{line.run}   {what}   {clean(run.source.removesuffix(AGENT))}", 2)
    reached = next_text(line, run.at)
    since = duration(run.at - line.since_at)
    following = f"   {reached}" if reached not in {"-", "no date"} else ""
    for n, part in enumerate(screen.wrapped("", clean(state_text(line)), 2)):
        glyph = screen.glyph(word_of(line) if n == 0 else "")
        yield f"{glyph} {screen.state(word_of(line), part.strip())}"
    yield f"  since {since}{following}"
    if line.hint:
        yield from screen.wrapped("  hint: ", clean(line.hint), 8)
    yield ""
    if run.life:
        began, ended = moment(run.life[0].began_at, run.at), moment(run.life[-1].ended_at, run.at)
        now = "" if line.state in {"completed", "failed", "cancelled"} else "now, "
        room = screen.width - len(began) - len(ended) - len(now) - 6
        yield f"  {began} {strip(run.life, screen, min(room, 100))} {now}{ended}"
        yield f"  {share(run.life)}   {plural(line.stretches, 'stretch', 'stretches')}   {plural(line.takeovers, 'takeover')}"
        yield ""
    yield f"  turn     {line.turn}"
    if run.effects:
        counts = {
            word: sum(e.outcome == word for e in run.effects) for word in ("done", "unknown", "failed", "in flight")
        }
        yield "  effects  " + "   ".join(f"{count} {word}" for word, count in counts.items() if count)
    for wait in line.waits:
        until = f", until {moment(wait.due_at, run.at)}" if wait.due_at is not None else ""
        yield from fact(screen, "waits", f"{wait.wait}  {wait.title}{until}")
    if line.deadline_at is not None:
        yield f"  deadline {moment(line.deadline_at, run.at)}, then it is cancelled"
    yield from _family_lines(run.family)
    yield from _history_lines(screen, run)
    if run.unread:
        names = ", ".join(sorted({clean(signal.name) for signal in run.unread}))
        yield f"  unread   {plural(len(run.unread), 'signal')}: {names}"
    yield from _spoken_lines(screen, run)
    for late in run.too_late:
        said = f"{late.wait}  {late.said}, {duration(run.at - late.at)} ago; nothing was changed"
        yield from fact(screen, "too late", said)
    if line.state == "completed":
        yield from field_lines(screen, "result", "null" if run.result is None else run.result)
    yield ""
    if run.lines:
        yield from _story_table(screen, run, entries)
        yield ""
    if run.effects:
        yield from _effects_table(screen, run)
        yield ""
    yield from pasteable(screen, steps_of(run))


def _spoken_lines(screen: Screen, run: RunShown) -> Iterator[str]:
    if run.parts:
        yield f"  emitted  {plural(run.parts, 'part')}: torpor tail {run.line.run}"
    if run.parts_pruned:
        yield from fact(screen, "pruned", run.parts_pruned)
    if run.view is not None:
        yield from field_lines(screen, "shows", run.view)


def _family_lines(family: Family | None) -> Iterator[str]:
    """Yield whose child a run is, and how its own children stand."""
    if family is None:
        return
    if family.parent is not None:
        yield f"  family   child of {family.parent}"
    if not family.children:
        return
    total = sum(family.counts.values())
    some = "more than " if total >= family.counted_to else ""
    states = ", ".join(f"{count} {word}" for word, count in family.counts.items())
    yield f"  {'family' if family.parent is None else '':<8} {some}{plural(total, 'child', 'children')}: {states}"
    for child in family.children:
        yield f"           {child.run}  {child.state}{', independent' if child.independent else ''}"
    if family.more:
        yield f"           and {family.more} more"


def _history_lines(screen: Screen, run: RunShown) -> Iterator[str]:
    history = run.history
    if history.forked_from is not None:
        origin = f"from {history.forked_from} at checkpoint {history.forked_at}: {history.title}"
        yield from fact(screen, "forked", origin)
    if history.forks:
        yield from fact(screen, "forks", ", ".join(history.forks))
    if len(history.checkpoints) > 1 or history.branch:
        newest = ", ".join(str(one.checkpoint) for one in history.checkpoints[:5])
        more = f" and {len(history.checkpoints) - 5} more" if len(history.checkpoints) > 5 else ""  # noqa: PLR2004 - a line
        yield f"  kept     checkpoints {newest}{more}   branch {history.branch}"
    if history.pruned:
        yield from fact(screen, "pruned", history.pruned)


_OUTCOME_WORDS = {
    "failed": "failed",
    "unknown": "unknown",
    "asked": "needs you",
    "needs you": "needs you",
    "asleep": "asleep",
}


def _story_table(screen: Screen, run: RunShown, entries: int) -> Iterator[str]:
    told = [line for line in run.lines if not line.quiet]
    shown, quiet = told[-entries:], len(run.lines) - len(told)
    same_day = one_day([line.at for line in shown] + [run.at])
    columns = [
        Column("#", fixed=True, right=True),
        Column("WHEN", fixed=True),
        Column("WHAT", least=20),
        Column("OUTCOME", least=9),
        Column("TOOK", right=True, least=6),
    ]
    rows = [
        [
            str(line.seq) if line.seq else "-",
            stamp(line.at, same_day=same_day),
            line.what,
            line.outcome,
            duration((line.ended_at or run.at) - line.at) if line.ended_at != line.at else "-",
        ]
        for line in shown
    ]
    words = [_OUTCOME_WORDS.get(line.outcome.partition(",")[0], "") for line in shown]
    yield from screen.table(columns, rows, words)
    hidden = [f"{len(told) - len(shown)} earlier" if len(told) > len(shown) else "", f"{quiet} quiet" if quiet else ""]
    said = ", ".join(part for part in hidden if part)
    if said or run.entries_before:
        pruned = f"; entries 1-{run.entries_before:,} were not read" if run.entries_before else ""
        yield screen.paint(f"  {said or 'no other'} not shown{pruned}", "dim")


def _effects_table(screen: Screen, run: RunShown) -> Iterator[str]:
    shown = run.effects[-20:]
    columns = [
        Column("EFFECT", fixed=True),
        Column("TURN", fixed=True, right=True),
        Column("SAFETY", least=6),
        Column("OUTCOME", least=9),
        Column("KEY", least=8),
        Column("ARGUMENTS", least=12),
    ]
    rows = [
        [e.effect, str(e.turn), e.safety, e.outcome + (f" ({e.settled_by})" if e.settled_by else ""), e.key, e.args]
        for e in shown
    ]
    words = {"done": "", "failed": "failed", "unknown": "unknown", "in flight": "running"}
    yield from screen.table(columns, rows, [words[e.outcome] for e in shown])
    if len(run.effects) > len(shown):
        yield screen.paint(f"  {len(run.effects) - len(shown)} earlier not shown", "dim")
