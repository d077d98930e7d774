"""ms-swift's trainers take callbacks from a list until 3.12, and by name (``--callbacks``) since 4.0."""

from __future__ import annotations

from rldoctor.frameworks.tracking import Door, Tracker

TRACKERS = (
    Tracker(module="swift.plugin.callback", name="extra_callbacks", door=Door.CALLBACKS),
    Tracker(module="swift.callbacks.mapping", name="callbacks_map", door=Door.MAKERS),
)
