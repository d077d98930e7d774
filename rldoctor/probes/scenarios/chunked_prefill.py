"""The ``chunked_prefill`` scenario: the launch's traffic with prefill in chunks and without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.knowledge import vllm_engine
from rldoctor.model import Level

# Every token costs a step of the engine; more of them show nothing that these do not.
LONGEST_RESPONSE = 32
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    room = basis.model_len - 2
    response = max(min(basis.response, LONGEST_RESPONSE, room // 2), 1)
    engines = dict(_engines(case, basis))
    chunk = {**basis.options, **engines["on"].options}.get("max_num_batched_tokens") if "on" in engines else None
    arguments = {
        "prompt": min(basis.prompt, room - response),
        "response": response,
        "single": chunk + 1 if chunk and chunk < room - response else None,
    }
    return {name: Run(engine=engine, arguments=arguments, time_limit=SECONDS) for name, engine in engines.items()}


def _engines(case: Case, basis: Basis) -> list[tuple[str, Engine]]:
    """The launch's own engine, and one that differs from it in nothing else. A launch whose engine does not chunk is
    not compared with what it does not do. Where draws are played on an engine of few tokens, these are, too."""
    own = Engine(alone=True, few_tokens=basis.large_vocabulary)
    if vllm_engine.chunked_prefill(case).value is False or basis.options.get("enable_chunked_prefill") is False:
        return [("off", own)]
    budget = max(basis.options.get("max_num_batched_tokens", 0), basis.model_len)
    off = {"enable_chunked_prefill": False, "max_num_batched_tokens": budget}
    if vllm_engine.generation(case).value == "V0" and not basis.options.get("enable_chunked_prefill"):
        if basis.device == "cpu":  # it would want intel-extension-for-pytorch (vllm/attention/ops/ipex_attn.py)
            return [("off", own)]
        on = {"enable_chunked_prefill": True, "max_num_batched_tokens": max(basis.model_len // 4, 64)}
        return [("off", own), ("on", replace(own, options=on))]
    return [("on", own), ("off", replace(own, options=off))]


chunked_prefill = Scenario(
    name="chunked_prefill",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "chunked_prefill.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=0.5,
)
