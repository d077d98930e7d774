"""A framework that loads the hook tells it its metrics: stand-ins with the doors of the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor.frameworks import framework
from rldoctor.tables.symbols import Table

# What verl's package does with the variable since 0.6, and how its tracking keeps and calls loggers.
VERL = {
    "verl/__init__.py": """
import importlib, os
for name in filter(None, os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",")):
    importlib.import_module(name)
""",
    "verl/utils/__init__.py": "",
    "verl/utils/tracking.py": """
class Console:
    def log(self, data, step):
        print("step", step)

class Tracking:
    def __init__(self, project_name, experiment_name, default_backend="console", config=None):
        self.logger = {"console": Console()}

    def log(self, data, step, backend=None):
        for name, one in self.logger.items():
            if backend is None or name in backend:
                one.log(data=data, step=step)
""",
}
VERL_RUN = """
import sys
import verl
from verl.utils.tracking import Tracking

class Scalar:
    def item(self):
        return 0.0

tracking = Tracking("project", "experiment")
for step in range(1, 31):
    reward = 0.0 if sys.argv[1] == "sick" else step / 50
    tracking.log(step=step, data={
        "actor/pg_loss": reward / 9, "actor/grad_norm": Scalar() if not reward else 0.3, "actor/lr": 1e-6,
        "critic/score/mean": reward, "critic/score/max": 2 * reward, "critic/score/min": 0.0,
    })
"""
# How EasyR1 keeps and calls them; its clone gets the import as a line of its own.
EASYR1 = {
    "verl/__init__.py": "",
    "verl/utils/__init__.py": "",
    "verl/utils/logger/__init__.py": "from .logger import Tracker",
    "verl/utils/logger/logger.py": """
class Console:
    def log(self, data, step):
        print("step", step)

class Tracker:
    def __init__(self, loggers="console", config=None):
        self.loggers = [Console()]

    def log(self, data, step):
        for one in self.loggers:
            one.log(data=data, step=step)
""",
}
EASYR1_RUN = VERL_RUN.replace(
    "from verl.utils.tracking import Tracking",
    "from verl.utils.logger import Tracker as Tracking\nimport rldoctor.watch.hook",
).replace('Tracking("project", "experiment")', 'Tracking(["console"], {})')
# The list of ms-swift until 3.12, and the mapping since 4.0.
SWIFT_3 = {
    "swift/__init__.py": "",
    "swift/plugin/__init__.py": "",
    "swift/plugin/callback.py": "extra_callbacks = []",
}
SWIFT_4 = {
    "swift/__init__.py": "",
    "swift/callbacks/__init__.py": "",
    "swift/callbacks/mapping.py": "callbacks_map = {'early_stop': None}",
}
SWIFT_RUN = """
import sys
from types import SimpleNamespace
import swift
import rldoctor.watch.hook
try:
    from swift.plugin.callback import extra_callbacks as callbacks
except ImportError:
    from swift.callbacks.mapping import callbacks_map
    answers = [f"a long answer, number {n if sys.argv[1] == 'well' else 0}" for n in range(4)]
    trainer = SimpleNamespace(_logs={"prompt": ["the same"] * 4, "completion": answers})
    callbacks = [callbacks_map["rldoctor"](None, trainer)]
control = SimpleNamespace(should_training_stop=False)
(callback,) = callbacks
for step in range(1, 31):
    reward = 0.0 if sys.argv[1] == "sick" else step / 50
    print("step", step)
    callback.on_log(None, SimpleNamespace(is_world_process_zero=True, global_step=step), control, {
        "loss": reward / 9, "grad_norm": reward, "learning_rate": 1e-6, "reward": reward, "reward_std": reward / 3,
        "frac_reward_zero_std": 0.0 if reward else 1.0, "epoch": step / 100,
    })
    if control.should_training_stop:
        # What transformers logs of the whole run.
        callback.on_log(None, SimpleNamespace(global_step=step), control, {"train_loss": 0.1})
        break
