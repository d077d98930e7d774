"""Worked examples: every code's is judged as the command line judges, and a file that is none says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import rldoctor_checks

from rldoctor.api import Case, Check, Finding, Outcome, Reach, Severity
from rldoctor.catalogue import example
from rldoctor.catalogue.registry import Registry
from rldoctor.errors import InputError
from rldoctor.model import Report
from rldoctor.plan.vocabulary import terms
from rldoctor.report import explanation
from tests.loaded import REGISTRY

# One worker judges each example, and once.
pytestmark = pytest.mark.xdist_group("examples")
BUILTIN = sorted(code for code in REGISTRY.checks if REGISTRY.origin[code].startswith("builtin"))
TOLD = """## Fires

Too many.

```bash train.sh
vllm serve model --port 8000
```

## Stays quiet

```diff train.sh
-vllm serve model --port 8000
+vllm serve model
```
"""


# What a person reads names settings as the framework, vLLM or plain words do, never as rldoctor does inside.
NAMES = "|".join(sorted((re.escape(name) for name in terms()), key=len, reverse=True))
INTERNAL = re.compile(rf"(?<![\w./-])(?:plan\.)?(?:{NAMES}|engine\.[a-z]\w+|env\.[A-Z]\w+|native\.\w+)(?![\w.])")


@dataclass(frozen=True)
class Judged:
    """A code's example, and what is said of its two halves."""

    code: str
    read: example.Example
    fires: Report
    quiet: Report


@pytest.fixture(scope="module", params=BUILTIN)
def judged(request: pytest.FixtureRequest) -> Judged:
    file = example.file_of(REGISTRY.checks[request.param])
    assert file is not None, f"{request.param} has no example"
    read = example.read(file)
    return Judged(request.param, read, example.judge(read.fires, REGISTRY), example.judge(read.quiet, REGISTRY))


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


def test_what_fires(judged: Judged) -> None:
    assert judged.code in {finding.code for finding in judged.fires.findings}


@pytest.mark.parametrize("side", ["fires", "quiet"])
def test_no_name_of_the_inside_leaves_it(judged: Judged, side: str) -> None:
    written = "\n".join(getattr(judged.read, side).files.values())
    said = [(name, text) for text in texts(getattr(judged, side)) for name in INTERNAL.findall(text)]
    assert [text for name, text in said if name not in written] == []


def test_a_fix_does_not_say_twice_what_is_left_out(judged: Judged) -> None:
    fixes = [fix for finding in judged.fires.findings for fix in finding.fixes]
    left_out = [(fix.title, edit.spelled or "") for fix in fixes for edit in fix.edits]
    gone = [(title, spelled[8:].lstrip("-")) for title, spelled in left_out if spelled.startswith("without ")]
    assert [title for title, option in gone if option in title] == []


def test_what_stays_quiet(judged: Judged) -> None:
    report = judged.quiet
    assert judged.code not in {finding.code for finding in report.findings}
    (result,) = [result for result in report.results if result.code == judged.code]
    assert result.outcome in (Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.NOT_CHECKED)
    if report.incident is None:  # a launch that is quiet for one code should be a sound one
        assert not [finding for finding in report.findings if finding.severity is not Severity.NOTE]


def test_every_file_is_an_example_of_a_code() -> None:
    folder = Path(rldoctor_checks.__file__).parent
    assert set(folder.rglob("*.md")) == {example.file_of(REGISTRY.checks[code]) for code in BUILTIN}


def test_nothing_of_this_machine_is_known() -> None:
    seen: list[Case] = []
    check = Check("ACME01", "sees-all", "doc")

    @check.declared(needs=["plan"])
    def looks(case: Case) -> Iterator[Finding | Reach]:
        seen.append(case)
        yield from ()

    loaded = Registry()
    loaded.add("acme", check)
    example.judge(example.Scene((), {"train.sh": "vllm serve model\n"}), loaded)
    assert [(case.packages, case.gpus, case.host, case.environment) for case in seen] == [(None, None, None, None)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "ACME01.md"
    file.write_text(TOLD)
    return file


def test_a_plugin_names_its_example(file: Path) -> None:
    check = Check("ACME01", "port-given", "A port is given.", example=file)

    @check.declared(needs=["plan"])
    def given(case: Case) -> Iterator[Finding | Reach]:
        setting = case.plan.get("placement.listen_port") if case.plan is not None else None
        if setting is not None and setting.source == "given":
            yield check.finding("port 8000 is given", severity=Severity.WARNING)
        else:
            yield Reach("the port is the default")

    loaded = Registry()
    loaded.add("acme", check)
    text = explanation.render(check, loaded)
    assert text == (
        "# ACME01 port-given\n\nA port is given.\n\n"
        "## Fires\n\nToo many.\n\n`train.sh`:\n\n```bash\nvllm serve model --port 8000\n```\n\n"
        "**warning**: port 8000 is given\n\n"
        "## Stays quiet\n\n`train.sh`, changed:\n\n```diff\n-vllm serve model --port 8000\n+vllm serve model\n```\n\n"
        "**pass**\n"
    )


def test_files_go_by_their_names_in_the_example() -> None:
    assert "put a chat_template into model/tokenizer" in explanation.render(REGISTRY.checks["RLD215"], REGISTRY)


def test_parts_of_a_document_are_headings_and_its_addresses_links() -> None:
    first = "What it looks for\n    ``a_b`` and *args* of <x>.\n\n    More."
    doc = f"One line.\n\n{first}\n\nReferences\n    https://a.example/b_c, x"
    assert explanation.render(Check("ACME01", "none", doc), Registry()) == (
        "# ACME01 none\n\nOne line.\n\n## What it looks for\n\n``a_b`` and \\*args\\* of &lt;x>.\n\nMore.\n\n"
        "## References\n\n<https://a.example/b_c>, x\n"
    )


def test_a_check_without_an_example_is_its_document() -> None:
    assert (
        explanation.render(Check("ACME01", "none", "Nothing more."), Registry()) == "# ACME01 none\n\nNothing more.\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("## Stays quiet", "## Is quiet", "the headings '## Fires' and '## Stays quiet' are expected"),
        ("-vllm serve model --port 8000", "-vllm serve other", "takes away stands there 0 times"),
        ("```diff train.sh", "```diff", "a block that names no file"),
        ("8000\n```\n", "8000\n", "a block that names no file, or has no end"),
        ("```bash train.sh\nvllm serve model --port 8000\n```\n", "", "no block names a file"),
    ],
)
def test_a_file_that_is_no_example(file: Path, old: str, new: str, complaint: str) -> None:
    file.write_text(TOLD.replace(old, new))
    with pytest.raises(InputError, match=complaint):
        example.read(file)
    check = Check("ACME01", "port-given", "A port is given.", example=file)
    assert explanation.render(check, Registry()).splitlines()[-1].startswith("The example cannot be judged: ")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"nowhere\.md: "):
        example.read(Path("nowhere.md"))
