"""Small cases with a launch plan, for tests that judge one."""

from __future__ import annotations

from typing import Any

from rldoctor.api import Case, Check, RolloutPlan, Setting
from rldoctor.api.facts import Distribution, Gpu, Gpus, ModelFiles, Packages
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge_one

QWEN2_7B = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "vocab_size": 152064,
}


def case(
    framework: str = "verl",
    versions: dict[str, str] | None = None,
    config: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    capability: str | None = None,
    **settings: Any,
) -> Case:
    """A case whose plan has ``settings``, spelled ``engine__max_model_len=8192`` and all given in line 7 of run.sh."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return Case(
        packages=Packages(
            python="3.12",
            distributions=tuple(Distribution(name=n, version=v) for n, v in (versions or {"vllm": "0.8.5"}).items()),
        ),
        gpus=Gpus(
            vendor="nvidia",
            devices=(Gpu(index=0, name="GPU", memory_total=80 << 30, compute_capability=capability),),
        )
        if capability
        else None,
        model=ModelFiles(path="model", config=config) if config is not None else None,
        environment=environment or {},
        plan=RolloutPlan(
            framework=framework,
            file="run.sh",
            entry="train",
            settings={name: Setting(value=value, file="run.sh", line=7, key=name) for name, value in named.items()},
        ),
    )


def judged(check: Check, **arguments: Any) -> CheckResult:
    """The check's outcome on such a case."""
    return judge_one(check, case(**arguments))


def edits(result: CheckResult) -> list[dict[str, object]]:
    """The edits of every fix of the first finding, option to value."""
    return [{edit.option: edit.value for edit in fix.edits} for fix in result.findings[0].fixes]
