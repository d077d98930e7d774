"""A declared requirement between the packages of the stack is not met.

What it looks for
    The declarations that the other version checks do not own: a framework's or vLLM's demands on trl, ray, numpy, peft,
    accelerate, deepspeed, tensordict, on the Python that runs them, and what these demand of each other (transformers
    of tokenizers and huggingface-hub). Only requirements between packages that a rollout stands on count, and of the
    extras only one that is named after the package it demands. An import that fails on a name which another package
    does not have. torchvision and torchaudio built for another torch are
    RLD105's. In a log: a name that one package imports from another in vain, a version that a package refuses when it
    is imported, and pip or uv without a solution.

Why it hurts
    pip installs packages one after another without looking back, so the last one wins: the trainer imports a class that
    its trl does not have, or transformers refuses to start because of its tokenizers.

How sure it is
    The requirement is declared; whether a run breaks on it is known only for those with a reason (an error). A missed
    lower bound of a framework on trl, and anything transformers checks when it is imported, is an error as well. The
    rest is a warning.

The fix and its cost
    Bring the demanded package into the range that everybody here declares, or move the one that demands it.

References
    https://github.com/modelscope/ms-swift/issues/4248
    https://github.com/modelscope/ms-swift/issues/3268
    https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/dependency_versions_check.py
    https://pip.pypa.io/en/stable/topics/dependency-resolution/
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    Reach,
    Severity,
    find,
    version_within,
)
from rldoctor.api.logs import is_users, package_of
from rldoctor.api.packages import Demand, is_framework, needs_of, package_identity

from ..declared.linked import judge_links
from ..declared.requirements import Misfit, between_vllm_and, judge, of_vllm
from ..declared.version_fixes import declared_fixes, package_fixes, releases_with, unfit_finding
from ..exceptions import places
from ..observed.imports import CORE, ENGINE, Failure, distribution, failures, imports, install, named, reached, stopped
from ..observed.logged_imports import link_of
from ..observed.moved_names import Sought, lacking, sought
from ..observed.unfit_calls import LITERALS, unfit

check = Check("RLD104", "dependency-conflict", __doc__)

# What transformers verifies when it is imported, and refuses to go on without.
_CHECKED_AT_IMPORT = frozenset({"tokenizers", "huggingface-hub", "numpy", "accelerate"})
# Built for one torch: a misfit between these and torch is RLD105's, whoever pins them.
_BUILT_FOR_TORCH = frozenset({"torchvision", "torchaudio"})


@check.declared(needs=["packages"])
def unmet(case: Case) -> Iterator[Finding | Reach]:
    """One package's declared requirement on another is not met."""
    yield from judge(case, check, lambda demand: _ours(case, demand), _severity)


def _ours(case: Case, demand: Demand) -> bool:
    by = package_identity(demand.by)
    if demand.on == "transformers" or between_vllm_and(demand) or of_vllm(demand, "torch"):
        return False
    if demand.on in _BUILT_FOR_TORCH or (by in _BUILT_FOR_TORCH and demand.on == "torch"):
        return False
    if demand.on == "python":
        return by == "vllm" or is_framework(demand.by)
    return by != "vllm" or demand.on not in ("xformers", "triton") or not _torch_moved(case)


def _torch_moved(case: Case) -> bool:
    """Whether torch is not the one that vLLM pins: then what was chosen for that torch is off too, and RLD102 tells."""
    assert case.packages is not None
    torch = find(case.packages, "torch")
    pins = [d for d in needs_of(case).on("torch") if of_vllm(d, "torch")]
    return torch is not None and not all(pin.admits(torch.version) for pin in pins)


def _severity(misfit: Misfit) -> Severity:
    by = package_identity(misfit.by)
    if misfit.known or (misfit.too_old and is_framework(misfit.by) and misfit.on == "trl"):
        return Severity.ERROR
    if by == "transformers" and misfit.on in _CHECKED_AT_IMPORT and (misfit.on != "accelerate" or misfit.too_old):
        return Severity.ERROR
    return Severity.WARNING


