"""TRL."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Memory, Package, Settings, Sync, V, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="trl",
    title="TRL",
    marks=(
        "trl",
        "use_vllm",
        "use-vllm",
        "vllm_mode",
        "vllm-mode",
        "vllm_device",
        "vllm_gpu_memory_utilization",
        "num_generations",
        "max_completion_length",
        "max-completion-length",
    ),
    packages=(
        Package(name="trl", modules=("trl",), since="0.14.0", symbols=True, attributes=("GRPOTrainer", "GRPOConfig")),
    ),
    programs=("trl",),
    servers=(r"^trl\.scripts\.vllm_serve$", r"(?:^|/)vllm_serve\.py$"),
    variables="TRL_",
    words=Words(
        paths=r"/trl/",
        texts=("TRL currently supports vLLM", "trl.extras"),
        versions=(
            ("trl version", rf"(?:TRL|trl) version\s*[:=]?\s*{V}", "trl"),
            ("TRL version", rf"(?:TRL|trl) version\s*[:=]?\s*{V}", "trl"),
            # import_utils.py
            ("TRL currently supports vLLM versions", rf"You have version {V} installed", "vllm"),
        ),
        early=("TRL currently supports vLLM versions",),
        stages={"/init_communicator/": "weight sync"},
        # How transformers' TrainingArguments show themselves.
        settings=(
            Settings("GRPOConfig(", r"\b(GRPOConfig\()$", "trl grpo"),
            Settings("RLOOConfig(", r"\b(RLOOConfig\()$", "trl rloo"),
        ),
    ),
    # fsdp_config.activation_checkpointing of transformers and accelerate, in place of gradient_checkpointing
    memory=Memory(whole_logits=4, keeps_reference=True, recomputes=("fsdp", "fsdp2")),
    # VLLMClient.update_named_param; the parameters' own names: vllm_generation.py
    sync=Sync(one_by_one=True, own_names=""),
    imports={"always": ("trl.trainer.{algorithm}_trainer",), "server": ("trl.scripts.vllm_serve",)},
    arguments=("trl.trainer.{algorithm}_config", "trl.experimental.{algorithm}.{algorithm}_config"),
    validations=(
        Validation(
            module="trl.trainer.{algorithm}_trainer",
            name="{algorithm}Trainer.__init__",
            settings="args",
            of_object=True,
        ),
    ),
    asked_by="trl_grpo",
)
