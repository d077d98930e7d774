"""JSON that Ray reads as it stands: what is no JSON is named before the job is submitted, what nobody can know is
not."""

from __future__ import annotations

from pathlib import Path

import pytest
from rldoctor_checks.rollout.option_unknown import check

from tests.checks.launches import LaunchFile

SUBMITTED = (
    " -- python3 train.py --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate --hf-checkpoint org/model "
    "--rollout-batch-size 32 --n-samples-per-prompt 8\n"
)
TWO = '{\\"env_vars\\": {\\"NCCL_NVLS_ENABLE\\": \\"${HAS_NVLINK}\\"%s \\"MASTER_ADDR\\": \\"${MASTER_ADDR}\\"}}'


def said(folder: Path, text: str) -> list[str]:
    return [f.message for f in LaunchFile(folder, text, {"slime": "0.3.1"}).findings(check)]


@pytest.mark.parametrize(
    "text",
    [
        # https://github.com/THUDM/slime/pull/634, https://github.com/THUDM/slime/pull/1719
        """ray job submit --runtime-env-json='{"env_vars": {"no_proxy": "127.0.0.1",}}'""",
        """ray job submit --runtime-env-json "{'env_vars': {'A': '1'}}\"""",
        f'RUNTIME_ENV="{TWO % ""}"\nray job submit --runtime-env-json="$RUNTIME_ENV"',
    ],
)
def test_what_is_no_json_is_refused(text: str, tmp_path: Path) -> None:
    (message,) = said(tmp_path, text + SUBMITTED)
    assert message.startswith("Ray refuses --runtime-env-json at `")
    assert "127.0.0.1" not in message


@pytest.mark.parametrize(
    "text",
    [
        """ray job submit --runtime-env-json='{"env_vars": {"no_proxy": "127.0.0.1"}}'""",
        f'RUNTIME_ENV="{TWO % ","}"\nray job submit --runtime-env-json="$RUNTIME_ENV"',
        """ray job submit --runtime-env-json="{\\"env_vars\\": {$MORE}}\"""",
        'ray job submit --runtime-env-json="$(cat env.json)"',
        "ray job submit --working-dir .",
    ],
)
def test_json_and_what_nobody_can_know_is_quiet(text: str, tmp_path: Path) -> None:
    assert said(tmp_path, text + SUBMITTED) == []


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("true", True),
        ("1", True),
        ('"true"', False),
        ("WARN", False),
        ("${oc.env:X}", False),
    ],
)
def test_variables_of_a_runtime_environment_are_texts(text: str, refused: bool, tmp_path: Path) -> None:
    # https://github.com/hiyouga/EasyR1/pull/224
    (tmp_path / "runtime_env.yaml").write_text(f"env_vars:\n  TOKENIZERS_PARALLELISM: {text}\n")
    found = said(tmp_path, "ray job submit --runtime-env=runtime_env.yaml" + SUBMITTED)
    assert [message.startswith("Ray refuses env_vars.TOKENIZERS_PARALLELISM") for message in found] == [True] * refused
