"""slime logs a step, and the rollout before it, as one dictionary each: ``step 3: {'train/loss': ...}``."""

from __future__ import annotations

import re

from rldoctor.frameworks.metrics import Line, Metrics, pairs

_NAMES = """
loss                            loss
pg_loss                         policy_loss
grad_norm                       grad_norm
lr-pg_0                         learning_rate
kl_loss                         kl            off
entropy_loss                    entropy
pg_clipfrac                     clip_ratio
train_rollout_logprob_abs_diff  sampling_logp_difference_mean
rollout/raw_reward              reward
rollout/response_len/mean       completion_length_mean
rollout/response_len/max        completion_length_max
rollout/response_len/min        completion_length_min
rollout/truncated_ratio         clipped_ratio
"""

METRICS = Metrics(
    source="https://github.com/THUDM/slime/blob/main/slime/backends/megatron_utils/model.py",
    names=_NAMES,
    markers=("lr-pg_", "rollout/raw_reward", "train_rollout_logprob_abs_diff"),
    literals=(": {'train/", ": {'rollout/"),
    marks=r"(?:step|rollout|perf) \d+: \{'",
    lines=(
        Line(re.compile(r"(?:^|\s)(?:step|rollout|perf) (?P<step>\d+): (?P<record>\{'(?:train|rollout)/.*)"), pairs),
    ),
)
