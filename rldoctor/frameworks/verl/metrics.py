"""verl logs a step in one line: ``step:N - name:value - name:value``.

``actor/kl_loss`` is 0 where ``use_kl_loss`` is off; ``actor/kl_coef`` stands beside it where it is on
(verl/workers/actor/dp_actor.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rldoctor.frameworks.metrics import Line, Metrics
from rldoctor.frameworks.samples import Sample

_NAMES = """
actor/loss                          loss
actor/pg_loss                       policy_loss
actor/grad_norm                     grad_norm
actor/lr                            learning_rate
actor/kl_loss                       kl  off:actor/kl_coef
actor/reward_kl_penalty             kl
actor/kl_penalty                    kl
critic/kl                           kl
actor/entropy                       entropy
actor/entropy_loss                  entropy
actor/pg_clipfrac                   clip_ratio
actor/pg_clipfrac_higher            clip_ratio
critic/score/mean                   reward
critic/score/max                    reward_max
critic/score/min                    reward_min
critic/rewards/mean                 reward
critic/rewards/max                  reward_max
critic/rewards/min                  reward_min
critic/advantages/max               advantage_max
critic/advantages/min               advantage_min
response_length/mean                completion_length_mean
response_length/max                 completion_length_max
response_length/min                 completion_length_min
response_length/clip_ratio          clipped_ratio
training/rollout_probs_diff_mean    sampling_prob_difference_mean
training/rollout_probs_diff_max     sampling_prob_difference_max
training/rollout_actor_probs_pearson_corr sampling_prob_correlation
rollout_corr/kl                     sampling_kl
mismatch/mismatch_kl                sampling_kl
rollout_corr/rollout_is_mean        importance_ratio_mean
mismatch/rollout_is_mean            importance_ratio_mean
rollout_corr/rollout_is_max         importance_ratio_max
timing_s/gen                        rollout_seconds
timing_s/update_actor               update_seconds
timing_s/step                       step_seconds
perf/max_memory_allocated_gb        memory_gib
"""


def _read(text: str) -> dict[str, str]:
    parts = (part.strip().rpartition(":") for part in text.split(" - "))
    return {name: value for name, colon, value in parts if colon}


def _dumped(record: Mapping[str, Any]) -> list[Sample] | None:
    """One completion of a rollout dump (trainer.rollout_data_dir; verl/trainer/ppo/ray_trainer.py)."""
    prompt, completion = record.get("input"), record.get("output")
    if isinstance(prompt, str) and isinstance(completion, str) and "score" in record:
        return [Sample(prompt, completion)]
    return None


METRICS = Metrics(
    source="https://github.com/verl-project/verl/blob/main/verl/trainer/ppo/metric_utils.py",
    names=_NAMES,
    markers=("actor/", "critic/score", "critic/rewards", "response_length/"),
    literals=("critic/score/mean:", "critic/rewards/mean:", "actor/grad_norm:", '"output": '),
    marks=r'step:\d|"output"',
    lines=(Line(re.compile(r"(?:^|\s)step:(?P<step>\d+) - (?P<record>\S.*)"), _read),),
    samples=(_dumped,),
)
