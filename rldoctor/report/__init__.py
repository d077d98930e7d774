"""One file per output format; each has ``render(report) -> str``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from rldoctor.errors import InputError
from rldoctor.model import Report
from rldoctor.printable import printable

FORMATS = {
    "rich": "rldoctor.report.rich_text",
    "json": "rldoctor.report.json_document",
    "sarif": "rldoctor.report.sarif",
    "junit": "rldoctor.report.junit",
    "github": "rldoctor.report.github",
    "markdown": "rldoctor.report.markdown",
    "html": "rldoctor.report.html",
}


def renderer(name: str, *, to_file: bool = False) -> Callable[[Report], str]:
    """The renderer of a format, which gets no text that a terminal would obey; ``to_file`` keeps colours out, too.

    Raises :class:`InputError` for a name that is none."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    render: Callable[..., str] = importlib.import_module(FORMATS[name]).render
    if to_file and name == "rich":
        render = partial(render, terminal=False)
    return lambda report: render(printable(report))
