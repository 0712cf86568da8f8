"""Draws from OpenSSL a block at a time, and reports each: `counting.py FOLDER`.

It takes one letter from its standard input, its name, and from then on reads a command a line from `FOLDER/NAME.in`
and answers in `FOLDER/NAME.out`: `draw CALLS` with a digest of all bytes of the block, `values` with the bytes themselves.
Copied while it waits for its name, each copy takes another.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import sys

BYTES = 4
ssl.RAND_bytes(BYTES)
sys.stdout.write("ready\n")
sys.stdout.flush()
name = os.read(0, 1).decode()
block = b""
with open(f"{sys.argv[1]}/{name}.in") as asked, open(f"{sys.argv[1]}/{name}.out", "w") as answers:  # noqa: PTH123 - two pipes
    for line in asked:
        command, *words = line.split()
        if command == "draw":
            draw = ssl.RAND_bytes
            block = b"".join([draw(BYTES) for _ in range(int(words[0]))])
            answers.write(hashlib.sha256(block).hexdigest() + "\n")
        else:
            answers.write(block.hex() + "\n")
        answers.flush()
