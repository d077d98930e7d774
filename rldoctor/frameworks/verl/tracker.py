"""verl's trainer logs through one ``Tracking``, in the process of its task runner."""

from __future__ import annotations

from rldoctor.frameworks.tracking import Door, Tracker

TRACKERS = (Tracker(module="verl.utils.tracking", name="Tracking", door=Door.LOGGERS, attribute="logger"),)
