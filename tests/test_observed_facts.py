"""A pass is an answer: no detector passes where what it read of a probe's run is gone.

``recorded/healthy_rollout.json.xz`` is what all probes recorded at ``--level compare`` of vLLM 0.32.0 on a CPU."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rldoctor import reads
from rldoctor.api import Case, Check, Outcome
from rldoctor.catalogue.check import Detector
from rldoctor.judge import judge_one
from tests.loaded import REGISTRY
from tests.observations import packages

RECORDED = Path(__file__).parent / "recorded" / "healthy_rollout.json.xz"
# What is read with other records and decides nothing where it is not there, and why.
BESIDE = {
    "RLD105 rollout_fails stage": "words it",
    "RLD108 rollout_fails stage": "words it",
    "RLD201 answers_differ trainer": "says which of two different answers is right",
    "RLD204 parts_at_the_end miniature": "the difference is judged by the noise of its type",
    "RLD210 callers_mixed_up engine": "words it; the calls decide",
    "RLD210 callers_mixed_up left": "recorded where all calls were answered",
    "RLD213 of_prompt_tokens vocabulary": "further prompts, which the reach counts",
    "RLD213 reported_and_assumed steered": "recorded of engines that take every parameter",
    "RLD213 beside_sampled_tokens surplus": "leaves the question to RLD220",
    "RLD219 request_not_answered_as_asked surplus": "leaves the question to RLD220",
    "RLD404 ends_and_characters surplus": "leaves the question to RLD220",
    "RLD215 ends_of_completions texts": "the text leaves the question to RLD404",
    "RLD220 requests_go_wrong engine": "words it; the requests decide",
    "RLD301 placed_elsewhere engine": "words it; the tensors decide",
    "RLD401 anything_goes after": "leaves the question to RLD402",
    "RLD401 anything_goes restored": "leaves the question to RLD402",
    "RLD402 comes_back vocabulary": "a further prompt, on which the first sync is followed",
    "RLD402 sync_repeats vocabulary": "a further prompt, on which the first sync is followed",
    "RLD402 engine_follows sensitivity": "says which part is old",
    "RLD402 engine_follows vocabulary": "a further prompt",
    "RLD403 decode_and_prefill vocabulary": "leaves the question to across_the_vocabulary",
    "RLD403 engine_and_transformers reach": "words it",
    "RLD403 engine_and_transformers vocabulary": "leaves the question to across_the_vocabulary",
    "RLD403 from_cached_prefixes vocabulary": "leaves the question to across_the_vocabulary",
    "RLD606 died_while_answering calls": "says what the callers got",
}
BESIDE |= {
    "RLD201 answers_differ reach.longest": "words it",
    "RLD202 never_scheduled engine.enable_chunked_prefill": "words it",
    "RLD210 callers_mixed_up engine.async_scheduling": "says how alike two answers have to be",
    "RLD210 callers_mixed_up engine.dtype": "says how alike two answers have to be",
    "RLD213 beside_sampled_tokens logprobs[].alike": "says which ranks are as good where tokens are as likely",
    "RLD213 of_prompt_tokens plain[].prefill": "further prompts, which the reach counts",
    "RLD213 of_prompt_tokens vocabulary.engine": "further prompts, which the reach counts",
    "RLD215 ends_of_completions ends.eos": "one of two ends, either of which a completion may have",
    "RLD215 ends_of_completions ends.turn": "one of two ends, either of which a completion may have",
    "RLD220 requests_go_wrong engine.enable_chunked_prefill": "words it",
    "RLD220 requests_go_wrong engine.max_num_batched_tokens": "words it",
    "RLD220 requests_go_wrong engine.scheduling_policy": "says whether a later request may come first",
    "RLD301 placed_elsewhere engine.cpu_offload_gb": "would allow tensors on the CPU",
    "RLD403 decode_and_prefill plain[].trainer": "says which of two is right",
    "RLD403 engine_and_transformers reach.longest": "words it",
}
REQUESTS = ("short", "short again", "to the limit", "last token", "full prompt", "prompt beyond")
BESIDE |= {f"RLD203 at_the_limit engine_side.{name}": "one request, which the reach counts" for name in REQUESTS}
BESIDE |= {
    "RLD105 imports_fail packages.vllm.native_failures": "says what stands behind an import that failed",
    "RLD203 at_the_limit engine_side.full prompt.exceptions": "of a request that failed",
    "RLD203 at_the_limit engine_side.prompt beyond.exceptions": "of a request that failed",
    "RLD210 leftovers reused.in decode.exceptions": "of a request that failed",
    "RLD210 leftovers reused.in prefill.exceptions": "of a request that failed",
    "RLD213 beside_sampled_tokens rows[].got.prompt": "leaves the question to RLD220",
    "RLD219 request_not_answered_as_asked rows[].expected.finish_reason": "leaves the question to RLD215",
    "RLD219 request_not_answered_as_asked rows[].expected.stop_reason": "leaves the question to RLD215",
    "RLD219 request_not_answered_as_asked rows[].got.finish_reason": "leaves the question to RLD215",
    "RLD219 request_not_answered_as_asked rows[].got.stop_reason": "leaves the question to RLD215",
    "RLD320 group_on_this_host runs[].ranks[].device": "words it",
    "RLD321 not_finished_here runs[].ranks[].device": "words it",
    "RLD404 ends_and_characters rows[].got.prompt": "leaves the question to RLD220",
}
DEEPEST = 2
# How a difference is weighed: without them by the type alone, more severely.
NOISE = {
    "greedy",
    "greedy.alone",
    "greedy.alone.trainer",
    "miniature",
    "miniature.weights",
    "power",
    "engine.device",
    "engine.attention_backend",
    "engine.logprobs_mode",
}


class Recorded(dict[str, Any]):
    """A record that notes what is read of it, unless that decides nothing."""

    def __init__(self, held: dict[str, Any], path: str) -> None:
        super().__init__({key: noting(value, f"{path}.{key}") for key, value in held.items()})
        self.path = path

    def get(self, key: str, default: Any = None) -> Any:
        reads.note(f"{self.path}.{key}")
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        reads.note(f"{self.path}.{key}")
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        reads.note(f"{self.path}.{key}")
        return super().__contains__(key)


def noting(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        return Recorded(value, path)
    return [noting(item, f"{path}[]") for item in value] if isinstance(value, list) else value


def healthy() -> Case:
    observations = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return Case(packages=packages(vllm="0.32.0", torch="2.13.0"), observations=observations)


def without(case: Case, probe: str) -> Iterator[tuple[str, Case]]:
    """The name of what is taken away of every run of a probe, and the case that lacks it."""
    runs: dict[str, dict[str, Any]] = case.observations[probe]
    names = {name for run in runs.values() for name in run.get("records", {})}
    yield "ended", _with(case, probe, {at: _less(run, "ended") for at, run in runs.items()})
    yield "records", _with(case, probe, {at: _less(run, "records") for at, run in runs.items()})
    for name in sorted(names):
        lesser = {at: {**run, "records": _less(run.get("records", {}), name)} for at, run in runs.items()}
        yield f"records.{name}", _with(case, probe, lesser)
    for path in sorted({path for run in runs.values() for path in _below(run.get("records", {}), "records")}):
        yield path, _with(case, probe, {at: _taken(run, path.split(".")) for at, run in runs.items()})


def _below(held: Any, path: str, depth: int = 0) -> Iterator[str]:
    """The paths of the keys that stand one and two below a record, or in the items of its list."""
    if isinstance(held, dict):
        for key, value in held.items():
            if depth:
                yield f"{path}.{key}"
            if depth < DEEPEST:
                yield from _below(value, f"{path}.{key}", depth + 1)
    elif isinstance(held, list):
        for item in held:
            yield from _below(item, f"{path}[]", depth)


def _taken(held: Any, path: list[str]) -> Any:
    """What is held without the key at the end of the path, wherever it leads."""
    head, *rest = path
    if isinstance(held, list):
        return [_taken(item, path) for item in held]
    name = head.removesuffix("[]")
    if not isinstance(held, dict) or name not in held:
        return held
    return {**held, name: _taken(held[name], rest)} if rest else _less(held, name)


def _less(held: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in held.items() if key != name}


def _with(case: Case, probe: str, runs: dict[str, Any]) -> Case:
    return replace(case, observations={**case.observations, probe: runs})


def outcome(check: Check, detector: Detector, case: Case) -> Outcome:
    lone = Check(check.code, check.name, check.doc)
    lone.detectors = [detector]
    return judge_one(lone, case).outcome


def read_by(check: Check, detector: Detector, case: Case) -> set[str]:
    """What a detector reads, by the paths of the records."""
    heard: set[str] = set()
    note = reads.note

    def noting_too(fact: str, unknown: str | None = None, item: str = "") -> None:
        if reads._LISTENING.get() is not None:
            heard.add(fact)
        note(fact, unknown, item)

    reads.note = noting_too
    try:
        outcome(check, detector, replace(case, observations=noting(case.observations, "")))
    finally:
        reads.note = note
    return heard


def test_no_pass_survives_the_loss_of_what_it_read_of_a_run() -> None:
    case = healthy()
    passing, taken = 0, 0
    survived = set()
    for check in REGISTRY.checks.values():
        for detector in check.detectors:
            probes = [need.partition(".")[2] for need in detector.needs if need.startswith("observations.")]
            if len(probes) != 1 or outcome(check, detector, case) is not Outcome.PASS:
                continue
            passing += 1
            heard = {fact.partition(f".{probes[0]}.")[2].partition(".")[2] for fact in read_by(check, detector, case)}
            for name, lesser in without(case, probes[0]):
                if name in heard or name in ("ended", "records"):
                    taken += 1
                    if outcome(check, detector, lesser) is Outcome.PASS:
                        survived.add(f"{check.code} {detector.judge.__name__} {name.removeprefix('records.')}")
    assert passing > 45 and taken > 400, (passing, taken)
    left = {one for one in survived - BESIDE.keys() if one.split(" ", 2)[2] not in NOISE}
    assert sorted(left) == []
    assert sorted(BESIDE.keys() - survived) == []
