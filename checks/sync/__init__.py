"""4xx: weight sync and numerical agreement."""
