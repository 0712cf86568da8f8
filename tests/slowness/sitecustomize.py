"""What Python imports first in a process that a slowed test started: it begins late, and is slow."""

from __future__ import annotations

import os

from tests.slowness import slow

if slow.SLOWNESS in os.environ:
    slow.begin(f"{os.environ[slow.SLOWNESS]}").pause(rarely=3.0)
