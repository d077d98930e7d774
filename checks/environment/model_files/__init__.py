"""The model cannot be loaded: path, config, weights or tokenizer, or an architecture that this release does not know.

What it looks for
    In the launch: a directory for the model that does not exist, beside one of nearly its name; a variable that nothing
    expands.
    In a local model directory: shards that are missing or empty, pointers of git LFS in place of weights, files that
    cannot be read. In its ``config.json``: an architecture that the installed vLLM does not have yet, and a model type
    that the installed transformers does not have yet.
    In a log: what the hub client, transformers, safetensors and vLLM print when a model does not load.

Why it hurts
    Nothing starts; on many ranks the first message drowns in those of the others. Where vLLM has no implementation of
    its own it may fall back to that of transformers, which is slower and has other weight names at weight sync.

How sure it is
    File names, sizes and the JSON itself. Weights are not read, so a file that was cut off is seen only in the log.
    First releases come from a dated table of the registries of all releases. Models with code of their own
    (``auto_map``) are not judged by it.

The fix and its cost
    Download the model again, or install the release that brought the architecture.

References
    https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/model_executor/models/registry.py
    https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/models/auto/configuration_auto.py
    https://huggingface.co/docs/huggingface_hub/guides/download
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    cite,
    find,
    plan_of,
)
from rldoctor.api.engine import release
from rldoctor.api.facts import ModelFiles
from rldoctor.api.models import First, architecture_since, model_type_since, text_config
from rldoctor.api.packages import unreleased

check = Check("RLD115", "model-files-invalid", __doc__)
AGAIN = Fix(
    title="download the model again (what an interrupted download or copy left is completed)",
    commands=("hf download MODEL --local-dir DIRECTORY",),
)

VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})(?P<end>\.(?:safetensors|bin))$")
WHOLE = ("model.safetensors", "pytorch_model.bin")
INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
NEEDED = ("tokenizer_config.json", "tokenizer.json", "generation_config.json")
# A pointer file of git LFS has three short lines; a safetensors file's header alone is longer.
POINTER_BYTES = 512
# From these releases on vLLM falls back to the implementation in transformers: for text, images and the like, experts.
FALLBACK_SINCE = (0, 7, 0)
MULTIMODAL_FALLBACK_SINCE = (0, 10, 0)
EXPERTS_FALLBACK_SINCE = (0, 11, 0)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@check.declared(needs=["plan.model.beside"])
def misspelt(case: Case) -> Iterator[Finding]:
    """A directory that does not exist. Without a model of nearly its name it may lie on the nodes, or come later."""
    plan = plan_of(case)
    setting = plan.get("model.beside")
    named = plan.value("model.path") or plan.value("engine.model")
    near = setting.value if setting is not None else []
    yield check.finding(
        f"{named} does not exist" + (f"; {near[0]} lies beside it" if near else " on this machine"),
        severity=Severity.ERROR if near else Severity.NOTE,
        evidence=cite(plan, "model.path" if plan.value("model.path") else "engine.model"),
        fixes=tuple(_instead(str(named), near)),
    )


@check.declared(needs=["plan.model.path"])
def unexpanded(case: Case) -> Iterator[Finding | Reach]:
    """A variable's name for the model: within single quotes, or in a file that no shell reads."""
    plan = plan_of(case)
    named, setting = plan.value("model.path"), plan.get("model.path")
    found = VARIABLE.search(named) if isinstance(named, str) else None
    quoted = setting is not None and "'" in (setting.raw or "")
    if found is None or setting is None or not (quoted or setting.form == "yaml"):
        yield Reach(f"model {named}")  # what one shell has written for another, the other expands
        return
    yield check.finding(
        f"the model is named {named}, and nothing puts the value of {found[1]} in its place: "
        + ("within single quotes the shell leaves it as it is" if quoted else "no shell reads it there"),
        severity=Severity.ERROR if quoted else Severity.WARNING,  # a template may be filled in before the run
        evidence=cite(plan, "model.path"),
        fixes=(Fix(title="quote it with double quotes" if quoted else f"write the value of {found[1]} out"),),
    )


def _instead(named: str, near: list[str]) -> Iterator[Fix]:
    """The likeliest other name, in the path as the launch has it."""
    head, slash, _ = named.rstrip("/").rpartition("/")
    for other in near[:1]:
        path = head + slash + other.rpartition("/")[2]
        yield Fix.unsafe(f"name the model that is there: {path}", {"model.path": path})


