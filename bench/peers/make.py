"""Makes the environments of the peers: a venv each from its pinned requirements, and Restate's server from npm.

    python bench/peers/make.py [NAME ...]

They lie in `.peers` at the root of the project. What is there and was made from the same requirements is left alone. A peer
whose packages cannot be had is left out, and said.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MADE = HERE.parents[1] / ".peers"
NAMES = ("dbos", "langgraph", "absurd", "restate", "temporal")
SERVER = Path("node_modules/@restatedev/restate-server-linux-x64/bin/restate-server")
_LETTERS = 2000


def python_of(name: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return MADE / name / "bin" / "python"


def servers_of(name: str) -> dict[str, str]:
    """Return the variables that tell a peer's program where its server's binary is."""
    if name == "restate":
        return {"RESTATE_SERVER": str(MADE / name / SERVER)}
    return {"TEMPORAL_SERVER": str(MADE / name / "bin" / "temporal")} if name == "temporal" else {}


def _wanted(name: str) -> str:
    texts = [(HERE / "requirements" / f"{name}.txt").read_bytes()]
    if name == "restate":
        texts.append((HERE / "restate" / "package.json").read_bytes())
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout)[-_LETTERS:])


def make(name: str) -> bool:
    """Make a peer's environment unless it is there, and return whether it is. What went wrong is told."""
    folder = MADE / name
    note = folder / "made-from"
    if note.is_file() and note.read_text("ascii") == _wanted(name):
        return True
    shutil.rmtree(folder, ignore_errors=True)
    sys.stderr.write(f"making the environment of {name}\n")
    try:
        _run(sys.executable, "-m", "venv", folder)
        _run(python_of(name), "-m", "pip", "install", "-q", "-r", HERE / "requirements" / f"{name}.txt")
        if name == "restate":
            shutil.copy(HERE / "restate" / "package.json", folder)
            _run("npm", "install", "--silent", cwd=folder)
    except (RuntimeError, OSError) as error:
        sys.stderr.write(f"{name} is left out: {error}\n")
        return False
    note.write_text(_wanted(name), "ascii")
    return True


def main() -> None:
    """Make those that are named, or all."""
    missing = [name for name in sys.argv[1:] or NAMES if not make(name)]
    if missing:
        sys.exit(f"without: {', '.join(missing)}")


if __name__ == "__main__":
    main()
