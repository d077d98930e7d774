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
from rldoctor.link.problems import Refusal
from rldoctor.link.refused import refusal
from rldoctor.link.sources import Sources
from rldoctor.link.values import NOT_KNOWN, Known
from rldoctor.plan.model import Form, Given, RolloutPlan, Setting, Source

Site = Callable[[dict[str, str]], Path]
ENGINE = {
    "vllm/engine/arg_utils.py": """
        from dataclasses import dataclass
        from vllm.config import Chunk, DraftConfig, LoRAConfig, ParallelConfig, Policy, SchedulerConfig
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
            draft_config: dict[str, Any] | None = None
            @classmethod
            def sizes(cls, world):
                return {None: 8 * world}, {None: 1}
            def create_engine_config(self, usage=None):
                tokens, seqs = self.sizes(2)
                if self.seqs is None:
                    self.seqs = guess(usage)
                parallel = ParallelConfig(
                    tensor_parallel_size=self.tensor_parallel_size, enable_eplb=self.enable_eplb
                )
                lora = LoRAConfig(max_loras=self.max_loras) if self.enable_lora else None
                if usage:
                    lora = LoRAConfig(max_loras=self.max_loras)
                if self.draft_config is not None:
                    self.draft_config.update({"target": parallel})
                    draft = DraftConfig(**self.draft_config)
                return SchedulerConfig(steps=self.scheduling, seqs=self.seqs, policy=self.policy, chunk=self.chunk)
        """,
    "vllm/config/__init__.py": """
        from vllm.config.all import Chunk, DraftConfig, LoRAConfig, ParallelConfig, Policy, SchedulerConfig
        """,
    "vllm/config/all.py": """
        from typing import Annotated, Any, Literal, get_args
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
        Trained = Literal["eagle"]
        Method = Literal["ngram", Trained]
        @dataclass
        class DraftConfig:
            method: Method | None = None
            model: str | None = None
            tokens: int = Field(default=1, gt=0)
            target: ParallelConfig | None = None
            def __post_init__(self):
                if self.method in get_args(Trained) and self.model is None:
                    raise ValueError(f"{self.method} needs a model")
                if self.target is None:
                    raise ValueError("no target")
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
        ({"draft_config": '{"tokens": 0}'}, "tokens is 0, which should be greater than 0", ("draft_config",)),
        ({"draft_config": '{"method": "eagle"}'}, "eagle needs a model", ("draft_config",)),
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
        {"draft_config": '{"method": "ngram"}'},  # the code gives its target
        {"draft_config": '{"method": "eagle", "model": "m"}'},
        {"draft_config": "[]"},
    ],
)
def test_what_it_takes(refuse: Refuse, given: dict[str, Any]) -> None:
    assert refuse(given) is None


def test_a_method_of_the_class_that_gets_the_object_may_change_it(site: Site) -> None:
    text = ENGINE["vllm/engine/arg_utils.py"].replace("self.sizes(2)", "self.sizes(self)")
    sources = Sources(SearchPath([site({**ENGINE, "vllm/engine/arg_utils.py": text})]))
    assert refusal(sources, "vllm.engine.arg_utils", "EngineArgs", {"seqs": 0}, True, "create_engine_config") is None


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


def test_an_option_that_nobody_gives_has_the_engines_own_default(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = ENGINE["vllm/engine/arg_utils.py"].replace("enable_eplb: bool = False", "enable_eplb: bool = True")
    vllm = Distribution(name="vllm", version="0.14.0", location=str(site({**ENGINE, "vllm/engine/arg_utils.py": text})))

    def refused(source: Source, how: str) -> Any:
        told = Given(key="scheduling", value="4", file="serve.sh", line=1, form=Form.OPTION)
        plan = RolloutPlan(framework="vLLM", file="serve.sh", entry="vllm serve", role="server", version="0.14.0")
        own = Setting(value=True, source=source, how=how)
        plan = replace(plan, given=(told,), settings={"engine.enable_eplb": own})
        links = observe(Case(packages=Packages(python="3.12.1", distributions=(vllm,)), plan=plan))
        assert isinstance(links, dict)
        return links["frameworks"][0]["refusal"]

    assert refused(Source.DEFAULT, "default of vllm 0.14.0")["message"] == "EPLB needs more ranks than 1"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert refused(Source.DERIVED, "from the model") is None


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


SERVER = {
    "vllm/engine/arg_utils.py": """
        from dataclasses import dataclass
        import vllm.envs as envs
        @dataclass
        class EngineArgs:
            data_parallel_size: int = 1
            data_parallel_size_local: int | None = None
            collect_detailed_traces: list[str] | None = None
            otlp_traces_endpoint: str | None = None
            def create_engine_config(self):
                if self.data_parallel_size <= 1:
                    self.data_parallel_size = envs.VLLM_DP_SIZE
                everywhere = self.data_parallel_size
                if self.data_parallel_size_local is not None and self.data_parallel_size_local > everywhere:
                    raise ValueError(f"{self.data_parallel_size_local} ranks here of {self.data_parallel_size}")
                if self.collect_detailed_traces and not self.otlp_traces_endpoint:
                    raise ValueError("traces go nowhere")
        """,
    "vllm/envs.py": """
        import os
        environment_variables: dict[str, Callable] = {
            "VLLM_DP_SIZE": lambda: int(os.getenv("VLLM_DP_SIZE", "1")),
            "VLLM_CHECKED": checked("VLLM_CHECKED"),
        }
        def __getattr__(name):
            return environment_variables[name]()
        """,
    "vllm/entrypoints/openai/cli_args.py": """
        def validate_parsed_serve_args(args):
            if hasattr(args, "subparser") and args.subparser != "serve":
                return
            if hasattr(args, "unheard"):
                raise ValueError("perhaps")
            if args.enable_auto_tool_choice and not args.tool_call_parser:
                raise TypeError("--enable-auto-tool-choice requires --tool-call-parser")
        """,
}


@pytest.mark.parametrize(
    ("given", "environment", "message"),
    [
        # What the server's own parser looks at, and whose default is the table's.
        ({"enable_auto_tool_choice": True}, {}, "--enable-auto-tool-choice requires --tool-call-parser"),
        ({"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}, {}, None),
        # A variable that nobody sets has the default of the package's own table.
        ({"data_parallel_size_local": "2"}, {}, "2 ranks here of 1"),
        ({"data_parallel_size_local": "2"}, {"VLLM_DP_SIZE": "2"}, None),
        ({"data_parallel_size_local": "2"}, None, None),
        ({"data_parallel_size_local": "2", "data_parallel_size": "4"}, {}, None),
        # One word for an option that takes several.
        ({"collect_detailed_traces": "model"}, {}, "traces go nowhere"),
        ({"collect_detailed_traces": "model", "otlp_traces_endpoint": "http://a"}, {}, None),
    ],
)
def test_a_server_looks_at_its_options_and_at_the_environment(
    given: dict[str, Any],
    environment: dict[str, str] | None,
    message: str | None,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vllm = Distribution(name="vllm", version="0.14.0", location=str(site(SERVER)))
    told = tuple(Given(key=k, value=v, file="serve.sh", line=1, form=Form.OPTION) for k, v in given.items())
    plan = RolloutPlan(framework="vLLM", file="serve.sh", entry="vllm serve", role="server", version="0.14.0")
    plan = replace(plan, given=told, group="vllm:serve")
    packages = Packages(python="3.12.1", distributions=(vllm,))
    links = observe(Case(packages=packages, plan=plan, environment=environment))
    assert isinstance(links, dict)
    refused = links["frameworks"][0]["refusal"]
    assert (refused and refused["message"]) == message


def test_a_launch_sets_variables_of_its_own(site: Site) -> None:
    """The launch's own variable counts; one of which the file does not tell the value is not known."""
    sources = Sources(SearchPath([site(SERVER)]))
    asked = (
        sources,
        "vllm.engine.arg_utils",
        "EngineArgs",
        {"data_parallel_size_local": 2},
        True,
        "create_engine_config",
    )
    assert refusal(*asked, {"VLLM_DP_SIZE": Known("1")}) is not None
    assert refusal(*asked, {"VLLM_DP_SIZE": Known("4")}) is None
    assert refusal(*asked, {"VLLM_DP_SIZE": NOT_KNOWN}) is None
    assert refusal(*asked) is None


KERNELS = {
    "vllm/args.py": """
        from dataclasses import dataclass
        from vllm.kernels import Kernel, KernelConfig
        @dataclass
        class EngineArgs:
            kernel: Kernel | None = None
            kernel_config: KernelConfig | None = None
            precision: str | None = None
            def create_engine_config(self):
                if self.kernel is not None:
                    config = KernelConfig.kernel_before(self.kernel)
                return KernelConfig(precision=self.precision)
        """,
    "vllm/kernels.py": """
        from enum import Enum, EnumMeta
        from typing import Any, Literal
        from pydantic import field_validator
        from pydantic.dataclasses import dataclass
        class Kind(EnumMeta):
            def __getitem__(cls, name):
                try:
                    return super().__getitem__(name)
                except KeyError:
                    raise ValueError(f"no kernel {name}") from None
        class Kernel(Enum, metaclass=Kind):
            FLASH = "kernels.flash.Flash"
            PAGED = "kernels.paged.Paged"
        @dataclass
        class KernelConfig:
            kernel: Kernel | None = None
            precision: Literal["high", "low"] | None = None
            @field_validator("kernel", mode="before")
            @classmethod
            def kernel_before(cls, value: Any) -> Any:
                if isinstance(value, str):
                    if value.lower() == "auto":
                        return None
                    return Kernel[value.upper()]
                return value
            @field_validator("precision", mode="before")
            @classmethod
            def precision_before(cls, value):
                return "high" if value == "best" else value
        """,
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kernel": "FLASHY"}, "'FLASHY' is no member of Kernel, which has FLASH and 1 more"),
        ({"kernel_config": '{"kernel": "sdpa"}'}, "'SDPA' is no member of Kernel, which has FLASH, PAGED"),
        ({"precision": "middle"}, "precision is 'middle', which should be one of high, low"),
        ({"kernel": "flash"}, None),
        ({"kernel": "auto"}, None),
        ({"kernel_config": '{"kernel": "paged"}'}, None),
        ({"precision": "best"}, None),  # which a validator turns into another
    ],
)
def test_a_member_is_looked_up_by_its_name(site: Site, given: dict[str, Any], said: str | None) -> None:
    sources = Sources(SearchPath([site(KERNELS)]))
    found = refusal(sources, "vllm.args", "EngineArgs", given, method="create_engine_config")
    assert (found.message if found is not None else None) == said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return super().__getitem__(name)", "return find(cls, name)"),
        ("return super().__getitem__(name)", "return super().__getitem__(name[:5])"),
        ("class Kind(EnumMeta)", "class Kind(Lenient)"),
        ("metaclass=Kind", "metaclass=Elsewhere"),
        ('PAGED = "kernels.paged.Paged"', "for name in NAMES:\n                locals()[name] = name"),
    ],
)
def test_an_enumeration_that_finds_members_in_another_way_refuses_nothing(site: Site, old: str, new: str) -> None:
    assert old in KERNELS["vllm/kernels.py"]
    lenient = KERNELS["vllm/kernels.py"].replace(old, new)
    sources = Sources(SearchPath([site({**KERNELS, "vllm/kernels.py": lenient})]))
    given = {"kernel": "FLASHY"}
    assert refusal(sources, "vllm.args", "EngineArgs", given, method="create_engine_config") is None
