"""What a difference between nodes of one run breaks: codes and a few words, by section and name."""

from __future__ import annotations

import re
from functools import cache

from rldoctor.knowledge.packages import FRAMEWORKS

_ALL_THE_SAME = "all ranks of a run must run the same code"
_FRAMEWORKS = "|".join(re.escape(name) for name in FRAMEWORKS)

# The first row that fits counts: section, expression for the whole name, codes, what breaks.
_ROWS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("packages", "vllm(-cpu)?", ("RLD101", "RLD407"), "engines of different releases load and sample unlike"),
    ("packages", "torch", ("RLD102", "RLD320"), "process groups and NCCL of different torch builds do not meet"),
    ("packages", "transformers|tokenizers", ("RLD103",), "models, templates and tokens of the nodes may differ"),
    ("packages", "ray", ("RLD608",), "Ray refuses nodes of another release"),
    ("packages", "python", ("RLD608", "RLD407"), "Ray and pickled functions need one Python on all nodes"),
    ("packages", r"nvidia-nccl.*", ("RLD322", "RLD320"), "NCCL of different releases do not agree in a group"),
    ("packages", _FRAMEWORKS, ("RLD101", "RLD104"), _ALL_THE_SAME),
    ("packages", ".*", ("RLD104",), _ALL_THE_SAME),
    ("gpus", "devices", ("RLD303", "RLD324"), "ranks are counted by the devices of a node"),
    ("gpus", "driver|cuda", ("RLD106",), "an older driver serves no newer CUDA"),
    ("gpus", "error|vendor", ("RLD106",), "the node's devices cannot be used"),
    ("gpus", "links", ("RLD322",), "collectives go at the pace of the slowest link"),
    ("environment", "(NCCL|RCCL|UCX|FI|GLOO|TP_SOCKET)_.*", ("RLD322",), "ranks of one group need one fabric"),
    ("environment", "MASTER_.*", ("RLD323",), "ranks meet at one address"),
    ("environment", "WORLD_SIZE|.*_NNODES|LOCAL_WORLD_SIZE", ("RLD324",), "ranks wait for another number of ranks"),
    ("environment", "RAY_ADDRESS", ("RLD601",), "processes join different Ray clusters"),
    ("environment", "RAY_.*", ("RLD601",), "Ray's parts behave unlike"),
    ("environment", ".*_VISIBLE_DEVICES|CUDA_DEVICE_.*", ("RLD303",), "processes see other devices than their peers"),
    ("environment", "PYTORCH_.*ALLOC_CONF", ("RLD207", "RLD206"), "memory is held unlike"),
    ("environment", "LD_.*|LIBRARY_PATH", ("RLD109", "RLD105"), "other libraries are put in front"),
    ("environment", "HF_.*|TRANSFORMERS_.*|HUGGINGFACE_.*", ("RLD115",), "models are looked for elsewhere"),
    ("environment", "VLLM_.*", ("RLD322", "RLD219"), "engines run with other switches"),
    ("environment", ".*", (), ""),
    ("plan", r"engine\.seed|seed\..*", ("RLD310",), "seeds are another topology than planned"),
    ("plan", ".*", ("RLD324",), "the nodes start different launches"),
    ("model", ".*", ("RLD115",), "the nodes load another model, or none"),
    ("host", "shm_total", ("RLD113",), "workers of this node have less shared memory"),
    ("host", "open_files.*|processes|pids_limit|locked_memory|memory_.*|cpu_.*", ("RLD114",),
     "this node's limit is met first"),
    ("host", "compilers", ("RLD112",), "kernels that are compiled at run time fail here"),
    ("host", "libc|glibcxx|libraries.*|machine|system", ("RLD105",), "compiled extensions load on some nodes only"),
    ("host", ".*", (), ""),
    ("node", "interface .*|InfiniBand.*", ("RLD322", "RLD320"), "the group falls back, slows down, or is not built"),
    ("node", "Ray instances", ("RLD601",), "an engine may join the other instance and find no actors"),
    ("node", "GPUs in use", ("RLD302", "RLD206"), "another process holds memory of the devices"),
    ("node", "clock.*", ("RLD603",), "credentials and tokens are refused, and the nodes' logs do not go together"),
    ("node", "content of .*", ("RLD115", "RLD407"), "ranks load other weights, or another tokenizer or template"),
    ("node", "faults.*", ("RLD305",), "a device that faults ends its rank"),
    ("node", "disk.*", ("RLD114", "RLD610"), "checkpoints, spilling or downloads fail here"),
)  # fmt: skip


@cache
def of(section: str, name: str) -> tuple[tuple[str, ...], str]:
    """The codes that a difference in this fact brings about, and what it breaks; nothing where that is not known."""
    for of_section, pattern, codes, words in _ROWS:
        if of_section == section and re.fullmatch(pattern, name):
            return codes, words
    return (), ""
