"""What a person reads names settings as the framework, vLLM or plain words do, never as rldoctor does inside."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from rldoctor.catalogue import example
from rldoctor.model import Report
from rldoctor.plan.vocabulary import terms
from tests.loaded import REGISTRY

EXAMPLES = {code: file for code, check in REGISTRY.checks.items() if (file := example.file_of(check)) is not None}
NAMES = "|".join(sorted((re.escape(name) for name in terms()), key=len, reverse=True))
INTERNAL = re.compile(rf"(?<![\w./-])(?:plan\.)?(?:{NAMES}|engine\.[a-z]\w+|env\.[A-Z]\w+|native\.\w+)(?![\w.])")


def texts(report: Report) -> Iterator[str]:
    """Everything that a report says in words."""
    for result in report.results:
        yield result.reason or ""
    for finding in report.findings:
        yield finding.message
        yield from (evidence.text for evidence in finding.evidence)
        for fix in finding.fixes:
            yield from (fix.title, fix.side_effects or "", *fix.commands)
            yield from (edit.spelled or f"not spelled: {edit.option}" for edit in fix.edits)


@pytest.mark.parametrize("code", sorted(EXAMPLES))
@pytest.mark.parametrize("side", ["fires", "quiet"])
def test_no_name_of_the_inside_leaves_it(code: str, side: str) -> None:
    scene: example.Scene = getattr(example.read(EXAMPLES[code]), side)
    written = "\n".join(scene.files.values())
    said = [text for text in texts(example.judge(scene, REGISTRY)) for name in INTERNAL.findall(text)]
    assert [text for text in said if not any(name in written for name in INTERNAL.findall(text))] == []
