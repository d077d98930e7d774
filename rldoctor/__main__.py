"""``python -m rldoctor``."""

from __future__ import annotations

from rldoctor.cli import console

console()
