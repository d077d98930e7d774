"""The ``weights`` scenario: new weights for a running engine, the way that the launch's framework sends them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.check import NotApplicable
from rldoctor.lookup import installed_within
from rldoctor.model import Level
from rldoctor.plan.model import RolloutPlan
from rldoctor.probe import Request
from rldoctor.scenario import Basis, Engine, Run, Scenario

RESPONSE = 8
# They hand over one tensor after the other (TRL ``VLLMClient.update_named_param``, OpenRLHF ``vllm_worker_wrap.py``).
ONE_BY_ONE = ("TRL", "open-r1", "axolotl", "OpenRLHF")
# They send the parameters' own names, which under transformers 5 are not those of a mixture's checkpoint (TRL
# ``vllm_generation.py``, OpenRLHF ``ppo_actor.py``, SkyRL ``fsdp_worker.py``), verl before 0.9
# (``unfuse_moe_params`` in ``workers/engine/fsdp/utils.py``).
OWN_NAMES = (*ONE_BY_ONE, "SkyRL")
OWN_NAMES_OF_VERL = "<0.9"
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    plan = case.plan
    if request.model is not None:
        raise NotApplicable("the weights of a real model are left as they are")
    arguments = {
        "prompt": max(basis.model_len - RESPONSE - 1, 1),
        "response": min(RESPONSE, max(basis.model_len // 2, 1)),
        "one_by_one": plan is not None and plan.framework in ONE_BY_ONE,
        "as_saved": plan is None or not _sends_own_names(case, plan),
    }
    # An engine with adapters has other names for its weights.
    return {"weights": Run(engine=Engine(alone=True), arguments=arguments, time_limit=SECONDS)}


def _sends_own_names(case: Case, plan: RolloutPlan) -> bool:
    if plan.framework == "verl":
        return installed_within(case, "verl", OWN_NAMES_OF_VERL)
    return plan.framework in OWN_NAMES


weights = Scenario(
    name="weights",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "weights.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=4.0,
    disturbs=True,
)
