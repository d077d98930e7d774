"""ROLL: Ray workers by role, vLLM or SGLang samples (https://github.com/alibaba/ROLL)."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Repository, Settings, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="roll",
    title="ROLL",
    marks=("pipeline", "actor_infer"),
    packages=(
        # The index has another project of this name.
        Package(
            name="roll",
            modules=("roll",),
            has="roll/pipeline/rlvr/rlvr_config.py",
            published=False,
            repository=Repository(name="alibaba/ROLL", tag="v", requirements="requirements_common.txt"),
            since="0.1.0",
        ),
    ),
    validations=(
        Validation(module="roll.pipeline.rlvr.rlvr_config", name="RLVRConfig", group="roll:rlvr"),
        Validation(module="roll.pipeline.agentic.agentic_config", name="AgenticConfig", group="roll:agentic"),
        # Those above them, to which the tables put what they refuse.
        *(Validation(module="roll.configs.base_config", name=name) for name in ("PPOConfig", "BaseConfig")),
    ),
    # third_party/vllm/worker_helper.py
    over=(Layer(package="vllm", keeps_buffers=True),),
    # rlvr_pipeline.py: actor_train.offload_states before the engine starts to sample.
    memory=Memory(leaves_device=True),
    variables="ROLL_",
    words=Words(
        paths=r"/roll/(?:agentic|configs|distributed|models|pipeline|third_party|utils)/",
        texts=("roll.pipeline.", "roll.distributed."),
        early=("====== Pipeline Config ======",),
        # examples/start_rlvr_pipeline.py: YAML
        settings=(
            Settings("exp_name: ", r"^(exp_name: .+)$", "examples/start_rlvr_pipeline.py", has="\nactor_infer:\n"),
            # roll/utils/str_utils.py, of pipelines with agents: the same in YAML, from the next line on
            Settings(
                "-- merged & post-init --",
                r"^-+ merged & post-init -+()$",
                "examples/start_agentic_pipeline.py",
                has="\ncustom_envs:",
            ),
        ),
    ),
)
