"""One file per output format; each has ``render(report) -> str``."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from rldoctor.errors import InputError
from rldoctor.model import Report

FORMATS = {
    "rich": "rldoctor.report.rich_text",
    "json": "rldoctor.report.json_document",
    "sarif": "rldoctor.report.sarif",
    "junit": "rldoctor.report.junit",
    "github": "rldoctor.report.github",
    "markdown": "rldoctor.report.markdown",
    "html": "rldoctor.report.html",
}


def renderer(name: str) -> Callable[[Report], str]:
    """The renderer of a format. Raises :class:`InputError` for a name that is none."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    render: Callable[[Report], str] = importlib.import_module(FORMATS[name]).render
    return render