@check.declared(needs=["model"])
def weights_incomplete(case: Case) -> Iterator[Finding | Reach]:
    """Shards, pointers and links of the model's directory."""
    model = case.model
    if model is None:
        raise NotChecked("no local model was named", how="--model DIRECTORY")
    weights = {name: size for name, size in model.files.items() if SHARD.match(name) or name in WHOLE}
    for name, reason in model.broken.items():
        if name in NEEDED or name in WHOLE or SHARD.match(name):
            yield _finding(model, f"{name} {reason}", name, reason)
    # What an interrupted download left in the hub's cache is completed at the next start.
    if (missing := _missing_shards(weights)) and not model.cached:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        said = f"the model's weights are incomplete: no {', '.join(missing[:3])}{more}"
        yield _finding(model, said, missing[0], "missing")
    for name, size in weights.items():
        if size < POINTER_BYTES:
            said = f"{name} has {size} bytes: it is empty or a pointer of git LFS, not weights"
            yield _finding(model, said, name, f"{size} bytes", Fix(title="fetch the files", commands=("git lfs pull",)))
            break
    index = next((name for name in INDEX if name in model.files), None)
    if index is not None and not weights and not model.cached:
        yield _finding(model, f"{index} lists weights and the directory holds none", index, "an index without weights")
    if not weights:
        raise NotChecked(f"no weights lie in {model.path}", how="--model DIRECTORY with them")
    yield Reach(f"{len(weights)} weight files of {model.path}")


def _finding(model: ModelFiles, said: str, name: str, what: str, *fixes: Fix) -> Finding:
    evidence = Evidence(text=what, source=f"{model.path}/{name}")
    return check.finding(said, evidence=(evidence,), fixes=(*fixes, AGAIN))


def _missing_shards(names: Mapping[str, int]) -> list[str]:
    """The shards that the others count and that are not there."""
    found = [match for name in names if (match := SHARD.match(name))]
    missing = []
    for stem, total, end in dict.fromkeys((m["stem"], m["total"], m["end"]) for m in found):
        expected = (f"{stem}-{number:05}-of-{total}{end}" for number in range(1, int(total) + 1))
        missing += [name for name in expected if name not in names]
    return missing


@check.declared(needs=["model.config", "packages.vllm"])
def unknown_to_the_engine(case: Case) -> Iterator[Finding | Reach]:
    """The architecture against the registries of vLLM's releases."""
    config, version = _config(case), release(case)
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else None
    if architecture is None:
        raise NotChecked("config.json names no architecture")
    vllm = find(case.packages, "vllm") if case.packages is not None else None
    if vllm is None or version is None:
        raise NotChecked("the vLLM release is not known")
    if why := unreleased(vllm.version):
        raise NotChecked(f"vLLM {why}")
    since = architecture_since(architecture)
    if since is None:
        raise NotChecked(f"no release of the table has {architecture}")
    if _has(vllm.version, since, "vLLM's architectures"):
        yield Reach(f"vLLM has {architecture} since {since}")
        return
    falls_back = version >= _fallback(config, architecture)
    yield check.finding(
        f"vLLM {vllm.version} has no implementation of {architecture} (it came with {since})"
        + (
            ", and falls back to that of transformers: slower, and other weight names at weight sync"
            if falls_back
            else ""
        ),
        severity=Severity.WARNING if falls_back else Severity.ERROR,
        evidence=(
            Evidence(text=f"architectures: {architecture}", source=_path(case)),
            Evidence(text=f"vllm {vllm.version}", source="vllm"),
        ),
        fixes=(Fix(title=f"take a vLLM that has it: {since} or later", commands=(f"pip install 'vllm>={since}'",)),),
        url="https://docs.vllm.ai/en/latest/models/supported_models.html",
    )


def _has(version: str, since: First, table: str) -> bool:
    """Whether a release has what came with another one. Raises :class:`NotChecked` where it is older than the table."""
    known = since.known_to(version)
    if known is None:
        raise NotChecked(f"the table of {table} begins with {since.release}, after {version}")
    return known


def _fallback(config: Mapping[str, Any], architecture: str) -> tuple[int, ...]:
    if text_config(config) is not config or "ConditionalGeneration" in architecture or "VL" in architecture:
        return MULTIMODAL_FALLBACK_SINCE
    return EXPERTS_FALLBACK_SINCE if any(text_config(config).get(key) for key in EXPERTS) else FALLBACK_SINCE


@check.declared(needs=["model.config", "packages.transformers"])
def unknown_to_transformers(case: Case) -> Iterator[Finding | Reach]:
    """The model type against the registries of transformers' releases."""
    config = _config(case)
    named = config.get("model_type")
    since = model_type_since(named) if isinstance(named, str) else None
    found = find(case.packages, "transformers") if case.packages is not None else None
    if since is None or found is None:
        raise NotChecked(f"no release of the table has the model type {named}")
    if why := unreleased(found.version):
        raise NotChecked(f"transformers {why}")
    if _has(found.version, since, "transformers' models"):
        yield Reach(f"transformers knows {named} since {since}")
        return
    yield check.finding(
        f"transformers {found.version} does not know the model type {named} (it came with {since})",
        evidence=(
            Evidence(text=f"model_type: {named}", source=_path(case)),
            Evidence(text=f"transformers {found.version}", source="transformers"),
        ),
        fixes=(
            Fix(
                title=f"take a transformers that has it: {since} or later, as far as vLLM and the framework allow it",
                commands=(f"pip install 'transformers>={since}'",),
            ),
        ),
    )


def _config(case: Case) -> Mapping[str, Any]:
    config = case.model.config if case.model is not None else {}
    if config.get("auto_map"):
        raise NotApplicable("the model brings code of its own (auto_map)")
    return config


def _path(case: Case) -> str:
    return f"{case.model.path}/config.json" if case.model is not None else "config.json"
