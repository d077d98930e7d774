"""justfiles."""
