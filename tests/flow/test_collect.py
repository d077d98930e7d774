"""What the options name must be there and fit together; what is only known elsewhere is not judged here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from rldoctor import bundle
from rldoctor.api import Case
from rldoctor.api.facts import Gpus, ModelFiles
from rldoctor.errors import InputError
from rldoctor.flow import session
from rldoctor.flow.collect import cases, launches, require_devices
from rldoctor.flow.session import devices_named
from tests.cases import gpus

NO_GPU = Gpus(vendor="none")


@pytest.mark.parametrize(
    ("given", "devices"), [(None, None), ("0", (0,)), ("0,1", (0, 1)), (" 1 , 0", (1, 0)), ("2,2", (2,))]
)
def test_numbers_of_devices(given: str | None, devices: tuple[int, ...] | None) -> None:
    assert devices_named(given) == devices


@pytest.mark.parametrize("given", ["", "first", "-1", "0,-1", "0,", "1.5", "1_0", "²"])
def test_what_is_no_list_of_devices(given: str) -> None:
    with pytest.raises(InputError, match="GPU numbers separated by commas"):
        devices_named(given)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (gpus(count=2), "--devices 0,99: there is no GPU 99 here, only 0, 1"),
        (NO_GPU, "--devices 0,99: this machine has no GPU"),
    ],
)
def test_a_device_that_is_not_there(found: Gpus, says: str) -> None:
    with pytest.raises(InputError) as caught:
        require_devices((0, 99), found)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    "found",
    [
        gpus(count=100),
        None,
        Gpus(vendor="nvidia", error="NVML: Driver/library version mismatch"),
        Gpus(vendor="amd"),
    ],
)
def test_a_device_that_may_be_there(found: Gpus | None) -> None:
    """A driver that does not answer is a finding, not a wrong option."""
    require_devices((0, 99), found)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    # Released configurations hold what JSON does not know.
    (tmp_path / "model" / "config.json").write_text('{"model_type": "mamba", "time_step_limit": [0.0, Infinity]}')
    return tmp_path / "model"


def from_bundle(file: Path, case: Case, **options: object) -> list[Case]:
    file.write_text(bundle.dump(case))
    opened = session.open_session(session.Options(bundles=(file,), **options))  # type: ignore[arg-type]
    return [one for one, _ in cases(opened, set())]


def test_devices_of_another_machine_are_not_looked_for(tmp_path: Path) -> None:
    """A script that always names its devices may judge a bundle, too."""
    (case,) = from_bundle(tmp_path / "case.json", Case(gpus=NO_GPU), devices="0,1")
    assert case.gpus == NO_GPU


@pytest.mark.parametrize("option", ["model", "target"])
def test_a_model_beside_a_bundle_without_one_is_judged_with_it(tmp_path: Path, model: Path, option: str) -> None:
    (case,) = from_bundle(tmp_path / "case.json", Case(), **{option: model})
    assert case.model is not None and case.model.config["model_type"] == "mamba"


@pytest.mark.parametrize("option", ["model", "target"])
def test_a_model_beside_a_bundle_must_be_the_one_it_was_made_with(tmp_path: Path, model: Path, option: str) -> None:
    config = json.loads((model / "config.json").read_text())
    there = ModelFiles(path="/data/model", config=config, files={"model.safetensors": 7})
    (case,) = from_bundle(tmp_path / "case.json", Case(model=there), **{option: model})
    assert case.model is not None and case.model.files == there.files
    other = replace(there, config={"model_type": "qwen2"})
    with pytest.raises(InputError, match=r"model: not the model that .*case.json was made with, /data/model"):
        from_bundle(tmp_path / "case.json", Case(model=other), **{option: model})


class TestAModelOfTheHub:
    """A launch names a model as the hub does, and this machine has it in its cache."""

    @pytest.fixture
    def launch(self, tmp_path: Path, model: Path) -> Path:
        cached = tmp_path / "hf/hub/models--acme--tiny"
        (cached / "refs").mkdir(parents=True)
        (cached / "refs/main").write_text("c0ffee")
        (cached / "snapshots").mkdir()
        model.rename(cached / "snapshots/c0ffee")
        file = tmp_path / "run.sh"
        file.write_text("vllm serve acme/tiny\n")
        return file

    def known(self, launch: Path, case: Case) -> ModelFiles | None:
        (one,) = launches(case, session.Options(target=launch))
        return one.model

    def test_a_published_model_is_known_without_its_files(self, launch: Path) -> None:
        launch.write_text("vllm serve Qwen/Qwen2.5-7B-Instruct\n")
        found = self.known(launch, Case(environment={}))
        assert found is not None and found.config["max_position_embeddings"] == 32768 and not found.files
        # An example says all that it is about.
        assert self.known(launch, Case()) is None
        launch.write_text("vllm serve acme/Qwen2.5-7B-Instruct\n")
        assert self.known(launch, Case(environment={})) is None

    def test_files_that_are_here_count_more_than_what_is_published(self, launch: Path) -> None:
        here = launch.parent / "Qwen/Qwen2.5-7B-Instruct"
        here.mkdir(parents=True)
        (here / "config.json").write_text('{"model_type": "mamba"}')
        launch.write_text("vllm serve Qwen/Qwen2.5-7B-Instruct\n")
        found = self.known(launch, Case(environment={}))
        assert found is not None and found.config == {"model_type": "mamba"}

    def test_its_files_are_read(self, launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(launch.parent / "hf/hub"))
        found = self.known(launch, Case(environment={}))
        assert found is not None and found.cached and found.config["model_type"] == "mamba"

    def test_the_launch_may_say_where_the_cache_is(self, launch: Path) -> None:
        launch.write_text(f"export HF_HUB_CACHE={launch.parent}/hf/hub\nvllm serve acme/tiny\n")
        assert self.known(launch, Case(environment={})) is not None

    def test_elsewhere_it_is_not_looked_for(self, launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.known(launch, Case(environment={})) is None
        monkeypatch.setenv("HF_HUB_CACHE", str(launch.parent / "hf/hub"))
        assert self.known(launch, Case()) is None


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: no such directory"):
        from_bundle(tmp_path / "case.json", Case(), model=tmp_path / "absent")


@pytest.mark.parametrize("level", ["auto", "static", None])
def test_levels_that_run_nothing_go_with_a_bundle(tmp_path: Path, level: str | None) -> None:
    assert from_bundle(tmp_path / "case.json", Case(), level=level)


def test_a_projects_level_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rldoctor.toml").write_text('level = "compare"\n')
    assert from_bundle(tmp_path / "case.json", Case())
    with pytest.raises(InputError, match="--level compare runs probes on this machine"):
        from_bundle(tmp_path / "case.json", Case(), level="compare")


def test_a_cluster_that_was_named_is_asked_for_an_assumed_machine_too(tmp_path: Path) -> None:
    launch = tmp_path / "run.sh"
    launch.write_text("python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=m trainer.nnodes=1\n")
    options = session.Options(target=launch, assume=("verl==0.9.0",), ray="10.0.0.1:6379")
    ((case, _),) = cases(session.open_session(options), {"packages"})
    assert "observations.imports" in case.unknown and "observations.ray_cluster" not in case.unknown
    ((case, _),) = cases(session.open_session(replace(options, ray=None)), {"packages"})
    assert "observations.ray_cluster" in case.unknown
    with pytest.raises(InputError, match="--from asks nobody"):
        session.open_session(replace(options, assume=(), bundles=(launch,)))


def test_a_launch_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is a log nobody asks then."""

    def refused(*_: object, **__: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "train").write_text("hello\n")
    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(InputError, match="train"):
        list(launches(Case(), session.Options(target=tmp_path / "train")))
