"""The command that watches a run while it goes on."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rldoctor import redact, verdict
from rldoctor.case import Case
from rldoctor.cli.exits import OF_STATE, threshold_of
from rldoctor.cli.options import Codes, FailOn, IgnoredCodes, split
from rldoctor.errors import InputError
from rldoctor.io.streams import deliver, progress
from rldoctor.model import Finding, Report

if TYPE_CHECKING:
    from rldoctor.flow.session import Session
    from rldoctor.logs.metrics.wandb import Run
    from rldoctor.watch.devices import Used

# A run that has ended, as its log says, is watched for so many more seconds: another one may begin in the same file.
SETTLED = 60.0
# How often the page is drawn though nothing was judged: drawing it costs as much as reading a hundred lines.
DRAWN = 10.0
# How often what is no terminal gets the latest step, in seconds.
STATUS = 60.0


def watch(
    target: Annotated[
        str,
        typer.Argument(metavar="LOG|FOLDER|PID", help="The log of the run, its W&B folder, or one of its processes."),
    ],
    exec_: Annotated[
        str | None, typer.Option("--exec", help="Run this for every finding; it gets RLDOCTOR_CODE and JSON on stdin.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="Post every finding there as JSON; its `text` is one line.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.")] = 2.0,
    idle: Annotated[float | None, typer.Option(help="End after so many seconds without a new line.")] = None,
    select: Codes = None,
    ignore: IgnoredCodes = None,
    fail_on: FailOn = None,
) -> int:
    """Follow a live run: its latest step, and findings as they arise. Ends when the run does."""
    from rldoctor.flow import run, session
    from rldoctor.logs.metrics.wandb import Run
    from rldoctor.watch import alarm, process, tracked

    if not 0.05 <= every <= 3600:
        raise InputError(f"--every {every:g}: from 0.05 to 3600 seconds are expected")
    if idle is not None and idle <= 0:
        raise InputError(f"--idle {idle:g}: more than 0 seconds are expected")
    if webhook is not None:
        alarm.address(webhook)
    opened = session.open_session(session.Options(select=split(select), ignore=split(ignore)))
    threshold = threshold_of(fail_on, opened)
    pid = int(target) if target.isdecimal() and not Path(target).exists() else None
    path = process.output_of(pid) if pid is not None else Path(target)
    history = None
    if path.is_dir():
        found = tracked.run_of(path)
        path, history = found.log, Run(found.history)
    report = _Watching(opened, path, pid, history, exec_, webhook).until_it_ends(every, idle)
    judged = verdict.over(run.settled_log(opened, report, Case(), str(path)), threshold)
    from rldoctor.report import renderer

    deliver(renderer("rich")(redact.tree(judged)))
    assert judged.verdict is not None
    return OF_STATE[judged.verdict.state]


class _Watching:
    def __init__(
        self,
        opened: Session,
        path: Path,
        pid: int | None,
        history: Run | None,
        command: str | None,
        webhook: str | None,
    ) -> None:
        from rldoctor.watch.devices import Devices
        from rldoctor.watch.live import LiveLog
        from rldoctor.watch.measured import Told
        from rldoctor.watch.view import Pace

        self.session = opened
        self.path = path
        self.pid = pid
        self.history = history
        self.command = command
        self.webhook = webhook
        self.log = LiveLog(path, opened.checks, Case(thresholds=opened.thresholds), history=history)
        # The devices of a log may be another machine's.
        self.devices = Devices() if pid is not None else None
        self.reported = Told()
        self.pace = Pace()
        self.metrics: dict[str, Any] = {}
        self.report: Report | None = None
        self.heard = time.monotonic()
        self.shown = self.heard
        self.drawn = -math.inf
        self.stalled = False
        self.pending = False

    def until_it_ends(self, every: float, idle: float | None) -> Report:
        """The report on the whole of it."""
        progress(f"watching {self.path}" + ("" if self.path.exists() else ", which is not there yet"))
        with _display() as display:
            while not self._ended(idle):
                self._look(display)
                time.sleep(every)
            self._look(display, last=True)
        if self.report is None:
            raise InputError(f"{self.path}: nothing was written to it")
        return self.report

    def _look(self, display: Any, last: bool = False) -> None:
        from rldoctor.flow import run
        from rldoctor.watch import view

        now = time.monotonic()
        seen = self.log.look(last)
        if seen.new:
            self.heard, self.stalled = now, False
        if seen.report is not None:
            from rldoctor.edits.fixes import in_its_words

            self.report, self.metrics, self.pending = in_its_words(seen.report), seen.metrics or {}, True
            if self.history is None:  # a tracker writes many steps at once
                self.pace.at(view.latest(self.metrics), now)
        # The lines of a crash come one after the other, and the cause is not always the first.
        if self.pending and self.report is not None and not (seen.new and _crashed(self.report) and not last):
            self.pending = False
            settled = run.settled_log(self.session, self.report, Case(), str(self.path))
            for finding in self.reported.new(settled.findings):
                self._tell(finding, settled)
        self._hang(now)
        if display is not None and (seen.report is not None or last or now - self.drawn >= DRAWN):
            self.drawn = now
            shown = view.screen(str(self.path), self.metrics, self.pace, now - self.heard, self._memory())
            display.update(shown, refresh=True)
        elif display is None and self.metrics and now - self.shown >= STATUS:
            self.shown = now
            progress(view.line(self.metrics, self.pace, self._memory()))

    def _memory(self) -> tuple[Used, ...]:
        from rldoctor.watch import devices

        if self.devices is not None:
            return self.devices.look()
        return devices.of_history(self.history.memory) if self.history is not None else ()

    def _tell(self, finding: Finding, report: Report) -> None:
        from rldoctor.report import words
        from rldoctor.watch import alarm

        first = report.findings and report.findings[0] == finding
        deliver(redact.text(words.head(finding, report.incident if first else None)))
        for fix in finding.fixes[:1]:
            deliver(redact.text(f"  fix: {fix.title}"))
        if self.command is not None:
            alarm.sound(self.command, finding)
        if self.webhook is not None:
            alarm.post(self.webhook, str(self.path), finding)

    def _hang(self, now: float) -> None:
        """Says once that a run writes nothing, much longer than its steps take."""
        if self.stalled or self.pace.seconds is None or now - self.heard < max(600.0, 10 * self.pace.seconds):
            return
        self.stalled = True
        progress(f"no new line for {now - self.heard:.0f} s: `rldoctor hang {self.pid or ''}` looks at its processes")

    def _ended(self, idle: float | None) -> bool:
        from rldoctor.watch import process

        silent = time.monotonic() - self.heard
        if self.pid is not None and not process.is_alive(self.pid):
            return True
        incident = self.report.incident if self.report is not None else None
        over = incident is not None and incident.kind in ("crashed", "finished") and self.pid is None
        over = over or (self.history is not None and self.history.ended)
        return (over and silent >= SETTLED) or (idle is not None and silent >= idle)


def _crashed(report: Report) -> bool:
    return report.incident is not None and report.incident.kind == "crashed"


@contextmanager
def _display() -> Iterator[Any]:
    """A place on the terminal that is drawn anew, below what is printed; None where there is no terminal."""
    if not sys.stdout.isatty():
        yield None
        return
    from rich.live import Live

    with Live(auto_refresh=False, transient=True) as live:
        yield live
