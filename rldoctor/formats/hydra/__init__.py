"""Hydra: overrides, interpolation and config composition."""
