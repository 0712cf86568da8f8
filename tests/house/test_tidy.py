"""Style is a test: sizes, words, and who may import what from outside torpor."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import ROOT, Module, files, functions, imports, modules, numbered, relative
from tests.house.words import ASYNCIO_OWN, BANNED_NAMES, BANNED_PARTS, FORCED

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_LINES = 400
FUNCTION_LINES = 70

LONG_FILES: dict[str, str] = {}
"""Files that may be longer, each with the reason."""

CORE_MAY_IMPORT = frozenset(
    {
        "__future__",
        "base64",
        "bisect",
        "collections",
        "collections.abc",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "struct",
        "types",
        "typing",
    }
)
"""What the rules may take from the standard library: nothing in it has an effect, asks for the time or draws a number."""

ONE_ROOM = {
    "sqlite3": "store/sqlite",
    "psycopg": "store/postgres",
    "psycopg_pool": "store/postgres",
    "obstore": "blobs",
    "cronsim": "almanac",
    "genai_prices": "agent",
}
"""Packages that exactly one room knows."""

NOWHERE = ("fastapi",)
"""Packages whose rooms do not exist."""

MODEL_ROOMS = ("src/torpor/agent/", "src/torpor/demo/agent/", "src/torpor/testing/")
"""The rooms that may import pydantic_ai."""

FACE_USERS = frozenset({"__init__", "bench", "cli", "demo"})
"""Rooms that are written like an author's own code, the one that prints the version, and the face itself."""

TIME_ROOMS = frozenset({"clock", "rouse"})
TIME_READERS = {
    "time": re.compile(r"(time|monotonic|perf_counter|process_time|thread_time|clock_gettime|gmtime|localtime)(_ns)?"),
    "datetime": re.compile(r"now|utcnow|today"),
    "date": re.compile(r"today"),
}
"""Which attribute of which name asks the machine for the time."""

SLEEPERS = frozenset({"time", "asyncio", "anyio"})


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Let go of the trees at the end: millions of objects through which every later collection of garbage would walk."""
    yield
    modules.cache_clear()


def definitions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every name that a file itself gives, with its line; names it merely uses are somebody else's choice."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node.lineno


def parts(name: str) -> set[str]:
    """Return the words of an identifier: `TaskTable` and `run_task` both contain `task`."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def banned_in(name: str) -> set[str]:
    """Return the banned words that a name contains."""
    whole = name.lower().strip("_")
    return set() if name in FORCED else (parts(name) & BANNED_PARTS) | ({whole} & BANNED_NAMES)


def banned_names(module: Module) -> Iterator[str]:
    """Yield each name of a file that contains a banned word, its place first."""
    own = ASYNCIO_OWN if any(name.split(".")[0] == "asyncio" for name, _ in imports(module)) else frozenset[str]()
    for name, line in definitions(module.tree):
        if words := banned_in(name) - own:
            yield f"{module.path}:{line} {name}: {', '.join(sorted(words))}"


def all_modules() -> tuple[Module, ...]:
    """Return every Python file of source and tests."""
    return modules("src") + modules("tests")


def test_files_are_short() -> None:
    """A file that outgrows one sitting is two files."""
    lengths = {module.path: len(module.text.splitlines()) for module in all_modules()}
    long = {path: length for path, length in lengths.items() if length > FILE_LINES}
    assert {path: length for path, length in long.items() if path not in LONG_FILES} == {}
    assert set(LONG_FILES) <= set(long), "a file that is listed as long is not long any more"


def test_functions_are_short() -> None:
    """A function fits on a screen."""
    lengths = {
        f"{module.path}:{function.lineno} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for module in all_modules()
        for function in functions(module)
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES} == {}


def test_a_banned_word_is_found() -> None:
    """The search for words sees every way of giving a name, and leaves what asyncio owns alone."""
    text = "class JobTable: ...\ndef f(session, *, data): handle = x.utils = [common for common in data]\nimport a as helper\n"
    found = [line.split()[1].rstrip(":") for line in banned_names(Module("x.py", text, ast.parse(text)))]
    assert sorted(found) == ["JobTable", "common", "data", "handle", "helper", "session", "utils"]
    asyncio_text = "import asyncio\nbase_seconds = 1\ntask = asyncio.create_task(f())\n"
    assert list(banned_names(Module("y.py", asyncio_text, ast.parse(asyncio_text)))) == []


