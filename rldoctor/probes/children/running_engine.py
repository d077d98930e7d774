"""What a scenario's program plays on: one running engine, asked the same way whether it is ``vllm.LLM`` or the
asynchronous engine, V0 or V1.

A program is ``play(running, arguments)``. It records with ``running.record(name, value)`` what it knows at once:
what was recorded survives a crash. It catches what it provokes on purpose; an exception that leaves it ends this
engine's boot and becomes the run's ``exceptions``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine_facts import first

# Where an engine in this process keeps what drives its ranks: V1, V0.
EXECUTORS = ("llm_engine.engine_core.engine_core.model_executor", "llm_engine.model_executor")
CACHES = ("llm_engine.vllm_config.cache_config", "llm_engine.cache_config")
# Where V1 counts the blocks of its KV cache; V0 tells nobody.
POOLS = ("llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool",)
LIMITS = ("llm_engine.vllm_config.model_config.max_model_len", "llm_engine.model_config.max_model_len")
# Tokens of a prompt that goes through the vocabulary.
COVERED = 768
# A prompt (token ids) and the arguments of its SamplingParams.
Request = tuple[Sequence[int], Mapping[str, Any]]


def boot(kind: str, options: dict[str, Any], made: dict[str, Any]) -> RunningEngine:
    """An engine of one of the kinds, up and waiting."""
    if kind == "async":
        from running_async_engine import RunningAsyncEngine

        return RunningAsyncEngine(options, made)
    from vllm import LLM

    return RunningEngine(LLM(**options), options, made)


UNSTEERABLE = "the V0 engine takes no allowed, biased or forbidden tokens without a tokenizer, and the model has none"


class RunningEngine:
    """One engine. ``engine`` is the ``vllm.LLM``; ``options`` what it was asked for; ``made`` what the model is
    (``path``, ``config``, ``tokenizer``, ..., see ``miniature.make``)."""

    def __init__(self, engine: Any, options: dict[str, Any], made: dict[str, Any]) -> None:
        self.engine = engine
        self.options = options
        self.made = made
        self.record: Callable[[str, Any], None] = lambda name, value: None
        # What the engine answered first of all, see ``sample`` in ``engine``.
        self.sampled: list[dict[str, Any]] = []
        # Whether a run left it as no other can use it.
        self.unfit = False

    @property
    def vocabulary(self) -> int:
        """Token ids run from 0 up to this."""
        config = self.made["config"]
        return int(config.get("vocab_size") or (config.get("text_config") or {}).get("vocab_size") or 1000)

    @property
    def limit(self) -> int:
        """Tokens of the longest sequence."""
        return int(first(self.engine, LIMITS))

    @property
    def block(self) -> int:
        """Tokens of a block of the KV cache."""
        return int(first(self.engine, CACHES).block_size)

    @property
    def free_blocks(self) -> int | None:
        """Blocks of the KV cache that no request holds; None where the engine does not tell."""
        count = getattr(first(self.engine, POOLS), "get_num_free_blocks", None)
        return None if count is None else int(count())

    def tops(self, wanted: int) -> int:
        """How many of the likeliest tokens a request may ask for beside each sampled one: no more than the engine's
        own limit."""
        most = self.options.get("max_logprobs")
        return wanted if most is None or most < 0 else min(wanted, most)

    @property
    def generation(self) -> str:
        """``V0`` or ``V1``."""
        return "V1" if ".v1." in type(self.engine.llm_engine).__module__ else "V0"

    @property
    def steerable(self) -> bool:
        """Whether a request may name tokens that are allowed, biased or forbidden: V0 asks its tokenizer for them."""
        return self.generation != "V0" or bool(self.made["tokenizer"])

    def left(self) -> list[str]:
        """The ids of the requests that are in the engine, as it calls them itself."""
        engine = self.engine.llm_engine
        if self.generation == "V1":
            return [str(name) for name in engine.output_processor.request_states]
        queues = [queue for s in engine.scheduler for queue in (s.running, s.waiting, s.swapped)]
        return [str(group.request_id) for queue in queues for group in queue]

    def abort_left(self) -> None:
        """Aborts them: after an exception the next call would go on with them."""
        try:
            self.engine.llm_engine.abort_request(self.left(), internal=True)
        except TypeError:  # releases in which there is one kind of id
            self.engine.llm_engine.abort_request(self.left())

    def close(self) -> None:
        """Ends the processes of an engine of several ranks: killed, they leave their shared memory behind."""
        executor = first(self.engine, EXECUTORS)
        if self.options.get("tensor_parallel_size", 1) > 1 and executor is not None:
            executor.shutdown()
            del executor
            # V0 gives it back with the last reference.
            self.engine = None
            gc.collect()

    def prompt(self, count: int, salt: int = 0) -> list[int]:
        """``count`` different-looking ordinary tokens, other ones for another ``salt``: the last ids of a vocabulary
        are often special."""
        room = max(min(self.vocabulary, 50_000) * 3 // 4 - 3, 1)
        return [3 + (i * 37 + salt * 101 + (i * salt) % 17) % room for i in range(count)]

    def generate(self, asked: Mapping[str, Request]) -> list[dict[str, Any]]:
        """One batch with a request per entry; one row per completion (see :func:`rows`)."""
        from vllm import SamplingParams

        prompts = [{"prompt_token_ids": list(prompt)} for prompt, _ in asked.values()]
        parameters = [SamplingParams(**given) for _, given in asked.values()]
        outputs = self.engine.generate(prompts, parameters, use_tqdm=False)
        return [row for (name, (_, given)), output in zip(asked.items(), outputs) for row in rows(name, given, output)]  # noqa: B905 - Python 3.9


# The least that a step reads of which it is not known how much it does.
STEP = 512


def fits(running: RunningEngine, prompts: Sequence[Sequence[int]]) -> bool:
    """Whether prompts are read in one step, as those of requests with seeds must be: on the CPU vLLM 0.32 fails where
    such a prompt is read in parts (``CPU Generator does not use offset``)."""
    return sum(map(len, prompts)) <= step_of(running)


def step_of(running: RunningEngine) -> int:
    """So many tokens of prompts are read in one step at least."""
    return int(min(running.options.get("max_num_batched_tokens") or STEP, STEP))


def scored(
    running: RunningEngine, sequences: Sequence[Sequence[int]], adapter: Any = None, temperature: float = 1.0
) -> list[list[Any]]:
    """The log-probabilities of these sequences' tokens where they are prompts, with a ``LoRARequest`` or without; None
    for the first of each. V0 tells also these after temperature."""
    from vllm import SamplingParams

    parameters = SamplingParams(max_tokens=1, temperature=temperature, prompt_logprobs=1)
    prompts = [{"prompt_token_ids": list(ids)} for ids in sequences]
    outputs = running.engine.generate(prompts, parameters, use_tqdm=False, lora_request=adapter)
    return [prompt_logprobs(output) for output in outputs]


def covering(running: RunningEngine, longest: int) -> list[int]:
    """A prompt that goes through the vocabulary: every token where it is small, and those again until it is long, else
    every n-th and both ends. A token that the engine masks or computes otherwise is hardly ever sampled."""
    length = min(COVERED, longest)
    count = min(running.vocabulary, length)
    ids = sorted({(running.vocabulary - 1) * place // max(count - 1, 1) for place in range(count)})
    # In a mixed order, so that neighbours in the vocabulary are not neighbours in the prompt.
    mixed = [ids[place * 89 % len(ids)] for place in range(len(ids))] if len(ids) % 89 else ids
    return [mixed[place % len(mixed)] for place in range(length)]


def rows(name: str, given: Mapping[str, Any], output: Any) -> list[dict[str, Any]]:
    """What a request's output tells, one row per completion: ``request``, ``prompt_token_ids``, the ``temperature``,
    ``seed`` and ``max_tokens`` that were asked for, ``index``, ``token_ids``, ``finish_reason``, ``logprobs`` (of the
    sampled tokens, natural logarithm)."""
    return [
        {
            "request": name,
            "temperature": given.get("temperature", 1.0),
            "seed": given.get("seed"),
            "max_tokens": given.get("max_tokens", 16),
            "index": completion.index,
            "token_ids": list(completion.token_ids),
            "finish_reason": completion.finish_reason,
            "logprobs": logprobs(completion),
        }
        for completion in output.outputs
    ]


def logprobs(completion: Any) -> list[Any]:
    """The log-probability of each sampled token; None where the engine gave none."""
    reported = completion.logprobs or []
    entries = [(reported[i] if i < len(reported) else {}).get(token) for i, token in enumerate(completion.token_ids)]
    return [None if entry is None else float(getattr(entry, "logprob", entry)) for entry in entries]


def prompt_logprobs(output: Any) -> list[Any]:
    """The log-probability of each prompt token given those before it; None for the first, and where there is none."""
    reported = output.prompt_logprobs or []
    entries = [(place or {}).get(token) for place, token in zip(reported, output.prompt_token_ids)]  # noqa: B905
    return [None if entry is None else float(getattr(entry, "logprob", entry)) for entry in entries]
