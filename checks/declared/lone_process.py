"""What a trainer makes of several visible devices in one process that no launcher started, by framework and release.

Read in TRL 0.14.0 to 1.16.0 (``grpo_trainer.py``, ``rloo_trainer.py``, ``online_dpo_trainer.py``, ``trainer/utils.py``:
``create_model_from_path``), transformers 5.19 (``trainer.py``: ``_wrap_model``, ``is_model_parallel``), open-r1
(``utils/model_utils.py``) and axolotl 0.8.0 and 0.12.0 (``utils/config/__init__.py``: ``choose_device``)."""

from __future__ import annotations

from enum import Enum

from rldoctor.api import Case, RolloutPlan, find, version_within

# From 0.26 on TRL loads a model that is given by name with device_map="auto", unless it is distributed.
SPREAD_BY_TRL = ">=0.26"
# From 1.15 on its trainers raise where `Trainer` would wrap the model: `if args.n_gpu > 1` after its start.
REFUSED_BY_TRL = ">=1.15"
# `trl online_dpo` and its kin have no such test.
UNTESTED = ("online_dpo", "xpo", "nash_md")
# TRL's own scripts put a quantized model on one device (`get_kbit_device_map`, 0.26 to 1.14).
_OWN_SCRIPTS = ("trl ", "trl.scripts.")


class Fate(Enum):
    """What becomes of the model."""

    REPLICATED = "the trainer wraps the model in DataParallel and multiplies the batch by them"
    MULTIPLIED = "the trainer multiplies the batch by them"
    SPREAD = 'the trainer spreads the model over them (device_map="auto"), and they work one after the other'
    REFUSED = "the trainer refuses to start, since DataParallel would wrap the model"


def fates(case: Case, plan: RolloutPlan) -> tuple[Fate, ...]:
    """What may become of the model in this launch: one where release and script decide it, else each that is left."""
    if plan.framework == "axolotl":
        return (Fate.SPREAD,)
    if plan.value("model.spread") is True:
        return (Fate.SPREAD,)
    version = _trl(case, plan)
    alike = Fate.REPLICATED if plan.value("model.quantization") is None else Fate.MULTIPLIED
    by_object = plan.framework == "open-r1" or loads_itself(plan)
    named = not by_object and plan.value("model.path") is not None
    may_spread = not by_object and not (alike is Fate.MULTIPLIED and plan.entry.startswith(_OWN_SCRIPTS))
    if version is None:
        return (alike, Fate.SPREAD, Fate.REFUSED) if may_spread else (alike, Fate.REFUSED)
    refuses = version_within(version, REFUSED_BY_TRL) and plan.value("trainer.algorithm") not in UNTESTED
    otherwise = Fate.REFUSED if refuses else alike
    if not may_spread or not version_within(version, SPREAD_BY_TRL):
        return (otherwise,)
    return (Fate.SPREAD,) if named else (otherwise, Fate.SPREAD)


def refused_by_accelerate(case: Case, plan: RolloutPlan) -> bool:
    """Whether a launcher alone does not help: 0.26 keeps device_map="auto" under accelerate and torchrun, which
    accelerate refuses (``in any distributed mode``); 0.27 and later leave it out wherever there are several ranks."""
    version = _trl(case, plan)
    if plan.framework != "TRL" or version is None or loads_itself(plan):
        return False
    return version_within(version, ">=0.26,<0.27") is True


def _trl(case: Case, plan: RolloutPlan) -> str | None:
    installed = find(case.packages, "trl") if case.packages is not None else None
    if installed is not None:
        return installed.version
    return plan.version if plan.framework == "TRL" else None


def loads_itself(plan: RolloutPlan) -> bool:
    """Whether the script hands the trainer a model that it has loaded."""
    setting = plan.get("model.path")
    return setting is not None and setting.key == "from_pretrained"
