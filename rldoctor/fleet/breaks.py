"""What a difference between nodes of one run breaks: codes and a few words, by section and name."""

from __future__ import annotations

import re
from functools import cache

from rldoctor.facts.environment import is_allowed
from rldoctor.knowledge.packages import FRAMEWORKS

_ALL_THE_SAME = "all ranks of a run must run the same code"
# Any other variable that the engine, the trainer or what they stand on reads: one that nothing of them does is a note
# of the site, the shell or the scheduler to itself.
_READ = "(read by the stack)"
_FRAMEWORKS = "|".join(re.escape(name) for name in FRAMEWORKS)

# Words of a variable's name that say it is about what is written down, shown, counted or built beforehand, which
# changes no result.
_REPORTED = "LOGS?|LOGGING|LOGGER|LOG(INFO|DEST|LEVEL)|VERBOS(E|ITY)|WARN(INGS?)?|TELEMETRY|METRICS|STATS|DISPLAY"
_SHOWN = "(CORE)?DUMP|COLORS?|PROGRESS_BARS?|TQDM|PRINT|REPORT|DETAILS|STACKTRACES|TRACE|ROTATION|DASHBOARD|GRAFANA"
_BUILT = "BUILD|PROMETHEUS|PROFILER_(DIR|PATH)|UPDATE_CHECK"
# The others: where caches and temporary files lie, which environment of equal packages is active, what compiles sooner
# or later to the same.
_WITHOUT_EFFECT = "|".join(
    (
        rf"(?i:(\w+_)?({_REPORTED}|{_SHOWN}|{_BUILT})(_\w*)?)",
        r"NCCL_(DEBUG(_\w*)?|DESYNC_\w*|RAS_\w*|INSPECTOR_\w*|PROFILE_EVENT_MASK)|NVTE_DEBUG\w*|HF_DEBUG",
        r"TORCH_NCCL_(DEBUG|DESYNC)\w*|TORCH_(FR_\w*|DISABLE_ADDR2LINE|HOME)|TORCHELASTIC_ERROR_FILE",
        r"VLLM_(USAGE_\w*|NO_USAGE_STATS|DO_NOT_TRACK|CONFIG_ROOT|\w*DEBUG(_\w*)?|TORCH_PROFILER\w*)",
        r"RAY_(USAGE_\w*|TMPDIR|PROFILING|CLOUD_INSTANCE_ID|CLUSTER_NAME|IP|PORT|\w*_niceness|testing_\w*)",
        r"RAY_(event_\w*|task_events_\w*|record_ref_creation_sites|SCHEDULER_EVENTS|SILENT_MODE|AIR_NEW_OUTPUT|CLIENT_\w*)",
        r"UCX_(HANDLE_ERRORS|VFS_ENABLE|PROFILE_\w*)|KMP_SETTINGS|OMP_STACKSIZE|DS_SKIP_CUDA_CHECK|NVTE_FRAMEWORK",
        r"HF_HUB_(ENABLE_HF_TRANSFER|DOWNLOAD_TIMEOUT|ETAG_TIMEOUT|USER_AGENT_\w*)|HF_(\w+_)?XET(_\w*)?|HYDRA_FULL_ERROR",
        r"HF_(DATASETS|MODULES|ASSETS)_CACHE|HF_UPDATE_DOWNLOAD_COUNTS|ACCELERATE_DISABLE_RICH",
        r"PYTHON(UNBUFFERED|DONTWRITEBYTECODE|FAULTHANDLER|IOENCODING|UTF8|WARNINGS|PYCACHEPREFIX|STARTUP|TRACEMALLOC)",
        r"PYTHON(PROFILEIMPORTTIME|NODEBUGRANGES|BREAKPOINT|_HISTORY|_BASIC_REPL|_EGG_CACHE|_\w*SHA256|_GET_PIP_\w*)",
        r"(VLLM|SGLANG|TRITON|PYTORCH|TORCHINDUCTOR|CUDA|XDG|FLASHINFER|NUMBA)_\w*(CACHE|WORKSPACE|CUBIN)_(DIR|ROOT|PATH|HOME|BASE)\w*",
        r"XDG_CACHE_HOME|VLLM_(ASSETS_CACHE|RPC_BASE_PATH)|CUDA_(CACHE_\w*|HOME|PATH|BINARY_LOADER_\w*)|PYTORCH_HOME",
        r"TRITON_(HOME|OVERRIDE_DIR|CACHE_AUTOTUNING|STORE_BINARY_ONLY)|TORCH_EXTENSIONS_DIR|TMPDIR|MALLOC_\w*",
        r"TORCHINDUCTOR_(COMPILE_THREADS|WORKER_START|\w+_(REMOTE_)?CACHE)",
        r"TOKENIZERS_PARALLELISM|(?i:no_proxy)|VIRTUAL_ENV|CONDA_\w*|NVIDIA_(PRODUCT_NAME|(DISABLE_)?REQUIRE\w*|CTK_\w*)",
        r"TF_CPP_\w*|(PYTHON|PYTORCH|CUDA|CUDNN|NCCL|NVIDIA|KMP)_(\w+_)?VERSION",
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
    ("gpus", "links|fewest PCIe lanes", ("RLD322",), "collectives go at the pace of the slowest link"),
    ("gpus", "lowest power limit.*", ("RLD321",), "the group waits for its slowest rank"),
    ("gpus", "correction of memory.*", ("RLD404",), "a fault of a device's memory changes numbers unseen"),
    ("gpus", "rows of memory", ("RLD305",), "a device that faults ends its rank"),
    ("environment", _WITHOUT_EFFECT, (), ""),
    ("environment", "(NCCL|RCCL|UCX|FI|GLOO|TP_SOCKET)_.*", ("RLD322",), "ranks of one group need one fabric"),
    ("environment", "MASTER_.*", ("RLD323",), "ranks meet at one address"),
    ("environment", ".*WORLD_SIZE|.*_NNODES|SLURM_(NTASKS|NPROCS|JOB_NUM_NODES)", ("RLD324",),
     "ranks wait for another number of ranks"),
    ("environment", "RAY_ADDRESS", ("RLD601",), "processes join different Ray clusters"),
    ("environment", "RAY_.*", ("RLD601",), "Ray's parts behave unlike"),
    ("environment", ".*_VISIBLE_DEVICES|CUDA_DEVICE_.*", ("RLD303",), "processes see other devices than their peers"),
    ("environment", "PYTORCH_.*ALLOC_CONF", ("RLD207", "RLD206"), "memory is held unlike"),
    ("environment", "CC|CXX|CPATH|CPLUS_INCLUDE_PATH|LIBRARY_PATH", ("RLD112",), "kernels are compiled otherwise here"),
    ("environment", "LD_.*", ("RLD109", "RLD105"), "other libraries are put in front"),
    ("environment", "HF_.*|TRANSFORMERS_.*|HUGGINGFACE_.*", ("RLD115",), "models are looked for elsewhere"),
    ("environment", "VLLM_.*", ("RLD322", "RLD219"), "engines run with other switches"),
    ("environment", "(SGLANG|FLASHINFER|FLASH_ATTENTION|XFORMERS)_.*", ("RLD219",), "engines run with other switches"),
    ("environment", "PYTHON(PATH|HOME|NOUSERSITE|SAFEPATH)", ("RLD109", "RLD104"), "another code is imported here"),
    ("environment", "TORCH_(NCCL|DISTRIBUTED)_.*", ("RLD321", "RLD320"), "ranks of one group wait and check unlike"),
    ("environment", r"(CUDA|CUDNN|CUBLAS|NVTE|HIP|HSA|ROC[RM]|ASCEND|HCCL|(PY)?TORCH\w*|TRITON)_.*", ("RLD321",),
     "kernels run otherwise here: the group waits for its slowest rank, and numbers may differ"),
    ("environment", "(OMP|MKL|KMP|OPENBLAS)_.*", ("RLD321",), "the group waits for its slowest rank"),
    ("environment", "(?i:(https?|all)_proxy)", ("RLD607", "RLD115"), "servers and models are reached another way"),
    ("environment", r"(\w+_)?(KEY|TOKEN|PASSWORD|SECRET)(_(ID|FILE|PATH))?", ("RLD115",),
     "what needs credentials is refused here"),
    ("environment", "SLURM_JOB_?ID", ("RLD324",), "the nodes belong to different jobs"),
    ("environment", "(SLURMD?|OMPI|PMIX?)_.*", (), ""),
    ("environment", _READ, ("RLD219",), "trainers run with other switches"),
    ("plan", r"engine\.seed|seed\..*", ("RLD310",), "seeds are another topology than planned"),
    ("plan", ".*", ("RLD324",), "the nodes start different launches"),
    ("model", ".*", ("RLD115",), "the nodes load another model, or none"),
    ("host", "shm_total", ("RLD113",), "workers of this node have less shared memory"),
    ("host", "open_files.*|processes|pids_limit|locked_memory|memory_.*|cpu_(count|usable)", ("RLD114",),
     "this node's limit is met first"),
    ("host", "compilers", ("RLD112",), "kernels that are compiled at run time fail here"),
    ("host", "libc|glibcxx|libraries.*|machine|system", ("RLD105",), "compiled extensions load on some nodes only"),
    ("host", "kernel", ("RLD609",), "processes may hang under kernels before 5.5"),
    ("host", ".*", (), ""),
    ("node", "interface .*|InfiniBand.*", ("RLD322", "RLD320"), "the group falls back, slows down, or is not built"),
    ("node", "Ray instances", ("RLD601",), "an engine may join the other instance and find no actors"),
    ("node", "GPUs in use", ("RLD302", "RLD206"), "another process holds memory of the devices"),
    ("node", "clock.*", ("RLD603",), "credentials and tokens are refused, and the nodes' logs do not go together"),
    ("node", "content of .*", ("RLD115", "RLD407"), "ranks load other weights, or another tokenizer or template"),
    ("node", "faults.*", ("RLD305",), "a device that faults ends its rank"),
    ("node", "disk of /dev/shm", ("RLD113",), "workers of this node find no shared memory"),
    ("node", "disk.*", ("RLD114", "RLD610"), "checkpoints, spilling or downloads fail here"),
)  # fmt: skip


@cache
def of(section: str, name: str) -> tuple[tuple[str, ...], str]:
    """The codes that a difference in this fact brings about, and what it breaks; nothing where that is not known."""
    for of_section, pattern, codes, words in _ROWS:
        if of_section == section and (is_allowed(name) if pattern is _READ else re.fullmatch(pattern, name)):
            return codes, words
    return (), ""
