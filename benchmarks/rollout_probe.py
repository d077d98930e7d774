"""The rollout probe's child, against a bare script that boots the same engine and samples once. Target: 1.25 times.

Both run the patient's interpreter with the same variables, in turn, so that a busy machine slows both.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import run_once
from rldoctor.case import Case
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import MINIATURE, Run
from rldoctor.probes.basis import basis
from rldoctor.probes.boots import Asked, plan_boots
from rldoctor.probes.engines import CHILD, play_boot
from rldoctor.probes.rollout import rollout

RUNS = 3
BARE = """
import sys
from vllm import LLM, SamplingParams

llm = LLM(sys.argv[1], enforce_eager=True)
prompt = {"prompt_token_ids": [3 + 7 * i for i in range(24)]}
llm.generate([prompt], SamplingParams(n=8, temperature=1.0, max_tokens=16, logprobs=1), use_tqdm=False)
"""
MAKE = """
import pathlib, sys

sys.path.insert(0, sys.argv[1])
import miniature

miniature.make(pathlib.Path(sys.argv[2]), None, None)
"""


def main(python: str) -> None:
    request = Request(python=Path(python), environ=dict(os.environ))
    base = basis(Case(), request)
    (boot,) = plan_boots([Asked(rollout, MINIATURE, Run())], base)
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        subprocess.run([python, "-c", MAKE, str(CHILD.parent), model], check=True, timeout=300)
        environ = {**os.environ, **base.environ}
        probe, bare = [], []
        for _ in range(RUNS):
            bare.append(run_once([python, "-c", BARE, model], environ).seconds)
            result = play_boot(Case(), request, base, boot, []).boot
            if result.ended != "done":
                raise RuntimeError(f"the probe {result.ended}: {result.error}")
            probe.append(result.seconds)
    print(f"rollout probe  {statistics.median(probe):.2f} s  {[round(s, 1) for s in probe]}")
    print(f"bare script    {statistics.median(bare):.2f} s  {[round(s, 1) for s in bare]}")
    print(f"ratio          {statistics.median(probe) / statistics.median(bare):.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