def test_no_banned_words_in_names() -> None:
    """One word, one meaning: docs/glossary.md."""
    assert [line for module in all_modules() for line in banned_names(module)] == []


def test_no_banned_words_in_file_names() -> None:
    """Files and folders keep to the words too."""
    found = {
        relative(path): sorted(words)
        for path in files()
        for part in Path(relative(path)).parts
        if (words := banned_in(part.split(".")[0].replace("-", "_")))
    }
    assert found == {}


def test_nothing_is_left_for_later() -> None:
    """What is not there is not announced: no notes to oneself, no stubs, no tests that do not run."""
    marks = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error")))
    skips = re.compile("|".join((r"pytest\.sk" + "ip", r"mark\.sk" + "ip", r"mark\.xf" + "ail")))
    found = [
        f"{relative(path)}:{number} {line.strip()}"
        for path in files()
        for number, line in numbered(path)
        if marks.search(line) or skips.search(line)
    ]
    assert found == []


def test_no_machine_paths() -> None:
    """The project names no place of the machine it was written on, and no registry."""
    places = ("/work" + "/", "/root" + "/", "/home" + "/", "pypi" + ".org", "python" + "hosted", "deb." + "debian")
    found = [
        f"{relative(path)}:{number} {place}"
        for path in files()
        for number, line in numbered(path)
        for place in places
        if place in line
    ]
    assert found == []


def sleeps(node: ast.AST, *, under_test: bool = False) -> Iterator[int]:
    """Yield the line of each sleep by the machine's clock. Inside a flow or step (it takes `ctx`) sleeping is the test."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        under_test = under_test or "ctx" in {arg.arg for arg in node.args.args}
    if isinstance(node, ast.Call) and not under_test:
        called = node.func
        by_name = isinstance(called, ast.Name) and called.id == "sleep"
        by_module = (
            isinstance(called, ast.Attribute)
            and called.attr == "sleep"
            and isinstance(called.value, ast.Name)
            and called.value.id in SLEEPERS
        )
        if by_name or by_module:
            yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from sleeps(child, under_test=under_test)


def test_no_sleep_in_tests() -> None:
    """Tests wait for an event, never for time."""
    assert list(sleeps(ast.parse("import time\ndef test() -> None:\n    time.sleep(1)\n"))) == [3]
    assert list(sleeps(ast.parse("async def flow(ctx):\n    await asyncio.sleep(1)\n"))) == []
    found = [
        f"{module.path}:{line}"
        for module in modules("tests")
        if not module.path.startswith("tests/sdk/")  # bodies of a FlowLoop: their sleep is a timer that a test fires
        for line in sleeps(module.tree)
    ]
    assert found == []


def test_no_cancel_is_lost() -> None:
    """Python 3.11's `asyncio.wait_for` swallows a cancel that comes with what it waits for: `asyncio.timeout` does not."""
    found = [
        f"{module.path}:{node.lineno}"
        for module in modules("src")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "wait_for"
    ]
    assert found == []


def test_packages_with_one_room() -> None:
    """A database driver is known to one room only."""
    found = [
        f"{module.path}:{line} {name}"
        for module in modules("src")
        for name, line in imports(module)
        if (room := ONE_ROOM.get(name.split(".")[0]))
        and not module.path.startswith((f"src/torpor/{room}/", f"src/torpor/{room}.py"))
    ]
    assert found == []


def test_packages_without_a_room() -> None:
    """No web framework anywhere, and the model library in its rooms only."""
    found = [
        f"{module.path}:{line} {name}"
        for module in modules("src")
        for name, line in imports(module)
        if name.split(".")[0] in NOWHERE
        or (name.split(".")[0] == "pydantic_ai" and not module.path.startswith(MODEL_ROOMS))
    ]
    assert found == []


