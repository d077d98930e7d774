"""The ``chunked_prefill`` scenario: the launch's traffic with prefill in chunks and without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor.case import Case
from rldoctor.model import Level
from rldoctor.probe import Request
from rldoctor.scenario import Basis, Engine, Run, Scenario

REQUESTS = 10
# Every token costs a step of the engine; more of them show nothing that these do not.
LONGEST_RESPONSE = 48
SECONDS = 120.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    room = basis.model_len - 2
    response = min(basis.response, LONGEST_RESPONSE, room // 2)
    arguments = {"prompt": min(basis.prompt, room - response), "response": response, "requests": REQUESTS}
    # The launch's own engine, and one that differs from it in nothing else.
    planned = basis.options.get("enable_chunked_prefill") is not False
    budget = max(basis.options.get("max_num_batched_tokens", 0), basis.model_len)
    off = {"enable_chunked_prefill": False, "max_num_batched_tokens": budget}
    other = {"off": off} if planned else {"on": {"enable_chunked_prefill": True}}
    engines = {"on" if planned else "off": Engine(alone=True)}
    engines |= {name: Engine(options=options, alone=True) for name, options in other.items()}
    return {name: Run(engine=engine, arguments=arguments, time_limit=SECONDS) for name, engine in engines.items()}


chunked_prefill = Scenario(
    name="chunked_prefill",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "chunked_prefill.py",
    runs=_runs,
    seconds=6.0,
)
