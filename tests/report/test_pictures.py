"""Pictures of characters: what they show is what the case holds, in a width that a terminal has."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor import exhibits, report
from rldoctor.api import Case
from rldoctor.exhibits import agreement
from rldoctor.exhibits.model import Curve, Exhibits, Length, Memory, Part, Phase, Rank, Ranks
from rldoctor.report.console import drawn
from rldoctor.report.detail import Detail
from rldoctor.report.pictures import print_pictures, trend
from tests.commands import run
from tests.report.test_formats import REPORT
from tests.report.test_html import FULL
from tests.test_cli import VERL

GIB = 1 << 30


def shown(held: Exhibits, monkeypatch: pytest.MonkeyPatch, columns: int = 100) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return drawn(lambda console: print_pictures(console, held), terminal=False).splitlines()


def line_of(lines: list[str], name: str) -> str:
    (found,) = [line for line in lines if line.startswith(f"  {name}")]
    return found


def test_a_length_that_is_too_short_ends_before_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = (
        Length(name="prompt + response", tokens=400, parts=(("prompt", 100), ("response", 300))),
        Length(name="token budget", tokens=200, source="run.sh:3"),
    )
    lines = shown(Exhibits(title="x", lengths=lengths), monkeypatch)
    asked, budget = line_of(lines, "prompt + response"), line_of(lines, "token budget")
    assert asked.count("▓") == pytest.approx(3 * asked.count("█"), abs=2)
    assert budget.rindex("█") < budget.index("│") == asked.index("│")
    assert "200 tokens" in budget and "run.sh:3" in budget


def test_memory_beyond_the_device_lies_behind_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (Part(name="weights", size=60 * GIB), Part(name="KV cache", size=40 * GIB))
    held = Exhibits(title="x", memory=Memory(device=80.0 * GIB, phases=(Phase(name="rollout", parts=parts),)))
    lines = shown(held, monkeypatch)
    rollout = line_of(lines, "rollout")
    assert "100.0 GiB of 80.0" in rollout
    assert rollout.index("█") < rollout.index("▓") < rollout.index("│") < rollout.rindex("▓")
    assert any("█ weights: 60.0 GiB" in line and "▓ KV cache: 40.0 GiB" in line for line in lines)


def test_every_replica_has_its_seeds_and_many_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = tuple((Rank(rank=n, node=0, seed=7 + n), Rank(rank=n, node=0, seed=None)) for n in range(20))
    lines = shown(Exhibits(title="x", ranks=Ranks(replicas=replicas, formula="7 + replica", left_out=4)), monkeypatch)
    assert "[7] [random]" in line_of(lines, "replica 0:")
    assert line_of(lines, "and") == "  and 16 more replicas"


def test_a_trend_breaks_where_there_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = Curve(name="reward", key="reward", steps=(1, 2, 3), values=(0.0, None, 1.0))
    assert "▁?█" in line_of(shown(Exhibits(title="x", metrics=(curve,)), monkeypatch), "reward")
    assert trend((math.nan,)) == "?"
    assert trend((-1.7e308, 1.7e308)) == "▁█"


def test_nothing_is_drawn_of_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(Exhibits(title="x"), monkeypatch) == []


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_bars_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    bars = [line for line in shown(FULL, monkeypatch, columns) if "│" in line]
    assert bars
    assert all(line.rindex("│") < max(columns, 50) for line in bars)


def test_only_v_draws_them() -> None:
    drawn_report = replace(REPORT, exhibits=(FULL,))
    usual, everything = (
        report.renderer("rich", to_file=True, detail=detail)(drawn_report) for detail in (Detail.USUAL, Detail.ALL)
    )
    assert "replica 0:" in everything and "replica 0:" not in usual


def test_a_check_draws_the_lengths_of_its_launch(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(VERL)
    machine = ("--assume", "8xA100-80GB", "--assume", "vllm==0.7.3", "--assume", "verl==0.3.0.post1")
    done = run("check", "run.sh", *machine, "--level", "static", "-v", cwd=tmp_path)
    assert "10,240 tokens" in line_of(done.stdout.splitlines(), "prompt + response")


def rows(*pairs: tuple[float, float]) -> Case:
    plain = [{"trainer": [trainer for trainer, _ in pairs], "engine": [engine for _, engine in pairs]}]
    return Case(observations={"agreement": {"engine": {"records": {"plain": plain}}}})


def test_tokens_of_engine_and_trainer_are_held_against_each_other() -> None:
    found = agreement.of(rows((-1.0, -1.5), (-2.0, -2.0), (float("nan"), -1.0)))
    assert found is not None
    assert (found.tokens, found.mean, found.largest) == (2, 0.25, 0.5)
    assert found.points == ((-1.0, -1.5), (-2.0, -2.0))


def test_of_many_tokens_those_furthest_apart_are_drawn() -> None:
    found = agreement.of(rows(*[(-n / 1000, -n / 1000) for n in range(5000)], (-1.0, -9.0)))
    assert found is not None
    assert len(found.points) <= agreement.POINTS + 1
    assert (-1.0, -9.0) in found.points


def test_no_probe_no_plot() -> None:
    assert agreement.of(Case()) is None
    assert exhibits.of(Case(), REPORT).agreement is None
