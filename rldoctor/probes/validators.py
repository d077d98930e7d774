"""The ``validators`` probe: what the packages' own validators make of the launch's settings.

They run in the target's interpreter, without a device: vLLM's ``EngineArgs(...).create_engine_config()`` with what the
launch and its framework ask of the engine, the framework's argument class, and Hydra over the framework's own files.
What is refused is refused at the start of training; what comes out is the configuration that the run has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Job, Probe, Request
from rldoctor.formats.texts import hydra_text
from rldoctor.frameworks import framework
from rldoctor.frameworks.record import Framework
from rldoctor.link.validations import argument_classes
from rldoctor.model import Level
from rldoctor.plan.handed import handed
from rldoctor.plan.model import Form, RolloutPlan
from rldoctor.probes.counts import count
from rldoctor.probes.feasible import VISIBLE, require_import

# Devices of training clusters, for launches whose own are not known: vLLM's defaults differ by memory and name.
DEVICES = (
    {"name": "NVIDIA A100-SXM4-80GB", "memory": 80 << 30, "capability": (8, 0)},
    {"name": "NVIDIA H100 80GB HBM3", "memory": 80 << 30, "capability": (9, 0)},
    {"name": "NVIDIA L40S", "memory": 48 << 30, "capability": (8, 9)},
)
# Native keys that change the model's config, unless they are the engine's own option for it.
_OF_THE_MODEL = re.compile(r"rope|rotary|overrid")
HANDED_ON = ("engine.hf_overrides", "engine.rope_scaling", "engine.rope_theta")
# A server's options that name files and addresses, which are left out; and those whose code would run, or that need
# what is not here, with which nothing is asked.
_FILES = re.compile(
    r"(?:model|model_tag|config|chat_template|lora_modules|hf_token|api_key|uds|host|ssl_\w+|download_dir|generation_config"
    r"|(?:tokenizer|hf_config)(?:_path)?|(?:code_|tokenizer_)?revision|allowed_\w+|otlp_\w+|log_config_file|root_path)"
)
_CODE = re.compile(
    r"\w*plugin|\w*_cls|middleware|logits_processors|model_class_overrides|trust_remote_code|quantization|load_format"
    r"|speculative_config|spec_model|(?:kv|ec)_transfer_config|grpc|headless"
)
PROCESSES = (1, 2, 8)
_CALLS = {Form.KEYWORD: "keyword", Form.OPTION: "words"}
# What leads Hydra to files beside the framework's, or to several runs.
_OTHER_FILES = frozenset({"config_dir", "cd", "hydra.searchpath", "experimental_rerun"})
_SEVERAL_RUNS = frozenset({"multirun", "m", "hydra.mode"})
_PRIMARY = (("config_path", "cp"), ("config_name", "cn"))
# An override that changes one value; others choose a group, as ``model_engine`` does, or add what later ones are about.
_LEAF = re.compile(r"\w+(?:\.\w+)+")
_FOLDERS = ("working_dir", "py_modules", "excludes")
SECONDS = 240.0
# Variables of the launch that validators read.
VARIABLES = ("VLLM_USE_V1", "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "VLLM_ATTENTION_BACKEND", "VLLM_BATCH_INVARIANT")


def _jobs(case: Case, request: Request) -> dict[str, Job]:
    plan = case.plan
    assert plan is not None  # the probe needs it
    if any(note.unread for note in plan.notes):
        raise NotApplicable("the launch may give more than was read of it")
    variables = {name: str(plan.value(f"env.{name}")) for name in VARIABLES if plan.value(f"env.{name}") is not None}
    found = {
        "engine": _engine(case, plan),
        "arguments": _arguments(case, plan),
        "program": _program(case, plan),
        "composition": _composition(case, plan),
        "runtime_env": _runtime_environment(case, plan),
    }
    jobs = {
        name: Job(arguments={"by": name, **told}, environ={**variables, VISIBLE: ""}, time_limit=SECONDS)
        for name, told in found.items()
        if told is not None
    }
    if not jobs:
        raise NotApplicable("no validator of what is installed takes this launch's settings")
    return jobs


def _engine(case: Case, plan: RolloutPlan) -> dict[str, Any] | None:
    if case.packages is None or find(case.packages, "vllm") is None or not _imported(case, "vllm"):
        return None
    if any(_OF_THE_MODEL.search(one.key) for one in plan.given if one.option not in HANDED_ON):
        return None  # the model's config is not the one that the engine will read
    if case.gpus is not None and case.gpus.vendor not in ("nvidia", "none"):
        return None
    serves = plan.role == "server" and plan.entry.startswith("vllm")
    words = _words(plan) if serves and plan.entry == "vllm serve" else None
    asked = handed(plan)
    if words is None and (not asked or any(setting.unknown is not None for setting in asked.values())):
        return None
    options = {name: one.value for name, one in asked.items() if one.value is not None and one.unknown is None}
    ranks = options.get("tensor_parallel_size", 1) * options.get("pipeline_parallel_size", 1)
    if "distributed_executor_backend" in options or ranks > 1:
        options["distributed_executor_backend"] = "mp"  # who starts the workers is asked elsewhere
    config = case.model.config if case.model is not None else None
    if config and "auto_map" in config:  # a class of the model's own is code, which is not run
        return None
    return {
        "options": options,
        "words": words,
        "config": config or None,
        "devices": _devices(case),
        "serves": True if serves else None,
    }


def _words(plan: RolloutPlan) -> list[str] | None:
    """What stands behind ``vllm serve``, without files; None where its parser cannot be asked all of it."""
    found: list[str] = []
    for one in plan.given:
        option = one.key.partition(".")[0]
        if one.form is Form.VARIABLE or _FILES.fullmatch(option):
            continue
        if one.unknown is not None or one.form is not Form.OPTION or _CODE.fullmatch(option):
            return None
        value = "mp" if option == "distributed_executor_backend" and one.value == "ray" else one.value
        name = f"--{'no-' if value is False else ''}{one.key.replace('_', '-')}"
        found += [name] if isinstance(value, bool) else [name, *map(str, value if isinstance(value, list) else [value])]
    return found


def _devices(case: Case) -> list[dict[str, Any]]:
    here = [gpu for gpu in (case.gpus.devices if case.gpus is not None else ()) if gpu.compute_capability is not None]
    found = {(g.name, g.memory_total, tuple(map(int, str(g.compute_capability).split(".")))) for g in here}
    return [{"name": n, "memory": m, "capability": c} for n, m, c in sorted(found)] or list(map(dict, DEVICES))


def _arguments(case: Case, plan: RolloutPlan) -> dict[str, Any] | None:
    """The settings that the framework's own argument class, or its schema, takes."""
    record = framework(plan.framework)
    classes = list(argument_classes(plan)) if record is not None and record.trains else []
    if record is None or not classes or not _installed(case, record):
        return None
    given = [one for one in plan.given if one.form is not Form.VARIABLE]
    forms = {one.form for one in given}
    if Form.KEYWORD in forms and len(forms) > 1:
        return None  # which of them wins is the script's
    total = count(plan, "process.total")
    return {
        "classes": classes,
        "calls": _CALLS.get(forms.pop(), "parser") if len(forms) == 1 else "parser",
        "settings": {one.key: one.value for one in given if one.unknown is None},
        "open": [one.key for one in given if one.unknown is not None],
        "processes": [total] if total else list(PROCESSES),
        "model": next((one.key for one in given if one.option == "model.path"), None),
        "config": (case.model.config if case.model is not None else None) or None,
        "apart": sorted({name for one in record.validations for name in one.apart}),
    }


