"""The agent's demo: a pydantic-ai agent mends a real git repository while its workers are killed; proof from git and a tape.

`program` is the agent, written like an author's own; `repository` makes the repository it works on (`repository.fi`) and
asks git what became of it; `tape.jsonl` is what its model answers, and `counted` writes down each time it is asked. `nest`
is a process that forks workers, `worker` is one of them, `deaths` says at which point it dies. `play` runs the agent once
from outside, `proof` compares what was, `sweep` does it for every point. `run.command` is what the command line calls.
"""
