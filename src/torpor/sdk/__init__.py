"""What an author sees. Knows no store and no engine: a `Context` talks to a `Port`."""
