"""SkyRL prints ``Step N:`` and then a dictionary with one metric in each line."""

from __future__ import annotations

import re

from rldoctor.frameworks.metrics import Block, Metrics, Taken, pairs

_NAMES = """
policy/final_loss                               loss
policy/policy_loss                              policy_loss
policy/grad_norm                                grad_norm
policy/raw_grad_norm                            grad_norm
policy/policy_lr                                learning_rate
policy/policy_kl                                kl
loss/avg_kl                                     kl
policy/policy_entropy                           entropy
policy/loss_metrics/clip_ratio                  clip_ratio
policy/ppo_clip_ratio                           clip_ratio
reward/avg_raw_reward                           reward
loss/avg_final_rewards                          reward
loss/avg_raw_rewards                            reward
loss/avg_raw_advantages_abs                     advantage_abs
generate/avg_num_tokens                         completion_length_mean
generate/max_num_tokens                         completion_length_max
generate/min_num_tokens                         completion_length_min
policy/rollout_train_logprobs_abs_diff_mean     sampling_logp_difference_mean
policy/rollout_train_logprobs_abs_diff_max      sampling_logp_difference_max
policy/minibatch_rollout_logprobs_abs_diff_mean sampling_logp_difference_mean
policy/rollout_train_prob_diff_mean             sampling_prob_difference_mean
"""


class Step(Block):
    """skyrl/train/utils/tracking.py."""

    OPENING = re.compile(r"(?:^|\s)Step (\d+): *\Z")

    def feed(self, text: str) -> Taken:
        found = pairs(text)
        if not found or text[:1] not in "{ ":
            return Taken.ENDED
        self.record.update(found)
        return Taken.LAST if text.rstrip().endswith("}") else Taken.YES


METRICS = Metrics(
    source="https://github.com/NovaSky-AI/SkyRL/blob/main/skyrl/train/trainer.py",
    names=_NAMES,
    markers=("policy/policy_", "loss/avg_", "generate/avg_num_tokens", "reward/avg_raw_reward"),
    marks=r"Step \d",
    blocks=(Step,),
)
