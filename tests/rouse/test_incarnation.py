"""The value itself: stable, cheap, agreed on by threads."""

from __future__ import annotations

import os
import threading
import time
import timeit
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.patience import PATIENCE_SECONDS
from torpor import rouse
from torpor.rouse.incarnation import Mark, PerProcess, end

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def test_it_does_not_change_by_itself() -> None:
    """Equal in every thread while nothing happens."""
    here = rouse.incarnation()
    with ThreadPoolExecutor(4) as threads:
        assert {threads.submit(rouse.incarnation).result() for _ in range(16)} == {here}


def test_end_begins_another_life_once() -> None:
    """Ending a life that is over already ends nothing: two notices, one event."""
    before = rouse.incarnation()
    after = end(before)
    assert after != before
    assert end(before) == after == rouse.incarnation()


def test_threads_that_notice_together_agree() -> None:
    """All of them draw a new value at the same moment; one of the values wins everywhere."""
    count = 8
    barrier = threading.Barrier(count)
    drawn: list[object] = []

    def draw() -> object:
        value = object()
        if drawn:  # the first one is drawn by the constructor, alone
            barrier.wait(PATIENCE_SECONDS)
        drawn.append(value)
        return value

    shared = PerProcess(draw)
    first = shared.get()
    with ThreadPoolExecutor(count) as threads:
        ended = [threads.submit(shared.end, first) for _ in range(count)]
        values = {future.result() for future in ended}
    assert len(drawn) == count + 1
    assert len(values) == 1
    assert values == {shared.get()}


def test_a_thread_that_noticed_long_ago_arrives_at_the_present_life() -> None:
    """It began to draw the second value, and two more lives have passed since."""
    slow_draws, go_on = threading.Event(), threading.Event()
    slow: list[threading.Thread] = []

    def draw() -> object:
        if slow and threading.current_thread() is slow[0] and not slow_draws.is_set():
            slow_draws.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return object()

    shared = PerProcess(draw)
    first, seen = shared.get(), list[object]()
    slow.append(threading.Thread(target=lambda: seen.append(shared.end(first))))
    slow[0].start()
    assert slow_draws.wait(PATIENCE_SECONDS)
    third = shared.end(shared.get())
    fourth = shared.end(third)
    go_on.set()
    slow[0].join()
    assert seen == [fourth]
    assert shared.get() is fourth
    assert shared.end(third) is fourth


def test_a_thread_overtaken_while_it_looked_cannot_hide_the_present_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """It saw the second life intact, then the third began, then it remembers the second: the third can still be ended."""
    shared = PerProcess(object)
    look, seen, third = Mark.is_intact, list[bool](), list[object]()

    def overtaken(mark: Mark) -> bool:
        intact = look(mark)
        seen.append(intact)
        if intact and False in seen and not third:
            third.append(None)
            third[0] = shared.end(shared.get())
        return intact

    monkeypatch.setattr(Mark, "is_intact", overtaken)
    second = shared.end(shared.get())
    assert second is not third[0]
    assert shared.end(third[0]) not in (second, third[0])


def test_a_mark_is_wiped_by_hand() -> None:
    """And stays wiped."""
    mark = Mark()
    assert mark.is_intact()
    mark.wipe()
    assert not mark.is_intact()


def test_the_kernel_knows_this_process() -> None:
    """On Linux all three parts are known, and do not change."""
    here = rouse.Process.current()
    assert here.pid == os.getpid()
    assert here.start is not None
    assert here.namespace is not None
    assert not rouse.Process.current().differs_from(here)


def test_processes_differ_by_what_both_know() -> None:
    """An equal number is not enough; an unknown start says nothing."""
    here = rouse.Process(7, 100, "pid:[1]")
    assert here.differs_from(rouse.Process(8, 100, "pid:[1]"))
    assert here.differs_from(rouse.Process(7, 101, "pid:[1]"))
    assert here.differs_from(rouse.Process(7, 100, "pid:[2]"))
    assert not here.differs_from(rouse.Process(7, None, None))


def nothing() -> None:
    """The stable thing to compare with: what calling an empty function costs here and now."""


def microseconds(function: Callable[[], object]) -> float:
    """The least time a call takes, of this thread alone."""
    calls = 20_000
    return min(timeit.repeat(function, timer=time.thread_time, number=calls, repeat=7)) / calls * 1e6


def test_it_is_cheap(capsys: pytest.CaptureFixture[str]) -> None:
    """So cheap that nobody has a reason to leave the check out: 0.23 us where an empty call takes 0.03, and 1 us at most."""
    call, empty = microseconds(rouse.incarnation), microseconds(nothing)
    with capsys.disabled():
        print(f" incarnation(): {call:.2f} us, an empty call: {empty:.3f} us ", end="")  # noqa: T201 - the figures are the point
    assert call < max(1.0, 30 * empty)
