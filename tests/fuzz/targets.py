"""What is fuzzed: each target takes bytes, and only :class:`InputError` with one line may come out of it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from rldoctor import bundle, redact
from rldoctor.case import Case
from rldoctor.errors import InputError
from rldoctor.exhibits.sheet import sheet
from rldoctor.facts import assume, metadata, model_files
from rldoctor.fleet import folder as fleet_folder
from rldoctor.formats.hydra import interpolation, overrides
from rldoctor.formats.python.reader import read_python
from rldoctor.formats.shell.reader import read_shell
from rldoctor.formats.source import Source, decode
from rldoctor.formats.toml.reader import read_toml
from rldoctor.formats.yaml.reader import read_yaml
from rldoctor.frameworks.installed import InstalledOptions
from rldoctor.hang import flight_recorder
from rldoctor.hang import folder as hang_folder
from rldoctor.launch import recognise
from rldoctor.logs import encodings, liveness, times
from rldoctor.logs.baseline import Baseline
from rldoctor.logs.dumps import DumpParser, SummaryParser
from rldoctor.logs.metrics import Collector, read_files
from rldoctor.logs.model import Origin
from rldoctor.logs.novelty import Compared
from rldoctor.logs.paths import origin_of
from rldoctor.logs.prefixes import parse, unwrapped
from rldoctor.logs.quoting import Samples, is_quoted
from rldoctor.logs.reading import read
from rldoctor.logs.sources import TextSource
from rldoctor.logs.table import Table
from rldoctor.logs.templates import template
from rldoctor.logs.tracebacks import TracebackParser
from rldoctor.logs.triage import judged
from rldoctor.model import Outcome
from rldoctor.printable import printable
from rldoctor.project import baseline as project_baseline
from rldoctor.project import settings
from rldoctor.report import sheet as sheets
from tests.fuzz import fragments
from tests.loaded import REGISTRY


@dataclass(frozen=True)
class Target:
    """``run`` reads an input, ``pieces`` are what inputs of its kind are made of. ``share`` says how many of a hundred
    inputs it gets: the fewer the more one costs."""

    name: str
    run: Callable[[bytes], None]
    pieces: Callable[[], tuple[str, ...]]
    share: float


def one_line(data: bytes) -> None:
    """Prefixes, quoting, times, liveness and template of every line."""
    samples = Samples()
    for raw in data.split(b"\n"):
        text = encodings.text_of(raw)
        line = parse(text)
        assert len(line.text) <= len(text)
        samples.follow(line)
        is_quoted(line.text, len(line.text) // 2)
        liveness.is_progress(line), liveness.is_ordinary(line), liveness.bar_position(line)
        template(line.text), unwrapped(text), times.seconds(text), origin_of(text)


def traceback(data: bytes) -> None:
    """The parsers of exceptions, dumps and summaries, begun at some of the first hundred lines."""
    lines = [parse(encodings.text_of(raw)) for raw in data.split(b"\n")[:400]]
    for start in range(0, min(len(lines), 100), 7):
        parser = TracebackParser(Origin(), "log")
        dump, summary = DumpParser(lines[start], start, "log"), SummaryParser(start)
        parser.begin(lines[start], start)
        for number, line in enumerate(lines[start + 1 :], start + 1):
            if not parser.feed(line, number):
                break
        for number, line in enumerate(lines[start + 1 :], start + 1):
            if not (dump.feed(line, number) and summary.feed(line)):
                break
        found = parser.result()
        assert found is None or found.text is not None
        assert dump.result().line == start
        rank = summary.result("log").rank
        assert rank is None or rank.isdigit()


def metrics(data: bytes) -> None:
    """What trainers print of their steps."""
    collector = Collector()
    for number, raw in enumerate(data.split(b"\n"), 1):
        collector.feed("log", number, unwrapped(encodings.text_of(raw)))
        collector.follows("log")
    collector.series()


_METRIC_FILES = ("events.out.tfevents.1", "run-1.wandb", "completions_1.parquet", "trainer_state.json", "x.jsonl")


def metric_file(data: bytes) -> None:
    """Files that hold metrics; the first byte says of which kind."""
    with _file(_METRIC_FILES[data[0] % len(_METRIC_FILES)] if data else "x.jsonl", data[1:]) as path, _refused():
        read_files([path])


def stream(data: bytes) -> None:
    """Encodings, compression, blocks and the pass over a log, without signatures."""
    with _refused():
        record = read(TextSource("log", data), _no_signatures())
        assert all(1 <= raw.number <= record.lines for raw in record.exceptions)


def log(data: bytes) -> None:
    """A whole triage with all checks, against a baseline of the input's first half."""
    with _refused():
        baseline = Baseline()
        baseline.add(data[: len(data) // 2])
        source = TextSource("log", data)
        report = judged(
            source, _signatures(), list(REGISTRY.checks.values()), Case(), Compared(baseline, {"log": source})
        )
        crashed = [result for result in report.results if result.outcome is Outcome.CRASHED or result.traceback]
        assert not crashed, crashed[0].traceback


def shell(data: bytes) -> None:
    with _refused():
        read_shell(Source(decode(data, "run.sh"), "run.sh"), {"HOME": "/root"})


def config(data: bytes) -> None:
    for reader in (read_yaml, read_toml):
        with _refused():
            reader(Source(decode(data, "config.yaml"), "config.yaml"))


def hydra(data: bytes) -> None:
    """Values and interpolations; each line is the value of a letter, so that lines may refer to each other."""
    lines = data.decode("utf-8", "replace").split("\n")[:26]
    values = dict(zip("abcdefghijklmnopqrstuvwxyz", lines, strict=False))
    for line in lines:
        overrides.parse(line)
        interpolation.fill(line, "a.b", lambda name: values.get(name, interpolation.MISSING), {"HOME": "/root"}, {})


def python(data: bytes) -> None:
    with _refused():
        read_python(Source(decode(data, "train.py"), "train.py"))


def door(data: bytes) -> None:
    """What leaves: nothing is found in what was already cleaned, and lines stay lines."""
    redact.begin({})
    redact.learn(data)
    text = data.decode("utf-8", "replace")
    clean = redact.text(text)
    assert clean.count("\n") == text.count("\n")
    redact.tree({"said": text.split("\n"), "more": {line[:40]: line for line in text.split("\n")}})
    printable(clean)


_FACT_FILES = (
    "rldoctor.toml",
    "pyproject.toml",
    "machine.json",
    "bundle.json",
    "config.json",
    "METADATA",
    "direct_url.json",
)


def facts(data: bytes) -> None:
    """Settings, bundles, machine.json, a model's configuration and the metadata of a package; the first byte says which
    it is."""
    name = _FACT_FILES[data[0] % len(_FACT_FILES)] if data else "rldoctor.toml"
    with _file(name, data[1:]) as path:
        try:
            with _refused():
                if name.endswith(".toml"):
                    settings.load(path.parent)
                elif name == "machine.json":
                    assume.read_machine(path)
                elif name == "bundle.json":
                    bundle.load(path)
                elif name == "config.json":
                    model_files.read(path.parent)
                else:
                    metadata.read_headers(path.parent)
                    metadata.editable_tree(path.parent)
        finally:
            path.unlink()


def flight(data: bytes) -> None:
    """A dump of torch's flight recorder, which is a pickle: nothing in it is made but plain values."""
    flight_recorder.parse(data, Path("dump"), "0", 0.0)


_LAUNCH_FILES = ("run.sh", "run.sbatch", "config.yaml", "config.toml", "train.py", "launch")


def launch(data: bytes) -> None:
    """A launch file as a whole, with every dialect; the first byte says of which kind."""
    with _file(_LAUNCH_FILES[data[0] % len(_LAUNCH_FILES)] if data else "run.sh", data[1:]) as path, _refused():
        recognise.read(path, environment={"HOME": "/root"})


_RECIPE_FILES = ("train.ipynb", "Makefile", "justfile", "task.yaml", "job.yaml", "launch.sh")


def recipe(data: bytes) -> None:
    """What starts launches without being one: notebooks, recipes, manifests, tasks of a scheduler; the first byte says
    of which kind. What it comes to is made, too."""
    name = _RECIPE_FILES[data[0] % len(_RECIPE_FILES)] if data else "launch.sh"
    with _file(name, data[1:]) as path, _refused():
        for plan in recognise.read(path, environment={"HOME": "/root"}, version_of={"verl": "0.6.1", "vllm": "0.11.0"}):
            made = sheet(Case(plan=plan))
            sheets.renderer("rich", to_file=True)((made,)), sheets.renderer("json", to_file=True)((made,))


_SAVED_FILES = ("report.json", "hang.json", "fleet.json", "trl/trainer/grpo_config.py")


def saved(data: bytes) -> None:
    """What an earlier command left and another package brings: a baseline, a stalled run, the bundle of a node, the
    source of an odd release's options."""
    name = _SAVED_FILES[data[0] % len(_SAVED_FILES)] if data else "report.json"
    with _file(name, data[1:]) as path:
        try:
            with _refused():
                if name == "report.json":
                    project_baseline.load(path)
                elif name == "hang.json":
                    hang_folder.load((path,))
                elif name == "fleet.json":
                    fleet_folder.read(path.parent)
                else:
                    InstalledOptions(_scratch()).at("trl", None, {"transformers": "5.0.0"})
        finally:
            path.unlink()


@contextmanager
def _refused() -> Iterator[None]:
    """An input may be refused, in one line."""
    try:
        yield
    except InputError as error:
        assert "\n" not in str(error), str(error)


@contextmanager
def _file(name: str, data: bytes) -> Iterator[Path]:
    path = _scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    yield path


@lru_cache(maxsize=1)
def _scratch() -> Path:
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    made = tempfile.mkdtemp(prefix=f"rldoctor-fuzz-{os.getpid()}-", dir=where)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


@cache
def _signatures() -> Table:
    return Table(list(REGISTRY.checks.values()))


@cache
def _no_signatures() -> Table:
    return Table([])


def _of_logs() -> tuple[str, ...]:
    return (*fragments.LOG, *fragments.METRICS, *fragments.literals())


def _of_recipes() -> tuple[str, ...]:
    return (*fragments.SHELL, *fragments.YAML, *fragments.RECIPES)


def _of_launches() -> tuple[str, ...]:
    return (*fragments.SHELL, *fragments.YAML, *fragments.PYTHON)


TARGETS = {
    target.name: target
    for target in (
        Target("line", one_line, _of_logs, 20),
        Target("traceback", traceback, lambda: fragments.LOG, 16),
        Target("metrics", metrics, lambda: (*fragments.METRICS, *fragments.LOG), 16),
        Target("metric_file", metric_file, lambda: fragments.METRICS, 10),
        Target("stream", stream, lambda: fragments.LOG, 6),
        Target("log", log, _of_logs, 2),
        Target("shell", shell, lambda: fragments.SHELL, 8),
        Target("config", config, lambda: fragments.YAML, 5),
        Target("hydra", hydra, lambda: (*fragments.SHELL, *fragments.YAML), 10),
        Target("python", python, lambda: fragments.PYTHON, 6),
        Target("launch", launch, _of_launches, 1),
        Target("door", door, lambda: (*fragments.SECRETS, *fragments.SHELL, *fragments.YAML), 1),
        Target("facts", facts, lambda: (*fragments.FACTS, *fragments.YAML), 6),
        Target("flight", flight, lambda: fragments.PICKLES, 3),
        Target("recipe", recipe, _of_recipes, 1),
        Target("saved", saved, lambda: (*fragments.FACTS, *fragments.PYTHON), 3),
    )
}
