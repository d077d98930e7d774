"""The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere.

Its pictures are inline SVG whose widths are percentages, so that they fit a phone while their text keeps its size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rldoctor import __version__
from rldoctor.model import Outcome, Report, State
from rldoctor.report import lanes, shapes, words
from rldoctor.report.summary import sentence

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent


def render(report: Report) -> str:
    """The page. Whatever a file, a log or a package says comes in as text."""
    page = _environment().get_template("page.html.j2")
    return page.render(
        report=report,
        headline=words.headline(report),
        tone=_tone(report),
        missing=words.verdict_of(report).missing,
        timeline=_timeline(report),
        earlier=[(name, run, _timeline(run)) for name, run in words.named_earlier(report)],
        summary=sentence(report),
        passed=[r for r in report.results if r.outcome is Outcome.PASS] if report.incident is None else [],
        unsettled=[r for r in report.results if r.outcome in (Outcome.NOT_CHECKED, Outcome.CRASHED)],
        drawings=[shapes.drawing(one) for one in report.exhibits if not one.empty],
        version=__version__,
    )


def _timeline(report: Report) -> lanes.Timeline | None:
    return lanes.timeline(report.incident) if report.incident is not None else None


def _tone(report: Report) -> str:
    """The colour of the verdict; green only where nothing was found at all."""
    state = words.verdict_of(report).state
    return report.findings[0].severity.value if state is State.PASSED and report.findings else state.value


def _environment() -> Environment:
    # Takes as long to import as half a start-up, and no other format needs it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.globals.update(words=words, css=(HERE / "page.css").read_text(encoding="utf-8"))
    return found
