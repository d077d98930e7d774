"""Fixes into the launch: spelled in its own words, written into its files."""
