"""Python launch scripts, read by their syntax tree."""
