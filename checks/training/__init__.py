"""5xx: the training signal."""
