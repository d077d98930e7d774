"""Whether the user's own code ended a run by itself, whatever else was said before."""

from __future__ import annotations

from rldoctor.logs.code_paths import is_users, package_of
from rldoctor.logs.fatality import LAUNCHERS
from rldoctor.logs.model import Frame, LoggedException

# What one's own code raises of its own data. An index out of range is not among it: an engine may have left an answer
# empty and said why.
_OF_DATA = frozenset(("KeyError", "NameError", "UnboundLocalError", "ZeroDivisionError"))
# What starts a program calls the user's code too, and is no trainer that asks a reward function.
_STARTERS = frozenset(("absl", "click", "fire", "hydra", "python", "ray", "typer", None))


def is_a_slip(root: LoggedException | None) -> bool:
    """Whether no line that nothing raised comes before this failure: the user's innermost frame raised it of its own
    data, or in a function that a trainer or an engine had called. What fails for want of a value (``NoneType``) may
    come from what was logged before, and so may what a script raises at its end."""
    if root is None or root.cause is not None or root.raised_by_user is None:
        return False
    return root.type in _OF_DATA or ("NoneType" not in root.message and _was_called_back(root.frames))


def _was_called_back(frames: tuple[Frame, ...]) -> bool:
    caller = next((frame for frame in reversed(frames) if not is_users(frame.file)), None)
    return (
        caller is not None
        and LAUNCHERS.search(caller.file) is None
        and package_of(caller.file, caller.function) not in _STARTERS
    )
