"""What the metrics of a run say so far, record by record: for trainers that hand them over themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rldoctor.case import Case
from rldoctor.catalogue.precedence import Precedence
from rldoctor.frameworks.samples import Sample
from rldoctor.logs.asking import measured
from rldoctor.logs.metrics import merge
from rldoctor.logs.metrics.names import ANCHORS, translate
from rldoctor.logs.metrics.samples import count
from rldoctor.logs.metrics.track import Reading, Track
from rldoctor.model import Finding, Severity

CODES = ("RLD311", "RLD403", "RLD501", "RLD502", "RLD503", "RLD504")
"""What the first steps of a run show of it."""

# Every record of a young run is judged, later ones ever more seldom: each pass looks at the whole run.
_YOUNG = 50
_LATER = 1.05


class Measured:
    """The metrics of one run, and what the checks that judge metrics say of them."""

    def __init__(self, codes: Sequence[str] = CODES, tell: Callable[[Finding], None] = lambda finding: None) -> None:
        """Judges ``codes``; ``tell`` is called once for each that is found, and once more where it got graver.

        Raises :class:`rldoctor.errors.InputError` for a code that is none."""
        from rldoctor.catalogue import registry

        self.checks = registry.load().select(tuple(codes))
        self.tell = tell
        self._track = Track()
        self._samples = Track()
        self._reported = Told()
        self._due = 0
        self._records = 0
        self._since: dict[str, int] = {}

    def add(
        self, record: Mapping[str, object], step: int | None = None, completions: Iterable[tuple[str, str]] = ()
    ) -> tuple[Finding, ...]:
        """Takes what was logged at a step, under the trainer's own names, and (prompt, completion) pairs of that step.
        The findings that are new."""
        values = translate(record)
        if values.keys() & ANCHORS:
            epoch = record.get("epoch")
            self._track.add(Reading(values, step, float(epoch) if isinstance(epoch, int | float) else None))
            self._records += 1
        sampled = count([Sample(*pair) for pair in completions], step)
        if sampled is not None:
            self._samples.add(sampled)
        if self._records < self._due:
            return ()
        self._due = self._records + 1 if self._records < _YOUNG else int(self._records * _LATER) + 1
        found = self.findings()
        errors = {finding.code for finding in found if finding.severity is Severity.ERROR}
        self._since = {code: self._since.get(code, self._records) for code in errors}
        new = tuple(self._reported.new(found))
        for finding in new:
            self.tell(finding)
        return new

    def lasting(self, records: int) -> tuple[str, ...]:
        """The codes that have been errors without a break for so many records."""
        return tuple(sorted(code for code, since in self._since.items() if self._records - since >= records))

    def findings(self) -> tuple[Finding, ...]:
        """All that the metrics show so far; what causes another one comes before it."""
        case = Case(metrics=merge([self._track.series(), self._samples.series()]))
        found = [finding for result in measured(self.checks, case) for finding in result.findings]
        precedence = Precedence.of(self.checks)
        codes = {finding.code for finding in found}
        weight = list(Severity)
        return tuple(sorted(found, key=lambda f: (precedence.is_explained(f.code, codes), weight.index(f.severity))))


class Told:
    """Which findings were reported already, so that a run that stays ill is not reported at every step."""

    def __init__(self) -> None:
        self._gravest: dict[str, int] = {}

    def new(self, findings: Iterable[Finding]) -> Iterable[Finding]:
        """Those of a code that was not reported yet, or was as less grave."""
        weight = list(Severity)
        for finding in findings:
            grave = weight.index(finding.severity)
            if grave < self._gravest.get(finding.code, len(weight)):
                self._gravest[finding.code] = grave
                yield finding
