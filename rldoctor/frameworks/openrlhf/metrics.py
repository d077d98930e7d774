"""OpenRLHF logs a step as a dictionary, or behind its progress bar."""

from __future__ import annotations

import re

from rldoctor.frameworks.metrics import Line, Metrics, pairs

_NAMES = """
policy_loss                   policy_loss
actor_grad_norm               grad_norm
actor_lr                      learning_rate
reward                        reward
rollout/reward_mean           reward
group_reward_std              reward_std
rollout/reward_std            reward_std
kl                            kl            off
entropy_loss                  entropy
ppo_clip_ratio                clip_ratio
clip_ratio                    clip_ratio
rollout/response_length_mean  completion_length_mean
response_length               completion_length_mean
rollout/truncated_rate        clipped_ratio
truncated                     clipped_ratio
vllm_kl                       sampling_kl
"""
_POSTFIX = re.compile(r"(\w+)=([^,\]\s]+)")


def _postfix(text: str) -> dict[str, str]:
    return dict(_POSTFIX.findall(text))


METRICS = Metrics(
    source="https://github.com/OpenRLHF/OpenRLHF/blob/main/openrlhf/trainer/ray/ppo_actor.py",
    names=_NAMES,
    markers=("actor_lr", "rollout/truncated_rate"),
    literals=("Global step ", "policy_loss="),
    marks="Global step|policy_loss=",
    lines=(
        Line(re.compile(r"Global step (?P<step>\d+): (?P<record>\{.*)"), pairs),
        Line(re.compile(r"Episode \[\d+/\d+\]:[^\[\]]{0,400}\[(?P<record>[^\[\]]*\bpolicy_loss=[^\[\]]*)\]"), _postfix),
    ),
)
