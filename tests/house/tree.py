"""What the tests of the house look at: every file of the project, and each Python file as a syntax tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "bench", "changelog.d", "docs", "examples", "requirements", "scripts", "src", "tests")
LEFT_OUT = frozenset({"__pycache__", ".pytest_cache", ".hypothesis"})


@dataclass(frozen=True)
class Module:
    """One Python file: where it is from the project's root, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """Return the room of torpor that a source file is in, `clock` for `src/torpor/clock.py`."""
        return Path(self.path).parts[2].removesuffix(".py")


def files() -> Iterator[Path]:
    """Yield every file that belongs to the project, not what tools left beside them."""
    for path in sorted(ROOT.iterdir()):
        if path.is_file() and path.name != ".git" and path.suffix not in {".db", ".db-wal", ".db-shm"}:
            yield path
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not LEFT_OUT.intersection(path.parts):
                yield path


def relative(path: Path) -> str:
    """Return a path as people write it: from the project's root."""
    return path.relative_to(ROOT).as_posix()


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers."""
    yield from enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)


@cache
def modules(folder: str) -> tuple[Module, ...]:
    """Return every Python file below `folder`."""
    found = []
    for path in files():
        if path.suffix == ".py" and path.is_relative_to(ROOT / folder):
            text = path.read_text(encoding="utf-8")
            found.append(Module(relative(path), text, ast.parse(text, filename=str(path))))
    return tuple(found)


def imports(module: Module) -> Iterator[tuple[str, int]]:
    """Yield the full name of every module that is imported anywhere in a file, with its line.

    `from torpor import x` names `torpor.x`: whether that is a room or a name of the public face is for the caller.
    What comes from the same folder (`from .x import y`) is not outside and is left out.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level != 1:
            module_name = node.module or ""
            if node.level > 1:
                package = module.path.removesuffix(".py").split("/")[1 : -node.level]
                module_name = ".".join([*package, module_name])
            names = [f"torpor.{alias.name}" for alias in node.names] if module_name == "torpor" else [module_name]
            yield from ((name, node.lineno) for name in names)


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a file, nested ones too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
