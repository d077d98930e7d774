"""Readings that checks of several groups share: what probes recorded of a live engine, and how metrics went."""
