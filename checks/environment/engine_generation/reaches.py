"""Which releases of the frameworks were written for which of vLLM's engines, and how to run the other one."""

from __future__ import annotations

from collections.abc import Callable

from rldoctor.api import Applicability, Edit, Fix, RolloutPlan, dataclass
from rldoctor.api.releases import Scope

V1 = "env.VLLM_USE_V1"
IN_PROCESS = "env.VLLM_ENABLE_V1_MULTIPROCESSING"


def takes_v0(applicability: Applicability) -> Fix:
    """The variable that chooses V0, in releases that have both engines."""
    return Fix(
        title="run the V0 engine",
        applicability=applicability,
        edits=(Edit(option=V1, value="0"),),
        valid_for="vllm>=0.8,<0.11",
        side_effects="slower than V1",
    )


RUN_IN_PROCESS = Fix.unsafe("or run the V1 engine in the trainer's process", {IN_PROCESS: "0"}, valid_for="vllm>=0.8")


@dataclass(frozen=True)
class Reaches(Scope):
    """Releases of a framework that take something out of the engine which V1 keeps in another process."""

    holds: Callable[[RolloutPlan], bool]
    what: str
    remedy: str
    vllm: str = ">=0.7"


PAIRWISE = ("online_dpo", "xpo", "nash_md")
REACHES = (
    Reaches(
        ("TRL",),
        "trl",
        ">=0.14,<0.16",
        lambda plan: plan.usual("trainer.algorithm", "grpo") == "grpo",
        "takes llm.llm_engine.model_executor to load weights",
        "pip install 'trl>=0.18'",
    ),
    Reaches(
        ("open-r1",),
        "trl",
        ">=0.14,<0.16",
        lambda plan: True,
        "takes llm.llm_engine.model_executor to load weights",
        "pip install 'trl>=0.18'",
    ),
    Reaches(
        ("TRL",),
        "trl",
        ">=0.14,<0.23",
        lambda plan: plan.value("trainer.algorithm") in PAIRWISE,
        "takes llm.llm_engine.model_executor to load weights (online DPO)",
        "pip install 'trl>=0.23'",
    ),
    Reaches(
        ("OpenRLHF",),
        "openrlhf",
        ">=0.3,<0.5.8",
        lambda plan: True,
        "takes llm.llm_engine.model_executor to load weights",
        "pip install 'openrlhf>=0.7'",
        # 0.8.0 and 0.8.1 give way to V0 for a worker class of the caller's own.
        vllm=">=0.8.2",
    ),
)
# They build `AsyncLLM` of V1 themselves (verl `vllm_async_server.py`, NeMo-RL `vllm_worker_async.py`).
ASYNC_V1 = {"verl": ("verl", ">=0.4"), "NeMo-RL": ("nemo-rl", ">=0.3")}
# unsloth attaches no engine to a model that it loads so (`unsloth/models/vision.py`, `loader.py`).
DETACHED = (
    ("trainer.full", lambda value: value is True, "full_finetuning"),
    ("model.quantization", lambda value: value == "8bit", "load_in_8bit"),
)
