"""PgBouncer for the tests, in transaction mode: Debian's, which passes on less than newer ones do.

It hands its connections to the server around in turn, so that no two transactions of a client can count on one.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.servers import free_port, owner

if TYPE_CHECKING:
    from collections.abc import Iterator

PGBOUNCER = Path("/usr/sbin/pgbouncer")
_UP = "process up"
_CONFIGURATION = """[databases]
* = host={host} port={server_port} user={role}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
server_round_robin = 1
log_connections = 0
log_disconnections = 0
log_pooler_errors = 0
log_stats = 0
"""


@contextmanager
def pooler(server_url: str, role: str, *, size: int = 20, mode: str = "transaction") -> Iterator[str]:
    """Give the URL of a pooler of its own before a server, which lets everybody in as `role`."""
    assert PGBOUNCER.is_file(), "install pgbouncer: make apt"
    parts = urlsplit(server_url)
    with tempfile.TemporaryDirectory(prefix="torpor-pgbouncer-") as folder:
        port = free_port()
        entry = pwd.getpwnam(owner())
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        conf = Path(folder) / "pgbouncer.ini"
        conf.write_text(
            _CONFIGURATION.format(
                host=parts.hostname, server_port=parts.port or 5432, role=role, port=port, mode=mode, size=size
            )
        )
        conf.chmod(0o644)
        as_owner: dict[str, Any] = {}
        if os.getuid() == 0:  # it refuses to be run by root
            as_owner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        with subprocess.Popen(
            [PGBOUNCER, str(conf)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/", **as_owner
        ) as process:
            assert process.stderr is not None
            said: list[str] = []
            while not said or _UP not in said[-1]:
                said.append(process.stderr.readline())
                assert said[-1], "".join(said)
            try:
                yield f"postgresql://anybody@127.0.0.1:{port}{parts.path}"
            finally:
                process.terminate()
                process.wait()
