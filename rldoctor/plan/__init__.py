"""The rollout plan: canonical settings, each with where it came from, and what is computed from them alone."""
