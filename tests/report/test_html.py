"""The page: complete in itself, safe with foreign text, readable in both colour schemes, with what the case holds."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rldoctor import exhibits, report
from rldoctor.api import Case
from rldoctor.case import Series
from rldoctor.exhibits.model import Agreement, Curve, Exhibits, Length, Memory, Part, Phase, Rank, Ranks, Version
from rldoctor.model import Evidence, Finding, Fix, Report, Severity
from rldoctor.report import html, shapes
from tests import plans
from tests.commands import run
from tests.report.test_formats import CRASH, MISSING, REPORT
from tests.test_cli import VERL

BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
HOSTILE = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}{% raw %}&lt;"
VOID = {"meta", "link", "img", "br", "rect", "line", "polyline", "circle"}


class Reader(HTMLParser):
    """The elements of a page, each with its attributes; complains of tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(reported: Report) -> str:
    return report.renderer("html")(reported)


def case(**settings: Any) -> Case:
    return plans.case(config=plans.QWEN2_7B, capability="8.0", versions={"vllm": "0.8.5", "verl": "0.4.0"}, **settings)


FULL = Exhibits(
    title="run.sh",
    lengths=(
        Length(name="prompt + response", tokens=300, parts=(("prompt", 100), ("response", 200))),
        Length(name="token budget", tokens=200, source="run.sh:3"),
        Length(name="model's positions", tokens=None, note="no config.json"),
    ),
    memory=Memory(
        device=80.0 * (1 << 30),
        phases=(
            Phase(name="update", parts=(Part(name="weights", size=60e9), Part(name="logits", size=50e9, likely=True))),
        ),
    ),
    ranks=Ranks(replicas=((Rank(rank=0, node=0, seed=7), Rank(rank=1, node=0, seed=None)),), formula="7 + replica"),
    versions=(Version(name="vllm", version="0.12.0", met=("verl 0.4.0: <1",), refused=("trl 0.19.1: <0.12",)),),
    metrics=(Curve(name="reward", key="reward", steps=(1, 2, 3, 4), values=(0.5, None, 0.25, 1.0), marked=(3,)),),
    agreement=Agreement(points=((-1.0, -1.0), (-3.5, -3.0)), tokens=120, mean=0.01, largest=0.5),
)


@pytest.mark.parametrize(
    "reported",
    [
        REPORT,
        replace(REPORT, incident=CRASH),
        Report(target="nothing", results=(), missing=MISSING),
        replace(REPORT, exhibits=(FULL,)),
        replace(REPORT, exhibits=(FULL, replace(FULL, title="other.sh"))),
    ],
)
def test_the_page_needs_nothing_from_elsewhere(reported: Report) -> None:
    text = page(reported)
    read = Reader(text)
    assert len(text) < 300_000
    assert "script" not in {tag for tag, _ in read.found}
    for tag, attributes in read.found:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "xlink:href"):
            if attributes.get(name) is not None:
                assert tag == "a" or attributes[name] == "data:,"
    assert "url(" not in text and "@import" not in text


def test_the_verdict_is_the_heading_and_comes_first() -> None:
    text = page(REPORT)
    assert "error RLD202 (run.sh:7)" in re.findall(r"<h1>(.*?)</h1>", text)[0]
    assert text.index("<h1>") < text.index("<article")


@pytest.mark.parametrize(
    ("findings", "missing", "tone"),
    [
        (("error",), (), "findings"),
        (("warning",), (), "warning"),
        (("note",), (), "note"),
        ((), (), "passed"),
        ((), MISSING, "not-judged"),
    ],
)
def test_only_a_report_without_findings_is_green(findings: tuple[str, ...], missing: Any, tone: str) -> None:
    found = tuple(replace(REPORT.findings[0], severity=Severity(one)) for one in findings)
    assert f'<header class="{tone}">' in page(Report(target="x", results=(), ranked=found, missing=missing))


def test_foreign_text_is_text_wherever_it_stands() -> None:
    finding = replace(
        REPORT.findings[0],
        message=HOSTILE,
        evidence=(Evidence(text=HOSTILE, source=HOSTILE, line=3),),
        fixes=(Fix(title=HOSTILE, commands=(HOSTILE,), side_effects=HOSTILE, proven=HOSTILE),),
        url="javascript:alert(3)",
        cases=(HOSTILE,),
    )
    drawn = replace(
        FULL,
        title=HOSTILE,
        lengths=(Length(name=HOSTILE, tokens=1, note=HOSTILE, source=HOSTILE, parts=((HOSTILE, 1),)),),
        memory=Memory(device=None, phases=(Phase(name=HOSTILE, parts=(Part(name=HOSTILE, size=1, assumes=HOSTILE),)),)),
        ranks=Ranks(replicas=((Rank(rank=0, node=0, seed=1),),), formula=HOSTILE),
        versions=(Version(name=HOSTILE, version=HOSTILE, met=(HOSTILE,), refused=(HOSTILE,), unknown=HOSTILE),),
        metrics=(Curve(name=HOSTILE, key=HOSTILE, steps=(1, 2), values=(1.0, 2.0)),),
    )
    reported = Report(
        target=HOSTILE,
        results=tuple(replace(result, name=HOSTILE, reason=HOSTILE, findings=()) for result in REPORT.results),
        ranked=(finding,),
        notes=(HOSTILE,),
        missing=MISSING,
        incident=replace(CRASH, exception=HOSTILE, cascades=(HOSTILE,), frames=(HOSTILE,), versions={HOSTILE: HOSTILE}),
        exhibits=(drawn, drawn),
    )
    text = page(reported)
    read = Reader(text)
    assert {tag for tag, _ in read.found} & {"script", "img", "iframe", "object", "form"} == set()
    assert [a["href"] for tag, a in read.found if tag == "a"] == []
    assert not any(name.startswith("on") for _, attributes in read.found for name in attributes)
    assert text.count("<style>") == text.count("</style>") == 1
    assert "49" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    assert read.text.count("{{ 7*7 }}") > 20


