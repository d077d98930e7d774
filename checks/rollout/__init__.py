"""2xx: the rollout engine and the arithmetic of its batches."""
