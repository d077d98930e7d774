"""ms-swift."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Settings, V, Validation, Words

# swift/utils and its templates (https://github.com/modelscope/ms-swift)
_VARIABLES = """
SWIFT_ MODELSCOPE_ NPROC_PER_NODE NNODES NODE_RANK LOCAL_SIZE USE_HF MAX_PIXELS MIN_PIXELS VIDEO_MAX_PIXELS
VIDEO_MIN_PIXELS VIDEO_TOTAL_PIXELS IMAGE_MAX_TOKEN_NUM VIDEO_MAX_TOKEN_NUM SPATIAL_MERGE_SIZE SIZE_FACTOR FPS
FPS_MIN_FRAMES FPS_MAX_FRAMES NFRAMES MAX_NUM INPUT_SIZE ENABLE_AUDIO_OUTPUT
"""

# Files, code and models that a run loads as its arguments are made, and the server that it connects to.
_APART = (
    "adapters", "ref_adapters", "teacher_adapters", "external_plugins", "custom_register_path", "custom_dataset_info",
    "new_special_tokens", "teacher_deepspeed", "reward_model", "_init_external_vllm",
)  # fmt: skip

FRAMEWORK = Framework(
    home=__name__,
    name="ms-swift",
    title="ms-swift",
    marks=(
        "swift",
        "megatron",
        "rlhf_type",
        "colocate_groups",
        "vllm_tensor_parallel_size",
        "RLHFArguments",
        "RolloutArguments",
    ),
    packages=(Package(name="ms-swift", modules=("swift",), since="3.0.0"),),
    over=(
        # It takes TRL's trainers as a base and builds engines and servers itself.
        Layer(package="trl", replaces=True, mends={"GuidedDecodingParams": ">=3.11"}),
        Layer(package="vllm"),
    ),
    programs=("swift", "megatron"),
    variables=_VARIABLES,
    words=Words(
        paths=r"/swift/(?:llm|trainers|cli|rlhf_trainers|pipelines|infer_engine|utils|plugin)/|/ms-swift/",
        texts=("[INFO:swift]",),
        versions=(("swift.__version__:", rf"swift\.__version__: {V}", "ms-swift"),),
        # swift/cli/main.py
        early=("run sh: `",),
        # swift/pipelines/base.py
        settings=(Settings("args: RLHFArguments(", r"\bargs: (RLHFArguments\(.*)", "swift rlhf"),),
        # swift/cli/main.py
        commands=(("run sh: `", r"run sh: `(.+)`"),),
    ),
    memory=Memory(whole_logits=4, keeps_reference=True, recomputes=("fsdp", "fsdp2")),
    # Asynchronous generation is a thread beside the trainer's engine (v3.4.1, swift/trainers/rlhf_trainer/
    # grpo_trainer.py, `evaluation_loop`); later releases demand a rollout server (`rlhf_args.py`).
    in_trainer="<3.5",
    validations=(
        Validation(module="swift.arguments.rlhf_args", name="RLHFArguments", group="ms-swift:rlhf", apart=_APART),
        Validation(module="swift.llm.argument.rlhf_args", name="RLHFArguments", group="ms-swift:rlhf", apart=_APART),
    ),
    imports={
        "always": (
            "swift.cli.rlhf",
            "swift.llm.train.rlhf",
            "swift.trainers.rlhf_trainer.{algorithm}_trainer",
            "swift.rlhf_trainers.{algorithm}_trainer",
        ),
        "server": ("swift.cli.rollout", "swift.llm.infer.rollout", "swift.pipelines.infer.rollout"),
    },
)