@check.declared(needs=["links"])
def not_there(case: Case) -> Iterator[Finding | Reach]:
    """A module that the launch imports looks in another package for what is not in the installed source."""
    yield from judge_links(case, check, lambda module: module not in ("vllm", "transformers"))


@check.observed(needs=["observations.imports"])
def imports_fail(case: Case) -> Iterator[Finding | Reach]:
    """An import failed because a package looked in another one for what the installed release of it does not have."""
    names: dict[Sought, list[Failure]] = {}
    for failure in failures(case):
        name = lacking(failure, case)
        if name is not None:
            names.setdefault(name, []).append(failure)
    for name, members in names.items():
        where = places((members[0].root or {}).get("frames", ()))[-1:]
        yield check.finding(
            f"{named(name.package, case)} has no {name.said}, which {named(name.importer, case)} uses"
            f"{releases_with(name.package, name.said)}; it stops {stopped(members)}",
            severity=Severity.ERROR if any(failure.package in CORE for failure in members) else Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=(
                *(Evidence(text=f"{failure.package}: {failure.text}", source=failure.source) for failure in members),
                *(Evidence(text=place, source="traceback") for place in where),
            ),
            fixes=package_fixes(case, check, name),
        )
    yield reached(case, "imports", "stack", f"{len(imports(case))} packages imported or tried")


