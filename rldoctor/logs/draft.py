"""An exception while its lines are still coming in."""

from __future__ import annotations

from dataclasses import field

from rldoctor.logs.model import UNFINISHED, Frame, LoggedException, Origin
from rldoctor.records import dataclass

_MESSAGE_KEPT = 8192
_MOST_CAUSES = 40


@dataclass
class Draft:
    """The parts of one exception, and those that it grew from."""

    type: str = ""
    message: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    cause: Draft | None = None
    group: list[Draft] = field(default_factory=list)
    header: str = ""
    line: int = 0
    remote: Origin | None = None

    def built(self, base: LoggedException) -> LoggedException:
        """The finished exception; what is not its own (origin, source, time) comes from ``base``."""
        grown = [self]
        while (cause := grown[-1].cause) is not None and (cause.type or cause.frames):
            grown.append(cause)
        # Of a longer chain the end and the beginning tell what happened.
        del grown[_MOST_CAUSES:-1]
        finished = grown.pop()._alone(base, None)
        for draft in reversed(grown):
            finished = draft._alone(base, finished)
        return finished

    def _alone(self, base: LoggedException, cause: LoggedException | None) -> LoggedException:
        return LoggedException(
            type=self.type or UNFINISHED,
            message="\n".join(self.message).strip()[:_MESSAGE_KEPT],
            frames=tuple(self.frames),
            cause=cause,
            group=tuple(member.built(base) for member in self.group if member.type),
            header=self.header,
            origin=self.remote or base.origin,
            source=base.source,
            line=self.line or base.line,
            time=base.time,
        )
