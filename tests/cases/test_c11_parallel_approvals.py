"""C11: parallel calls, some of which need approval.

One answer calls A (free), B and C (both need a person). C is approved, the worker is killed, B is denied. Right: two distinct
questions at once; A ran once; C ran once and not before it was approved; B's result says that it was denied; results go
back in call order, and the model is asked once, after all three are settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.agent.scripted import SEEN, agent_of, asked, forget, results
from tests.worker.labs import on
from torpor import App
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


def look(at: str) -> str:
    """Look at something."""
    SEEN[f"look {at}"] += 1
    return f"saw {at}"


def send(to: str) -> str:
    """Send something."""
    SEEN[f"send {to}"] += 1
    return f"sent to {to}"


app = App()
SCRIPT = Script([call("look", at="A"), call("send", to="B"), call("send", to="C")], "done")
clerk = app.agent("clerk", agent_of(SCRIPT, look, send), approve={"send": True}, safety={"look": "once"})


def test_each_answer_goes_to_its_own_call(store: Store, moment: Moment) -> None:
    """Whoever takes the run up in between (G10)."""
    forget(SCRIPT)

    async def check(lab: Lab) -> None:
        run = await lab.start(clerk, "do it")
        await lab.settle()
        asks = {wait.show["show"]["to"]: wait for wait in await lab.waits(run)}
        assert sorted(asks) == ["B", "C"]
        assert SEEN == {"look A": 1}
        await lab.approve(asks["C"], by="ada")
        await lab.settle()
        assert SEEN == {"look A": 1, "send C": 1}
        await lab.kill()
        await lab.settle()
        (left,) = await lab.waits(run)
        assert left.show["show"] == {"to": "B"}
        assert asked(SCRIPT) == [0]
        await lab.deny(left, by="bob", note="not him")
        assert await lab.result(run) == "done"
        assert SEEN == {"look A": 1, "send C": 1}
        assert asked(SCRIPT) == [0, 1]
        assert results(SCRIPT) == [
            ("look", "saw A", "success"),
            ("send", "bob denied this call of send: not him. It was not made.", "denied"),
            ("send", "sent to C", "success"),
        ]

    on(store, moment, app, check)
