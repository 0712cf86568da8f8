"""The client: what a program or a person asks of torpor from outside. Each call is one transaction of the engine.

    async with Client.connect("sqlite:///torpor.db") as client:
        started = await client.start("greet", "Ana", key="greet-ana")
        print(await client.result(started.run_id))

Nothing here is repeated by itself: after StoreUnavailable the caller decides, and a `key` makes a repetition harmless.
"""

from __future__ import annotations

from torpor.client.awaiting import Awaiting
from torpor.client.hearing import Hearing
from torpor.client.history import History
from torpor.client.reading import Reading
from torpor.client.scheduling import Scheduling
from torpor.client.spending import Spending
from torpor.client.starting import Starting
from torpor.client.streaming import Streaming
from torpor.client.waking import Waking


class Client(Starting, Waking, Hearing, Awaiting, Scheduling, Reading, Streaming, Spending, History):
    """Starts runs, wakes them, decides for them and reads about them. Any number of clients may share a store.

    A run is named by its public id (`greet-7Q3D`) or its letters alone, a wait by `w-7q3d-3`. Every method raises
    StoreUnavailable if the store cannot be reached; NotFound and UsageError for an id that names nothing.
    """
