"""A report in all formats at once: every format is handed the same one, without secrets already."""

from __future__ import annotations

from rldoctor import report
from rldoctor.model import Report

NAME = "every"


def render(judged: Report) -> str:
    """What each format makes of it, one below the other."""
    return "\n".join(report.renderer(form)(judged) for form in report.FORMATS if form != NAME)
