"""``trl vllm-serve``: the rollout server of TRL's trainers from 0.16 on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from rldoctor.formats.native import Native
from rldoctor.frameworks.dialect import Dialect
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.frameworks.rule import Rule
from rldoctor.frameworks.trl.engine import between
from rldoctor.frameworks.vllm.dialect import ENGINE, VLLM
from rldoctor.frameworks.vllm.seeds import derive_own
from rldoctor.plan.model import RolloutPlan


def _engine(draft: Draft) -> None:
    """The engine's arguments: trl/scripts/vllm_serve.py (0.16.1 line 248, 1.5.1 345; from 1.11 ``vllm serve``)."""
    draft.derive("placement.mode", "server", "a server of its own")
    draft.derive("rollout.backend", "vllm", "trl vllm-serve")
    draft.derive("sync.backend", "nccl", "weights come from the trainer by NCCL")
    tensor, data = draft.value("engine.tensor_parallel_size"), draft.value("engine.data_parallel_size", 1)
    draft.derive("placement.engines", data, "data_parallel_size", "engine.data_parallel_size")
    if tensor:
        how = f"{tensor} tensor x {data} data parallel"
        draft.derive("placement.engine_gpus", tensor * data, how, "engine.tensor_parallel_size")
    if between(draft, "0.27.1"):
        draft.derive("engine.logprobs_mode", "processed_logprobs", "fixed in vllm_serve.py")
    if between(draft, "1.11"):
        draft.derive("rollout.async_engine", True, "vllm serve")
        draft.derive("engine.max_logprobs", -1, "fixed in vllm_serve.py")
        draft.derive("engine.weight_transfer_config", {"backend": "nccl"}, "fixed in vllm_serve.py")
    elif between(draft, "0.16"):
        draft.derive("rollout.async_engine", False, "LLM(...)")
    derive_own(draft, "engine.data_parallel_size")


class TRLServe(Dialect):
    name, owner = "TRL vllm-serve", "trl"
    entries = ("trl vllm-serve", "trl.scripts.vllm_serve", "*trl/scripts/vllm_serve.py")
    config_options = ("config",)
    abbreviations = True
    groups: ClassVar[Mapping[str, str]] = {"*": "trl:vllm-serve"}
    table: ClassVar[Mapping[str, str | Rule]] = {
        "host": "placement.listen_host",
        "port": "placement.listen_port",
        "vllm_model_impl": "engine.model_impl",
        **ENGINE,
        "env.*": "env.*",
    }
    beside = (*VLLM.beside, "log_level")
    derivations = (_engine,)

    def role(self, launch: Launch) -> str:
        """Always a server."""
        return "server"

    def check_known(self, draft: Draft, native: Native) -> None:
        """From 1.11 what it does not know goes to ``vllm serve``."""
        options = draft.launch.options("trl:vllm-serve")
        if between(draft, "1.11") and options is not None and options.known(native.key) is False:
            further = [draft.launch.options(group) for group in ("vllm:serve", "vllm:AsyncEngineArgs")]
            if any(found is None or found.known(native.key) is not False for found in further):
                return
        super().check_known(draft, native)

    def plan(self, draft: Draft) -> RolloutPlan:
        """The finished plan, as TRL's."""
        return replace(super().plan(draft), framework="TRL")


DIALECT = TRLServe()
