"""Programs for the target's interpreter."""
