"""The workloads behind `torpor bench`: what a store, this machine and torpor can do together.

W1 throughput, W3 taking a run up after SIGKILL, W4 the latency of a lone step, W5 a kill between effect and record, W6 waking
many runs at once. Each answers with one row of plain fields; `docs/performance.md` says what they mean. W3, W5 and W6 start
real processes.
"""
