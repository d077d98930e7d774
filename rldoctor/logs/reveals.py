"""Versions and the framework as the log itself tells them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rldoctor.expressions import expression
from rldoctor.frameworks import trainers
from rldoctor.frameworks.record import V
from rldoctor.logs.model import Frame
from rldoctor.records import dataclass


@dataclass(frozen=True)
class Reveal:
    """A line with ``literal`` in which ``pattern`` finds the version of ``what`` (its first group), or, where
    ``what`` is ``rank``, the rank of the process that wrote it, where it is a name of the plan, that value."""

    literal: str
    pattern: re.Pattern[str]
    what: str


def reveal(literal: str, pattern: str, what: str) -> Reveal:
    """One whose pattern is compiled when it is first asked for."""
    return Reveal(literal, expression(pattern), what)


# vLLM: v1/engine/core.py and engine/llm_engine.py, entrypoints/openai/api_server.py; NCCL: init.cc. Frameworks print
# what `pip list`, `collect_env` or their own banners say.
REVEALS: tuple[Reveal, ...] = (
    # vllm/distributed/parallel_state.py
    reveal("distributed_init_method=", r"\bworld_size=\d+ rank=(\d{1,6}) ", "rank"),
    reveal("distributed_init_method=", r"\brank=(\d{1,6}) local_rank=", "rank"),
    reveal("LLM engine (v", rf"LLM engine \(v{V}\)", "vllm"),
    reveal("vLLM API server version ", rf"vLLM API server version {V}", "vllm"),
    reveal("NCCL version ", rf"NCCL version {V}", "nccl"),
    reveal("vLLM is using nccl==", rf"vLLM is using nccl=={V}", "nccl"),
    reveal("PyTorch version", rf"PyTorch version\s*[:=]?\s*{V}", "torch"),
    reveal("torch version", rf"torch version\s*[:=.]*\s*{V}", "torch"),
    reveal("transformers version", rf"[Tt]ransformers version\s*[:=]?\s*{V}", "transformers"),
    reveal("Transformers version", rf"[Tt]ransformers version\s*[:=]?\s*{V}", "transformers"),
    reveal('"transformers_version"', rf"transformers_version\"\s*:\s*\"{V}", "transformers"),
    reveal("deepspeed info", rf"deepspeed info \.+ {V}", "deepspeed"),
    reveal("DeepSpeed info: version=", rf"DeepSpeed info: version={V}", "deepspeed"),
    reveal("Ray version", rf"Ray version\s*[:=]?\s*{V}", "ray"),
    reveal("vllm version", rf"vllm version\s*[:=]?\s*{V}", "vllm"),
    reveal("vLLM version", rf"vLLM version\s*[:=]?\s*{V}", "vllm"),
    *(reveal(*row) for framework in trainers() for row in framework.words.versions),
)

# Those of a framework over another before that one, in whose folders its own files may lie.
_PATTERNS = tuple((f.name, expression(f.words.paths, re.IGNORECASE)) for f in trainers() if f.words.paths)
_TEXTS = tuple((framework.name, text) for framework in trainers() for text in framework.words.texts)
_PYTHON = expression(r"/(?:lib|envs)/(?:[^/]+/)?python(?P<version>3\.\d+)/")
_DIST = expression(r"/site-packages/(?P<name>[a-z0-9_]+)-(?P<version>\d[\w.+]*)\.(?:dist-info|egg)", re.IGNORECASE)


def framework_of(files: Iterable[str], texts: Iterable[str] = ()) -> str | None:
    """The framework whose code runs, by the paths of frames (most specific first), else by what lines say."""
    paths = list(files)
    for name, pattern in _PATTERNS:
        if any(pattern.search(path) for path in paths):
            return name
    lines = list(texts)
    for name, text in _TEXTS:
        if any(text in line for line in lines):
            return name
    return "vllm" if any("/vllm/" in path for path in paths) else None


def versions_in_frames(frames: Iterable[Frame]) -> dict[str, str]:
    """Versions that paths carry: of Python in nearly all, of packages in eggs and unpacked wheels."""
    found: dict[str, str] = {}
    for frame in frames:
        if (python := _PYTHON.search(frame.file)) is not None:
            found.setdefault("python", python["version"])
        if (dist := _DIST.search(frame.file)) is not None:
            found.setdefault(dist["name"].lower().replace("_", "-"), dist["version"])
    return found
