"""YAML: one reader, and edits in place."""
