"""The kinds of calls of a turn as others see them; a part's own file has the whole of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torpor.core.journal import Entry
    from torpor.core.token import Named
    from torpor.core.wait import Delivery, Open, Signal
    from torpor.sdk.port import Request
    from torpor.sdk.steps import Answer
    from torpor.worker.call import Call


class Effects(Protocol):
    """The effects of a turn, to who asks `verify` for them, interrupts, or holds them back."""

    going: dict[str, Call]

    def ask_gate(self, call: Call) -> None:
        """Ask whether the effect may start now."""

    def record_intent(self, request: Request, attempt: int) -> None:
        """Gather an intent."""

    def verified(self, call: Call, answer: Answer, why: str, error: BaseException | None) -> None:
        """Take what `verify` said."""


class Questions(Protocol):
    """The questions of a turn, to the effects, which ask some of their own, and to who consumes what satisfies waits."""

    def asked_before(self, request: Request, seq: int) -> Open:
        """Return the open wait of a question that was asked before."""

    def forget(self, seq: int) -> None:
        """Close a question that code does not ask any more."""

    def decided(self, wait: Open, delivery: Delivery) -> None:
        """Turn a person's decision, or an expiry, into entries."""


class Children(Protocol):
    """The children of a turn, to who consumes news of them."""

    def consume(self, delivery: Delivery) -> None:
        """Turn news of children into entries."""


class Spending(Protocol):
    """The calls of a turn about budgets and rates, to the questions and to who consumes."""

    def look_again(self) -> None:
        """Ask again for money that was short, if the run was woken since it asked."""

    def decided(self, wait: Open, delivery: Delivery) -> None:
        """Come to one's place in a rate bucket, or take what a person said about money."""


class Arrivals(Protocol):
    """The waits of a turn that a signal of a reserved name ends."""

    def named(self, request: Request) -> Named:
        """Return what a callback's token names."""

    def consumed(self, wait: Open, signal: Signal) -> Entry:
        """Return the entry that consumes a signal."""

    def expired(self, wait: Open, at: int) -> None:
        """Record that nothing came in time."""
