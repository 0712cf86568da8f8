"""What an author says about schedules, and what is refused where it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from torpor import App, Context, UsageError, hours, minutes
from torpor.core.schedule import SECOND, Missed, Rule

if TYPE_CHECKING:
    from collections.abc import Callable


async def report(ctx: Context, name: str) -> None:
    """Do nothing."""
    del ctx, name


def test_above_or_below_the_flow() -> None:
    """In either order, under the flow's name or its own, several for one flow."""
    app = App()
    app.schedule("0 9 * * 1-5", zone="Europe/Berlin", input="a", tenant="acme", priority=2)(
        app.flow(name="daily")(report)
    )
    app.schedule(every=minutes(15), name="often", missed="all", up_to=3, grace=hours(1), jitter=30, stagger=60)(report)
    found = app.schedules
    assert list(found) == ["daily", "often"]
    flow, first = found["daily"]
    assert (flow.name, first.input, first.tenant, first.priority) == ("daily", "a", "acme", 2)
    assert first.rule == Rule(cron="0 9 * * 1-5", zone="Europe/Berlin")
    assert found["often"][1].rule == Rule(
        every_micros=900 * SECOND,
        missed=Missed.ALL,
        up_to=3,
        grace_micros=3600 * SECOND,
        jitter_micros=30 * SECOND,
        stagger_micros=60 * SECOND,
    )


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda app: app.schedule("0 9 * *"), "has 4 fields"),
        (lambda app: app.schedule("0 9 30 2 *"), 'day-of-month "30" is in no month'),
        (lambda app: app.schedule("0 9 * * *", zone="Mars"), "there is no time zone 'Mars'"),
        (lambda app: app.schedule(), "needs a cron line or an interval"),
        (lambda app: app.schedule("0 9 * * *", every=60), "needs a cron line or an interval"),
        (lambda app: app.schedule(every=0.5), "is no interval"),
        (lambda app: app.schedule(every=-1), "not negative"),
        (lambda app: app.schedule("0 9 * * *", missed="never"), "is no policy for missed slots"),
        (lambda app: app.schedule("0 9 * * *", grace=-5), "grace is -5"),
        (lambda app: app.schedule("0 9 * * *", up_to=1000), "up_to=1000 is not from 1"),
        (lambda app: app.schedule("0 9 * * *", colour="red"), "a schedule has no colour"),
        (lambda app: app.schedule("0 9 * * *", name="a b"), "cannot be named 'a b'"),
    ],
)
def test_what_is_refused(declare: Callable[[App], Any], message: str) -> None:
    """Where it is written, not when the worker starts."""
    with pytest.raises(UsageError, match=message):
        declare(App())


def test_what_is_no_flow() -> None:
    """A schedule starts a flow's runs; two need two names."""
    app = App()
    app.schedule("0 9 * * *")(report)
    with pytest.raises(UsageError, match="is no flow"):
        _ = app.schedules
    app.flow(report)
    app.schedule("0 10 * * *")(report)
    with pytest.raises(UsageError, match='two schedules are named "report"'):
        _ = app.schedules
