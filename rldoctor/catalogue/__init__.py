"""What a check, a probe and a scenario are, and how they are found."""
