"""Large bodies, wherever they are kept: in the database, in a folder, in an object store. One suite for all three."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.buckets import environment, s3
from tests.conformance.world import add, populate
from tests.stores import raw
from torpor import clock
from torpor.blobs.packing import compress, digest_of, unpack
from torpor.core.commit import Blob, Proposal
from torpor.engine.commit import commit
from torpor.engine.leases import claim
from torpor.errors import StoreCorrupt, StoreUnavailable
from torpor.store.opening import open_store
from torpor.store.rows import NewRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stores import Moment, Place
    from torpor.blobs.protocol import Blobs
    from torpor.store.protocol import Store, Tx

CONTENT = b"a large value " * 5_000
DIGEST = bytes.fromhex(digest_of(CONTENT))
BLOB = Blob(DIGEST, compress(CONTENT))
OTHER = Blob(bytes.fromhex(digest_of(b"other")), compress(b"other"))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Return the endpoint of an S3 of our own."""
    with s3() as url:
        yield url


@pytest.fixture(params=["directory", "bucket"])
def address(request: pytest.FixtureRequest, tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of each place outside in turn, empty."""
    if request.param == "directory":
        return str(tmp_path / "blobs")
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    return f"s3://blobs/{tmp_path.name}"


@pytest.fixture(params=["database", "directory", "bucket"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of each place in turn, that of the database itself among them."""
    if request.param == "bucket":
        for name, value in environment(endpoint).items():
            monkeypatch.setenv(name, value)
        return f"s3://blobs/{tmp_path.name}"
    return str(tmp_path / "blobs") if request.param == "directory" else ""


class Watched:
    """A place that calls `before(verb)` before each call."""

    def __init__(self, place: Blobs, before: Callable[[str], None]) -> None:
        """Stand in front of a place."""
        self._place = place
        self._before = before

    def __getattr__(self, name: str) -> Any:
        """Be the place, but say so before."""
        self._before(name)
        return getattr(self._place, name)


def watch(store: Store, before: Callable[[str], None]) -> None:
    """Let `before` be called before each call of the store's place outside."""
    outside = store._outside  # type: ignore[attr-defined]  # noqa: SLF001 - no verb of a store shows it
    outside.place = Watched(outside.place, before)


def read(store: Store, *digests: bytes) -> dict[bytes, bytes]:
    """Return blobs as an operation that looks into them gets them."""
    found: dict[bytes, bytes] = store.transact_now(lambda tx: tx.get_blobs(digests))
    return found


def body_of(store: Store) -> bytes:
    """Return what the row of the blob holds."""
    kept = store.transact_now(lambda tx: raw(tx).execute("SELECT digest, body FROM blobs").fetchall())
    return bytes({bytes(digest): body for digest, body in kept}[DIGEST])


def put(store: Store, run: int, *blobs: Blob) -> None:
    """Let a run name blobs."""
    store.transact_now(lambda tx: tx.put_blobs([(run, blob) for blob in blobs]))


def sweep(store: Store, moment: Moment) -> int:
    """Sweep everything that is older than now."""
    moment.advance(10)
    swept: int = store.transact_now(lambda tx: tx.sweep_blobs(before=moment.at, limit=9))
    return swept


def test_what_is_read_is_what_was_put(place: Place, anywhere: str, moment: Moment) -> None:
    """Kept once for two runs, read at once or after the commit, swept when nobody names it."""
    store = place.open(blobs=anywhere)
    one, two = populate(store, 2).runs
    put(store, one, BLOB)
    put(store, two, BLOB, OTHER)
    later = store.transact_now(lambda tx: tx.get_blobs([DIGEST, OTHER.digest, b"none"], later=True))
    assert later == read(store, DIGEST, OTHER.digest, b"none") == {DIGEST: BLOB.body, OTHER.digest: OTHER.body}
    assert unpack(later[DIGEST], DIGEST.hex()) == CONTENT
    assert body_of(store) == (b"@" + anywhere.encode() if anywhere else BLOB.body)
    assert sweep(store, moment) == 0
    store.transact_now(lambda tx: tx.drop_runs([two]))
    assert sweep(store, moment) == 1
    assert read(store, DIGEST, OTHER.digest) == {DIGEST: BLOB.body}
    store.transact_now(lambda tx: tx.drop_runs([one]))
    assert (sweep(store, moment), sweep(store, moment)) == (1, 0)
    put(store, 7, BLOB)
    assert read(store, DIGEST) == {DIGEST: BLOB.body}, "swept and put again"


def test_a_claim_brings_its_blobs_and_is_run_once(place: Place, anywhere: str) -> None:
    """What it only passes on is read after its commit, so nobody reads in vain what somebody else claims."""
    store = place.open(blobs=anywhere)
    world = populate(store, 0)
    tries = []

    def start(tx: Tx) -> None:
        run = tx.insert_runs([NewRun(world.program, world.tenant, b"\0" + DIGEST)])[0]
        tx.put_blobs([(run, BLOB)])

    def counted(tx: Tx) -> Any:
        tries.append(tx)
        return claim(tx, world.worker, [world.program], 9, 5, 0)

    store.transact_now(start)
    claimed, blobs = store.transact_now(counted)
    assert ([one.state.body for one in claimed], blobs) == ([b"\0" + DIGEST], {DIGEST: BLOB.body})
    assert len(tries) == 1


def test_no_transaction_waits_for_the_place(shared: Place, address: str) -> None:
    """While it is written to or read from, somebody else changes the very run that is about to name the blob."""
    store, other = shared.open(blobs=address), shared.open()
    run = populate(store, 1).runs[0]
    met: list[str] = []

    def change(tx: Tx) -> None:
        tx.get_runs([run], lock=True)
        tx.put_meta("met", "yes")

    def meet(verb: str) -> None:
        other.transact_now(change)
        met.append(verb)

    def name_it(tx: Tx) -> None:
        tx.get_runs([run], lock=True)
        tx.put_meta("met", "no")
        tx.put_blobs([(run, BLOB)])

    watch(store, meet)
    store.transact_now(name_it)
    assert read(store, DIGEST) == {DIGEST: BLOB.body}
    assert met == ["put_packed", "get_packed"]


def test_a_refused_commit_uploads_nothing(place: Place, address: str) -> None:
    """Only those that passed the fence are put outside."""
    store = place.open(blobs=address)
    world = populate(store, 1)
    lease = world.claim()[0].lease
    asked: list[str] = []
    watch(store, asked.append)
    entries = add(lease).entries
    stale = Proposal(lease.run_id, lease.token, lease.epoch, lease.head + 1, list(entries), blobs=[BLOB])
    assert store.transact_now(commit, [stale])[0].refused is not None
    assert asked == []
    good = Proposal(lease.run_id, lease.token, lease.epoch, lease.head, list(entries), blobs=[BLOB])
    assert store.transact_now(commit, [good])[0].refused is None
    assert asked == ["put_packed"]
    assert len(store.transact_now(lambda tx: tx.journal(lease.run_id))) == 1, "once, although it was run twice"
    assert read(store, DIGEST) == {DIGEST: BLOB.body}


def test_a_place_that_cannot_be_written_refuses_the_commit(place: Place, address: str) -> None:
    """Nothing names a blob that is not there."""
    store = place.open(blobs=address)
    run = populate(store, 1).runs[0]

    def away(verb: str) -> None:
        raise StoreUnavailable(f"no {verb}")

    watch(store, away)
    with pytest.raises(StoreUnavailable, match="no put_packed"):
        put(store, run, BLOB)
    assert read(store, DIGEST) == {}


def test_a_lost_or_damaged_blob_is_said_when_it_is_unpacked(place: Place, tmp_path: Path) -> None:
    """It names digest and place, and does not keep the others from being read."""
    address = tmp_path / "blobs"
    store = place.open(blobs=str(address))
    put(store, populate(store, 1).runs[0], BLOB, OTHER)
    file = address / DIGEST.hex()[:2] / DIGEST.hex()
    file.write_bytes(BLOB.body[:-9])
    for later in (False, True):
        found = store.transact_now(lambda tx, later=later: tx.get_blobs([DIGEST, OTHER.digest], later=later))
        with pytest.raises(StoreCorrupt, match=f"{DIGEST.hex()} in {address} is damaged"):
            unpack(found[DIGEST], DIGEST.hex())
        assert found[OTHER.digest] == OTHER.body
    file.unlink()
    with pytest.raises(StoreCorrupt, match=f"{DIGEST.hex()} is missing from {address}") as missing:
        unpack(read(store, DIGEST)[DIGEST], DIGEST.hex())
    assert "backup" in missing.value.hint
    put(store, 7, BLOB)
    assert read(store, DIGEST)[DIGEST] == BLOB.body, "the next one who has it heals it"


def test_a_place_that_cannot_be_read_now_is_said_so(place: Place, address: str) -> None:
    """Unavailable, not corrupt: whoever needs it may try again."""
    store = place.open(blobs=address)
    put(store, populate(store, 1).runs[0], BLOB)

    def away(verb: str) -> None:
        raise StoreUnavailable(f"no {verb}", hint="wait")

    watch(store, away)
    with pytest.raises(StoreUnavailable, match="no get_packed") as said:
        unpack(read(store, DIGEST)[DIGEST], DIGEST.hex())
    assert said.value.hint == "wait"


def test_processes_that_were_told_different_places(place: Place, tmp_path: Path) -> None:
    """The error names both; a process with no place reads and heals what lies in the database."""
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    store = place.open(blobs=here)
    run = populate(store, 1).runs[0]
    put(store, run, BLOB)
    if place.kind == "memory":
        return  # another store is another database
    with pytest.raises(StoreCorrupt, match=f"put into {here}; it is not in {there}") as said:
        unpack(read(place.open(blobs=there), DIGEST)[DIGEST], DIGEST.hex())
    assert f"TORPOR_BLOBS={here}" in said.value.hint
    plain = place.open()
    with pytest.raises(StoreCorrupt, match=f"lies in {here}, and this process was told no place") as said:
        unpack(read(plain, DIGEST)[DIGEST], DIGEST.hex())
    assert f"TORPOR_BLOBS={here}" in said.value.hint
    put(plain, run, BLOB)
    assert read(plain, DIGEST) == read(store, DIGEST) == {DIGEST: BLOB.body}


def test_a_process_without_the_place_sweeps_only_the_database(shared: Place, address: str, moment: Moment) -> None:
    """It could not delete outside, so it keeps the row."""
    store = shared.open(blobs=address)
    run = populate(store, 1).runs[0]
    put(store, run, BLOB)
    store.transact_now(lambda tx: tx.drop_runs([run]))
    assert sweep(shared.open(), moment) == 0
    assert sweep(store, moment) == 1


def test_a_blob_that_is_named_while_it_is_swept_is_kept(shared: Place, address: str, moment: Moment) -> None:
    """The worst moment: the writer's put came before the delete. It finds the row that says so, and keeps the body there."""
    store, other = shared.open(blobs=address), shared.open(blobs=address)
    one, two = populate(store, 2).runs
    put(store, one, BLOB)
    store.transact_now(lambda tx: tx.drop_runs([one]))

    def between(verb: str) -> None:
        if verb == "delete":
            put(other, two, BLOB)

    watch(store, between)
    outside = store._outside  # type: ignore[attr-defined]  # noqa: SLF001 - age would hide the race: it looks old
    delete = outside.delete
    outside.delete = lambda digests, _: delete(digests, clock.wall() + 3_600 * clock.SECOND)
    assert sweep(store, moment) == 1
    assert read(other, DIGEST) == {DIGEST: BLOB.body}
    assert body_of(other) == BLOB.body
    assert sweep(store, moment) == 0


def test_a_sweep_that_could_not_delete_tries_again(place: Place, address: str, moment: Moment) -> None:
    """The row stays until the content is gone."""
    store = place.open(blobs=address)
    run = populate(store, 1).runs[0]
    put(store, run, BLOB)
    store.transact_now(lambda tx: tx.drop_runs([run]))
    away = [StoreUnavailable("no delete")]

    def fails_once(verb: str) -> None:
        if verb == "delete" and away:
            raise away.pop()

    watch(store, fails_once)
    with pytest.raises(StoreUnavailable, match="no delete"):
        sweep(store, moment)
    assert body_of(store)[:1] == b"~"
    assert (sweep(store, moment), sweep(store, moment)) == (1, 0)


def test_what_no_row_names_is_swept_too(place: Place, address: str, moment: Moment) -> None:
    """A writer that died between its put and its commit leaves content that no row knows."""
    store = place.open(blobs=address)
    put(store, populate(store, 1).runs[0], OTHER)
    outside: Any = store._outside  # type: ignore[attr-defined]  # noqa: SLF001 - what a writer does before it dies
    outside.put({DIGEST: BLOB.body})
    assert sweep(store, moment) == 1
    assert list(outside.place.untouched_since(clock.wall() + clock.SECOND)) == [OTHER.digest.hex()]
    assert sweep(store, moment) == 0


def test_a_transactional_effect_is_not_run_twice(place: Place, address: str) -> None:
    """Once the connection was lent a large body stays in the database, in the same transaction."""
    store = place.open(blobs=address)
    run = populate(store, 1).runs[0]
    acted = []

    def act(tx: Tx) -> None:
        with tx.lend():
            acted.append(tx)
        tx.put_blobs([(run, BLOB)])

    store.transact_now(act)
    assert len(acted) == 1
    assert body_of(store) == BLOB.body
    assert read(store, DIGEST) == {DIGEST: BLOB.body}


def test_an_address_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same place for a process that works elsewhere."""
    monkeypatch.chdir(tmp_path)
    store = open_store("torpor.db", blobs="blobs")
    put(store, 1, BLOB)
    assert body_of(store) == b"@" + str(tmp_path / "blobs").encode()
    store.close_now()
