"""Where ms-swift declares its options."""

from __future__ import annotations

from rldoctor.tables.options.parts import Group, Layout, Listing, class_part, fields_of

_OF_3, _OF_4 = "swift/llm/argument", "swift/arguments"

MS_SWIFT = Layout(
    packages=("swift",),
    markers=("swift/cli/rlhf.py",),
    groups={
        "rlhf": fields_of(
            f"{_OF_3}/rlhf_args.py:RLHFArguments",
            f"{_OF_4}/rlhf_args.py:RLHFArguments",
            includes=("transformers:Seq2SeqTrainingArguments",),
            command=True,
        ),
        "rollout": Group(
            (
                class_part(
                    f"{_OF_3}/deploy_args.py:RolloutArguments",
                    f"{_OF_4}/deploy_args.py:RolloutArguments",
                    f"{_OF_3}/deploy_args.py:DeployArguments",  # until 3.5
                    requires="swift/cli/rollout.py",
                ),
            ),
            abbreviations=True,
        ),
        "deploy": fields_of(
            f"{_OF_3}/deploy_args.py:DeployArguments", f"{_OF_4}/deploy_args.py:DeployArguments", command=True
        ),
        "megatron-rlhf": fields_of(
            "swift/megatron/argument/rlhf_args.py:MegatronRLHFArguments",
            "swift/megatron/arguments/rlhf_args.py:MegatronRLHFArguments",
            command=True,
        ),
    },
    names={
        "reward_funcs": Listing(places=("swift/plugin/orm.py:orms", "swift/rewards/orm.py:orms"), closed=True),
        "multi_turn_scheduler": Listing(
            places=("swift/plugin/multi_turn.py:multi_turns", "swift/rollout/multi_turn.py:multi_turns"), closed=True
        ),
        "rlhf:deepspeed": Listing(
            places=(
                f"{_OF_3}/train_args.py:TrainArguments._init_deepspeed.deepspeed_mapping",
                f"{_OF_4}/sft_args.py:SftArguments._init_deepspeed.deepspeed_mapping",
            ),
            closed=True,  # but for files
        ),
    },
)

LAYOUTS = {"ms-swift": MS_SWIFT}
