"""What is looked for in a file. Pure functions of bytes and text; `program` reads the files and makes steps of these."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import PurePath

READ_BYTES = 2 * 1024 * 1024
"""A longer file is measured by its first two megabytes."""
HEAD_BYTES = 8192
LINE_LETTERS = 120
FUNCTION_LINES = 60
FILE_LINES = 1000
PARAMETERS = 8
KEPT_REMARKS = 8
"""So many remarks of a file are kept word by word; all are counted."""
_MARK = re.compile(rf"\b({'TO' + 'DO'}|{'FIX' + 'ME'}|{'X' + 'XX'}|HACK)\b")
_BROAD = frozenset({"Exception", "BaseException"})

Remark = tuple[int, str, str]
"""(line, what, which): `(41, "broad except", "except Exception")`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one file. `name` can be shown and stored anywhere, whatever the file is called."""

    name: str
    size: int = 0
    lines: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How often each thing was found."""
    first: list[Remark] = field(default_factory=list)
    trouble: str = ""
    """Why the file could not be looked at, or empty."""

    @property
    def total(self) -> int:
        """How many remarks there are, kept or not."""
        return sum(self.counts.values())


def spoken(path: PurePath) -> str:
    """Return a path as UTF-8 text on one line: bytes that are no UTF-8 and control characters are written as escapes."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no text: it has a zero byte, or many bytes no text has."""
    if b"\0" in head:
        return True
    odd = sum(byte < 9 or 13 < byte < 27 for byte in head)  # noqa: PLR2004 - below the tab, between return and escape
    return odd * 20 > len(head)


def measured(name: str, content: bytes) -> Finding:
    """Return what can be said of any text: its size, long lines, blanks at line ends, mixed line ends, marks left behind."""
    return _finding(name, len(content), len(content.splitlines()), _lines_of(content))


def _lines_of(content: bytes) -> Iterator[Remark]:
    text = content.decode("utf-8", "replace")
    lines = re.split(r"\r\n|\n|\r", text)
    if "\ufffd" in text and b"\xef\xbf\xbd" not in content:
        yield 1, "not UTF-8", ""
    ends = sorted(set(re.findall(r"\r\n|\n|\r", text)))
    if len(ends) > 1:
        yield 1, "mixed line ends", " ".join(repr(end)[1:-1] for end in ends)
    if len(lines) > FILE_LINES:
        yield len(lines), "long file", f"{len(lines)} lines"
    if text and lines[-1]:
        yield len(lines), "no line end at the end", ""
    for number, line in enumerate(lines, start=1):
        if len(line) > LINE_LETTERS:
            yield number, "long line", f"{len(line)} letters"
        if line != line.rstrip():
            yield number, "blanks at the end", ""
        if mark := _MARK.search(line):
            yield number, "mark left behind", mark.group(1)


def parsed(name: str, content: bytes) -> Finding:
    """Return what can be said of Python source: what lacks a docstring, is long, takes much, catches everything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own remarks about a file that is only looked at
            tree = ast.parse(content)
    except SyntaxError as error:
        return _finding(name, 0, 0, [(error.lineno or 1, "is not Python", error.msg)])
    except (ValueError, RecursionError, MemoryError) as error:
        return _finding(name, 0, 0, [(1, "is not Python", str(error))])
    return _finding(name, 0, 0, sorted(_code_of(tree)))


def _code_of(tree: ast.Module) -> Iterator[Remark]:
    if tree.body and ast.get_docstring(tree) is None:
        yield 1, "no docstring", "the file"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield node.lineno, "no docstring", node.name
        elif isinstance(node, ast.ExceptHandler) and (what := _catches_all(node.type)):
            yield node.lineno, "broad except", what


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Remark]:
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    if length > FUNCTION_LINES:
        yield node.lineno, "long function", f"{node.name}, {length} lines"
    if not node.name.startswith("_") and ast.get_docstring(node) is None:
        yield node.lineno, "no docstring", node.name
    given = node.args
    count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    if count > PARAMETERS:
        yield node.lineno, "many parameters", f"{node.name}, {count}"
    for default in (*given.defaults, *given.kw_defaults):
        if isinstance(default, ast.List | ast.Dict | ast.Set):
            yield default.lineno, "mutable default", node.name


def _catches_all(caught: ast.expr | None) -> str:
    if caught is None:
        return "except:"
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    broad = [name.id for name in names if isinstance(name, ast.Name) and name.id in _BROAD]
    return f"except {broad[0]}" if broad else ""


def together(one: Finding, other: Finding) -> Finding:
    """Return what two looks at the same file found."""
    counts = Counter(one.counts) + Counter(other.counts)
    first = sorted([*one.first, *other.first])[:KEPT_REMARKS]
    trouble = one.trouble or other.trouble
    return Finding(one.name, one.size or other.size, one.lines or other.lines, dict(counts), first, trouble)


def _finding(name: str, size: int, lines: int, remarks: Iterable[Remark]) -> Finding:
    counts: Counter[str] = Counter()
    first: list[Remark] = []
    for remark in remarks:
        counts[remark[1]] += 1
        if len(first) < KEPT_REMARKS:
            first.append(remark)
    return Finding(name, size, lines, dict(counts), first)


def report(title: str, findings: list[Finding]) -> str:
    """Return the audit as Markdown: what was found how often, and the files with the most remarks."""
    counts: Counter[str] = Counter()
    for finding in findings:
        counts.update(finding.counts)
    lines = [f"# Audit of {_quoted(title)}", ""]
    size, length = sum(one.size for one in findings), sum(one.lines for one in findings)
    lines += [
        f"{counted(len(findings), 'file')}, {counted(length, 'line')}, {counted(size, 'byte')}, {_remarks(findings)}.",
        "",
    ]
    if counts:
        lines += ["| What | How often |", "|---|---:|"]
        lines += [f"| {what} | {count:,} |" for what, count in counts.most_common()] + [""]
    unread = [one for one in findings if one.trouble]
    if unread:
        lines += ["## Could not be looked at", "", *(f"- {_quoted(one.name)}: {one.trouble}" for one in unread), ""]
    most = sorted((one for one in findings if one.total), key=lambda one: (-one.total, one.name))
    for one in most[:50]:
        lines += [f"## {_quoted(one.name)}", "", f"{counted(one.lines, 'line')}, {_remarks([one])}.", ""]
        lines += [f"- line {line}: {what}{f' ({which})' if which else ''}" for line, what, which in one.first]
        more = one.total - len(one.first)
        lines += [f"- and {more:,} more", ""] if more > 0 else [""]
    return "\n".join(lines)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: `1 file`, `2,000 files`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _remarks(findings: list[Finding]) -> str:
    return counted(sum(one.total for one in findings), "remark")


def _quoted(text: str) -> str:
    """Return text that Markdown leaves alone: a code span is closed only by as many backticks as opened it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"
