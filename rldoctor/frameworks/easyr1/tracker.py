"""EasyR1's trainer logs through one ``Tracker``, in the process of its runner."""

from __future__ import annotations

from rldoctor.frameworks.tracking import Door, Tracker

TRACKERS = (Tracker(module="verl.utils.logger.logger", name="Tracker", door=Door.LOGGERS, attribute="loggers"),)
