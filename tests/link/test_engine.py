"""What the engine's own configuration classes refuse, told from their source alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldoctor.case import Case, Distribution, Packages
from rldoctor.link.locate import SearchPath
from rldoctor.link.observe import observe
from rldoctor.link.refused import Refusal, refusal
from rldoctor.link.sources import Sources
from rldoctor.plan.model import Form, Given, RolloutPlan, Setting

Site = Callable[[dict[str, str]], Path]
ENGINE = {
    "vllm/engine/arg_utils.py": """
        from dataclasses import dataclass
        from vllm.config import Chunk, LoRAConfig, ParallelConfig, Policy, SchedulerConfig
        @dataclass
        class EngineArgs:
            tensor_parallel_size: int = ParallelConfig.tensor_parallel_size
            enable_eplb: bool = False
            enable_lora: bool = False
            max_loras: int = LoRAConfig.max_loras
            scheduling: int = SchedulerConfig.steps
            seqs: int | None = None
            policy: Policy = "fcfs"
            chunk: Chunk = 8
            unused: Policy = "fcfs"
            def create_engine_config(self, usage=None):
                if self.seqs is None:
                    self.seqs = guess(usage)
                parallel = ParallelConfig(
                    tensor_parallel_size=self.tensor_parallel_size, enable_eplb=self.enable_eplb
                )
                lora = LoRAConfig(max_loras=self.max_loras) if self.enable_lora else None
                if usage:
                    lora = LoRAConfig(max_loras=self.max_loras)
                return SchedulerConfig(steps=self.scheduling, seqs=self.seqs, policy=self.policy, chunk=self.chunk)
        """,
    "vllm/config/__init__.py": """
        from vllm.config.all import Chunk, LoRAConfig, ParallelConfig, Policy, SchedulerConfig
        """,
    "vllm/config/all.py": """
        from typing import Annotated, Literal
        from pydantic import Field, model_validator
        from pydantic.dataclasses import dataclass
        @dataclass
        class ParallelConfig:
            tensor_parallel_size: int = Field(default=1, ge=1)
            enable_eplb: bool = False
            @model_validator(mode="after")
            def _verify(self):
                if self.enable_eplb and self.tensor_parallel_size <= 1:
                    raise ValueError(f"EPLB needs more ranks than {self.tensor_parallel_size}")
                return self
        @dataclass
        class LoRAConfig:
            max_loras: Annotated[int, Field(ge=1)] = 1
        @dataclass
        class SchedulerConfig:
            steps: int = Field(default=1, gt=0, lt=8)
            seqs: int = Field(ge=1)
            policy: Policy | None = "fcfs"
            chunk: Chunk = 8
        Policy = Literal["fcfs", "priority"]
        Chunk = Literal[8, 16]
        """,
}
Refuse = Callable[..., Refusal | None]


@pytest.fixture
def refuse(site: Site) -> Refuse:
    sources = Sources(SearchPath([site(ENGINE)]))

    def refused(given: dict[str, Any], complete: bool = True) -> Refusal | None:
        return refusal(sources, "vllm.engine.arg_utils", "EngineArgs", given, complete, "create_engine_config")

    return refused


@pytest.mark.parametrize(
    ("given", "message", "reads"),
    [
        (
            {"tensor_parallel_size": 0},
            "tensor_parallel_size is 0, which should be greater than or equal to 1",
            ("tensor_parallel_size",),
        ),
        ({"enable_eplb": True}, "EPLB needs more ranks than 1", ("enable_eplb", "tensor_parallel_size")),
        (
            {"enable_lora": True, "max_loras": 0},
            "max_loras is 0, which should be greater than or equal to 1",
            ("max_loras",),
        ),
        ({"scheduling": 8}, "steps is 8, which should be less than 8", ("scheduling",)),
        ({"chunk": "24"}, "chunk is 24, which should be one of 8, 16", ("chunk",)),
        ({"policy": "lifo"}, "policy is 'lifo', which should be one of fcfs, priority", ("policy",)),
        ({"seqs": 0}, "seqs is 0, which should be greater than or equal to 1", ("seqs",)),
    ],
)
def test_what_a_configuration_class_refuses(
    refuse: Refuse, given: dict[str, Any], message: str, reads: tuple[str, ...]
) -> None:
    found = refuse(given)
    assert found is not None
    assert (found.message, found.reads) == (message, reads)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"tensor_parallel_size": 2, "enable_eplb": True},
        {"max_loras": 0},  # whose class is not made
        {"scheduling": True},
        {"policy": "priority"},
        {"chunk": "16"},
        {"chunk": "auto"},
        {"unused": "lifo"},  # a plain dataclass asks for nothing
        {"seqs": None},  # which the engine chooses
    ],
)
def test_what_it_takes(refuse: Refuse, given: dict[str, Any]) -> None:
    assert refuse(given) is None


def test_where_the_launch_may_give_more_a_default_refuses_nothing(refuse: Refuse) -> None:
    assert refuse({"enable_eplb": True}, complete=False) is None
    assert refuse({"scheduling": 9}, complete=False) is not None


def test_a_launch_hands_its_settings_to_the_engine(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vllm = Distribution(name="vllm", version="0.14.0", location=str(site(ENGINE)))
    setting = Setting(value=0, key="--tensor-parallel-size", file="serve.sh", line=1)
    plan = RolloutPlan(framework="vLLM", file="serve.sh", entry="vllm serve", role="server", version="0.14.0")
    plan = replace(plan, settings={"engine.tensor_parallel_size": setting})
    links = observe(Case(packages=Packages(python="3.12.1", distributions=(vllm,)), plan=plan))
    assert isinstance(links, dict)
    (engine,) = links["frameworks"]
    assert (engine["name"], engine["refusal"]["line"]) == ("vllm", 7)
    assert engine["refusal"]["reads"] == ["engine.tensor_parallel_size"]


def test_a_server_gives_what_the_plan_has_no_name_for(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vllm = Distribution(name="vllm", version="0.14.0", location=str(site(ENGINE)))

    def refused(*given: tuple[str, Any]) -> Any:
        told = tuple(
            Given(key=key, value=value, file="serve.sh", line=1, form=Form.OPTION, unknown=None if value else "is $X")
            for key, value in given
        )
        plan = RolloutPlan(framework="vLLM", file="serve.sh", entry="vllm serve", role="server", version="0.14.0")
        plan = replace(plan, given=told)
        links = observe(Case(packages=Packages(python="3.12.1", distributions=(vllm,)), plan=plan))
        assert isinstance(links, dict)
        return links["frameworks"][0]["refusal"]

    assert refused(("scheduling", "9"))["reads"] == ["scheduling"]
    assert refused(("enable_eplb", True))["reads"] == ["enable_eplb", "tensor_parallel_size"]
    # A value that the file does not tell, a part of another one, a number given without its value.
    assert refused(("enable_eplb", True), ("tensor_parallel_size", None)) is None
    assert refused(("enable_eplb", True), ("tensor_parallel_size.x", "1")) is None
    assert refused(("scheduling", True)) is None
