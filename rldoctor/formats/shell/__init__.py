"""Shell scripts: read by a maintained grammar, expanded where constant, never executed."""
