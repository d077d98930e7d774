"""The table of names: every row is well formed, the preferred name wins, frameworks are told apart."""

from __future__ import annotations

import pytest

from rldoctor.frameworks import logged
from rldoctor.logs.metrics import names
from rldoctor.logs.metrics.names import framework_of, table, translate

FRAMEWORKS = ("trl", "verl", "openrlhf", "nemo-rl", "skyrl")


def test_every_framework_has_a_source() -> None:
    assert set(FRAMEWORKS) <= {name for name, held in logged().items() if held.names}
    assert all(held.source.startswith("https://github.com/") for held in logged().values())


def test_one_vocabulary() -> None:
    canonical = {name.canonical for framework in FRAMEWORKS for name in table(framework).values()}
    assert all(name == name.lower() and "/" not in name for name in canonical)
    assert canonical >= names.ANCHORS


@pytest.mark.parametrize(
    ("natives", "framework"),
    [
        (["train/loss", "train/reward"], "trl"),
        (["actor/pg_loss"], "verl"),
        (["train/actor_lr", "train/kl"], "openrlhf"),
        (["train/token_mult_prob_error"], "nemo-rl"),
        (["policy/policy_loss"], "skyrl"),
    ],
)
def test_frameworks_are_reported_by_their_names(natives: list[str], framework: str) -> None:
    assert framework_of(natives) == framework


def test_the_raw_score_is_preferred_to_the_reward_with_its_penalty() -> None:
    assert translate({"critic/rewards/mean": 0.1, "critic/score/mean": 0.2})["reward"] == ("critic/score/mean", 0.2)


def test_zero_of_a_feature_that_is_off_is_no_value() -> None:
    assert "kl" not in translate({"kl": 0.0, "actor_lr": 1e-6})
    assert translate({"kl": 0.0, "loss": 1.0})["kl"] == ("kl", 0.0), "TRL logs it only with a reference"


def test_verls_kl_of_zero_counts_where_a_coefficient_stands_beside_it() -> None:
    step = {"actor/grad_norm": 1.8, "actor/lr": 1e-06, "actor/kl_loss": 0.0}
    assert "kl" not in translate(step)
    assert translate({**step, "actor/kl_coef": 0.001})["kl"] == ("actor/kl_loss", 0.0)
    assert translate({**step, "actor/kl_loss": 0.02})["kl"] == ("actor/kl_loss", 0.02)
