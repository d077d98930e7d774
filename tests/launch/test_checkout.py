"""A framework's own source around the launch file: a fork, or a checkout that is started from its root."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.case import Case, Distribution, Packages
from rldoctor.launch.plans import plans

PARSER = """\
import argparse
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    {known}
    parser.add_argument("--use_cispo", action="store_true", default=False)
    parser.add_argument("--n_samples_per_prompt", type=int, default=5)
"""
RUN = "python3 -m openrlhf.cli.train_ppo_ray --pretrain ./m --use_cispo --vllm_num_engines 4\n"


def case(location: str = "") -> Case:
    found = Distribution(name="openrlhf", version="0.8.5", location=location)
    return Case(packages=Packages(python="3.11", distributions=(found,)))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    from rldoctor.frameworks.option_table import OptionTable

    table = OptionTable.load("openrlhf").at("0.8.5", None, {})
    assert table is not None
    known = "\n    ".join(f'parser.add_argument("--{name}")' for name in table if name != "n_samples_per_prompt")
    (tmp_path / "openrlhf" / "cli").mkdir(parents=True)
    (tmp_path / "openrlhf" / "cli" / "train_ppo_ray.py").write_text(PARSER.format(known=known))
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "run.sh").write_text(RUN)
    return tmp_path


def test_a_forks_own_options_and_defaults_count(checkout: Path) -> None:
    (plan,) = plans(checkout / "examples" / "run.sh", case())
    assert plan.unknown == ()
    assert plan.value("batch.generations") == 5


def test_another_install_is_what_it_is(checkout: Path) -> None:
    (plan,) = plans(checkout / "examples" / "run.sh", case(str(checkout / "site-packages")))
    assert [unknown.key for unknown in plan.unknown] == ["--use_cispo"]


def test_a_launch_that_lies_elsewhere_is_judged_by_the_table(checkout: Path) -> None:
    (checkout / "openrlhf" / "cli" / "train_ppo_ray.py").unlink()
    (plan,) = plans(checkout / "examples" / "run.sh", case())
    assert [unknown.key for unknown in plan.unknown] == ["--use_cispo"]


def test_a_source_in_which_most_is_not_found_says_nothing(checkout: Path) -> None:
    (checkout / "openrlhf" / "cli" / "train_ppo_ray.py").write_text(PARSER.format(known="pass"))
    (plan,) = plans(checkout / "examples" / "run.sh", case())
    assert plan.unknown == ()
    assert plan.value("batch.generations") is None


def test_a_source_for_another_python_is_judged_by_its_release(checkout: Path) -> None:
    """Types and defaults are the release's; a name that it lacks may stand in what was not read."""
    parser = checkout / "openrlhf" / "cli" / "train_ppo_ray.py"
    parser.write_text("type = = 3\n" + parser.read_text())
    (checkout / "examples" / "run.sh").write_text(RUN.replace("_engines 4", "_engines four"))
    (plan,) = plans(checkout / "examples" / "run.sh", case())
    assert plan.unknown == ()
    assert list(plan.undeclared) == ["--use_cispo"]
    assert [refused.key for refused in plan.refused] == ["--vllm_num_engines"]
    (note,) = [note.text for note in plan.notes if "is not for Python" in note.text]
    assert "openrlhf/cli/train_ppo_ray.py" in note
    assert "judged by openrlhf 0.8.5" in note


def test_a_source_that_can_be_read_gets_no_note(checkout: Path) -> None:
    (plan,) = plans(checkout / "examples" / "run.sh", case())
    assert not [note.text for note in plan.notes if "judged by" in note.text]


def test_a_copy_beside_the_launch_counts_as_what_is_installed(checkout: Path) -> None:
    """A repository that keeps its own copy of the framework in a folder of that name, and installs it from there."""
    vendored = checkout / "openrlhf"
    vendored.rename(checkout / "copy")
    vendored.mkdir()
    (checkout / "copy").rename(vendored / "openrlhf")
    (plan,) = plans(checkout / "examples" / "run.sh", case())
    assert plan.unknown == ()
    assert plan.value("batch.generations") == 5
