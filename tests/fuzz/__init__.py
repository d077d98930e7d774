"""Whatever bytes come, the readers of logs and launch files answer, refuse in one line, and take time in proportion."""
