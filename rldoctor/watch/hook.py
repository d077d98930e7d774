"""Joins a trainer that takes no callback in its launch: importing this makes the framework at hand tell it its metrics.

Runs in the training environment itself. A framework that imports modules of the user's is told to import this one
(``VERL_USE_EXTERNAL_MODULES=rldoctor.watch.hook``), or a file of the user's that it loads does::

    import rldoctor.watch.hook

It warns; with ``RLDOCTOR_STOP=20`` it ends a run that stays sick for 20 records.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from rldoctor.frameworks import frameworks
from rldoctor.frameworks.tracking import Door, Tracker
from rldoctor.watch.guard import Guard, RunStoppedError, by_variables, logger
from rldoctor.watch.trainer import RLDoctorCallback

NAME = "rldoctor"


class Listener:
    """A logger among a framework's own."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    def log(self, data: Mapping[str, object], step: int, **_: object) -> None:
        """Takes a record. Raises :class:`RunStoppedError` where the run is to be ended."""
        if why := self.guard.take(data, int(step)):
            logger.error("%s", why)
            raise RunStoppedError(why)

    def finish(self, *_: object, **__: object) -> None:
        """Nothing is open."""


def join() -> tuple[str, ...]:
    """Listens to every framework that this process has begun to import; the modules that were joined."""
    return tuple(
        tracker.module
        for record in frameworks()
        for tracker in record.trackers()
        if tracker.module.partition(".")[0] in sys.modules and _join(tracker)
    )


def _join(tracker: Tracker) -> bool:
    try:
        holder: Any = getattr(importlib.import_module(tracker.module), tracker.name)
    except ModuleNotFoundError as error:
        if not f"{tracker.module}.".startswith(f"{error.name}."):
            logger.warning("rldoctor does not judge this run: %s", error)
        return False
    except (ImportError, AttributeError) as error:
        logger.warning("rldoctor does not judge this run: %s", error)
        return False
    if tracker.door is Door.LOGGERS:
        _listen(holder, tracker.attribute)
    elif tracker.door is Door.CALLBACKS:
        if not any(isinstance(one, RLDoctorCallback) for one in holder):
            holder.append(_callback())
    else:
        holder[NAME] = _callback
    return True


def _listen(holder: Any, attribute: str) -> None:
    made = holder.__init__
    if getattr(made, "joined_by", "") == NAME:
        return

    @functools.wraps(made)
    def init(self: Any, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        try:
            loggers, listener = getattr(self, attribute), Listener(by_variables(os.environ))
            if isinstance(loggers, list):
                loggers.append(listener)
            else:
                loggers[NAME] = listener
        except Exception:
            logger.exception("rldoctor does not judge this run")

    init.joined_by = NAME  # type: ignore[attr-defined]
    holder.__init__ = init


def _callback(arguments: Any = None, trainer: Any = None) -> RLDoctorCallback:
    callback = RLDoctorCallback()
    callback.guard, callback.trainer = by_variables(os.environ), trainer
    return callback


JOINED = join()
"""The modules that tell it their metrics."""
