"""Pages of the documentation that are made from the source: one for each code, and the frameworks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File, Files

from rldoctor.catalogue import registry
from rldoctor.frameworks import frameworks
from rldoctor.frameworks.metrics import Metrics
from rldoctor.frameworks.record import Framework
from rldoctor.report import explanation

_ROW = re.compile(r"^\| (RLD\d{3}) \|", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that no file holds."""
    found = registry.load()
    for code, check in found.checks.items():
        text = explanation.markdown(check, found)
        files.append(File.generated(config, f"codes/{code}.md", content=text))
    files.append(File.generated(config, "frameworks.md", content=_frameworks()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads from the catalogue of codes to their pages."""
    if page.file.src_uri != "codes.md":
        return markdown
    return _ROW.sub(r"| [\1](codes/\1.md) |", markdown)


def _frameworks() -> str:
    records = sorted(frameworks(), key=lambda record: record.title.lower())
    head = [
        "# Frameworks",
        "",
        "What is read of each. Made from the records that the reading of launches, logs and processes derives from.",
        "",
    ]
    return "\n".join([*head, *(line for record in records for line in _section(record))])


def _section(record: Framework) -> Iterator[str]:
    """One framework; a row stands only where there is something to say."""
    packages = ", ".join(dict.fromkeys(package.installed_as for package in record.packages))
    tables = [(owner, json.loads(record.table(owner).read_text("utf-8"))["versions"]) for owner in record.layouts()]
    metrics = record.metrics()
    rows = {
        "packages": packages,
        "built over": ", ".join(layer.package for layer in record.over),
        "started by": _codes((*record.modules, *record.programs)),
        "options known": "; ".join(f"{owner} {read[0]} to {read[-1]}, {len(read)} releases" for owner, read in tables),
        "environment": _codes(tuple(record.variables.split())),
        "metrics": "" if metrics is None else _metrics(metrics),
        "settings in its log": "as it prints them at the start" if record.words.settings else "",
        "judged from inside": _codes(tuple(f"{one.module}.{one.name}" for one in record.trackers())),
    }
    yield f"## {record.title}"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, text in rows.items():
        if text:
            yield f"| {name} | {text} |"
    yield ""


def _metrics(metrics: Metrics) -> str:
    named = sorted({row.split()[-2 if row.endswith(" off") else -1] for row in metrics.names.strip().splitlines()})
    return _codes(tuple(named)) or f"as {metrics.like}"


def _codes(items: tuple[str, ...]) -> str:
    return ", ".join(f"`{item}`" for item in dict.fromkeys(items))
