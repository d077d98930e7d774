"""What stands on a page without colours is what rich prints there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldoctor.catalogue import example
from rldoctor.report.console import drawn
from rldoctor.report.detail import Detail
from rldoctor.report.page import ELSEWHERE, Drawn, Page, Plain
from rldoctor.report.rich_text import print_report
from tests.loaded import REGISTRY

TEXTS = st.one_of(
    st.text(st.sampled_from("ab 漢é\n\t[]/:\r\x1b\u00a0\u200b"), max_size=40),
    st.text(max_size=20),
    st.sampled_from(["x" * ELSEWHERE, "two words " * ELSEWHERE, "[bold]no markup[/bold]", ":smile:", ""]),
)


def both(write: object) -> tuple[str, str]:
    """What is written on a plain page, and what rich makes of it."""
    assert callable(write)
    page = Plain()
    write(page)
    return page.text, drawn(lambda console: write(Drawn(console)), terminal=False)


@settings(max_examples=200)
@given(st.lists(st.tuples(TEXTS, st.sampled_from(["", "dim", "bold red"])), min_size=1, max_size=3), st.integers(0, 4))
def test_a_line(parts: list[tuple[str, str]], indent: int) -> None:
    plain, by_rich = both(lambda page: page.line(*parts, indent=indent))
    assert plain == by_rich


@settings(max_examples=200)
@given(TEXTS)
def test_what_is_there_to_be_copied(text: str) -> None:
    plain, by_rich = both(lambda page: page.verbatim(text))
    assert plain == by_rich


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("code", ["RLD104", "RLD202", "RLD301", "RLD402", "RLD501", "RLD604"])
def test_a_report(code: str, detail: Detail) -> None:
    file = example.file_of(REGISTRY.checks[code])
    assert file is not None
    report = example.judge(example.read(file).fires, REGISTRY)

    def write(page: Page) -> None:
        print_report(page, report, detail)

    plain, by_rich = both(write)
    assert plain == by_rich and code in plain


def test_a_report_for_a_file_needs_no_rich() -> None:
    source = (
        "import sys; from rldoctor.cli import main\n"
        "try: main(['check', '--level', 'static', '--fail-on', 'never'])\n"
        "except SystemExit: pass\n"
        "assert 'rich.console' not in sys.modules"
    )
    # Given, since readline leaves a COLUMNS in the environment of which Python does not know.
    environ = dict(os.environ)
    subprocess.run([sys.executable, "-c", source], stdout=subprocess.DEVNULL, env=environ, check=True, timeout=120)
