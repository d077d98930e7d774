"""The ``exact`` scenario: on a GPU, what ``agreement`` does with the launch's precision is done in float32, too, where
rounding hides little. On the CPU all probes run in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldoctor.case import Case
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.knowledge.memory import NO_KV_LAYERS
from rldoctor.knowledge.vllm_engine import release
from rldoctor.model import Level
from rldoctor.probes.feasible import runs_itself
from rldoctor.probes.scenarios.agreement import agreement

# The first release that was seen to choose an attention kernel for float32 unasked (TRITON_ATTN, on an H200); earlier
# ones take FlexAttention, which compiles for minutes.
SINCE = (0, 26)
# Options that are about 16 bits, and what stands for "as it comes".
COARSE: Mapping[str, Any] = {"attention_backend": None, "kv_cache_dtype": "auto", "calculate_kv_scales": False}
BACKEND = "VLLM_ATTENTION_BACKEND"
# Some containers and launches have products of float32 computed in TF32, of ten bits.
WHOLE = {"NVIDIA_TF32_OVERRIDE": "0", "VLLM_FLOAT32_MATMUL_PRECISION": "highest"}
# Keys of families whose kernels nobody has seen in float32: compressed attention, and experts. Kernels of layers that
# keep a state in place of keys refuse it (vllm 0.26, third_party/flash_linear_attention/ops/chunk.py).
UNSEEN = ("kv_lora_rank", "num_experts", "num_local_experts", "n_routed_experts", "full_attention_interval")


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    if basis.device != "cuda":
        raise NotApplicable("probes on the CPU run in float32 as it is")
    if basis.options.get("dtype") == "float32":
        raise NotApplicable("the launch's own precision is float32")
    version = release(case)
    if version is None or version < SINCE:
        raise NotApplicable(f"float32 is played on vLLM {'.'.join(map(str, SINCE))} and later")
    if runs_itself(case, request):
        raise NotApplicable("a model that is run as it is has its own precision")
    config = (case.model.config or {}) if case.model else {}
    text = config.get("text_config") or config
    stateful = any(name in str(kind) for kind in text.get("layer_types") or () for name in NO_KV_LAYERS)
    if BACKEND in basis.environ or stateful or any(text.get(key) for key in UNSEEN):
        raise NotApplicable("what this launch's attention or experts do in float32 is not known")
    options = {"dtype": "float32", **{name: value for name, value in COARSE.items() if name in basis.options}}
    engine = Engine(options=options, environ=WHOLE, reference=True)
    (run,) = agreement.runs(case, request, basis).values()
    return {"float32": Run(engine=engine, arguments=run.arguments, time_limit=run.time_limit)}


exact = Scenario(
    name="exact",
    level=Level.COMPARE,
    program=agreement.program,
    runs=_runs,
    reads=("plan", "model"),
    seconds=agreement.seconds,
    vocabulary_seconds=agreement.vocabulary_seconds,
)
