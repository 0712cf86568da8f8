"""The demo: a real audit of a real folder, while workers are killed and frozen, and proof from outside that nothing happened.

`program` is the flow, written like an author's own; `counter` is the outside world, a service in a process of its own;
`worker` is a worker process. `crew` starts, kills and freezes processes, `story` says what is done to whom and when, `proof`
compares what the service counted with what the journal says, `screen` draws. `run.command` is what the command line calls.
"""
