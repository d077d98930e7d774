"""One table of metric names: what each framework logs, and the canonical name that checks read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from rldoctor.logs.metrics.values import is_rounded_zero, number

# Where the names were read. open-r1, unsloth and axolotl train through TRL, ms-swift through its own heirs of TRL's
# trainers, all under transformers' callbacks; EasyR1 is a fork of verl.
SOURCES = {
    "trl": "https://github.com/huggingface/trl/blob/main/trl/trainer/grpo_trainer.py",
    "ms-swift": "https://github.com/modelscope/ms-swift/blob/main/swift/rlhf_trainers/grpo_trainer.py",
    "unsloth": "https://github.com/unslothai/unsloth/blob/main/unsloth/models/rl_replacements.py",
    "verl": "https://github.com/verl-project/verl/blob/main/verl/trainer/ppo/metric_utils.py",
    "easyr1": "https://github.com/hiyouga/EasyR1/blob/main/verl/trainer/metrics.py",
    "openrlhf": "https://github.com/OpenRLHF/OpenRLHF/blob/main/openrlhf/trainer/ray/ppo_actor.py",
    "nemo-rl": "https://github.com/NVIDIA-NeMo/RL/blob/main/nemo_rl/algorithms/grpo.py",
    "skyrl": "https://github.com/NovaSky-AI/SkyRL/blob/main/skyrl/train/trainer.py",
}

# One row per line: native name, canonical name. Of two natives of one canonical name the first is preferred. ``off``
# marks a metric that is logged as 0 while its feature is off, so that a 0 says nothing.
_TRL = """
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
"""

_VERL = """
actor/loss                          loss
actor/pg_loss                       policy_loss
actor/grad_norm                     grad_norm
actor/lr                            learning_rate
actor/kl_loss                       kl
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
"""

_OPENRLHF = """
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

_NEMO = """
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

_SKYRL = """
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

_TABLES = {"trl": _TRL, "verl": _VERL, "openrlhf": _OPENRLHF, "nemo-rl": _NEMO, "skyrl": _SKYRL}

# A name that only this framework logs; whatever has none of them is read by TRL's table.
_MARKERS = {
    "verl": ("actor/", "critic/score", "critic/rewards", "response_length/"),
    "skyrl": ("policy/policy_", "loss/avg_", "generate/avg_num_tokens", "reward/avg_raw_reward"),
    "openrlhf": ("actor_lr", "rollout/truncated_rate"),
    "nemo-rl": ("token_mult_prob_error", "gen_kl_error", "mean_gen_tokens_per_sample", "Generation KL Error"),
}

# A record without one of these is an evaluation, a user's own print or something else that is not a training step.
ANCHORS = frozenset({"loss", "policy_loss", "grad_norm", "learning_rate"})

# Small values of these mean something, so that a 0 which rounding may have made is no value.
_FINE = frozenset({"loss", "policy_loss", "grad_norm", "learning_rate", "kl"})


@dataclass(frozen=True)
class Name:
    """One row: the canonical name, its preference (lower is better), and whether 0 may mean that the feature is off."""

    canonical: str
    preference: int
    off: bool


@lru_cache(maxsize=8)
def table(framework: str) -> dict[str, Name]:
    """Native names of one framework."""
    rows = [line.split() for line in _TABLES[framework].strip().splitlines()]
    names: dict[str, Name] = {}
    for preference, row in enumerate(rows):
        off = row[-1] == "off"
        *native, canonical = row[:-1] if off else row
        names[" ".join(native)] = Name(canonical, preference, off)
    return names


def framework_of(natives: Iterable[str]) -> str:
    """The table for a record with these native names."""
    plain = [plain_name(native) for native in natives]
    for framework, markers in _MARKERS.items():
        if any(name.startswith(markers) for name in plain):
            return framework
    return "trl"


def plain_name(native: str) -> str:
    """The name without the ``train/`` that transformers, OpenRLHF and NeMo-RL put in front for TensorBoard and W&B."""
    return native.removeprefix("train/")


def translate(record: Mapping[str, object], framework: str | None = None) -> dict[str, tuple[str, float]]:
    """Canonical name to native name and value, for those names of ``record`` that the table knows and that have a
    number."""
    known = table(framework or framework_of(record))
    chosen: dict[str, tuple[int, str, float]] = {}
    for native, raw in record.items():
        name = known.get(plain_name(native))
        value = number(raw) if name is not None else None
        if name is None or value is None or (name.off and value == 0):
            continue
        if name.canonical in _FINE and is_rounded_zero(raw):
            continue
        present = chosen.get(name.canonical)
        if present is None or name.preference < present[0]:
            chosen[name.canonical] = (name.preference, native, value)
    return {canonical: (native, value) for canonical, (_, native, value) in chosen.items()}
