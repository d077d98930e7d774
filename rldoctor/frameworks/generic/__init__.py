"""Launches of no known framework."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework

FRAMEWORK = Framework(home=__name__, name="generic", title="generic", trains=False, marks=())
