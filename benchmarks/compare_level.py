"""The whole `compare` level against bare boots of the engines that its planner chose. Target: 1.3 times their sum.

A bare boot is a script that imports vLLM, boots one engine with the same options on the same model and samples once,
under the patient's interpreter. The level's own time is that of all its scenarios, engines and rldoctor's part
included; the shallower probes (imports, devices) boot no engine and are not in it. Give a launch file as the second
argument to measure the engines of that launch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import run_once
from benchmarks.rollout_probe import MAKE
from rldoctor.case import Case
from rldoctor.catalogue import registry
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Scenario
from rldoctor.facts import packages
from rldoctor.flow import probe as probing
from rldoctor.launch.plans import plans
from rldoctor.model import Level
from rldoctor.probes.engines import CHILD

BARE = """
import json, sys

kind, options = sys.argv[1], {**json.loads(sys.argv[2]), "model": sys.argv[3], "enforce_eager": True}
prompt = {"prompt_token_ids": [3 + 7 * i for i in range(24)]}
from vllm import LLM, SamplingParams

sampling = SamplingParams(n=8, temperature=1.0, max_tokens=16, logprobs=1)
if kind == "llm":
    LLM(**options).generate([prompt], sampling, use_tqdm=False)
else:
    import asyncio
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    async def sample():
        engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**options))
        async for output in engine.generate(prompt, sampling, "request"):
            pass
        if hasattr(engine, "shutdown"):
            engine.shutdown()

    asyncio.run(sample())
"""


def main(python: str, launch: str | None = None) -> None:
    request = Request(python=Path(python), environ=dict(os.environ), level=Level.COMPARE)
    case = Case(packages=packages.collect(request))
    if launch is not None:
        case = Case(packages=case.packages, plan=plans(Path(launch), case)[0])
    found = registry.load()
    needed = probing.needed_probes(found.checks.values(), found.probes)
    scenarios = [one for one in needed if isinstance(one, Scenario)]
    prepared = probing.prepare(case, scenarios, request)
    assert prepared.basis is not None
    bare = []
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        subprocess.run([python, "-c", MAKE, str(CHILD.parent), model], check=True, timeout=300)
        for boot in prepared.boots:
            options = json.dumps({**prepared.basis.options, **boot.options})
            environ = {**os.environ, **prepared.basis.environ, **boot.environ}
            bare.append(run_once([python, "-c", BARE, boot.kind, options, model], environ).seconds)
            print(f"bare boot      {bare[-1]:.2f} s  {boot.name}")
    began = time.monotonic()
    probing.run_scenarios(case, scenarios, request, lambda line: None)
    whole = time.monotonic() - began
    print(f"compare level  {whole:.2f} s, announced {sum(boot.seconds for boot in prepared.boots):.0f} s")
    print(f"ratio          {whole / sum(bare):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