def test_the_core_is_pure() -> None:
    """The rules take values and give decisions: no clock, no random number, no input or output."""
    found = [
        f"{module.path}:{line} {name}"
        for module in modules("src")
        for name, line in imports(module)
        if module.room == "core"
        and name not in CORE_MAY_IMPORT
        and not name.startswith(("torpor.core", "torpor.errors"))
    ]
    assert found == []


def test_rouse_stands_alone() -> None:
    """`rouse` goes into other people's machines: the standard library and itself, nothing else."""
    text = "from ...store import rows\nfrom ..event import Kind\nfrom .host import HostFile\n"
    inside = Module("src/torpor/rouse/detectors/x.py", text, ast.parse(text))
    assert list(imports(inside)) == [("torpor.store", 1), ("torpor.rouse.event", 2)]
    found = [
        f"{module.path}:{line} {name}"
        for module in modules("src")
        for name, line in imports(module)
        if module.room == "rouse"
        and name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith("torpor.rouse")
    ]
    assert found == []


def test_no_room_uses_the_face() -> None:
    """`from torpor import App` is for authors: inside, a thing is imported from where it is."""
    rooms = {module.room for module in modules("src")}
    found = [
        f"{module.path}:{line} {name}"
        for module in modules("src")
        if module.room not in FACE_USERS
        for name, line in imports(module)
        if name == "torpor" or (name.startswith("torpor.") and name.split(".")[1] not in rooms)
    ]
    assert found == []


def asks_for_time(tree: ast.Module) -> Iterator[int]:
    """Yield each line that asks the machine for the time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if (readers := TIME_READERS.get(owner)) and readers.fullmatch(node.attr):
                yield node.lineno
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module == "time"
            and any(TIME_READERS["time"].fullmatch(alias.name) for alias in node.names)
        ):
            yield node.lineno


def test_one_file_asks_for_the_time() -> None:
    """`clock.py` alone asks the machine; what a run believes about time comes from its store."""
    sample = "import time, datetime\nt = time.monotonic()\nn = datetime.datetime.now()\nfrom time import time_ns\n"
    assert sorted(asks_for_time(ast.parse(sample))) == [2, 3, 4]
    found = [
        f"{module.path}:{line}"
        for module in modules("src")
        if module.room not in TIME_ROOMS
        for line in asks_for_time(module.tree)
    ]
    assert found == []


def undocumented(module: Module) -> Iterator[str]:
    """Yield each public definition of a file that has no docstring."""
    pending: list[tuple[str, ast.Module | ast.ClassDef]] = [("", module.tree)]
    while pending:
        prefix, scope = pending.pop()
        for node in scope.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            overload = any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)
            if ast.get_docstring(node) is None and not overload:
                yield f"{module.path}:{node.lineno} {prefix}{node.name}"
            if isinstance(node, ast.ClassDef):
                pending.append((f"{prefix}{node.name}.", node))


def test_what_is_public_is_documented() -> None:
    """A docstring says what a caller needs: units, errors raised, the source of a rule."""
    without = [f"{module.path} (the file)" for module in modules("src") if ast.get_docstring(module.tree) is None]
    assert without + [line for module in modules("src") for line in undocumented(module)] == []


def test_annotations_are_never_evaluated_early() -> None:
    """Every file with code begins with the same import, so that types cost nothing at run time."""
    without = [
        module.path
        for module in all_modules()
        if len(module.tree.body) > 1 and "from __future__ import annotations" not in module.text
    ]
    assert without == []


def test_every_ignore_says_why() -> None:
    """A rule that is switched off in pyproject.toml has its reason in its line; one in the code names its rule."""
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if re.match(r'\s+"[A-Z]+\d+",', line) and "# " not in line] == []
    bare = re.compile(r"#\s*(noqa(?!:)|type:\s*ignore(?!\[))")
    found = [
        f"{module.path}:{number}"
        for module in all_modules()
        for number, line in enumerate(module.text.splitlines(), start=1)
        if bare.search(line)
    ]
    assert found == []
