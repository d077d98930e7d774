"""Linking what is installed for a launch, and keeping what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.case import Case, Distribution, Packages
from rldoctor.link import sources
from rldoctor.link.locate import SearchPath
from rldoctor.link.observe import observe
from rldoctor.link.sources import Sources
from rldoctor.lookup import Absent
from rldoctor.plan.model import Form, Given, RolloutPlan, Setting
from tests.link.conftest import ENGINE

Site = Callable[[dict[str, str]], Path]
GONE = "from vllm.sampling_params import GuidedDecodingParams\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def case(root: Path, *names: str) -> Case:
    distributions = tuple(Distribution(name=name, version="0.12.0", location=str(root)) for name in names)
    return Case(packages=Packages(python="3.12.1", distributions=distributions))


def missing(found: object) -> list[str]:
    assert isinstance(found, dict)
    return [problem["name"] for framework in found["frameworks"] for problem in framework["problems"]]


def test_the_launchs_own_modules_are_linked(site: Site) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": "", "trl/trainer/rloo_trainer.py": GONE})
    one = case(root, "trl", "vllm")
    assert missing(observe(one)) == []
    plan = RolloutPlan(framework="TRL", file="train.py", entry="train.py")
    assert missing(observe(replace(one, plan=plan))) == []
    rloo = replace(plan, settings={"trainer.algorithm": Setting(value="rloo")})
    assert missing(observe(replace(one, plan=rloo))) == ["GuidedDecodingParams"]


def test_what_a_framework_puts_back_is_there(site: Site) -> None:
    swift = "import vllm.sampling_params\nvllm.sampling_params.GuidedDecodingParams = None\nfrom trl.x import y\n"
    files = {**ENGINE, "swift/rlhf_trainers/grpo_trainer.py": swift, "trl/x.py": GONE + "y = 1\n"}
    assert missing(observe(case(site(files), "ms-swift", "trl", "vllm"))) == []


def test_no_framework_no_links(site: Site) -> None:
    assert isinstance(observe(case(site(ENGINE), "vllm")), Absent)


def test_what_was_found_is_kept_until_a_file_changes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": GONE})
    one = case(root, "trl", "vllm")
    first = observe(one)
    read: list[SearchPath] = []

    def watched(search: SearchPath) -> Sources:
        read.append(search)
        return Sources(search)

    monkeypatch.setattr(sources, "Sources", watched)
    assert observe(one) == first and not read
    (root / "trl/trainer/grpo_trainer.py").write_text("from vllm.sampling_params import StructuredOutputsParams\n")
    assert missing(observe(one)) == [] and read


def test_a_cache_that_cannot_be_used_costs_only_time(site: Site, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    root = site({**ENGINE, "trl/trainer/grpo_trainer.py": GONE})
    assert missing(observe(case(root, "trl", "vllm"))) == ["GuidedDecodingParams"]


def test_sources_that_do_not_parse_are_said(site: Site) -> None:
    found = observe(case(site({**ENGINE, "trl/trainer/grpo_trainer.py": "def (:\n"}), "trl", "vllm"))
    assert isinstance(found, dict)
    assert "not Python that this interpreter can parse" in found["unread"]["trl.trainer.grpo_trainer"]


def test_what_the_argument_class_refuses_of_the_launch(site: Site) -> None:
    config = (
        "class GRPOConfig:\n    num_generations: int = 8\n    def __post_init__(self):\n"
        "        if self.num_generations < 2:\n            raise ValueError('too few')\n"
    )
    root = site({"trl/trainer/grpo_trainer.py": "", "trl/trainer/grpo_config.py": config})
    given = Given(key="--num_generations", value=1, file="run.sh", line=3, form=Form.OPTION)
    plan = RolloutPlan(framework="TRL", file="run.sh", entry="train.py", given=(given,))
    found = observe(replace(case(root, "trl"), plan=plan))
    assert isinstance(found, dict)
    assert found["frameworks"][0]["refusal"]["message"] == "too few"
    more = observe(replace(case(root, "trl"), plan=replace(plan, given=(replace(given, value=4),))))
    assert isinstance(more, dict) and more["frameworks"][0]["refusal"] is None
