"""The two pages that a sceptic reads say what they must: docs/guarantees.md and docs/compare.md.

Each promise has its three parts: what is promised, how it is attacked, with tests that exist, and what is outside it. Each
claim about a peer names a source, and each row says where torpor's own side can be looked at.
"""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.house.tree import ROOT

GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
COMPARED = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
ORDERED = [f"G{number}" for number in range(1, 21)]
PARTS = ["Promised", "Attacked", "Outside"]
LATER = ["Promised", "Later"]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
WORDS_OF_A_PART = 6
PEERS = "Temporal|DBOS|Restate|LangGraph|Absurd|Hatchet|Inngest|E2B|Daytona|Modal"
MARK = re.compile(r"\[([ADHILRST]\d+)\](?!\()")
"""A source's mark; what has an address behind it is a link of another kind."""
ABSENT = "*not found*"


def sections(text: str, level: str) -> dict[str, str]:
    """Return the text below each heading of a level, by heading, in order."""
    pieces = re.split(rf"^{level} (.+)$", text, flags=re.MULTILINE)
    assert len(set(pieces[1::2])) == len(pieces[1::2]), "two headings are equal"
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def parts(section: str) -> dict[str, str]:
    """Return what stands behind each bold word with a full stop that begins a line: `**Promised.**`."""
    pieces = re.split(r"^\*\*(\w+)\.\*\*", section, flags=re.MULTILINE)
    assert len(set(pieces[1::2])) == len(pieces[1::2]), "a part is there twice"
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def bullets(text: str) -> list[str]:
    """Return the items of the lists in a text, each on one line."""
    items = re.findall(r"^- (.+(?:\n  .+)*)", text, flags=re.MULTILINE)
    return [" ".join(item.split()) for item in items]


def promises() -> dict[str, dict[str, str]]:
    """Return the parts of each promise, by its number."""
    found = {head.split()[0]: parts(section) for head, section in sections(GUARANTEES, "##").items()}
    return {number: said for number, said in found.items() if re.fullmatch(r"G\d+", number)}


def ways() -> set[str]:
    """Return the ways of attack that the page explains."""
    return set(re.findall(r"^\| \*\*([^*]+)\*\* \|", sections(GUARANTEES, "##")["Ways of attack"], flags=re.MULTILINE))


@cache
def functions_of(name: str) -> set[str]:
    """Return the names of the functions that a file of the project defines, in classes too; none if there is no file."""
    path = ROOT / name
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def wrong_in(said: dict[str, str], known: set[str]) -> list[str]:
    """Return what a promise lacks: a part, a way of attack that is explained, a test that exists."""
    if list(said) not in (PARTS, LATER):
        return [f"its parts are {list(said)}"]
    wrong = [f"{part} says too little" for part in said if len(said[part].split()) < WORDS_OF_A_PART]
    if list(said) == LATER:
        return wrong
    attacks = bullets(said["Attacked"])
    if not attacks:
        wrong.append("nothing attacks it")
    for attack in attacks:
        way = re.match(r"\*\*([^*]+)\*\*:", attack)
        if way is None or way.group(1) not in known:
            wrong.append(f"no way of attack that is explained: {attack[:40]}")
        if not TEST.search(attack):
            wrong.append(f"no test: {attack[:40]}")
    named = TEST.findall("".join(said.values()))
    wrong += [f"no such test: {name}::{test}" for name, test in named if test not in functions_of(name)]
    return wrong


def test_every_promise_is_there_in_order() -> None:
    """G1 to G20, and the page begins with a link to each."""
    heads = [head for head in sections(GUARANTEES, "##") if re.match(r"G\d", head)]
    assert [head.split()[0] for head in heads] == ORDERED
    linked = re.findall(r"^\[(G\d+)\]\(#(g[\w-]+)\)", GUARANTEES, flags=re.MULTILINE)
    assert linked == [(head.split()[0], head.lower().replace(" ", "-")) for head in heads]


@pytest.mark.parametrize("number", ORDERED)
def test_a_promise_has_its_three_parts(number: str) -> None:
    """What is promised; how it is attacked, with the tests; what is outside it."""
    assert wrong_in(promises()[number], ways()) == []


