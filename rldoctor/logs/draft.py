"""An exception while its lines are still coming in."""

from __future__ import annotations

from dataclasses import dataclass, field

from rldoctor.logs.model import UNFINISHED, Frame, LoggedException, Origin

_MESSAGE_KEPT = 8192


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
        cause = self.cause
        return LoggedException(
            type=self.type or UNFINISHED,
            message="\n".join(self.message).strip()[:_MESSAGE_KEPT],
            frames=tuple(self.frames),
            cause=cause.built(base) if cause is not None and (cause.type or cause.frames) else None,
            group=tuple(member.built(base) for member in self.group if member.type),
            header=self.header,
            origin=self.remote or base.origin,
            source=base.source,
            line=self.line or base.line,
            time=base.time,
        )
