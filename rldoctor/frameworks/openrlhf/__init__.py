"""OpenRLHF."""

from __future__ import annotations

from rldoctor.frameworks.record import Framework, Layer, Memory, Package, Settings, Sync, Validation, Words

FRAMEWORK = Framework(
    home=__name__,
    name="openrlhf",
    title="OpenRLHF",
    marks=("openrlhf", "train_ppo", "vllm_num_engines", "vllm.num_engines"),
    packages=(Package(name="openrlhf", modules=("openrlhf",), since="0.5.0", alternatives={"vllm-latest": "vllm"}),),
    over=(Layer(package="vllm"),),
    programs=("openrlhf",),
    variables="OPENRLHF_",
    # Its loggers take the key itself, later in --logger.wandb.key: openrlhf/cli/train_ppo_ray.py
    secrets={"use_wandb": "wandb_key", "use_swanlab": "swanlab_key"},
    words=Words(
        paths=r"/openrlhf/",
        texts=("openrlhf.cli",),
        # train_ppo_ray.py
        settings=(
            Settings("Namespace(", r"^(Namespace\(.*)", "openrlhf.cli.train_ppo_ray", has="actor_num_gpus_per_node="),
        ),
    ),
    # models/actor.py: output["logits"].to(torch.float32)
    memory=Memory(whole_logits=8),
    # vllm_worker_wrap.py, ppo_actor.py
    sync=Sync(one_by_one=True, own_names=""),
    validations=(
        Validation(module="openrlhf.cli.train_ppo_ray", settings="args"),
        # What the program hands its functions after it set some of it anew.
        Validation(
            module="openrlhf.cli.train_ppo_ray",
            name="*",
            settings="args",
            apart=(
                *("critic_pretrain", "remote_rm_url", "packing_samples", "vllm_enable_sleep"),
                *("critic.model_name_or_path", "reward.remote_url", "ds.packing_samples", "vllm.enable_sleep"),
            ),
        ),
    ),
    imports={
        "always": (
            "openrlhf.cli.train_ppo_ray",
            "openrlhf.trainer.ray.vllm_engine",
            "openrlhf.trainer.ray.vllm_worker_wrap",
        )
    },
    asked_by="openrlhf_actor",
)
