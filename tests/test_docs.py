"""The documentation is built from the source, and what it says to type works."""

from __future__ import annotations

import html
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fleet import FAULTS, healthy
from rldoctor import cli
from rldoctor.hang.folder import save
from rldoctor.hang.model import LogTail
from rldoctor.logs.model import Frame
from rldoctor.model import Level
from rldoctor.report import FORMATS
from tests.commands import run
from tests.hang.records import ALL_REDUCE, case, hang, rank
from tests.loaded import REGISTRY

ROOT = Path(__file__).resolve().parents[1]
PAGES = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}


# One worker builds the site, and once.
pytestmark = pytest.mark.xdist_group("docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_code_has_a_page_and_the_catalogue_leads_there(site: Path) -> None:
    catalogue = (site / "codes" / "index.html").read_text()
    for code, check in REGISTRY.checks.items():
        page = (site / "codes" / code / "index.html").read_text()
        assert check.name in page
        assert f'href="{code}/"' in catalogue
    assert "Stays quiet" in (site / "codes" / "RLD202" / "index.html").read_text()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"?(https?://[^\s\">]+)", page.read_text())
        assert not [url for url in fetched if not url.startswith("https://squidfunk")], page


def test_schemas_are_published_with_it(site: Path) -> None:
    for name in (f"{kind}.schema.json" for kind in ("report", "machine", "bundle", "settings")):
        assert (site / name).read_text() == (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_commands_and_options_that_it_names_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(
        r"(?<![-\w])rldoctor ([a-z]+)((?: +[^\s`|]+)*)", "\n".join(re.findall(r"`[^`]+`", PAGES[page], re.S))
    )
    for command, rest in shown:
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        known = capsys.readouterr().out
        assert "Usage" in known, command
        for option in re.findall(r"(?<=\s)--[a-z-]+", rest):
            assert option in known, f"{command} {option}"


LOG = ROOT / "tests" / "probes" / "scenarios" / "recorded" / "v0_min_tokens.log"


SICK = (
    "{'loss': 0.0, 'grad_norm': 0.0, 'reward': 0.0, 'reward_std': 0.0, 'epoch': %s}\n"
    "%d%%|#         | %d/500 [00:09<10:00,  1.2s/it]\n"
)
MACHINE = {"trl": "0.19.1", "vllm": "0.12.0", "torch": "2.9.0", "transformers": "4.57.1"}


def samples() -> Iterator[tuple[str, str]]:
    """The commands of the tour with what is shown behind them, up to the next one."""
    for _, block in re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", PAGES["tour.md"]):
        for sample in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, shown = sample.partition("\n")
            yield command.partition("   ")[0], shown


def _triage(folder: Path) -> None:
    (folder / "run.log").write_text(LOG.read_text())


def _launch(folder: Path) -> None:
    launch = re.search(r"```bash\n(python3 -m verl.*?)```", PAGES["index.md"], re.DOTALL)
    assert launch is not None
    (folder / "run_7b_long.sh").write_text(launch[1])


def _watch(folder: Path) -> None:
    steps = "".join(SICK % (step / 100, step / 5, step) for step in range(1, 13))
    (folder / "run.log").write_text("starting\n" * 411 + steps)


def _machine(folder: Path) -> None:
    (folder / "machine.json").write_text(json.dumps({"python": "3.12", "packages": MACHINE}))


def _fleet(folder: Path) -> None:
    faults = {137: FAULTS["another vLLM"][0], 512: FAULTS["seven GPUs"][0]}
    (folder / "bundles").mkdir()
    for number in range(1000):
        bundle = healthy(number)
        if number in faults:
            faults[number](bundle)
        (folder / "bundles" / f"{number}.json").write_text(json.dumps(bundle))


def _stall(folder: Path) -> None:
    main = Frame("train.py", 20, "<module>", "train()")
    waits = (
        main,
        Frame("train.py", 14, "train", "dist.all_reduce(torch.ones(4))"),
        *(frame for frame in ALL_REDUCE if "torch" in frame.file),
    )
    sleeps = (main, Frame("train.py", 6, "reward_function", "time.sleep(600)"))
    log = LogTail(file="/srv/run.log", quiet=20.0, limit=10.0)
    ranks = [
        replace(rank(number, frames, log=log), pid=24328 + number) for number, frames in enumerate((waits, sleeps))
    ]
    save(case(hang(*ranks)), folder / "saved")


@pytest.mark.parametrize(
    ("command", "prepare", "more"),
    [
        ("rldoctor triage run.log", _triage, ()),
        ("rldoctor check run_7b_long.sh", _launch, ()),
        ("rldoctor plan run_7b_long.sh", _launch, ()),
        ("rldoctor watch run.log", _watch, ("--idle", "0.2", "--every", "0.05")),
        ("rldoctor compat --assume machine.json", _machine, ()),
        ("rldoctor fleet bundles/", _fleet, ()),
        ("rldoctor hang ", _stall, ("--from", "saved")),
    ],
)
def test_what_the_tour_shows_is_what_is_printed(
    command: str, prepare: Callable[[Path], None], more: tuple[str, ...], tmp_path: Path
) -> None:
    """Save for line breaks and rules, and for what is left out where ``...`` stands."""
    prepare(tmp_path)
    # What is judged a second time is saved already.
    kept = re.compile(r"(?m)^note: everything that was collected is in .*\n")
    shown = [(given, kept.sub("", text)) for given, text in samples() if f"{given} ".startswith(command) and text]
    assert shown
    for given, text in shown:
        printed = " ".join(re.sub("─+", "", run(*shlex.split(given)[1:], *more, cwd=tmp_path).stdout).split())
        for part in filter(None, (" ".join(part.split()) for part in re.split(r"(?m)^\.\.\.$", text))):
            assert part in printed


def test_the_picture_of_a_report_shows_what_is_printed(tmp_path: Path) -> None:
    """Save for line breaks; `python scripts/report_picture.py` draws it anew."""
    drawn = runpy.run_path(str(ROOT / "scripts" / "report_picture.py"))
    (tmp_path / drawn["FILE"]).write_text(drawn["LAUNCH"])
    (tmp_path / "machine.json").write_text(json.dumps(drawn["MACHINE"]))
    done = run("check", drawn["FILE"], "--assume", "machine.json", "--level", "static", cwd=tmp_path)
    picture = (ROOT / "docs" / "report.svg").read_text()
    shown = "".join(html.unescape(text) for text in re.findall(r">([^<>]*)</text>", picture))
    assert "".join(shown.partition("machine.json")[2].split()) == "".join(done.stdout.split())


@pytest.mark.engine
def test_what_the_tour_shows_of_a_live_engine_is_what_is_printed(patient: Path, tmp_path: Path) -> None:
    """The lines of `make doctor`, save for the numbers of this machine and its releases."""
    ((given, text),) = [one for one in samples() if one[0].startswith("rldoctor check --python .patient")]
    done = run(*shlex.split(given.replace(".patient/bin/python", str(patient)))[1:], cwd=tmp_path)
    printed = {_numberless(line) for line in [*done.stdout.splitlines(), *done.stderr.splitlines()]}
    missing = [line for line in text.splitlines() if _numberless(line) not in printed]
    assert not missing, done.stdout + done.stderr


@pytest.mark.engine
def test_what_the_tour_shows_of_a_fix_that_is_tried_is_what_is_printed(patient: Path, tmp_path: Path) -> None:
    """Progress first, then the report; save for line breaks, and for what is left out where ``...`` stands."""
    shown = dict(samples())
    ((given, text),) = [one for one in shown.items() if one[0].startswith("rldoctor check serve.sh")]
    (tmp_path / "serve.sh").write_text(shown["cat serve.sh"])
    done = run(*shlex.split(given.replace(".patient/bin/python", str(patient)))[1:], cwd=tmp_path)
    printed = _numberless(" ".join(f"{done.stderr} {done.stdout}".split()))
    for part in filter(None, re.split(r"(?m)^\.\.\.$", text)):
        assert _numberless(" ".join(part.split())) in printed, done.stdout + done.stderr


def _numberless(text: str) -> str:
    return re.sub(r"\d[\d.]*(?:\+cpu)?", "N", text)


def test_formats_and_levels_are_all_described() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGES["formats.md"], re.M)) == set(FORMATS)
    assert {level.label for level in Level} <= set(re.findall(r"^\| `(\w+)` \|", PAGES["tour.md"], re.M))
