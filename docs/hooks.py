"""Pages of the documentation that are made from the source: one for each code, and the frameworks."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File, Files

from rldoctor.catalogue import registry
from rldoctor.frameworks import frameworks
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
    rows = [_row(record) for record in sorted(frameworks(), key=lambda record: record.title.lower())]
    return "\n".join(
        [
            "# Frameworks",
            "",
            "Made from the records that the reading of launches, logs and processes derives from.",
            "",
            "| framework | packages | modules that its launches start | programs | options known by release |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(record: Framework) -> str:
    packages = ", ".join(dict.fromkeys(package.distribution or package.name for package in record.packages))
    options = ", ".join(record.layouts())
    return f"| {record.title} | {packages} | {_codes(record.modules)} | {_codes(record.programs)} | {options} |"


def _codes(items: tuple[str, ...]) -> str:
    return ", ".join(f"`{item}`" for item in dict.fromkeys(items))
