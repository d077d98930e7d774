"""Reads from a running vLLM what it really runs with: its resolved configuration, where its tensors live, its rotary
tables.

Attributes have moved between releases, so each fact has a list of places, newest first; what is found at none of them
is named in ``unread``, which is not the same as absent. Read against the sources of vLLM 0.8.5 to 0.32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Where the model's own worker is when the engine runs in this process.
WORKERS = (
    "llm_engine.engine_core.engine_core.model_executor.driver_worker.worker",
    "llm_engine.model_executor.driver_worker.worker",
    "llm_engine.engine_core.engine_core.model_executor.driver_worker",
    "llm_engine.model_executor.driver_worker",
    "engine.model_executor.driver_worker.worker",  # the asynchronous engine of V0
    "engine.model_executor.driver_worker",
)
CACHES = ("model_runner.kv_caches", "gpu_cache", "cpu_cache")

# Names are vLLM's own options; each with its places below the engine's VllmConfig.
OPTIONS: dict[str, tuple[str, ...]] = {
    "max_model_len": ("model_config.max_model_len",),
    "dtype": ("model_config.dtype",),
    "seed": ("model_config.seed",),
    "enforce_eager": ("model_config.enforce_eager",),
    "quantization": ("model_config.quantization",),
    "logprobs_mode": ("model_config.logprobs_mode",),
    "max_num_batched_tokens": ("scheduler_config.max_num_batched_tokens",),
    "max_num_seqs": ("scheduler_config.max_num_seqs",),
    "enable_chunked_prefill": ("scheduler_config.enable_chunked_prefill", "scheduler_config.chunked_prefill_enabled"),
    "async_scheduling": ("scheduler_config.async_scheduling",),
    "scheduling_policy": ("scheduler_config.policy",),
    "long_prefill_token_threshold": ("scheduler_config.long_prefill_token_threshold",),
    "block_size": ("cache_config.block_size",),
    "enable_prefix_caching": ("cache_config.enable_prefix_caching",),
    "kv_cache_dtype": ("cache_config.cache_dtype",),
    "gpu_memory_utilization": ("cache_config.gpu_memory_utilization",),
    "cpu_offload_gb": ("offload_config.uva.cpu_offload_gb", "cache_config.cpu_offload_gb"),
    "num_gpu_blocks": ("cache_config.num_gpu_blocks",),
    "tensor_parallel_size": ("parallel_config.tensor_parallel_size",),
    "pipeline_parallel_size": ("parallel_config.pipeline_parallel_size",),
    "data_parallel_size": ("parallel_config.data_parallel_size",),
    "distributed_executor_backend": ("parallel_config.distributed_executor_backend",),
    "load_format": ("load_config.load_format",),
    "device": ("device_config.device_type", "device_config.device"),
    "compilation_mode": ("compilation_config.mode", "compilation_config.level"),
    "cudagraph_mode": ("compilation_config.cudagraph_mode", "compilation_config.use_cudagraph"),
    "speculative_config": ("speculative_config",),
    "lora_config": ("lora_config",),
}
# The tables of rotary embeddings, by the attribute that holds them; a row per position.
ROTARY_TABLES = ("cos_sin_cache", "long_short_cos_sin_cache", "cos_sin_q_cache")
MAX_NAMES = 50
# Cosine and sine of one angle: further from each other's circle than any rounding takes them, in any precision.
OFF_CIRCLE = 0.05


class Reader:
    """Reads facts from one engine and remembers what it could not find."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.unread: dict[str, str] = {}

    def configuration(self) -> dict[str, Any]:
        """The resolved options, plus ``engine`` (``V0`` or ``V1``) and ``attention_backend``."""
        config = self._first(self.llm, "vllm_config", "llm_engine.vllm_config", "engine.vllm_config")
        engine = getattr(self.llm, "llm_engine", self.llm)  # an asynchronous engine is its own
        reported: dict[str, Any] = {"engine": "V1" if ".v1." in type(engine).__module__ else "V0"}
        for option, places in OPTIONS.items():
            place = next((p for p in places if exists(config, p)), None)
            if place is not None:
                reported[option] = plain(first(config, (place,)))
            else:
                self.unread[option] = "no " + " or ".join(places)
        reported["attention_backend"] = self._attention_backend()
        return reported

    def devices(self) -> dict[str, Any]:
        """``expected`` is the worker's own device. For each kind (``parameters``, ``buffers``, ``kv_cache``) how many
        tensors are where, and by name those that are not where the worker is."""
        worker, model = self._worker(), self._model()
        expected = None if worker is None else first(worker, ("device", "model_runner.device", "device_config.device"))
        if expected is None:
            self.unread["devices.expected"] = "the worker does not tell its device"
        reported: dict[str, Any] = {"expected": None if expected is None else str(expected)}
        if model is not None:
            reported["parameters"] = self._placed(model.named_parameters(), expected)
            reported["buffers"] = self._placed(model.named_buffers(), expected)
        reported["kv_cache"] = self._placed(self._cache_tensors(), expected)
        return reported

    def rotary(self) -> list[dict[str, Any]]:
        """Each distinct rotary table: ``module``, ``kind``, ``rows`` (positions), ``max_position_embeddings``,
        ``dtype``, ``broken_rows`` (the first rows that hold no cosines and sines, see :func:`broken_rows`)."""
        model, seen = self._model(), set()
        tables: list[dict[str, Any]] = []
        for name, module in model.named_modules() if model is not None else ():
            found = next((t for t in ROTARY_TABLES if getattr(module, t, None) is not None), None)
            table = getattr(module, found) if found else None
            if table is None or id(table) in seen:
                continue
            seen.add(id(table))
            tables.append(
                {
                    "module": name,
                    "kind": type(module).__name__,
                    "table": found,
                    "rows": int(table.shape[0]),
                    "max_position_embeddings": getattr(module, "max_position_embeddings", None),
                    "dtype": str(table.dtype),
                    "broken_rows": broken_rows(table),
                }
            )
        if not tables and model is not None:
            self.unread["rotary"] = "no module holds one of " + ", ".join(ROTARY_TABLES)
        return tables

    def _worker(self) -> Any:
        return self._first(self.llm, *WORKERS)

    def _model(self) -> Any:
        worker = self._worker()
        return None if worker is None else self._first(worker, "model_runner.model", "model_runner.model_runner.model")

    def _cache_tensors(self) -> Iterator[tuple[str, Any]]:
        worker = self._worker()
        caches = None if worker is None else self._first(worker, *CACHES)
        return tensors(caches, "cache")

    def _attention_backend(self) -> str | None:
        model = self._model()
        for _, module in model.named_modules() if model is not None else ():
            backend = getattr(module, "attn_backend", None) or getattr(module, "backend", None)
            if backend is not None and hasattr(module, "impl"):
                name = getattr(backend, "get_name", None)
                return str(name() if callable(name) else getattr(backend, "name", backend))
        self.unread["attention_backend"] = "no attention layer tells it"
        return None

    def _placed(self, named: Any, expected: Any) -> dict[str, Any]:
        count: dict[str, int] = {}
        elsewhere: dict[str, str] = {}
        for name, tensor in named:
            device = str(tensor.device)
            count[device] = count.get(device, 0) + 1
            if expected is not None and not same_device(tensor.device, expected) and len(elsewhere) < MAX_NAMES:
                elsewhere[name] = device
        return {"count": count, "elsewhere": elsewhere}

    def _first(self, root: Any, *places: str) -> Any:
        found = first(root, places)
        if found is None:
            self.unread[places[0]] = "none of its known places holds it (an engine in processes of its own?)"
        return found


