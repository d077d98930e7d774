"""Hydra's overrides: values, quoting, interpolation; and config files with their defaults lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.formats.hydra.overrides import parse
from rldoctor.formats.values import SECRET, Refused, Unresolved
from rldoctor.launch.recognise import read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("1e-6", 1e-6),
        ("True", True),
        ("null", None),
        ("", ""),
        ("'8'", "8"),
        ('"a b"', "a b"),
        ("org/Model-7B", "org/Model-7B"),
        ('["console","wandb"]', ["console", "wandb"]),
        ("[a, 1, [2]]", ["a", 1, [2]]),
        ("{level: 3, sizes: [1,2]}", {"level": 3, "sizes": [1, 2]}),
        ("{}", {}),
        ("1,2,3", Unresolved("1,2,3", "a sweep over several values")),
        ("choice(a,b)", Unresolved("choice(a,b)", "a sweep over several values")),
        ("${data.n}", "${data.n}"),
        ("[unclosed", Refused("[unclosed", "Hydra refuses it: ']' is missing")),
        ("<path_to_model>", Unresolved("<path_to_model>", "<path_to_model> is to be filled in")),
        ("<removed:HUB_TOKEN>", Unresolved("<removed:HUB_TOKEN>", SECRET)),
        ("https://x/y", "https://x/y"),
        ("on", "on"),
        ("010", "010"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse(text) == value


def test_a_config_file_is_composed_with_its_defaults_and_the_overrides_win(tmp_path: Path) -> None:
    config = tmp_path / "examples" / "config"
    (config / "rollout").mkdir(parents=True)
    (config / "mine.yaml").write_text(
        "hydra:\n  searchpath:\n    - file://verl/trainer/config\n\ndefaults:\n  - ppo_trainer\n"
        "  - rollout@actor_rollout_ref.rollout: long\n  - _self_\n\ndata:\n  max_prompt_length: 1024\n"
        "  max_response_length: ${data.max_prompt_length}\n"
    )
    (config / "rollout" / "long.yaml").write_text("n: 4\nmax_num_batched_tokens: 9000\n")
    run = tmp_path / "examples" / "scripts" / "run.sh"
    run.parent.mkdir()
    run.write_text(
        'PROJECT_DIR="$(pwd)"\nCONFIG_PATH="$PROJECT_DIR/examples/config"\n'
        'python3 -m verl.trainer.main_ppo --config-path="$CONFIG_PATH" --config-name=mine \\\n'
        "    actor_rollout_ref.rollout.n=8\n"
    )
    (plan,) = read(run)
    assert plan.value("lengths.response") == 1024
    assert plan.value("engine.max_num_batched_tokens") == 9000
    assert plan.value("batch.generations") == 8
    given = plan.get("engine.max_num_batched_tokens")
    assert given is not None
    assert given.file is not None
    assert (Path(given.file).name, given.line) == ("long.yaml", 2)
    assert any("ppo_trainer.yaml: not found" in note.text for note in plan.notes)
