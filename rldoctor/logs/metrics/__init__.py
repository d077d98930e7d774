"""Metrics as facts: what a run logged about its training steps, under canonical names, from any log or metric file."""

from __future__ import annotations

from rldoctor.logs.metrics.collector import LITERALS, Collector, collect
from rldoctor.logs.metrics.files import is_metric_file, read_files
from rldoctor.logs.metrics.track import merge

__all__ = ["LITERALS", "Collector", "collect", "is_metric_file", "merge", "read_files"]