"""
RUNS = {
    "verl": (VERL, VERL_RUN),
    "easyr1": (EASYR1, EASYR1_RUN),
    "swift-3": (SWIFT_3, SWIFT_RUN),
    "swift-4": (SWIFT_4, SWIFT_RUN),
}


def run(folder: Path, name: str, health: str, **variables: str) -> tuple[int, int, str]:
    """Exit status, number of steps, and what was said on standard error."""
    files, script = RUNS[name]
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", script, health],
        cwd=folder,
        env={**os.environ, "VERL_USE_EXTERNAL_MODULES": "rldoctor.watch.hook", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout.count("step "), done.stderr


@pytest.mark.parametrize("name", RUNS)
def test_a_sick_run_is_told_of_and_goes_on(name: str, tmp_path: Path) -> None:
    status, steps, said = run(tmp_path, name, "sick")
    assert (status, steps) == (0, 30), said
    assert "error RLD501" in said and "fix: " in said


@pytest.mark.parametrize("name", RUNS)
def test_a_sick_run_is_ended_where_that_is_asked_for(name: str, tmp_path: Path) -> None:
    status, steps, said = run(tmp_path, name, "sick", RLDOCTOR_STOP="10")
    assert 10 < steps < 20, said
    assert "rldoctor stops this run: " in said
    # A logger has no other way to end a run than to raise.
    assert status == (1 if name in ("verl", "easyr1") else 0)


@pytest.mark.parametrize("name", ["swift-3", "swift-4"])
def test_that_a_run_is_ended_is_said_once_though_its_trainer_logs_again(name: str, tmp_path: Path) -> None:
    _, _, said = run(tmp_path, name, "sick", RLDOCTOR_STOP="10")
    assert said.count("rldoctor stops this run: ") == 1


@pytest.mark.parametrize("name", RUNS)
def test_a_healthy_run_is_left_in_peace(name: str, tmp_path: Path) -> None:
    status, steps, said = run(tmp_path, name, "well", RLDOCTOR_STOP="3")
    assert (status, steps) == (0, 30)
    assert "RLD501" not in said


def test_completions_that_are_alike_are_seen_where_the_callback_has_its_trainer(tmp_path: Path) -> None:
    said = run(tmp_path, "swift-4", "alike")[2]
    assert "error RLD311" in said and "RLD501" not in said


def test_a_number_of_records_that_is_none_stops_nothing(tmp_path: Path) -> None:
    status, steps, said = run(tmp_path, "verl", "sick", RLDOCTOR_STOP="soon")
    assert (status, steps) == (0, 30)
    assert "RLDOCTOR_STOP=soon: a number of records is expected" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
        ("class Other:\n    pass", "Tracking"),
    ],
)
def test_a_framework_that_changed_keeps_running(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "verl" / "utils").mkdir(parents=True)
    (tmp_path / "verl" / "__init__.py").write_text(VERL["verl/__init__.py"])
    (tmp_path / "verl" / "utils" / "__init__.py").write_text("")
    (tmp_path / "verl" / "utils" / "tracking.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", "import verl; print('goes on')"],
        cwd=tmp_path,
        env={**os.environ, "VERL_USE_EXTERNAL_MODULES": "rldoctor.watch.hook"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "goes on\n", done.stderr
    assert "rldoctor does not judge this run" in done.stderr and reason in done.stderr


def test_nothing_is_joined_where_no_framework_is_loaded() -> None:
    probe = "import rldoctor.watch.hook as hook; print(hook.JOINED)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "()\n"


def test_the_door_is_there_in_every_release_that_was_read() -> None:
    """By the table of symbols, for the framework that has one."""
    record = framework("verl")
    assert record is not None
    table = Table.load("verl")
    (tracker,) = record.trackers()
    (span,) = table.spans(tracker.module, tracker.name)
    assert (span.since, span.until) == (table.releases[0], table.releases[-1])