@check.logged("cannot import name '", "No module named '", "' has no attribute '")
def lacks_a_name(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``cannot import name 'GRPOConfig' from 'trl'``: one package uses what the other does not have in this version."""
    name = sought(event, case)
    if name is not None and not name.shadow and name.package not in ENGINE and name.importer != name.package:
        yield check.finding(
            f"{named(name.package, case)} has no {name.said}, which {name.importer or 'the script'} uses"
            f"{releases_with(name.package, name.said)}",
            fixes=package_fixes(case, check, name),
        )
    elif (
        name is not None and name.package == "torch" and name.importer not in ("vllm", "torch", "") and not name.shadow
    ):
        yield check.finding(
            f"{named('torch', case)} has no {name.said}, which {named(name.importer, case)} uses"
            f"{releases_with('torch', name.said)}",
            fixes=package_fixes(case, check, name),
        )


# What trainers set on themselves in some releases alone, which the classes derived from them, and the packages above
# them, read: the trainer, the attribute, its package and the releases, from the tagged sources.
_SET_BY = (
    ("Trainer", "current_gradient_accumulation_steps", "transformers", ">=4.55"),
    ("Trainer", "tokenizer", "transformers", "<5"),
    ("GRPOTrainer", "_last_loaded_step", "trl", ">=0.14"),
    *(("GRPOTrainer", name, "trl", ">=0.15") for name in ("reward_weights", "log_completions")),
    *(
        ("GRPOTrainer", name, "trl", ">=0.16")
        for name in ("_buffered_inputs", "_step", "num_iterations", "epsilon_low", "epsilon_high", "temperature")
    ),
    *(
        ("GRPOTrainer", name, "trl", ">=0.17")
        for name in ("loss_type", "scale_rewards", "mask_truncated_completions", "reward_func_names")
    ),
    ("GRPOTrainer", "_textual_logs", "trl", ">=0.17,<0.20"),
    ("GRPOTrainer", "sampling_params", "trl", "<0.16"),
    ("GRPOTrainer", "llm", "trl", "<0.16"),
    ("GRPOTrainer", "llm", "trl", ">=0.18,<0.28"),
    ("GRPOTrainer", "tp_group", "trl", ">=0.18,<0.28"),
    ("GRPOTrainer", "vllm_generation", "trl", ">=0.28"),
)
_READ = re.compile(r"'(?P<owner>\w*Trainer)' object has no attribute '(?P<name>\w+)'")


@check.logged("Trainer' object has no attribute '")
def another_release_sets(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A trainer is asked for what its base sets in other releases alone: by a package above the base, or by the base
    itself of a derived one, which was written over another release of it."""
    read = _READ.search(event.line)
    if read is None or _in_generated_trainer(event):
        return
    rows = [row for row in _SET_BY if row[1] == read["name"] and _derived(read["owner"], row[0])]
    frames = event.frames
    asker = package_of(frames[-1].file, frames[-1].function) if frames else None
    if not rows or (read["owner"] != rows[0][0] and asker is None and rows[0][2] == "trl"):
        return  # who asks tells which of the two is the older
    base, name, package, _ = rows[0]
    lags = asker == package
    version = event.versions.get(package)
    if version is not None and any(version_within(version, row[3]) for row in rows) is not lags:
        return
    there = " or ".join(row[3] for row in rows)
    which = f"the {base} of {package}" if base != read["owner"] else package
    yield check.finding(
        f"{read['owner']} does not set {name}, which {which} has in {there} and reads: it was written over another "
        "release"
        if lags
        else f"{read['owner']} is asked for {name}, which {which} sets in {there} alone",
        fixes=declared_fixes(case, check, package)
        or (
            Fix(title=f"install the {package} that the package of {read['owner']} names: it is none of {there}")
            if lags
            else Fix(
                title=f"install a {package} that sets it, as far as what stands on it allows (rldoctor compat)",
                commands=tuple(install(case, shlex.quote(f"{package}{row[3]}")) for row in rows),
            ),
        ),
    )


def _derived(owner: str, base: str) -> bool:
    """Whether a trainer is of a kind by its name: ``GRPOEnvTrainer`` is a ``GRPOTrainer``, every one a ``Trainer``."""
    return base.removesuffix("Trainer") in owner


# Trainers of TRL 0.12 and later take plain models, and read from them what its wrapper does not pass on.
_OF_PLAIN_MODELS = frozenset(("base_model_prefix", "generation_config", "is_gradient_checkpointing", "warnings_issued"))
check.signature(
    "WithValueHead' object has no attribute '",
    pattern=r"'(?P<wrapper>AutoModelFor\w+WithValueHead)' object has no attribute '(?P<name>\w+)'",
    when=lambda case, event: _wants_a_plain_model(event),
    says="the trainer reads {name} of {wrapper}: it takes a plain model, and the script gives it the wrapper that the "
    "trainers of older releases of TRL took",
    fixes=(
        Fix(title="give the trainer the plain model (AutoModelForCausalLM; PPO also a value_model)"),
        Fix(title="or, for a script of the older PPOTrainer, the TRL before it", commands=("pip install 'trl<0.12'",)),
    ),
    url="https://github.com/huggingface/trl/issues/2340",
)


def _wants_a_plain_model(event: LogEvent) -> bool:
    """Whether TRL's trainer asks, or it is what only TRL's trainers ask for; the frames of torch's modules pass it
    on."""
    frames = event.frames
    called = (package_of(frame.file, frame.function) for frame in reversed(frames))
    asker = next((package for package in called if package not in ("torch", "python")), None)
    asked = event.line.rpartition("no attribute '")[2].partition("'")[0]
    return asker == "trl" or (not frames and asked in _OF_PLAIN_MODELS)


@check.logged(*LITERALS)
def does_not_accept(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A call or a lookup that other releases of another package accept."""
    found = unfit(event, case)
    if found is not None and (found.package not in ENGINE or (found.package == "torch" and found.caller != "vllm")):
        yield unfit_finding(case, check, found)


# What numpy 2 took away without a word of its own, and what it is called now.
_GONE = {"product": "prod", "cumproduct": "cumprod", "msort": "sort(..., axis=0)", "bool8": "bool_"}


@check.logged(
    "was removed in the NumPy 2.0 release",
    "` was a deprecated alias for the builtin `",
    *(f"module 'numpy' has no attribute '{name}'" for name in _GONE),
)
def numpy_took_away(case: Case, event: LogEvent) -> Iterator[Finding]:
    """numpy 1.24 took the aliases of Python's own types away, numpy 2 many more names; it says so itself."""
    link = link_of(event)
    said = link and re.search(
        r"`np\.(?P<name>\w+)` was (?P<alias>a deprecated alias)?|'numpy' has no attribute '(?P<gone>\w+)'$",
        link.message,
    )
    if link is None or not said:
        return
    packages = [package_of(frame.file, frame.function) for frame in link.frames]
    caller = next((package for package in reversed(packages) if package not in ("numpy", "python")), None)
    who = distribution(caller, case.packages) if caller else ""
    first = "1.24" if said["alias"] else "2.0"
    instead = re.search(r"Use `(?:np\.)?([\w.]+)` instead", link.message)
    now = instead[1] if instead is not None else _GONE.get(said["gone"])
    new = f"np.{now}" if now else said["name"] if said["alias"] else ""
    older = install(case, f"'numpy<{first.removesuffix('.0')}'")
    yield check.finding(
        f"{who or 'the script'} uses np.{said['name'] or said['gone']}, which numpy {first} took away",
        fixes=(
            Fix(title=f"take a {who} that was written for this numpy", commands=(install(case, "--upgrade", who),))
            if who
            else Fix(title=f"write {new} instead" if new else "write what numpy calls it now"),
            Fix(
                title="or install the numpy before it",
                applicability=Applicability.UNSAFE,
                commands=(older,),
                side_effects="packages that were built against a newer numpy have to follow",
            ),
        ),
        url="https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
    )


# unsloth rewrites the source of TRL's trainers, and finds another source than it knows: it says so, or fails over it.
check.signature(
    "Unsloth: Please file a bug report! Error patching ",
    # What it executes has a parameter's missing annotation written out.
    "= <class 'inspect._empty'>,",
    "unsloth/models/rl.py",
    details=(r"Error patching (?P<trainer>\w+)",),
    when=lambda case, event: _is_patching(event) and {"trl": named("trl", case)},
    says="unsloth cannot patch {trainer|a trainer} of {trl}: its source is of another release than this unsloth knows",
    fixes=lambda case, event, words: (
        *declared_fixes(case, check, "trl"),
        Fix(
            title="install unsloth and unsloth_zoo of one day, with the trl that they ask for",
            commands=(install(case, "--upgrade", "unsloth", "unsloth_zoo"),),
        ),
    ),
    url="https://github.com/unslothai/unsloth/issues/2597",
)


def _is_patching(event: LogEvent) -> bool:
    """Whether unsloth's own code for that is where it failed, or what it says is there."""
    if event.literal != "unsloth/models/rl.py":
        return True
    return bool(event.frames) and event.frames[-1].file.endswith(f"/{event.literal}")


@check.logged(
    "is required for a normal functioning of this module, but found ",
    "VersionConflict: (",
    " with `PyTorch` requires `accelerate>=",
)
def refused_at_import(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A package looked at another's version and stopped: transformers when it is imported, pkg_resources."""
    link = link_of(event)
    said = f"{link.type}: {link.message}" if link is not None else event.line
    reported = (
        re.search(
            r"([\w.-]+(?:[<>=!~]\S*)?) is required for a normal functioning .{0,40}?but found (\S+?==[\w.+-]*)",
            said,
        )
        or re.search(r"VersionConflict: \(([\w.-]+ [\w.+]+)[^)]*\).*?Requirement\.parse\('([^']+)'\)", said)
        or re.search(r"requires `(accelerate>=[\w.]+)`", said)
    )
    if link is None or reported is None:
        return
    swapped = "VersionConflict" in said
    wanted, present = (
        (reported[2], reported[1]) if swapped else (reported[1], reported[2] if reported.re.groups > 1 else "")
    )
    yield check.finding(
        f"{wanted} is required" + (f", and {present.rstrip('.')} is installed" if present else ""),
        fixes=(_install(case, wanted),),
    )


@check.logged(
    "because these package versions have conflicting dependencies",
    "No solution found when resolving dependencies",
    "requires a different Python: ",
    silent=True,
)
def refused_by_the_installer(case: Case, event: LogEvent) -> Iterator[Finding]:
    """pip or uv found no set of versions and installed nothing."""
    if event.exception is not None:
        return
    lines = [line.strip() for line in (event.line, *event.after) if line.strip()]
    reasons = [line for line in lines if re.search(r"depends on|requires|you require|because ", line, re.IGNORECASE)]
    yield check.finding(
        f"the installer found no versions that go together: {' '.join(reasons or lines)[:300]}",
        fixes=(Fix(title="loosen one of the requirements named there, or take releases from rldoctor compat"),),
    )


# ``vllm 0.9.1 requires torch==2.7.0, but you have torch 2.6.0 which is incompatible.``: pip's remark, which explains
# nothing in a run that nothing ended.
check.signature(
    ", but you have ",
    pattern=r"(?P<who>\S+ \S+) requires (?P<what>[\w.-]+\S*?),? but you have (?P<had>\S+ \S+) which is incompatible",
    when=lambda case, event: event.exception is None and event.incident.kind == "crashed",
    says="{who} requires {what}, and {had} was installed",
    severity=Severity.WARNING,
    fixes=lambda case, event, words: (_install(case, words["what"]),),
)


def _install(case: Case, wanted: str) -> Fix:
    return Fix(
        title=f"install {wanted}",
        commands=(install(case, shlex.quote(wanted)),),
        applicability=Applicability.UNSAFE,
        side_effects="may move other packages",
    )


# DeepSpeed 0.16.4 renamed the method that TRL calls after generation; TRL compares the release since 0.16.
check.signature(
    "object has no attribute '_register_hooks_recursively'",
    says="DeepSpeed 0.16.4 and later have renamed the method with which this TRL puts the ZeRO-3 hooks back",
    fixes=(
        Fix(title="take a TRL that knows both names", commands=("pip install 'trl>=0.16'",)),
        Fix(title="or the DeepSpeed before it", commands=("pip install 'deepspeed<0.16.4'",)),
    ),
    url="https://github.com/huggingface/trl/issues/2962",
)
check.signature(
    "object has no attribute '_register_deepspeed_module'",
    says="this TRL puts the ZeRO-3 hooks back with a method that came with DeepSpeed 0.16.4",
    fixes=(Fix(title="take the newer DeepSpeed", commands=("pip install 'deepspeed>=0.16.4'",)),),
    url="https://github.com/huggingface/trl/issues/2962",
)
# A trainer that derives from transformers' and overrides a method whose parameters a later transformers changed.
_OVERRIDES = (
    r"(?P<owner>_?\w*Trainer)\.(?P<method>_get_train_sampler|_get_eval_sampler|log|training_step|compute_loss"
    r"|prediction_step|_save|_maybe_log_save_evaluate|create_optimizer)\(\) "
    r"(?:takes .{1,60} but \d+ (?:was|were) given|got an unexpected keyword argument '(?P<argument>\w+)')"
)
check.signature(
    " positional argument but ",
    " positional arguments but ",
    "() got an unexpected keyword argument '",
    pattern=_OVERRIDES,
    exception="TypeError",
    says="{owner} overrides {method}() as an older transformers calls it[[: it does not know {argument}]]",
    fixes=(
        Fix(
            title="upgrade the package that {owner} comes from (TRL; with unsloth also unsloth and unsloth_zoo)",
            commands=("pip install --upgrade trl",),
        ),
        Fix(title="or install the newest transformers that it allows (rldoctor compat names it)"),
    ),
)


# unsloth writes trainers of its own from the sources of the installed TRL (unsloth/models/rl.py).
_REGENERATE = (
    Fix(
        title="take unsloth and unsloth_zoo of one day, and let them write their trainers again",
        commands=("pip install --upgrade unsloth unsloth_zoo", "rm -rf unsloth_compiled_cache"),
    ),
    Fix(title="or the TRL that this unsloth declares", commands=("rldoctor compat",)),
)
check.signature(
    "Direct module loading failed for Unsloth",
    pattern=r"Direct module loading failed for (?P<name>\w+): (?P<why>[^\n]{1,160})",
    says="the trainer that unsloth wrote from the installed TRL does not load ({name}: {why})",
    fixes=_REGENERATE,
    url="https://github.com/unslothai/unsloth-zoo/pull/1035",
)
check.signature(
    "NameError: name '",
    "object has no attribute '",
    " positional arguments but ",
    " positional argument but ",
    "UnboundLocalError: ",
    "list indices must be integers or slices",
    exception=("NameError", "UnboundLocalError", "AttributeError", "TypeError"),
    when=lambda case, event: _in_generated_trainer(event),
    says="the trainer that unsloth wrote from the installed TRL does not fit it: {error}",
    fixes=_REGENERATE,
    url="https://github.com/unslothai/unsloth-zoo/pull/1035",
)


check.signature(
    "_unsloth_",
    "grpo_accumulated_loss() ",
    "grpo_compute_loss",
    exception="TypeError",
    pattern=r"\b(?:_unsloth_\w+|grpo_accumulated_loss|grpo_compute_loss\w*)\(\) "
    r"(?:takes \d|missing \d|got an unexpected)",
    says="a function that unsloth put in the place of one of transformers or TRL is called as another release does: "
    "{error}",
    fixes=_REGENERATE,
    url="https://github.com/unslothai/unsloth/issues/2148",
)
check.signature(
    "object has no attribute 'unsloth_",
    "type object 'Unsloth",
    # vLLM's own has none of the fields with which unsloth hands over an adapter in memory.
    "'LoRARequest' object has no attribute 'lora_",
    pattern=r"'\w+Config' object has no attribute 'unsloth_\w+'|type object 'Unsloth\w+' has no attribute '\w+'"
    r"|'LoRARequest' object has no attribute 'lora_(?:tensors|config|embeddings)'",
    says="unsloth has patched TRL or vLLM in part only, or another framework's code over it: {error}",
    fixes=_REGENERATE,
    url="https://github.com/unslothai/unsloth/issues/3931",
)


def _in_generated_trainer(event: LogEvent) -> bool:
    """Whether the generated file itself raised over a name of its own."""
    frames = event.frames
    raised = frames[-1].file if frames else " ".join(event.before[-4:])
    if "/unsloth_compiled_cache/" not in raised:
        return False
    own = (
        r"^(?:NameError|UnboundLocalError)|list indices must|'Unsloth\w+Trainer' object|Unsloth\w+Trainer\.\w+\(\)|"
        r"\w+\(\) takes \d"
    )
    return re.search(own, event.line) is not None


# https://github.com/huggingface/trl/issues/4899, https://github.com/huggingface/trl/issues/2600
check.signature(
    "IndexError: pop from an empty deque",
    "tracing error at step ",
    "assert param.ds_status == ZeroParamStatus.AVAILABLE",
    when=lambda case, event: event.search(r"partitioned_param_coordinator|parameter_offload") is not None,
    says="DeepSpeed ZeRO-3 meets other parameters in the forward pass than it has recorded: its hooks were taken off "
    "for generation or the model was called in another way, by releases that do not go together",
    fixes=(
        Fix(
            title="take releases of one time",
            commands=("pip install --upgrade trl transformers accelerate deepspeed", "rldoctor compat"),
        ),
        Fix(title="or ZeRO-2, where the model fits: it does not partition parameters"),
    ),
    url="https://github.com/huggingface/trl/issues/4899",
)


# torch.nn.functional.embedding, of a weight that lies in pieces on all ranks.
check.signature(
    "'weight' must be 2-D",
    "Padding_idx must be within num_embeddings",
    exception=("RuntimeError", "AssertionError"),
    when=lambda case, event: _on_a_part(event),
    says="an embedding is called while its weights are partitioned (DeepSpeed ZeRO-3, FSDP): {error}",
    fixes=(
        Fix(
            title="let the trainer prepare every model that it calls, the reward and reference models as well: "
            "TRL 0.17 does so for reward models",
            commands=("pip install --upgrade trl accelerate deepspeed",),
        ),
        Fix(title="or ZeRO-2, where the models fit: it does not partition parameters"),
    ),
    url="https://github.com/huggingface/trl/pull/3326",
)


def _on_a_part(event: LogEvent) -> bool:
    """Whether the lookup itself refused the weight, in no module of the user's own; a module that is made with such a
    padding has another fault."""
    called = [frame for frame in event.frames if package_of(frame.file, frame.function) != "torch"]
    if called and is_users(called[-1].file):
        return False
    asked = r"assert padding_idx < weight\.size\(0\)"
    return "must be 2-D" in event.line or any(re.search(asked, line) for line in (event.text, *event.before))


# What datasets 4 took away, and what it brought.
check.signature(
    "Dataset scripts are no longer supported",
    pattern=r"no longer supported, but found (?P<script>\S+)",
    says="datasets 4 runs no scripts of data sets any more ({script})",
    fixes=(
        Fix(
            title="take the data set's Parquet files, where the hub has them: load_dataset(NAME, "
            "revision='refs/convert/parquet')"
        ),
        Fix(title="or the last releases that ran scripts", commands=("pip install 'datasets<4'",)),
    ),
    url="https://github.com/huggingface/datasets/releases/tag/4.0.0",
)
check.signature(
    "Feature type '",
    pattern=r"Feature type '(?P<name>\w+)' not found",
    says="the data set was saved by a newer datasets than the installed one: this release has no feature type {name}",
    fixes=(Fix(title="upgrade datasets", commands=("pip install --upgrade datasets",)),),
    url="https://github.com/verl-project/verl/issues/2723",
)
check.signature(
    "we now require users to upgrade torch to at least v2.6",
    says="this transformers loads *.bin weights with torch 2.6 and later alone",
    fixes=(
        Fix(title="take weights in safetensors (model.safetensors), which it loads with every torch"),
        Fix(title="or torch 2.6 and what was built for it", commands=("pip install 'torch>=2.6'",)),
    ),
    url="https://nvd.nist.gov/vuln/detail/CVE-2025-32434",
)
# accelerate's logger asks for a state that only an Accelerator or a PartialState makes.
check.signature(
    "You must initialize the accelerate state by calling either",
    "Please make sure to properly initialize your accelerator via",
    says="a package uses accelerate before anything made its state, in a process that has no trainer",
    fixes=(
        Fix(title="take releases of one time", commands=("pip install --upgrade trl accelerate transformers",)),
        Fix(title="in a script of your own: make an Accelerator() (or PartialState()) before what needs it"),
    ),
)


# transformers 4.46 renamed the argument, 5 knows the new name alone.
check.signature(
    "__init__() got an unexpected keyword argument 'processing_class'",
    "__init__() got an unexpected keyword argument 'tokenizer'",
    exception="TypeError",
    pattern=r"(?P<owner>\w*Trainer)\.__init__\(\) got an unexpected keyword argument "
    r"'(?P<name>processing_class|tokenizer)'",
    says="{owner} of the installed transformers or TRL takes no {name}: what calls it is of another time",
    fixes=lambda case, event, words: (
        Fix(
            title="install a transformers that knows processing_class, or the TRL before it"
            if words["name"] == "processing_class"
            else "hand the tokenizer over as processing_class=, or upgrade the package that calls the trainer",
            commands=("pip install 'transformers>=4.46'",) if words["name"] == "processing_class" else (),
        ),
        Fix(title="see which releases go together", commands=("rldoctor compat",)),
    ),
    url="https://github.com/huggingface/transformers/releases/tag/v4.46.0",
)
