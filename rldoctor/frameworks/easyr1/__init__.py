"""EasyR1, a fork of verl that kept its parent's distribution name: https://github.com/hiyouga/EasyR1 (setup.py)."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Package, Repository, Settings, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="easyr1",
    title="EasyR1",
    marks=("verl.trainer.main", "verl/trainer/main.py", "worker"),
    packages=(
        Package(
            name="easyr1",
            modules=("verl",),
            distribution="verl",
            has="verl/trainer/main.py",
            lacks="verl/trainer/main_ppo.py",
            requires="mathruler",
            published=False,
            repository=Repository(
                name="hiyouga/EasyR1", tag="v", requirements="requirements.txt", version_file="verl/__init__.py"
            ),
            since="0.3.0",
        ),
    ),
    over=(Layer(package="verl"), Layer(package="vllm")),
    words=Words(
        paths=r"/easyr1[^/]*/|/verl/workers/rollout/vllm_rollout_spmd\.py",
        # main.py prints json.dumps(config, indent=2), in which the data come first
        settings=(Settings('"data": {', r'^\s*("data": \{)$', has='"worker": {'),),
    ),
    validations=(Validation(module="verl.trainer.ray_trainer", name="RayPPOTrainer.__init__", settings="config"),),
    imports={"always": ("verl.trainer.main", "verl.workers.fsdp_workers", "verl.workers.rollout.vllm_rollout_spmd")},
)
