"""What became of a check, for programs that read reports."""

from __future__ import annotations

from rldoctor.catalogue.check import Detector
from rldoctor.model import CheckResult

__all__ = [
    "CheckResult",
    "Detector",
]
