"""The documentation is part of the program: its examples run, its links lead somewhere, its promises name their tests.

A code block says its language, and after it what is to be done with it:

- `python run`     is a whole program; a first line `# name.py` saves it under that name for the blocks that follow
- `console run`    lines with `$ ` are given to a shell, the other lines are what it prints; `...` stands for anything
- `python`         is a part of a program: it must at least be Python
- anything else    is shown and not looked at

The blocks of one page share one empty folder.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.tree import ROOT, relative
from tests.house.words import BANNED_NAMES, BANNED_PARTS, WORDS

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@dataclass(frozen=True)
class Block:
    """A fenced code block: its language, what is asked for, its text and its first line's number."""

    language: str
    wish: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, in order."""
    found = []
    opened: list[str] | None = None
    language = wish = ""
    start = 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            if opened is None:
                language, _, wish = line.removeprefix("```").strip().partition(" ")
                opened, start = [], number + 1
            else:
                found.append(Block(language, wish, "\n".join(opened) + "\n", start))
                opened = None
        elif opened is not None:
            opened.append(line)
    assert opened is None, f"{relative(page)}: a code block has no end"
    return found


def prose(page: Path) -> str:
    """Return a page without its code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """Return the names that a link into a page may end with."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def shell(command: str, folder: Path) -> str:
    """Run one line of a console block and return what a person would see."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout + (f"(exit {done.returncode})\n" if done.returncode else "")


def matches(printed: str, expected: str) -> bool:
    """Whether a command printed what the page shows; `...` stands for anything, spaces at a line's end for nothing."""
    tidy = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    pattern = ".*".join(re.escape(piece) for piece in expected.strip().split("..."))
    return re.fullmatch(pattern, tidy, flags=re.DOTALL) is not None


def run_console(block: Block, folder: Path) -> None:
    """Run the commands of a block, each of which must print what stands below it."""
    command: str | None = None
    expected: list[str] = []
    for line in [*block.text.splitlines(), "$ "]:
        if not line.startswith("$ "):
            expected.append(line)
            continue
        if command is not None:
            printed = shell(command, folder)
            assert matches(printed, "\n".join(expected)), f"$ {command}\n{printed}"
        command, expected = line.removeprefix("$ "), []


def run_python(block: Block, folder: Path) -> None:
    """Run a program, under the name that its first line gives it."""
    named = re.match(r"# ([\w/]+\.py)\b", block.text)
    program = folder / (named.group(1) if named else f"line_{block.line}.py")
    program.write_text(block.text, encoding="utf-8")
    done = subprocess.run([sys.executable, program.name], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_reader_of_blocks_can_fail(tmp_path: Path) -> None:
    """A wrong output, a failing command and a failing program are all seen."""
    run_console(Block("console", "run", "$ echo one two\none ...\n$ false\n(exit 1)\n", 1), tmp_path)
    for text in ("$ echo one\ntwo\n", "$ false\n"):
        with pytest.raises(AssertionError):
            run_console(Block("console", "run", text, 1), tmp_path)
    run_python(Block("python", "run", "# part.py\nx = 1\n", 1), tmp_path)
    run_python(Block("python", "run", "from part import x\nassert x == 1\n", 1), tmp_path)
    with pytest.raises(AssertionError):
        run_python(Block("python", "run", "raise SystemExit(1)\n", 1), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """What a page asks to be run runs, in order; the rest is at least Python where it says so."""
    for block in blocks(page):
        assert block.language, f"{relative(page)}:{block.line} a code block without a language"
        assert block.wish in {"", "run"}, f"{relative(page)}:{block.line} {block.wish}"
        if block.language == "python" and block.wish == "run":
            run_python(block, tmp_path)
        elif block.language == "console" and block.wish == "run":
            run_console(block, tmp_path)
        elif block.language == "python":
            ast.parse(block.text)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to a file of the project names one that exists, and a heading in it."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


def test_the_glossary_is_complete() -> None:
    """Each word has exactly one row, and the words that are banned from names are the ones the tests look for."""
    glossary = ROOT / "docs" / "glossary.md"
    words, banned = glossary.read_text(encoding="utf-8").split("## Words that are not used")
    defined = re.findall(r"^\| \*\*([^*]+)\*\*", words, flags=re.MULTILINE)
    assert sorted(defined) == sorted(set(defined))
    assert set(WORDS) - set(defined) == set()
    assert set(re.findall(r"`(\w+)`", banned.split("\n\n")[1])) == {
        word.removesuffix("s") if word != "services" else word for word in BANNED_PARTS | BANNED_NAMES
    }


def test_decisions_are_listed() -> None:
    """Each decision record is in the index, numbered without a gap."""
    folder = ROOT / "docs" / "decisions"
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [name[:4] for name in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [name for name in records if f"({name})" not in index] == []


def test_changelog_fragments_have_a_type() -> None:
    """A fragment is called `<number or +word>.<type>.md` and says something."""
    wrong = [
        path.name
        for path in (ROOT / "changelog.d").iterdir()
        if path.name != "README.md"
        and not (
            re.fullmatch(r"(\d+|\+[\w-]+)\.(added|changed|fixed|removed)\.md", path.name) and path.read_text().strip()
        )
    ]
    assert wrong == []
