"""What a trainer hands over record by record is judged as its log is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor.logs.triage import triage_text
from rldoctor.model import Finding, Severity
from rldoctor.watch.measured import Measured

Record = dict[str, float]


def record(step: int, **changes: float) -> Record:
    healthy = {"loss": 0.01, "grad_norm": 0.3, "learning_rate": 1e-6, "reward": 0.3 + 0.01 * step, "reward_std": 0.2}
    return {**healthy, "frac_reward_zero_std": 0.0, "completions/clipped_ratio": 0.1, "epoch": step / 100, **changes}


SICK: dict[str, Record] = {
    "RLD501": {"reward": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0, "grad_norm": 0.0},
    "RLD502": {"grad_norm": 0.0, "loss": 0.0},
    "RLD503": {"completions/clipped_ratio": 1.0, "completions/mean_length": 512.0, "completions/max_length": 512.0},
    "RLD504": {"loss": float("nan"), "grad_norm": float("nan")},
}


@pytest.mark.parametrize("code", SICK)
def test_the_first_steps_show_it(code: str) -> None:
    reported: list[Finding] = []
    run = Measured(tell=reported.append)
    for step in range(1, 30):
        run.add(record(step, **SICK[code]), step)
    assert code in {finding.code for finding in reported}
    assert len({(finding.code, finding.severity) for finding in reported}) == len(reported)


def test_a_healthy_run_is_left_in_peace() -> None:
    run = Measured()
    assert [new for step in range(1, 200) if (new := run.add(record(step), step))] == []


@pytest.mark.parametrize("code", SICK)
def test_the_trainers_own_words_and_its_log_come_to_the_same(code: str) -> None:
    run = Measured()
    records = [record(step, **SICK[code]) for step in range(1, 20)]
    for step, one in enumerate(records, start=1):
        run.add(one, step)
    logged = triage_text("".join(f"{one}\n" for one in records), run.checks)
    assert {f.code for f in run.findings()} == {f.code for f in logged.findings if f.code.startswith("RLD5")}


def test_completions_of_a_group_that_are_all_alike() -> None:
    run = Measured()
    alike = [(f"prompt {n // 4}", "the same long answer to it") for n in range(16)]
    apart = [(f"prompt {n // 4}", f"answer number {n}, and a long one") for n in range(16)]
    for step in range(1, 12):
        run.add(record(step), step, alike)
    assert [finding.code for finding in run.findings()] == ["RLD311"]
    other = Measured()
    for step in range(1, 12):
        other.add(record(step), step, apart)
    assert other.findings() == ()


def test_an_error_lasts_only_as_long_as_nothing_breaks_it() -> None:
    run = Measured()
    for step in range(1, 11):
        run.add(record(step, **SICK["RLD501"]), step)
    assert run.lasting(7) == ("RLD501",)
    assert run.lasting(20) == ()
    for step in range(11, 31):
        run.add(record(step), step)
    assert run.lasting(0) == ()


def test_evaluations_and_summaries_are_no_steps() -> None:
    run = Measured()
    for step in range(1, 30):
        run.add({"eval_loss": float("nan"), "eval_reward": 0.0}, step)
        run.add({"train_runtime": 1.0, "train_loss": float("nan")}, step)
    assert run.findings() == ()


CHILD = """
import json, site, sys
for folder in json.loads(sys.argv[1]):
    site.addsitedir(folder)
from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState
from rldoctor.watch.trainer import RLDoctorCallback

def trained(records, first, stop):
    callback = RLDoctorCallback(stop=stop)
    control, state = TrainerControl(), TrainerState(is_world_process_zero=first)
    handler = CallbackHandler([callback], None, None, None, None)
    control = handler.on_train_begin(None, state, control)
    for state.global_step, record in enumerate(records, start=1):
        control = handler.on_step_end(None, state, control)
        control = handler.on_log(None, state, control, record)
        if control.should_training_stop:
            break
    told = [[finding.code, finding.severity.value] for finding in callback.findings]
    return {"step": state.global_step, "stopped": control.should_training_stop, "findings": told}

for run in json.loads(sys.argv[2]):
    print("run", file=sys.stderr)
    print(json.dumps(trained(*run)))
