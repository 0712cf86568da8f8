"""The workloads behind `torpor bench`: what a store, this machine and torpor can do together.

W1 throughput, W3 taking a run up after SIGKILL, W4 the latency of a lone step, W5 a kill between effect and record. Each
answers with one row of plain fields; `docs/performance.md` says what they mean. W3 and W5 kill real processes.
"""
