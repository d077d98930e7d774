"""A plan goes into reports and bundles: the tokens, keys and passwords of a launch file stay in the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rldoctor import bundle, cli
from rldoctor.api import Case
from rldoctor.formats.source import Files, is_private
from rldoctor.launch.plans import plans
from rldoctor.plan.model import RolloutPlan

SHELL = """\
export WANDB_API_KEY=SESAME1
export https_proxy=http://me:SESAME2@proxy:8080
HF_TOKEN=SESAME3 python3 -m verl.trainer.main_ppo \\
    data.max_prompt_length=2048 \\
    data.prompt_key=question \\
    +trainer.wandb_api_key=SESAME4 \\
    +ray_init.runtime_env.env_vars.SWANLAB_API_KEY=SESAME5 \\
    actor_rollout_ref.model.path=https://me:SESAME6@host/model \\
    +actor_rollout_ref.rollout.engine_kwargs.vllm.hf_token='SESAME7'
"""
PYTHON = """\
import os
os.environ["WANDB_API_KEY"] = "SESAME1"
from trl import GRPOConfig
config = GRPOConfig(
    use_vllm=True,
    max_prompt_length=2048,
    hub_token="SESAME2",
    vllm_server_base_url="http://me:SESAME3@host:8000",
    model_init_kwargs={"token": "SESAME4", "dtype": "bfloat16"},
)
"""
YAML = """\
base_model: org/model
rl: grpo
hub_token: SESAME1
trl:
  use_vllm: true
  max_completion_length: 2048
env:
  AWS_SECRET_ACCESS_KEY: SESAME2
"""
JOB = """\
ray job submit --runtime-env-json='{"env_vars": {"WANDB_API_KEY": "SESAME1"}}' -- \\
    python3 -m openrlhf.cli.train_ppo_ray --use_wandb SESAME2 --prompt_max_len 2048 --pretrain org/model
"""
SERVER = """\
vllm serve org/model --max-model-len 2048 --api-key SESAME1 --hf-overrides '{"api_key": "SESAME2"}'
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [("run.sh", SHELL), ("train.py", PYTHON), ("axolotl.yaml", YAML), ("job.sh", JOB), ("serve.sh", SERVER)],
)
def test_no_secret_reaches_a_bundle_and_all_else_does(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (plan,) = plans(tmp_path / name, Case())
    stored = bundle.dump(Case(plan=plan))
    assert "SESAME" not in stored
    assert "<removed:" in stored
    assert "2048" in stored


@pytest.fixture
def plan(tmp_path: Path) -> RolloutPlan:
    (tmp_path / "run.sh").write_text(SHELL)
    return plans(tmp_path / "run.sh", Case())[0]


def test_that_a_secret_is_set_is_a_fact(plan: RolloutPlan) -> None:
    assert plan.value("env.WANDB_API_KEY") == "<removed:WANDB_API_KEY>"
    assert plan.value("model.path") == "https://<removed:credentials>@host/model"


def test_keys_and_tokens_that_are_none_stay(plan: RolloutPlan) -> None:
    given = {given.key: given.value for given in (*plan.given, *plan.unread)}
    assert given["data.prompt_key"] == "question"


SCATTERED = """\
#SBATCH --export=ALL,HF_TOKEN=Zq81xxyy77wwvv55
# wandb login Zq52rrss33ttmm66
export NOTE=Zq81xxyy77wwvv55-grpo
python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=/m/run-$NOTE trainer.projectname=x-Zq52rrss33ttmm66
"""


def test_what_a_launch_shows_to_be_secret_is_so_in_all_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(SCATTERED)
    with pytest.raises(SystemExit):
        cli.main(["check", "run.sh", "--assume", "verl==0.3.0.post1", "--format", "json"])
    shown = "".join(capsys.readouterr())
    assert "trainer.project_name='x-<removed:login>'" in shown and "/m/run-<removed:HF_TOKEN>-grpo" in shown
    assert not re.search("Zq|vv55|mm66", shown)


SLICED = """\
source {private}
A=${{HF_TOKEN:0:8}} B=${{HF_TOKEN:8}} C=${{HF_TOKEN^^}} D=${{HF_TOKEN//a/-}} F=$(cat {private}) G=$(tail -1 < {private})
vllm serve org/model --max-model-len $A --tensor-parallel-size "$B" --max-num-seqs "$C" --seed "$D" --dtype "$F" \\
    --quantization "$G" --served-model-name "$TOLD" --config {private}
"""


def test_a_strangers_launch_does_not_print_what_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pull request's launch may cut a secret of the shell in pieces, or name files of the machine."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "key").write_text("TOLD=sesame of a file\nsesame of another line\n")
    (home / "work").mkdir()
    (home / "work" / "link").symlink_to(home / ".ssh" / "key")
    monkeypatch.setenv("HF_TOKEN", "SesameAcab17")
    for private in ("~/.ssh/key", "link", str(home / ".ssh" / "key"), "../.ssh/key"):
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.chdir(home / "work")
        Path("run.sh").write_text(SLICED.format(private=private))
        for arguments in (("check", "--level", "static", "--format", "json"), ("plan",), ("bundle",)):
            with pytest.raises(SystemExit):
                cli.main([arguments[0], "run.sh", *arguments[1:]])
            written = capsys.readouterr()
            told = (written.out + written.err).lower()
            assert "run.sh" in told
            assert not [piece for piece in ("sesame", "cab17", "-cab") if piece in told], private


@pytest.mark.parametrize(
    ("file", "launch", "private"),
    [
        ("home/me/.ssh/id_ed25519", "home/me/rl", True),
        ("home/me/.netrc", "home/me/rl", True),
        ("home/me/rl/.git/config", "home/me/rl/scripts", True),
        ("home/me/.cache/huggingface/token", "home/me/rl", True),
        ("home/me/.cache/huggingface/accelerate/default_config.yaml", "home/me/rl", False),
        ("home/me/rl/.env", "home/me/rl/scripts", False),
        ("home/me/rl/.github/train.sh", "home/me/rl/scripts", False),
        ("home/me/configs/grpo.yaml", "home/me/rl", False),
        ("home/me/.jobs/env.sh", "home/me/.jobs/launch", False),
    ],
)
def test_which_files_are_no_part_of_a_launch(tmp_path: Path, file: str, launch: str, private: bool) -> None:
    (tmp_path / "home/me/rl/.git").mkdir(parents=True)
    (tmp_path / launch).mkdir(parents=True, exist_ok=True)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    assert is_private(tmp_path / file, tmp_path / launch) is private
    found = Files(tmp_path / launch).find(str(tmp_path / file))
    assert (found is None) is private


def test_the_machines_own_files_are_no_part_of_a_launch(tmp_path: Path) -> None:
    assert Files(tmp_path).find("/etc/passwd") is None
    (tmp_path / "settings.yaml").symlink_to("/etc/passwd")
    assert Files(tmp_path).find("settings.yaml") is None
