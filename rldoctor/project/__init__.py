"""What a project sets once: its settings, what it ignores, and the baseline of what it knows already."""
