"""Reads for people: lists, one run, the inbox, the doctor's facts. Never to decide: they may be a moment old.

Each is a plain function of one transaction, bounded: no read grows with the number of sleeping runs or of entries.
"""
