"""The composition root: the only file that knows everyone. It puts a store, a worker and a waker into one process."""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torpor import rouse
from torpor.client import Client, blobs_address
from torpor.errors import StoreUnavailable, UsageError
from torpor.rouse.detectors.pulse import Pulse, patient_detectors
from torpor.sdk.app import App
from torpor.store import values
from torpor.store.opening import check_schema, open_store
from torpor.waker import TICK_SECONDS, Waker
from torpor.worker import guests
from torpor.worker.outside_word import hear
from torpor.worker.quiet import why_none
from torpor.worker.snapshot_door import answering
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import ModuleType

    from torpor.sdk.app import Flow
    from torpor.store.protocol import Store


def load_app(place: str) -> App:
    """Return the App of `hello.py`, `hello.py:app`, `package.module` or `package.module:app`. Raises UsageError.

    A file is imported under its stem, with its folder on the path, as `python hello.py` would.
    """
    where, _, name = place.partition(":")
    try:
        module = _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    except Exception as error:
        refused = _of_models(error, where)
        raise error if refused is None else refused from error
    found = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    if name:
        if name not in found:
            message = f"{where} has no App named {name!r} (it has: {', '.join(found) or 'none'})"
            raise UsageError(message, hint="app = App() at the top of the file")
        return found[name]
    distinct = {id(value): value for value in found.values()}
    if len(distinct) != 1:
        message = f"{where} has {len(distinct)} Apps ({', '.join(found) or 'none'})"
        raise UsageError(message, hint=f"name one: {where}:app" if distinct else "app = App() at the top of the file")
    return next(iter(distinct.values()))


def _of_models(error: Exception, where: str) -> UsageError | None:
    """Return what to say of a file whose agent cannot be made here: no key, no such model, no pydantic-ai. Else None."""
    if isinstance(error, ModuleNotFoundError) and error.name in {"pydantic_ai", "genai_prices"}:
        return UsageError(f"{where} has an agent, and pydantic-ai is not here", hint="pip install 'torpor[agent]'")
    kind = type(error)
    if kind is ImportError and str(error).startswith(
        "Please install "
    ):  # as pydantic-ai says it, of a provider's package
        said, _, how = str(error).partition(", you can use ")
        return UsageError(f"{where}: {said}", hint=how.partition(" — ")[2].strip("`") or "pip install it")
    if (kind.__module__, kind.__name__) != ("pydantic_ai.exceptions", "UserError"):
        return None
    said = str(error).partition("\n")[0]
    hint = "nothing was taken up, and runs stay asleep; mend it in the environment or in the file, then again"
    return UsageError(f"{where}: {said}", hint=hint)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        message = f"there is no file {path}"
        raise UsageError(message, hint="torpor init writes one to begin with")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == path.resolve():
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        message = f"{path} cannot be loaded as Python"
        raise UsageError(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _load_module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise
        message = f"there is no module {name!r}"
        raise UsageError(message, hint="give a file (hello.py) or a module that can be imported here") from error


class Process:
    """A worker and a waker on one store, in one process."""

    def __init__(self, store: Store, app: App, *, programs: Sequence[str] = (), **options: Any) -> None:
        """Wire them; nothing runs before `run`. `options` are `Worker`'s.

        With `programs` only these of the app are served. Raises UsageError for one it has not.
        """
        if not app.flows:
            message = "the app has no flow"
            raise UsageError(message, hint="@app.flow above an async function")
        self.store = store
        missing = [name for name in programs if name not in app.flows]
        if missing:
            has = ", ".join(sorted(app.flows))
            message = f'no program named "{missing[0]}" in the app (it has: {has})'
            raise UsageError(message)
        flows = {name: flow for name, flow in app.flows.items() if not programs or name in programs}
        self.worker = Worker(store, flows, **options)
        self.worker.schedules = app.schedules
        self._pulse = Pulse(rouse.Clocks(), TICK_SECONDS)  # a loop that a flow blocks is not taken for a freeze
        self.worker.detectors = patient_detectors(rouse.Limits(tick_seconds=TICK_SECONDS), self._pulse)
        self.waker = Waker(store, lease_seconds=self.worker.lease_seconds, detectors=self.worker.detectors)
        self.alone = False
        """Whether this process is a worker and nothing else: then it hears of wakes at once, and of snapshots."""
        self.snapshot_socket = ""
        """Where a host says that it takes a snapshot, if this process is alone (`worker.snapshot_door`)."""
        self.worker.on_due = self.waker.soon
        self.waker.on_ready, self.waker.on_away = self.worker.wake, self.worker.look_now.set

    async def run(self, *, signals: bool = False) -> None:
        """Work until stopped, or idle if the worker was told so. With `signals`, SIGTERM and SIGINT drain.

        Raises StoreUnavailable once the worker must never act again: its life lock is lost. What the waker dies of ends the
        worker too, and is raised: nobody would wake what sleeps.
        """
        loop = asyncio.get_running_loop()
        if signals:
            tune()
            self.alone = True
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.worker.stop)
        if not self.alone:
            await self._run()
            return
        async with answering(self.snapshot_socket, self._opened, self._why_no_snapshot):
            hearing = asyncio.create_task(self._hear())
            try:
                await self._run()
            finally:
                hearing.cancel()
                with suppress(asyncio.CancelledError):
                    await hearing

    async def _hear(self) -> None:
        await self.worker.ready.wait()  # opening takes some ten milliseconds, which a worker's start need not wait for
        await hear(self.worker.registry, self.worker.look_now.set)

    def _opened(self) -> None:
        if self.worker.ready.is_set():
            self.worker.standing.try_now()

    async def _why_no_snapshot(self) -> str:
        try:
            async with asyncio.timeout(self.worker.snapshot_seconds):
                await self.worker.ready.wait()
        except TimeoutError:
            return f"after {self.worker.snapshot_seconds:g} s the worker has not started yet"
        return why_none(self.worker)

    async def _run(self) -> None:
        self._pulse.start()
        wakes = asyncio.create_task(self.waker.run())
        wakes.add_done_callback(lambda _: self.worker.stop())
        try:
            await self.worker.run()
        finally:
            self._pulse.stop()
            await guests.left()
            wakes.cancel()
            with suppress(asyncio.CancelledError):
                await wakes
        if self.worker.standing.gone:
            message = f"{self.worker.name} ended: {self.worker.standing.gone}"
            raise StoreUnavailable(message, hint="start it again; its runs go on elsewhere meanwhile, nothing is lost")