def broken_rows(table: Any) -> list[int]:
    """The first positions of a table (rows, cosines then sines) at which cosine and sine are not of one angle, by the
    length that most rows have (YaRN scales it)."""
    values = table.detach().float()
    if values.dim() != 2 or values.shape[1] % 2:
        return []
    cosines, sines = values.chunk(2, dim=1)
    radius = cosines.square() + sines.square()
    usual = radius.median(dim=0).values
    off = ((radius - usual).abs() > OFF_CIRCLE * usual.clamp(min=1e-6)) | ~radius.isfinite()
    return [int(row) for row in off.any(dim=1).nonzero().flatten()[:MAX_NAMES]]


def first(root: Any, places: tuple[str, ...]) -> Any:
    """What stands at the first of some dotted places that exists, or None."""
    for place in places:
        value = root
        for part in place.split("."):
            value = getattr(value, part, None)
            if value is None:
                break
        if value is not None:
            return value
    return None


def exists(root: Any, place: str) -> bool:
    """Whether a dotted place is there, be it None: an option that is not set."""
    *parents, name = place.split(".")
    owner = first(root, (".".join(parents),)) if parents else root
    return owner is not None and hasattr(owner, name)


def tensors(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every tensor inside nested lists, tuples and dictionaries."""
    if hasattr(value, "device") and hasattr(value, "shape"):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from tensors(item, f"{name}[{index}]")


def same_device(one: Any, other: Any) -> bool:
    """``cuda`` and ``cuda:0`` are one, where either leaves the index open."""
    one, other = _parts(one), _parts(other)
    return bool(one[0] == other[0] and (one[1] is None or other[1] is None or one[1] == other[1]))


def plain(value: Any) -> Any:
    """An option as JSON can carry it: numbers and switches as they are, an enumeration by its name, the rest as
    text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(getattr(value, "name", None) or value).replace("torch.", "")


def _parts(device: Any) -> tuple[str, str | None]:
    kind, _, index = str(device).partition(":")
    return kind, index or None
