"""The names under which TRL's trainers log, as open-r1, axolotl and transformers' own callbacks do, and what trainers
built over them add."""

from __future__ import annotations

from rldoctor.frameworks.metrics import Metrics
from rldoctor.frameworks.trl.samples import CompletionsTable

_NAMES = """
loss                                    loss
policy_loss                             policy_loss
grad_norm                               grad_norm
learning_rate                           learning_rate
reward                                  reward
reward_std                              reward_std
frac_reward_zero_std                    frac_reward_zero_std
kl                                      kl
entropy                                 entropy
entropy/mean                            entropy
clip_ratio/region_mean                  clip_ratio
clip_ratio                              clip_ratio
completions/mean_length                 completion_length_mean
completions/min_length                  completion_length_min
completions/max_length                  completion_length_max
completion_length                       completion_length_mean
completions/clipped_ratio               clipped_ratio
response_clip_ratio                     clipped_ratio
completions/mean_terminated_length      terminated_length_mean
sampling/sampling_logp_difference/mean  sampling_logp_difference_mean
sampling/sampling_logp_difference/max   sampling_logp_difference_max
sampling/importance_sampling_ratio/mean importance_ratio_mean
sampling/importance_sampling_ratio/min  importance_ratio_min
sampling/importance_sampling_ratio/max  importance_ratio_max
rollout_correction/kl                   sampling_kl
objective/scores                        reward
objective/entropy                       entropy
loss/policy_avg                         policy_loss
policy/clipfrac_avg                     clip_ratio
lr                                      learning_rate
step_time                               step_seconds
memory(GiB)                             memory_gib
"""

METRICS = Metrics(
    source="https://github.com/huggingface/trl/blob/main/trl/trainer/grpo_trainer.py",
    names=_NAMES,
    literals=("─ Step ",),
    tables=(CompletionsTable,),
)
