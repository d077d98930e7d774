"""Steps in order: restarts, repeats, records without a number, and a bound on memory."""

from __future__ import annotations

from rldoctor.logs import metrics
from rldoctor.logs.metrics import track
from rldoctor.logs.metrics.track import Reading, Track


def reading(value: float, step: int | None = None, epoch: float | None = None, name: str = "loss") -> Reading:
    return Reading({name: (name, value)}, step=step, epoch=epoch)


def steps_of(*readings: Reading) -> tuple[int, ...]:
    kept = Track("log")
    for line, one in enumerate(readings, 1):
        kept.add(one, line)
    return kept.series()["loss"].steps


def test_a_resumed_run_forgets_what_it_repeats() -> None:
    kept = Track("log")
    for step, value in ((1, 0.1), (2, 0.2), (3, 0.3), (2, 0.25), (3, 0.35)):
        kept.add(reading(value, step))
    assert kept.series()["loss"].values == (0.1, 0.25, 0.35)


def test_the_last_of_several_runs_counts() -> None:
    assert steps_of(reading(1, epoch=0.1), reading(2, epoch=0.2), reading(3, epoch=0.1)) == (1,)


def test_ranks_that_print_the_same_count_once() -> None:
    assert steps_of(reading(1, epoch=0.1), reading(1, epoch=0.1), reading(2, epoch=0.2)) == (1, 2)


def test_scalars_of_one_step_come_together() -> None:
    kept = Track("events")
    kept.add(reading(1, 1))
    kept.add(reading(2, 1, name="kl"))
    assert kept.series()["kl"].steps == (1,)


def test_a_bar_written_before_all_records_does_not_shift_them() -> None:
    lines = [" 50%|█ | 2/4 [00:01<00:01]", "100%|██| 4/4 [00:02<00:00]"]
    lines += [f"{{'loss': '0.{n}', 'grad_norm': '1', 'epoch': '0.{n}'}}" for n in range(1, 5)]
    assert metrics.collect(("log", n, line) for n, line in enumerate(lines, 1))["loss"].steps == (1, 2, 3, 4)


def test_other_bars_count_no_steps() -> None:
    lines = ["Loading weights: 100%|██| 27/27 [00:00<00:00]", "{'loss': '0.1', 'grad_norm': '1', 'epoch': '0.1'}"]
    assert metrics.collect(("log", n, line) for n, line in enumerate(lines, 1))["loss"].steps == (1,)


def test_memory_is_bounded() -> None:
    kept = Track("log")
    for step in range(5 * track.MOST_STEPS):
        kept.add(reading(step, step))
        kept.add(reading(step, step, name="kl"))
    found = kept.series()
    assert len(found["loss"].steps) < track.MOST_STEPS
    assert found["loss"].values == tuple(float(step) for step in found["loss"].steps)
    assert found["kl"].steps == found["loss"].steps


def test_the_longest_of_several_series_is_kept() -> None:
    one, two = Track("a"), Track("b")
    one.add(reading(1, 1))
    two.add(reading(1, 1))
    two.add(reading(2, 2))
    assert metrics.merge([one.series(), two.series()])["loss"].source == "b"
