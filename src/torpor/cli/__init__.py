"""The command line: what a person or a script types. It asks the client, and draws what it says."""
