"""Whose code a frame is, by its path."""

from __future__ import annotations

import pytest

from rldoctor.logs.code_paths import is_users, package_of


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("/opt/venv/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py", "trl"),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", "yaml"),
        (
            "/opt/venv/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so",
            "flash_attn_2_cuda",
        ),
        ("/opt/venv/pandas/__init__.py", "pandas"),  # pip install --target
        ("/home/me/verl/verl/trainer/main_ppo.py", "verl"),  # a checkout
        ("/usr/local/lib/python3.11/importlib/__init__.py", "python"),
        ("<frozen importlib._bootstrap>", "python"),
        ("/lib/x86_64-linux-gnu/libstdc++.so.6", None),
        ("/opt/venv/bin/torchrun", None),
        ("/home/me/unsloth_compiled_cache/UnslothGRPOTrainer.py", "unsloth"),  # written for the user's folder
        ("/vault/me/LLaMA-Factory/src/llamafactory/model/model_utils/valuehead.py", "llamafactory"),
        ("/vllm-workspace/vllm-ascend/vllm_ascend/ops/rotary_embedding.py", "vllm_ascend"),
        ("/home/me/miles/miles/utils/routing_replay.py", "miles"),
        ("/home/miles/train.py", None),
        ("/home/vllm/train.py", None),  # a user who is called like a package
        ("/srv/modelserver/modelserver/vllm/serve.py", None),  # a package of one's own has a folder called so
        ("/srv/lab/lab/verl/verl/trainer/main_ppo.py", "verl"),  # a checkout in a folder that is doubled, too
        ("/tmp/ray/s/runtime_resources/working_dir_files/_ray_pkg_1/verl/trainer/main_ppo.py", "verl"),
        ("/tmp/ray/s/runtime_resources/working_dir_files/_ray_pkg_1/examples/train.py", None),
    ],
)
def test_the_package_that_a_path_names(file: str, package: str | None) -> None:
    assert package_of(file) == package


def test_cython_names_the_package_in_the_function() -> None:
    assert package_of("interval.pyx", "init pandas._libs.interval") == "pandas"


def test_a_trainers_folder_that_is_called_like_the_engine() -> None:
    # https://github.com/NVIDIA-NeMo/RL/pull/4080
    assert package_of("/opt/nemo-rl/nemo_rl/models/generation/vllm/vllm_worker_async.py") == "nemo_rl"
    assert package_of("/home/me/verl/verl/third_party/vllm/vllm_v_0_6_3/llm.py") == "verl"
    assert package_of("/workspace/verl/vllm/vllm/engine/llm_engine.py") == "vllm"


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/tmp/ray/s/runtime_resources/working_dir_files/_ray_pkg_1/examples/train.py", True),  # Ray's copy
        ("/tmp/ray/s/runtime_resources/pip/1/virtualenv/lib/python3.10/site-packages/vllm/a.py", False),
        ("/home/me/.conda/envs/rl/bin/tune", False),  # an installed program
        ("/usr/local/bin/trl", False),
        ("/home/me/project/bin/run.py", True),
        ("/home/me/slime/examples/retool/generate.py", True),  # a checkout's programs are changed by who runs them
        ("/home/me/verl/recipe/dapo/dapo_ray_trainer.py", True),
        ("/home/me/examples/verl/verl/trainer/main_ppo.py", False),
        ("/opt/venv/lib/python3.11/site-packages/verl/recipe/x.py", False),
    ],
)
def test_whose_code_a_file_is(file: str, users: bool) -> None:
    assert is_users(file) is users
