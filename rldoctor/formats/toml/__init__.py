"""TOML: one reader, and edits in place."""
