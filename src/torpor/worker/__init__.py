"""The process that does the work: it claims runs, drives each under its lease, records every step, and lets go at a wait."""
