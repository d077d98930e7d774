"""open-r1."""