def _program(case: Case, plan: RolloutPlan) -> dict[str, Any] | None:
    """The words of a command whose module looks at its settings itself before it trains."""
    record = framework(plan.framework)
    asked = [] if record is None else [one for one in record.validations if one.settings and not one.name]
    found = next((one for one in asked if one.module == plan.entry), None)
    given = [one for one in plan.given if one.form is not Form.VARIABLE]
    if record is None or found is None or not _installed(case, record):
        return None
    if any(one.unknown is not None or one.form is not Form.OPTION for one in given):
        return None
    words = [[f"--{one.key}", *_texts(one.value)] for one in given]
    return {"module": found.module, "settings": found.settings, "words": [word for option in words for word in option]}


def _texts(value: Any) -> list[str]:
    """The words behind an option, none for a switch."""
    if value is True:
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _composition(case: Case, plan: RolloutPlan) -> dict[str, Any] | None:
    """The overrides of a module of the framework's own, over which its Hydra composes its own files; None where the
    launch brings others, or what it leaves open may choose among them."""
    record = framework(plan.framework)
    overrides = [one for one in plan.given if one.spelled]
    if record is None or not overrides or plan.entry.partition(".")[0] not in record.modules:
        return None
    if not _is_there(case, record) or not _is_there(case, "hydra-core") or not _imported(case, "hydra-core"):
        return None
    keys = {one.key for one in plan.given if one.form is not Form.VARIABLE}
    if keys & (_OTHER_FILES | _SEVERAL_RUNS) or any(one.form is Form.YAML for one in plan.given):
        return None
    hydras = {one.key: one for one in plan.given if one.form is Form.OPTION}
    path, name = (next((hydras[key] for key in keys if key in hydras), None) for keys in _PRIMARY)
    unread = [one for one in (path, name, *overrides) if one is not None and one.unknown is not None]
    if any(one.form is Form.OPTION or not _LEAF.fullmatch(one.spelled) for one in unread):
        return None
    return {
        "module": plan.entry,
        "path": path.value if path is not None else None,
        "name": str(name.value).removesuffix(".yaml") if name is not None else None,
        "overrides": [
            one.spelled if one.spelled[:1] == "~" else f"{one.spelled}={hydra_text(one.value, bare=False)}"
            for one in overrides
            if one.unknown is None
        ],
        "open": sorted(one.spelled for one in unread),
    }


def _runtime_environment(case: Case, plan: RolloutPlan) -> dict[str, Any] | None:
    """What ``ray job submit`` has Ray take, without folders, which it packs before, and without the texts of variables,
    of which it asks only that they are texts."""
    given = plan.value("ray.runtime_env")
    if not isinstance(given, dict) or case.packages is None or find(case.packages, "ray") is None:
        return None
    if not _imported(case, "ray"):
        return None
    environment = {name: value for name, value in given.items() if name not in _FOLDERS}
    variables = environment.get("env_vars")
    if isinstance(variables, dict):
        environment["env_vars"] = {name: "" if isinstance(value, str) else value for name, value in variables.items()}
    return {"environment": environment} if environment else None


def _is_there(case: Case, what: Framework | str) -> bool:
    """Whether a package, or one of a framework's, is installed."""
    names = [what] if isinstance(what, str) else [package.name for package in what.packages]
    return case.packages is not None and any(find(case.packages, name) is not None for name in names)


def _installed(case: Case, record: Framework) -> bool:
    names = [package.name for package in record.packages]
    return _is_there(case, record) and all(_imported(case, name) for name in (*names, "transformers"))


def _imported(case: Case, name: str) -> bool:
    try:
        require_import(case, name)
    except NotApplicable:
        return False
    return True


validators = Probe(
    name="validators",
    level=Level.IMPORTS,
    child=Path(__file__).parent / "children" / "validate.py",
    jobs=_jobs,
    needs=("packages", "plan"),
    reads=("gpus", "model"),
    seconds=15.0,
)
