"""A process that has loaded everything a worker needs, and forks one for whoever asks: a sweep starts two hundred.

It reads a line of JSON for each worker on standard input, and says on standard output who started, with which process
number, and how it ended. It is ended by the kernel when whoever started it is gone, and so are its workers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from torpor.demo.tether import end_with


class Nest:
    """Who was forked, by process number."""

    def __init__(self) -> None:
        """Load what workers need, before the first one is asked for."""
        from torpor.demo.agent import deaths, errand, worker

        worker.model_of("")  # a model loads prices
        self._say = deaths.say
        self._errand = errand.Errand
        self._serve = worker.serve
        self._who: dict[int, str] = {}
        signal.signal(signal.SIGCHLD, self._bury)

    def fork(self, errand: dict[str, Any]) -> None:
        """Fork a worker."""
        nest = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # it may end before its number is known
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
                end_with(nest)
                nothing = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nothing, 0)
                code = self._serve(self._errand(**errand))
            finally:
                os._exit(code)
        self._who[pid] = errand["who"]
        self._say(event="started", who=errand["who"], pid=pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _bury(self, *_: object) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._say(event="ended", who=self._who.pop(pid), code=os.waitstatus_to_exitcode(status))


def main() -> None:
    """Fork a worker for each line: `python -m torpor.demo.agent.nest PARENT`."""
    end_with(int(sys.argv[1]))
    nest = Nest()
    for line in sys.stdin:
        nest.fork(json.loads(line))


if __name__ == "__main__":
    main()