"""


def records_of(sick: str) -> list[Record]:
    return [record(step, **SICK.get(sick, {})) for step in range(1, 41)]


@pytest.mark.engine
def test_transformers_own_handler_calls_it_and_stops(patient: Path) -> None:
    # Sick or not, the first process of the run or another, whether it is to stop, and whether it does.
    runs = [
        ("RLD501", True, True, True),
        ("RLD501", True, False, False),
        ("RLD501", False, True, False),
        ("", True, True, False),
    ]
    folders = [path for path in sys.path if path.endswith("site-packages")]
    given = [json.dumps(folders), json.dumps([(records_of(sick), first, stop) for sick, first, stop, _ in runs])]
    done = subprocess.run([str(patient), "-c", CHILD, *given], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stderr.split("run\n")[-len(runs) :]
    for (sick, first, _, stops), line, words in zip(runs, done.stdout.splitlines()[-len(runs) :], said, strict=True):
        reported = json.loads(line)
        assert reported["stopped"] is stops
        assert (20 < reported["step"] < 40) is stops
        assert bool(reported["findings"]) is bool(sick and first)
        assert ("RLD501" in words) is bool(sick and first)
        if stops:
            assert ["RLD501", Severity.ERROR.value] in reported["findings"]


TRAINED = """
import json, site, sys
for folder in json.loads(sys.argv[1]):
    site.addsitedir(folder)
import torch
from transformers import Trainer, TrainingArguments
from rldoctor.watch.trainer import RLDoctorCallback



class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, labels=None):
        return {"loss": (self.weight * x - labels).square().mean()}


class WithRewards(Trainer):
    records = ()

    def log(self, logs, *more, **named):
        # What TRL's trainers add to the loss in the same place.
        step = self.state.global_step
        super().log({**logs, **self.records[step - 1]} if "loss" in logs else logs, *more, **named)


def trained(records, stop):
    callback = RLDoctorCallback(stop=stop)
    trainer = WithRewards(
        model=Policy(),
        args=TrainingArguments(
            output_dir=sys.argv[3], max_steps=len(records), logging_steps=1, save_strategy="no", report_to=[],
            use_cpu=True,
        ),
        train_dataset=[{"x": torch.ones(1), "labels": torch.zeros(1)}] * 8,
        callbacks=[callback],
    )
    trainer.records = records
    trainer.train()
    return {"step": trainer.state.global_step, "findings": [finding.code for finding in callback.findings]}

for run in json.loads(sys.argv[2]):
    print(json.dumps(trained(*run)))
"""


@pytest.mark.engine
def test_a_real_trainer_of_transformers_is_stopped(patient: Path, tmp_path: Path) -> None:
    """Needs accelerate, which the patient of the set-up has."""
    known = [str(patient), "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('accelerate') is None)"]
    if subprocess.run(known, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip(f"{patient} has no accelerate, without which transformers trains nothing")
    runs = [("RLD501", True), ("RLD501", False), ("", True)]
    folders = [path for path in sys.path if path.endswith("site-packages")]
    given = [json.dumps(folders), json.dumps([(records_of(sick), stop) for sick, stop in runs]), str(tmp_path)]
    done = subprocess.run(
        [str(patient), "-c", TRAINED, *given], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step"')]
    for (sick, stop), reported in zip(runs, told, strict=True):
        assert (20 < reported["step"] < 40) is bool(sick and stop)
        assert set(reported["findings"]) == ({sick} if sick else set())


RANK = """
import json, site, sys
for folder in json.loads(sys.argv[1]):
    site.addsitedir(folder)
import datetime
import torch.distributed as dist
from types import SimpleNamespace
from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState
from rldoctor.watch.trainer import RLDoctorCallback

rank = int(sys.argv[3])
dist.init_process_group(
    "gloo", init_method=f"file://{sys.argv[4]}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=240)
)
handler = CallbackHandler([RLDoctorCallback(stop=True)], None, None, None, None)
arguments, control = SimpleNamespace(device="cpu"), TrainerControl()
state = TrainerState(is_world_process_zero=not rank)
for state.global_step, record in enumerate(json.loads(sys.argv[2]), start=1):
    dist.barrier()
    control = handler.on_log(arguments, state, control, record)
    if control.should_training_stop:
        break
print(state.global_step, control.should_training_stop, flush=True)
# A rank that leaves while the other still talks to it may end it with an abort.
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.engine
def test_all_ranks_of_a_run_stop_at_the_same_step(patient: Path, tmp_path: Path) -> None:
    """Only the first rank judges; a run that it left alone would stand still."""
    records = [record(step, **SICK["RLD501"]) for step in range(1, 41)]
    folders = [path for path in sys.path if path.endswith("site-packages")]
    given = [json.dumps(folders), json.dumps(records)]
    ranks = [
        subprocess.Popen(
            [str(patient), "-c", RANK, *given, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        ended = [rank.communicate(timeout=300) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    said = [out.splitlines()[-1:] for out, _ in ended]
    assert said[0] == said[1] == ["23 True"], ended
