"""What a difference between nodes of one run breaks: codes and a few words, by section and name."""

from __future__ import annotations

import re
from functools import cache

from rldoctor.knowledge.packages import FRAMEWORKS

_ALL_THE_SAME = "all ranks of a run must run the same code"
_FRAMEWORKS = "|".join(re.escape(name) for name in FRAMEWORKS)

# Variables that change no result: what is logged, shown and reported, where caches and temporary files lie, which
# environment of equal packages is active.
_WITHOUT_EFFECT = "|".join(
    (
        r"NCCL_DEBUG(_FILE|_SUBSYS|_TIMESTAMP\w*)?|NCCL_(LOG|DUMP|DESYNC)_\w*|TORCH_NCCL_(TRACE|DUMP|DEBUG|DESYNC)\w*",
        r"TORCH_FR_\w*|TORCH_(LOGS\w*|CPP_LOG_LEVEL|SHOW_CPP_STACKTRACES|TRACE)|TORCHELASTIC_ERROR_FILE|TF_CPP_\w*",
        r"VLLM_(LOGGING|LOG|USAGE|TRACE)_\w*|VLLM_(NO_USAGE_STATS|DO_NOT_TRACK|CONFIG_ROOT|DEBUG_\w*|TORCH_PROFILER\w*)",
        r"RAY_(DEDUP_LOGS\w*|COLOR_PREFIX|LOG_\w*|LOGGING_\w*|\w*_LOG_LEVEL|USAGE_STATS_\w*|TMPDIR|PROFILING|DASHBOARD_\w*)",
        r"RAY_(CLOUD_INSTANCE_ID|CLUSTER_NAME|IP|PORT|DISABLE_IMPORT_WARNING|\w*_METRICS_\w*|GRAFANA_\w*|PROMETHEUS_\w*)",
        r"(HF|HUGGINGFACE|TRANSFORMERS|DATASETS|ACCELERATE)_\w*(VERBOSITY|PROGRESS_BARS?|TELEMETRY|WARNINGS?|LOG_LEVEL)",
        r"HF_HUB_(ENABLE_HF_TRANSFER|DOWNLOAD_TIMEOUT|ETAG_TIMEOUT|USER_AGENT_\w*)|HF_(XET|DEBUG)\w*|HYDRA_FULL_ERROR",
        r"HF_(DATASETS|MODULES|ASSETS)_CACHE|RAY_(\w*_niceness|testing_\w*)",
        r"PYTHON(UNBUFFERED|DONTWRITEBYTECODE|FAULTHANDLER|IOENCODING|UTF8|WARNINGS|PYCACHEPREFIX|STARTUP|TRACEMALLOC)",
        r"PYTHON(PROFILEIMPORTTIME|NODEBUGRANGES|BREAKPOINT|_VERSION|_SHA256|_PIP_VERSION|_GET_PIP_\w*|_SETUPTOOLS_VERSION)",
        r"(VLLM|SGLANG|TRITON|TORCHINDUCTOR|CUDA|XDG|FLASHINFER|NUMBA)_\w*(CACHE|WORKSPACE)_(DIR|ROOT|PATH|HOME|BASE)\w*",
        r"XDG_CACHE_HOME|TRITON_(HOME|(DUMP|OVERRIDE)_DIR)|TORCH_EXTENSIONS_DIR|VLLM_RPC_BASE_PATH|TMPDIR|MALLOC_\w*",
        r"TOKENIZERS_PARALLELISM|(?i:no_proxy)|VIRTUAL_ENV|CONDA_\w*|NVIDIA_(PRODUCT_NAME|BUILD_\w*|REQUIRE_\w*)|CUDA_(VERSION|HOME)|SGLANG_LOG\w*",
    )
)

# The first row that fits counts: section, expression for the whole name, codes, what breaks. Where there are no codes
# the difference breaks nothing and is left out.
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
    ("gpus", "error|vendor|gpus", ("RLD106",), "the node's devices cannot be used"),
    ("gpus", "links", ("RLD322",), "collectives go at the pace of the slowest link"),
    ("environment", _WITHOUT_EFFECT, (), ""),
    ("environment", "(NCCL|RCCL|UCX|FI|GLOO|TP_SOCKET)_.*", ("RLD322",), "ranks of one group need one fabric"),
    ("environment", "MASTER_.*", ("RLD323",), "ranks meet at one address"),
    ("environment", ".*WORLD_SIZE|.*_NNODES|SLURM_(NTASKS|NPROCS|JOB_NUM_NODES)", ("RLD324",),
     "ranks wait for another number of ranks"),
    ("environment", "RAY_ADDRESS", ("RLD601",), "processes join different Ray clusters"),
    ("environment", "RAY_.*", ("RLD601",), "Ray's parts behave unlike"),
    ("environment", ".*_VISIBLE_DEVICES|CUDA_DEVICE_.*", ("RLD303",), "processes see other devices than their peers"),
    ("environment", "PYTORCH_.*ALLOC_CONF", ("RLD207", "RLD206"), "memory is held unlike"),
    ("environment", "LD_.*|LIBRARY_PATH", ("RLD109", "RLD105"), "other libraries are put in front"),
    ("environment", "HF_.*|TRANSFORMERS_.*|HUGGINGFACE_.*", ("RLD115",), "models are looked for elsewhere"),
    ("environment", "VLLM_.*", ("RLD322", "RLD219"), "engines run with other switches"),
    ("environment", "(SGLANG|FLASHINFER|FLASH_ATTENTION|XFORMERS)_.*", ("RLD219",), "engines run with other switches"),
    ("environment", "PYTHON(PATH|HOME|NOUSERSITE|SAFEPATH)", ("RLD109", "RLD104"), "another code is imported here"),
    ("environment", "TORCH_(NCCL|DISTRIBUTED)_.*", ("RLD321", "RLD320"), "ranks of one group wait and check unlike"),
    ("environment", r"(CUDA|CUDNN|CUBLAS|NVTE|HIP|HSA|ROC[RM]|ASCEND|HCCL|(PY)?TORCH\w*|TRITON)_.*", ("RLD321",),
     "kernels run otherwise here: the group waits for its slowest rank, and numbers may differ"),
    ("environment", "(OMP|MKL|KMP|OPENBLAS)_.*", ("RLD321",), "the group waits for its slowest rank"),
    ("environment", "(?i:(https?|all)_proxy)", ("RLD607", "RLD115"), "servers and models are reached another way"),
    ("environment", ".*(KEY|TOKEN|PASSWORD|SECRET).*", ("RLD115",), "what needs credentials is refused here"),
    ("environment", "SLURM_JOB_?ID", ("RLD324",), "the nodes belong to different jobs"),
    ("environment", "(SLURMD?|OMPI|PMIX?)_.*", (), ""),
    ("environment", ".*", ("RLD219",), "trainers run with other switches"),
    ("plan", r"engine\.seed|seed\..*", ("RLD310",), "seeds are another topology than planned"),
    ("plan", ".*", ("RLD324",), "the nodes start different launches"),
    ("model", ".*", ("RLD115",), "the nodes load another model, or none"),
    ("host", "shm_total", ("RLD113",), "workers of this node have less shared memory"),
    ("host", "open_files.*|processes|pids_limit|locked_memory|memory_.*|cpu_(count|usable)", ("RLD114",),
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
