"""Launches of no known framework."""