def test_every_way_of_attack_is_used() -> None:
    """A way that no promise is attacked by is a boast."""
    used = re.findall(r"^- \*\*([^*]+)\*\*:", GUARANTEES, flags=re.MULTILINE)
    assert ways() == set(used)


def test_no_test_is_named_outside_a_promise() -> None:
    """Else nothing would look whether it exists."""
    inside = [test for said in promises().values() for text in said.values() for test in TEST.findall(text)]
    assert sorted(TEST.findall(GUARANTEES)) == sorted(inside)


@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        ("**Promised.** one two three four five six\n", "its parts are ['Promised']"),
        ("**Promised.** one two three four five six\n**Later.** soon\n", "Later says too little"),
        ("{}**Attacked.**\n\n- **luck**: `tests/house/test_promises.py::bullets`\n\n{}", "no way of attack"),
        ("{}**Attacked.**\n\n- **search**: everywhere\n\n{}", "no test: **search**"),
        ("{}**Attacked.**\n\n- **search**: `tests/house/test_promises.py::nowhere`\n\n{}", "no such test"),
        ("{}**Attacked.** by every one of the known ways\n\n{}", "nothing attacks it"),
    ],
)
def test_the_look_at_a_promise_can_fail(section: str, wrong: str) -> None:
    """Each thing that may be missing is missed."""
    whole = section.format("**Promised.** one two three four five six\n", "**Outside.** one two three four five six\n")
    assert [found for found in wrong_in(parts(whole), {"search"}) if found.startswith(wrong)]


def claims() -> list[str]:
    """Return every claim of the comparison: the items that begin with whom they are about."""
    rows = COMPARED.split("## What is durable")[1].split("\n## Sources")[0]
    return bullets(rows)


def test_each_claim_about_a_peer_has_a_source() -> None:
    """A mark in brackets, or that nothing was found, or a figure of our own."""
    ours = r"\]\((?:performance|guarantees|lifecycle|operations)\.md"
    unsourced = [
        claim
        for claim in claims()
        if re.match(rf"\*\*(?:{PEERS})\*\*", claim)
        and not MARK.search(claim)
        and not re.search(ours, claim)
        and ABSENT not in claim
    ]
    assert unsourced == []
    unproven = [
        claim
        for claim in claims()
        if claim.startswith("**torpor**") and not re.search(ours, claim) and "`tests/" not in claim
    ]
    assert unproven == [], "say which guarantee, test or figure"
    strange = [
        claim for claim in claims() if not re.match(rf"\*\*(?:torpor|{PEERS})\*\*", claim) and ABSENT not in claim
    ]
    assert strange == []


def test_each_source_is_listed_and_used() -> None:
    """Marks, the list that people see and the addresses agree, and a place in a repository names its commit."""
    claimed, listed = COMPARED.split("\n## Sources")
    addresses = dict(re.findall(r"^\[([A-Z]\d+)\]: (\S+)$", listed, flags=re.MULTILINE))
    assert set(MARK.findall(claimed)) == set(addresses)
    assert re.findall(r"^- \[([A-Z]\d+)\] \S", listed, flags=re.MULTILINE) == list(addresses)
    assert re.search(r"Read on \d+ \w+ 20\d\d\.", listed)
    unpinned = [
        address
        for address in addresses.values()
        if not address.startswith("https://")
        or ("github.com" in address and not re.search(r"/blob/[0-9a-f]{40}/|/issues/\d+$", address))
    ]
    assert unpinned == []


def test_tests_that_the_comparison_names_exist() -> None:
    """A whole file or one test of it."""
    files = re.findall(r"`(tests/[\w/]+\.py)`", COMPARED)
    assert [name for name in files if not (ROOT / name).is_file()] == []
    assert [f"{name}::{test}" for name, test in TEST.findall(COMPARED) if test not in functions_of(name)] == []


def test_tests_that_the_page_on_sleep_names_exist() -> None:
    """Each line of advice has some."""
    page = (ROOT / "docs/rouse.md").read_text("utf-8")
    rows = page.split("\n## What is advised")[1].split("\n## ")[0].split("|---|---|---|---|\n")[1].strip().splitlines()
    assert len(rows) == 5
    assert all(TEST.search(row) for row in rows)
    assert [f"{name}::{test}" for name, test in TEST.findall(page) if test not in functions_of(name)] == []
