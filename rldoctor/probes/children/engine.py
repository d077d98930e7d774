"""Boots one engine of the environment's vLLM on a miniature model, samples a small group with log-probabilities, and
plays the runs that were planned for this engine.

Arguments: ``kind`` (``llm`` or ``async``), ``engine`` (options of vLLM's EngineArgs), ``config`` and ``files`` of the
model to stand in for (or None), ``own`` (whether the files are the model to run), ``samples`` (completions of the
group), ``prompt_tokens``, ``max_tokens``, ``greedy`` (whether greedy batches follow), ``boot_limit`` (seconds up to the
last of these tokens), ``runs`` (each ``key``, ``program``, ``arguments``, ``limit`` in seconds). Records, in order:
``stage``, ``seconds`` (of each stage), ``versions``, ``miniature``, ``asked``, ``engine`` (resolved configuration),
``devices``, ``rotary``, ``unread``, ``completions``, ``reach``, ``runs``. The same for V0 and V1, CPU and CUDA."""

from __future__ import annotations

import importlib.util
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import miniature
import running_engine
from engine_facts import Reader
from report import chain, deadline, elapsed, emit, run, stage

BLOCKS = "num_gpu_blocks_override"
# The miniature's precision needs a GPU of this compute capability (vllm/platforms/cuda.py, check_if_supports_dtype).
BFLOAT16_FROM = (8, 0)


def main(arguments: dict[str, Any]) -> None:
    with deadline(arguments["boot_limit"]):
        running = up(arguments, Clock())
    play(running, arguments["runs"])
    running.close()


def up(arguments: dict[str, Any], clock: Clock) -> running_engine.RunningEngine:
    """The engine, once it has given its first tokens."""
    with clock("import"):
        from vllm import LLM, SamplingParams  # noqa: F401 - the imports that a boot needs, with a stage of their own
    emit("versions", versions())
    with clock("miniature"):
        made = miniature.make(
            Path("miniature"), arguments["config"], arguments["files"], arguments["own"], arguments["few_tokens"]
        )
    emit("miniature", made)
    options = engine_options(made, arguments["engine"])
    emit("asked", options)
    with clock("boot"):
        running = running_engine.boot(arguments["kind"], options, made)
    with clock("inspect"):
        inspect(running.engine)
    sample(running, arguments, clock)
    return running


class Clock:
    """Announces each stage and takes its time."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str) -> Clock:
        self.name = name
        return self

    def __enter__(self) -> None:
        stage(self.name)
        self.began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        spent = time.monotonic() - self.began
        self.seconds[self.name] = round(self.seconds.get(self.name, 0.0) + spent, 3)
        emit("seconds", self.seconds)


def versions() -> dict[str, Any]:
    import platform

    names = ("vllm", "torch", "transformers")
    reported = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    name, _ = gpu()
    return {
        **reported,
        "python": platform.python_version(),
        "cuda": sys.modules["torch"].version.cuda,
        "device_name": name or platform.processor() or "cpu",
    }


def gpu() -> tuple[str | None, tuple[int, int] | None]:
    """Name and compute capability of the first visible GPU, None where there is none. vLLM asks the driver for them:
    torch would start CUDA in this process, and processes that vLLM forks from it could not use it any more."""
    import torch
    from vllm.platforms import current_platform

    if not (torch.cuda.is_available() and current_platform.is_cuda_alike()):
        return None, None
    capability = current_platform.get_device_capability(0)
    return current_platform.get_device_name(0), None if capability is None else (capability.major, capability.minor)


def engine_options(made: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    options = {
        "model": made["path"],
        "enforce_eager": True,
        "skip_tokenizer_init": not made["tokenizer"],
        "load_format": "dummy" if made["weights"] == "dummy" else "auto",
        **given,
    }
    if BLOCKS in options:
        options[BLOCKS] *= miniature.cache_groups(options["model"])
    _, capability = gpu()
    if capability is not None and capability < BFLOAT16_FROM:
        options.setdefault("dtype", "half")
    return options


def inspect(llm: Any) -> None:
    """Records what can be read from the engine; what cannot is said, and stops nothing."""
    reader = Reader(llm)
    facts: dict[str, Callable[[], Any]] = {
        "engine": reader.configuration,
        "devices": reader.devices,
        "rotary": reader.rotary,
    }
    for name, read in facts.items():
        try:
            emit(name, read())
        except Exception as error:
            reader.unread[name] = f"{type(error).__name__}: {error}"
    emit("unread", reader.unread)


def sample(running: running_engine.RunningEngine, arguments: dict[str, Any], clock: Clock) -> None:
    """A group of sampled completions and, where it is asked for, a pair of greedy ones and the group again."""
    prompt = running.prompt(arguments["prompt_tokens"])
    length = {"max_tokens": arguments["max_tokens"], "logprobs": 1}
    group = {"n": arguments["samples"], "temperature": 1.0, **length}
    greedy = {"temperature": 0.0, **length}
    # A batch that mixes greedy and sampled requests has vLLM compile its sampler's kernels again, for seconds.
    batches = [{"group": group}]
    if arguments["greedy"]:
        batches += [{"greedy": greedy, "greedy twin": greedy}, {"group again": group}]
    completions: list[dict[str, Any]] = []
    for number, asked in enumerate(batches):
        with clock("generate again" if number else "generate"):
            completions += running.generate({name: (prompt, parameters) for name, parameters in asked.items()})
        emit("completions", completions)
    running.sampled = completions
    sampled = sum(len(completion["token_ids"]) for completion in completions)
    emit(
        "reach",
        {"prompt_tokens": len(prompt), "completions": len(completions), "sampled_tokens": sampled, "engines": 1},
    )


def play(running: running_engine.RunningEngine, runs: list[dict[str, Any]]) -> None:
    """Plays the runs one after another. One that raises, or leaves what cannot be taken back, is the last on this
    engine, which may be in disorder."""
    reported: dict[str, Any] = {}
    for number, asked in enumerate(runs):
        began = time.monotonic()
        record: dict[str, Any] = {"ended": None, "began": elapsed(), "records": {}}
        reported[asked["key"]] = record

        def deliver(name: str, value: Any, record: dict[str, Any] = record) -> None:
            record["records"][name] = value
            emit("runs", reported)

        stage(asked["key"])
        emit("runs", reported)
        running.record = deliver
        try:
            with deadline(asked["limit"]):
                program = Path(asked["program"])
                module(program, f"scenario_{number}_{program.stem}").play(running, asked["arguments"])
            record["ended"] = "done"
        except Exception as error:
            traceback.print_exc()  # its log is judged like that of a training run
            record["records"]["exceptions"] = chain(error)
            record["ended"] = "raised"
        record["seconds"] = round(time.monotonic() - began, 3)
        emit("runs", reported)
        if record["ended"] == "raised" or running.unfit:
            return


def module(file: Path, name: str) -> Any:
    """A Python file as a module of this name; it may import what lies beside it."""
    sys.path.append(str(file.parent))
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None and specification.loader is not None
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


if __name__ == "__main__":
    run(main)
