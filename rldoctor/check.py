"""What a check is: one code, its document, and detectors that judge facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rldoctor.case import Case
from rldoctor.model import Evidence, Finding, Fix, Grade, Severity


@dataclass(frozen=True)
class Reach:
    """Yielded by a detector: what it looked at, so that a pass can say how far it reached."""

    text: str


class NotApplicable(Exception):
    """Raised by a detector whose question does not arise here; the message is the reason."""


class NotChecked(Exception):
    """Raised by a detector that misses a fact its ``needs`` could not name; ``how`` says what would supply it."""

    def __init__(self, reason: str, how: str | None = None) -> None:
        super().__init__(reason)
        self.how = how


Judge = Callable[[Case], Iterator[Finding | Reach]]


@dataclass(frozen=True)
class Detector:
    """One way to see a pattern: a generator over a case whose ``needs`` are known to be there."""

    judge: Judge
    needs: tuple[str, ...]
    grade: Grade


class Check:
    """One code of the vocabulary. ``doc`` is the module's docstring, which ``rldoctor explain`` prints."""

    def __init__(self, code: str, name: str, doc: str | None) -> None:
        self.code = code
        self.name = name
        self.doc = (doc or "").strip()
        self.detectors: list[Detector] = []

    def declared(self, *, needs: tuple[str, ...] | list[str]) -> Callable[[Judge], Judge]:
        """Registers a detector that judges configuration, versions and machine facts."""
        return self._register(needs, Grade.DECLARED)

    def observed(self, *, needs: tuple[str, ...] | list[str]) -> Callable[[Judge], Judge]:
        """Registers a detector that judges what a probe recorded under ``observations``."""
        return self._register(needs, Grade.OBSERVED)

    def finding(
        self,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        grade: Grade = Grade.DECLARED,
        evidence: tuple[Evidence, ...] = (),
        fixes: tuple[Fix, ...] = (),
        url: str | None = None,
    ) -> Finding:
        """A finding of this check. DESIGN law 7: an error needs evidence."""
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            grade=grade,
            message=message,
            evidence=evidence,
            fixes=fixes,
            url=url,
        )

    def _register(self, needs: tuple[str, ...] | list[str], grade: Grade) -> Callable[[Judge], Judge]:
        def add(judge: Judge) -> Judge:
            self.detectors.append(Detector(judge, tuple(needs), grade))
            return judge

        return add
