"""The rules. Pure: values in, decisions out; no clock, no random, no IO. `engine` carries the decisions out."""