def test_what_is_copied_is_exactly_the_fix() -> None:
    command = "pip install 'vllm>=0.8,<0.9' && echo \"$HOME\" # <done>"
    finding: Finding = replace(REPORT.findings[0], fixes=(Fix(title="t", commands=(command,)),))
    read = Reader(page(Report(target="x", results=(), ranked=(finding,))))
    assert command in read.text


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


CSS = (Path(html.__file__).parent / "page.css").read_text()
SCHEMES = [
    pytest.param(dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6});", block)), id=name)
    for name, block in zip(("light", "dark"), re.findall(r":root \{(.*?)\}", CSS, re.S), strict=True)
]


def too_faint(colours: dict[str, str], names: Iterable[str], least: float) -> dict[tuple[str, str], float]:
    """The pairs of a colour and what it may stand on that differ less than this."""
    pairs = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in itertools.product(names, ("back", "panel"))}
    return {pair: round(ratio, 1) for pair, ratio in pairs.items() if ratio < least}


@pytest.mark.parametrize("colours", SCHEMES)
def test_text_can_be_read_in_both_schemes(colours: dict[str, str]) -> None:
    """WCAG 2.2 AA, 1.4.3: every colour that a rule gives to text, and the text on the bars."""
    texts = set(re.findall(r"[{;] *color: var\(--(\w+)\)", CSS))
    assert {"text", "dim", "red"} <= texts
    assert too_faint(colours, texts, 4.5) == {}
    assert [n for n in range(shapes.COLOURS) if contrast(colours["text"], colours[f"c{n}"]) < 4.5] == []


@pytest.mark.parametrize("colours", SCHEMES)
def test_lines_and_marks_can_be_seen_in_both_schemes(colours: dict[str, str]) -> None:
    """WCAG 2.2 AA, 1.4.11: lines that mean something. A track is no more than the ground of its bars, whose text says
    what they are."""
    drawn = dict(re.findall(r"^([.\w: >]+) \{[^}]*stroke: var\(--(\w+)\)", CSS, re.M))
    ground = {".track", ".bar", ".bar.random"}
    assert {".mark", "polyline", ".alive", ".track.unknown"} <= drawn.keys()
    assert too_faint(colours, {colour for rule, colour in drawn.items() if rule not in ground}, 3.0) == {}
    assert "stroke-opacity" not in CSS


@pytest.mark.parametrize("colours", SCHEMES)
def test_what_the_keyboard_reaches_shows_it(colours: dict[str, str]) -> None:
    """WCAG 2.2 AA, 2.4.7 and 2.4.13: links, folds, and what scrolls."""
    (outline,) = re.findall(r":focus-visible \{ outline: (\d+)px solid var\(--(\w+)\)", CSS)
    assert int(outline[0]) >= 2 and too_faint(colours, [outline[1]], 3.0) == {}
    assert "outline: none" not in CSS
    read = Reader(page(replace(REPORT, exhibits=(FULL,))))
    scrolls = [attributes for tag, attributes in read.found if tag == "pre" or attributes.get("class") == "scroll"]
    assert scrolls and all(attributes.get("tabindex") == "0" for attributes in scrolls)


def test_on_paper_nothing_is_folded_or_cut() -> None:
    (paper,) = re.findall(r"@media print \{(.*?)\n\}", CSS, re.S)
    assert "details::details-content" in paper and "pre { white-space: pre-wrap" in paper


def test_only_what_the_case_holds_is_drawn() -> None:
    assert exhibits.of(Case(), REPORT).empty
    titles = re.findall(r"<h2>(.*?)</h2>", page(replace(REPORT, exhibits=(exhibits.of(Case(), REPORT),))))
    assert not {"Lengths", "Versions", "The run", "Memory of one device"} & set(titles)


