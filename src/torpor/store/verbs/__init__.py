"""The verbs of a transaction, by subject. `store.protocol.Tx` is all of them. A new verb is a design question."""
