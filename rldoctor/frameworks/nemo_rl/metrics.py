"""NeMo-RL prints a ruler with ``Step N/M``, a good deal of other output, and the results as a list with bullets."""

from __future__ import annotations

import re

from rldoctor.frameworks.metrics import Block, Metrics, Taken

_NAMES = """
loss                        loss
Loss                        loss
grad_norm                   grad_norm
lr                          learning_rate
reward                      reward
Avg Reward                  reward
Avg Total Reward            reward
max_total_reward            reward_max
min_total_reward            reward_min
advantages/max              advantage_max
advantages/min              advantage_min
kl_penalty                  kl            off
approx_entropy              entropy
truncation_rate             clipped_ratio
mean_gen_tokens_per_sample  completion_length_mean
Mean Generation Length      completion_length_mean
max_gen_tokens_per_sample   completion_length_max
token_mult_prob_error       sampling_prob_error
gen_kl_error                sampling_kl
Generation KL Error         sampling_kl
sampling_importance_ratio   importance_ratio_mean
"""
_BULLET = re.compile(r"\s*• ([A-Z][\w ]+): (\S+)\s*\Z")


class Step(Block):
    """nemo_rl/algorithms/grpo.py."""

    OPENING = re.compile(r"={10,} Step (\d+)/\d+ ={10,}")
    SCATTERED = True

    def feed(self, text: str) -> Taken:
        if match := _BULLET.match(text):
            self.record[match.group(1)] = match.group(2)
            return Taken.LAST if match.group(1) == "Total step time" else Taken.YES
        return Taken.ENDED if self.OPENING.search(text) else Taken.NO


METRICS = Metrics(
    source="https://github.com/NVIDIA-NeMo/RL/blob/main/nemo_rl/algorithms/grpo.py",
    names=_NAMES,
    markers=("token_mult_prob_error", "gen_kl_error", "mean_gen_tokens_per_sample", "Generation KL Error"),
    literals=(
        "===== Step ",
        "• Loss: ",
        "• Generation KL Error: ",
        "• Avg Reward: ",
        "• Mean Generation Length: ",
    ),
    marks=r"Step \d",
    blocks=(Step,),
)
