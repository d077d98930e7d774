"""The report for a person as a self-contained HTML page."""

from __future__ import annotations

import io

from rich.console import Console

from rldoctor.model import Report
from rldoctor.report.detail import Detail
from rldoctor.report.rich_text import print_report


def render(report: Report) -> str:
    """The same text and colours as on a terminal of 120 columns."""
    console = Console(file=io.StringIO(), record=True, width=120, highlight=False, force_terminal=True)
    print_report(console, report, Detail.ALL)
    return console.export_html(inline_styles=True)
