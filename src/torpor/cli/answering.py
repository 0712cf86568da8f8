"""`torpor answer`: a question, a callback, a trouble, a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.deciding import decidable, decided
from torpor.cli.options import By, Json, Store, decider, text_of, value_of
from torpor.cli.reading import answered, asked
from torpor.errors import UsageError

if TYPE_CHECKING:
    from torpor.engine.queries.people import InboxItem


def answer(  # noqa: PLR0913, PLR0917 - what can be said to each kind of wait
    wait: Annotated[
        str, typer.Argument(metavar="WAIT|TOKEN", help="A wait's id, from `torpor inbox`, or a callback's token.")
    ],
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="To a question: text, or JSON. To a callback: JSON.")
    ] = None,
    store: Store = None,
    as_json: Json = False,
    happened: Annotated[
        str | None, typer.Option("--happened", help="It did, and gave back this JSON (null: nothing).")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Do it again, or try the run again.")] = False,
    fail: Annotated[str | None, typer.Option("--fail", help="It failed, for this reason; or no to a budget.")] = None,
    more: Annotated[
        str | None,
        typer.Option("--raise", metavar="DOLLARS", help="Raise the limit of a budget that is short, for good."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Allow this once what a budget is short of.")] = False,
    by: By = None,
) -> None:
    """Answer a question or callback; settle an effect or a budget.

    An effect is settled if nobody knows whether it happened, a budget if it is short, a run if it is in trouble: say whether
    it happened, or whether to try it again. The first answer wins.
    """
    from torpor.core.token import looks_like_token

    who = decider(by)
    settles = happened is not None or again or fail is not None or more is not None or once
    if looks_like_token(wait):
        if settles:
            raise UsageError("a callback is answered with a value", hint="torpor answer TOKEN VALUE")
        _deliver(wait, value, who, store, as_json=as_json)
        return
    if value is not None and not settles:
        _answer(wait, value, who, store, as_json=as_json)
        return
    said = (happened is not None, again, fail is not None, more is not None, once, value is not None)
    if sum(said) != 1:
        raise UsageError(
            "an answer is exactly one of VALUE, --happened JSON, --again, --fail TEXT, --raise DOLLARS and --once",
            hint=f"torpor inbox {wait}",
        )
    item = decidable(wait, store, "settle", "trouble", "budget")
    if item.asks == "budget" or more is not None or once:
        done, what = _budget(item, store, who, more, fail, once=once)
        decided(done, item.run, what, who, as_json=as_json)
    elif happened is not None:
        result = value_of(happened, "--happened")
        done = asked(store, lambda client: client.answer(wait, happened=result, by=who))
        decided(done, item.run, "settled: it happened", who, as_json=as_json)
    elif again:
        done = asked(store, lambda client: client.answer(wait, again=True, by=who))
        decided(done, item.run, "settled: again", who, as_json=as_json)
    else:
        done = asked(store, lambda client: client.answer(wait, fail=fail, by=who))
        decided(done, item.run, "settled: it failed", who, as_json=as_json)


def _budget(
    item: InboxItem, store: str | None, who: str, more: str | None, fail: str | None, *, once: bool
) -> tuple[str, str]:
    """Decide about a budget; return the wait and what was decided. Raises UsageError for an answer of another kind."""
    from torpor.cli.render import verbs
    from torpor.core.money import dollars, micros_of

    wait = item.wait
    if item.asks != "budget" or (more is None and fail is None and not once):
        commands = "   or   ".join(command for command, _ in verbs(item))
        raise UsageError(f"{wait} asks about {'a budget' if item.asks == 'budget' else item.what}", hint=commands)
    if more is not None:
        done = asked(store, lambda client: client.raise_budget(wait, more, by=who))
        return done, f"settled: the limit is raised by {dollars(micros_of(more, '--raise'))}"
    if fail is not None:
        return asked(store, lambda client: client.refuse_budget(wait, fail, by=who)), "settled: no"
    return asked(store, lambda client: client.allow_once(wait, by=who)), "settled: allowed this once"


def _answer(wait: str, text: str, who: str, store: str | None, *, as_json: bool) -> None:
    """Answer a question with what a text means to it."""
    from torpor.engine.answers import answer_of

    item = decidable(wait, store, "answer", "callback")
    if item.asks == "callback":
        _deliver(item.wait, text, who, store, as_json=as_json)
        return
    given = text_of(text)
    meant = answer_of(item.content, given)
    done = asked(store, lambda client: client.answer(wait, value=meant, by=who))
    decided(done, item.run, "answered", who, as_json=as_json)


def _deliver(place: str, value: str | None, who: str, store: str | None, *, as_json: bool) -> None:
    """Answer a callback, by its token or by its wait's id."""
    from torpor.core.token import looks_like_token

    given = value_of(value, "the value")
    if looks_like_token(place):
        done = asked(store, lambda client: client.deliver(place, given, sender=who))
    else:
        done = asked(store, lambda client: client.deliver_to(place, given, sender=who))
    said = (
        f"{done.run_id} has its answer"
        if done.new
        else f"{done.run_id} was answered before: this one is already handled"
    )
    lines = [said, f"next: torpor show {done.run_id}"]
    answered({"run": done.run_id, "new": done.new}, lambda _: lines, as_json=as_json)