def tune() -> None:
    """Set up a process that is a worker and nothing else.

    What is loaded stays: the collector need not look at it again, nor at every 700 new objects (a fifth of a step's time
    was collection). Nothing is collected before: that took 20 ms of a worker's start and found nothing. Store threads get
    the interpreter's lock within half a millisecond instead of five. After a rousal the libraries of this process are made
    sound (`rouse.adapt`): random generators, the connections of model clients and of an author.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    sys.setswitchinterval(0.0005)
    rouse.adapt()


@asynccontextmanager
async def opened(url: str, *, create: bool = True, blobs: str | None = None) -> AsyncIterator[Store]:
    """Open a store, its schema up to date if it is new; close it at the end. Raises StoreError.

    `blobs` is where its large values are kept; None: as TORPOR_BLOBS says.
    """
    store = open_store(url, create=create, blobs=blobs_address(blobs))
    try:
        await asyncio.to_thread(check_schema, store)
        yield store
    finally:
        await store.close()


async def run(
    app: App,
    flow: Callable[..., Any] | str,
    state: Any = None,
    *,
    store: str = ":memory:",
    key: str | None = None,
    timeout_seconds: float | None = None,
) -> Any:
    """Start a run, work on it here until it ends, and return its result; for scripts and notebooks.

    With a file or a server as `store` the run survives this process: the same `key` goes on with it. Raises UsageError for a
    state that does not fit the flow's annotation, RunFailed, RunCancelled, NeedsPerson if it waits for a person, TimeoutError.
    """
    name = flow if isinstance(flow, str) else _flow_name(app, flow)
    if name in app.flows:
        check_input(app.flows[name], state)
    async with opened(store) as place:
        process = Process(place, app)
        working = asyncio.create_task(process.run())
        try:
            await process.worker.ready.wait()
            client = Client(place)
            started = await client.start(name, state, key=key)
            result = asyncio.create_task(client.result(started.run_id, timeout_seconds=timeout_seconds, person="raise"))
            await asyncio.wait([working, result], return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                result.cancel()
                await working
            return await result
        finally:
            process.worker.stop()
            with suppress(Exception):
                await working


def check_input(flow: Flow, value: Any) -> None:
    """Raise UsageError if an input does not fit the annotation of the flow's state; nothing was started then."""
    if not flow.takes_state or flow.state_type is None:
        return
    try:
        values.decode(values.encode(value, path="input"), hint=flow.state_type)
    except UsageError as error:
        if not error.message.startswith(values.MISFIT):
            raise
        raise UsageError(error.message, hint=f"nothing was started; {flow.source} says what it takes") from error


def _flow_name(app: App, function: Callable[..., Any]) -> str:
    for flow in app.flows.values():
        if flow.function is function:
            return flow.name
    message = f"{getattr(function, '__name__', function)!r} is not a flow of this app"
    raise UsageError(message, hint="@app.flow above it")
