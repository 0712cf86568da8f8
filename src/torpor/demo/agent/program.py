"""The maintenance agent as an author of torpor writes it: a pydantic-ai agent, two tools of its own, an MCP server, a person.

It reads files and history through `mcp-server-git`. Its own `check` tries a patch on a copy, as often as it likes; `commit`
changes the world, so it is `once` and asks a person, who sees the whole patch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fastmcp.client.transports import StdioTransport
from pydantic import BaseModel, Field
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.mcp import MCPToolset

from torpor import App, UsageError
from torpor.demo.agent.repository import ENVIRONMENT, WHO, git, told

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.models import Model

READS = frozenset({"git_log", "git_show", "git_status"})
INSTRUCTIONS = """\
You maintain a small Python package in a git repository. Say your plan in a sentence first, then work step by step:
read the history and the files with the git tools (repo_path is always "."), try your patch with `check`, and when its tests
pass call `commit` once, with the same patch as a unified diff. A person reads the patch before it is committed. If they
deny it, commit nothing. Report in the end."""


class Report(BaseModel):
    """What the agent gives back."""

    cause: str = Field(description="The commit that broke it, and how.")
    mended: str = Field(description="What was changed, or why nothing was.")
    commit: str | None = Field(description="The id of the new commit, if there is one.")


def maintenance(name: str, repository: Path, model: Model | str, log: Path) -> App:
    """Return an app with the agent under a name, at work on a repository; its MCP server's messages go to `log`."""
    app = App()

    @app.tool(safety="repeatable")
    def check(patch: str) -> str:
        """Try a unified diff on a copy of the repository, and run its tests there."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            git(repository, "clone", "--quiet", "--no-hardlinks", str(repository), str(copy))
            apply(copy, patch)
            return tests(copy)

    @app.tool(safety="once", approve=True)
    def commit(message: str, patch: str) -> str:
        """Apply a unified diff to the repository and commit it."""
        apply(repository, patch)
        day_after = int(git(repository, "show", "--no-patch", "--format=%ct", "HEAD")) + 86_400
        when = f"{day_after} +0000"  # not today: the model's next request is on a tape, and names the commit
        who, email = WHO.rstrip(">").split(" <")
        own = {"GIT_AUTHOR_NAME": who, "GIT_AUTHOR_EMAIL": email, "GIT_AUTHOR_DATE": when}
        own |= {"GIT_COMMITTER_NAME": who, "GIT_COMMITTER_EMAIL": email, "GIT_COMMITTER_DATE": when}
        git(repository, "commit", "--quiet", "--message", message, environment=own)
        return told(repository, "HEAD")

    server = StdioTransport(
        sys.executable,
        ["-P", "-m", "mcp_server_git", "--repository", "."],
        env={**os.environ, **ENVIRONMENT},
        cwd=str(repository),
        log_file=log,
    )
    agent = Agent(
        model,
        instructions=INSTRUCTIONS,
        tools=[check, commit],
        toolsets=[MCPToolset(server, id="git", init_timeout=60).filtered(only_reads)],
        output_type=Report,
    )
    app.agent(name, agent, trust_hints=True)  # the server says of its tools which ones only read
    return app


def only_reads(_: RunContext[object], tool: ToolDefinition) -> bool:
    """Whether a tool of the server is for this agent."""
    return tool.name in READS


def apply(place: Path, patch: str) -> None:
    """Apply a patch to a repository's files and index. Raises ModelRetry: the model is to write a better one."""
    said = ""
    for more in ([], ["--recount"]):  # models miscount lines
        try:
            git(place, "apply", "--index", *more, stdin=patch.encode())
        except UsageError as error:
            said = said or error.message
        else:
            return
    raise ModelRetry(f"{said}. Write the patch again, against the files at HEAD.")


def tests(place: Path) -> str:
    """Run the tests of a repository and return what came of them."""
    command = [sys.executable, "-P", "-B", "-m", "unittest", "discover", "--start-directory", "."]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
    if done.returncode:
        raise ModelRetry(f"the tests fail:\n{done.stderr[-2000:]}")
    count = next((line.split()[1] for line in done.stderr.splitlines() if line.startswith("Ran ")), "no")
    return f"the patch applies, and {count} tests pass"


def need_server() -> None:
    """Raise UsageError if the MCP server is not installed."""
    if find_spec("mcp_server_git") is None:
        raise UsageError(
            "the agent reads the repository through mcp-server-git, which is not installed",
            hint="pip install 'torpor[demo]'",
        )