def test_the_chain_of_lengths_and_what_ends_before_it() -> None:
    held = exhibits.of(
        case(
            lengths__prompt=1000,
            lengths__response=3000,
            engine__max_model_len=4096,
            engine__max_num_batched_tokens=2048,
        ),
        REPORT,
    )
    asked, context, budget, positions = shapes.drawing(held).lengths
    assert [bar.text for bar in asked.bars] == ["prompt 1,000", "response 3,000"]
    assert (context.over, budget.over, positions.over) == (False, True, False)
    assert budget.note == "run.sh:7"
    assert all(
        0 <= bar.x <= 100 and bar.x + bar.width <= 100.01 for row in (asked, context, budget) for bar in row.bars
    )


def test_a_length_that_is_not_known_is_drawn_as_unknown() -> None:
    held = exhibits.of(case(lengths__prompt=1000), REPORT)
    rows = shapes.drawing(held).lengths
    assert [row.known for row in rows] == [False, False, False, True]
    assert "response: not known" in rows[0].note
    assert 'class="track unknown"' in page(replace(REPORT, exhibits=(held,)))


def test_memory_is_stacked_against_the_device() -> None:
    held = exhibits.of(
        case(
            placement__mode="colocate",
            placement__trainer_gpus=8,
            trainer__strategy="fsdp",
            engine__gpu_memory_utilization=0.5,
        ),
        REPORT,
    )
    assert held.memory is not None and held.memory.phases
    rows = shapes.drawing(held).memory
    for row in rows:
        assert sum(bar.width for bar in row.bars) <= 100.01
        assert [bar.x for bar in row.bars] == sorted(bar.x for bar in row.bars)
        assert row.marks[0] <= 100


def test_memory_that_cannot_be_reported_says_why() -> None:
    held = exhibits.of(plans.case(), REPORT)
    assert held.memory is not None and held.memory.unknown
    assert held.memory.unknown in Reader(page(replace(REPORT, exhibits=(held,)))).text


def test_one_colour_is_one_seed() -> None:
    (first, second) = shapes.drawing(
        Exhibits(
            title="x",
            ranks=Ranks(
                replicas=((Rank(rank=0, node=0, seed=1), Rank(rank=1, node=0, seed=1)), (Rank(rank=2, node=1, seed=2),))
            ),
        )
    ).ranks
    assert first[0].colour == first[1].colour != second[0].colour


@pytest.mark.parametrize(
    ("values", "lines", "gaps"),
    [
        ((1.0, 2.0, 3.0, 4.0), 1, 0),
        ((1.0, None, 3.0, 4.0), 1, 1),
        ((None, None, None, None), 0, 4),
        ((5.0, 5.0, 5.0, 5.0), 1, 0),
        ((-1.7e308, 1.7e308, 0.0, 1.0), 1, 0),
    ],
)
def test_a_curve_breaks_where_there_is_no_number(values: tuple[float | None, ...], lines: int, gaps: int) -> None:
    (plot,) = shapes.drawing(
        Exhibits(title="x", metrics=(Curve(name="kl", key="kl", steps=(1, 2, 3, 4), values=values),))
    ).plots
    assert (len(plot.lines), len(plot.gaps)) == (lines, gaps)
    places = [float(part) for line in plot.lines for pair in line.split() for part in pair.split(",")]
    assert all(0 <= place <= 100 for place in places)


def test_the_step_that_a_finding_names_is_marked_and_long_runs_are_thinned() -> None:
    steps = tuple(range(5000))
    series = Series(key="reward", steps=steps, values=tuple(float(s) for s in steps), source="run.log", lines=steps)
    cited = Evidence(text="step 77", source="run.log", line=77)
    reported = Report(target="x", results=(), ranked=(replace(REPORT.findings[0], evidence=(cited,)),))
    (curve,) = exhibits.of(Case(metrics={"reward": series}), reported).metrics
    assert curve.marked == (77,)
    assert 77 in curve.steps and curve.steps[-1] == 4999
    assert len(curve.steps) < 500


def test_a_check_writes_the_page_with_its_pictures(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(VERL)
    done = run(
        "check", "run.sh", "--assume", "8xA100-80GB", "--assume", "vllm==0.7.3", "--assume", "verl==0.3.0.post1",
        "--level", "static", "--format", "html", "--output", "page.html", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    text = (tmp_path / "page.html").read_text()
    assert "<h2>Lengths</h2>" in text and "10,240 tokens" in text


def test_a_triage_draws_the_run(tmp_path: Path) -> None:
    lines = [
        f"{{'loss': 0.{n}, 'grad_norm': 0.1, 'learning_rate': 1e-6, 'reward': 0.{n}, 'epoch': 0.0{n}}}"
        for n in range(1, 9)
    ]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    done = run("triage", "run.log", "--format", "html", cwd=tmp_path)
    assert "<h2>The run</h2>" in done.stdout and "<polyline" in done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_browser_shows_it_without_a_word_of_complaint(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    file = tmp_path / "page.html"
    file.write_text(page(replace(REPORT, incident=CRASH, exhibits=(FULL,))))
    quiet = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = "--disable-component-update --disable-sync --enable-logging=stderr --v=0"
    done = subprocess.run(
        [
            CHROMIUM,
            *quiet.split(),
            *more.split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "<h1>" in done.stdout
    assert "CONSOLE" not in done.stderr, done.stderr
