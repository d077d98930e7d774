"""One file per output format; each has ``render(report) -> str``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from rldoctor.errors import InputError
from rldoctor.model import Report
from rldoctor.printable import printable
from rldoctor.report.detail import Detail

FORMATS = {
    "rich": "rldoctor.report.rich_text",
    "json": "rldoctor.report.json_document",
    "sarif": "rldoctor.report.sarif",
    "junit": "rldoctor.report.junit",
    "github": "rldoctor.report.github",
    "markdown": "rldoctor.report.markdown",
    "html": "rldoctor.report.html",
}


def renderer(name: str, *, to_file: bool = False, detail: Detail = Detail.USUAL) -> Callable[[Report], str]:
    """The renderer of a format, which gets no text that a terminal would obey; ``to_file`` keeps colours out, too.
    ``detail`` is how much a person is shown.

    Raises :class:`InputError` for a name that is none."""
    if name not in FORMATS:
        raise InputError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    render: Callable[..., str] = importlib.import_module(FORMATS[name]).render
    if name == "rich":
        render = partial(render, terminal=False if to_file else None, detail=detail)
    return lambda report: render(printable(report))
