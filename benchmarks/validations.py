"""How far the refusals that are told from a framework's source agree with what its own validation raises.

    python -m benchmarks.validations FOLDER --python INTERPRETER [--count 200] [--seed 1]

The folder holds unpacked releases as ``NAME-VERSION``. For each of verl and OpenRLHF launches are drawn from values
that people give; the interpreter, which has what the frameworks import, composes the configuration (Hydra, the
release's own tree) or parses the arguments (the release's own parser) and runs the release's own validation. A refusal
that was told and not raised is a false alarm."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rldoctor.case import Case, Distribution, Packages
from rldoctor.frameworks import frameworks
from rldoctor.launch.plans import plans
from rldoctor.link.locate import SearchPath
from rldoctor.link.sources import Sources
from rldoctor.link.validations import refused_by

VERL: dict[str, list[object]] = {
    "data.train_batch_size": [64, 100, 256, 1000],
    "actor_rollout_ref.rollout.n": [1, 3, 5, 8],
    "trainer.n_gpus_per_node": [1, 4, 8],
    "trainer.nnodes": [1, 2],
    "actor_rollout_ref.actor.ppo_mini_batch_size": [32, 256, 300],
    "actor_rollout_ref.actor.ppo_micro_batch_size": [None, 2],
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": [None, 2, 3],
    "actor_rollout_ref.rollout.log_prob_micro_batch_size": [None, 2],
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": [None, 4],
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": [None, 4],
    "actor_rollout_ref.actor.use_dynamic_bsz": [True, False],
    "actor_rollout_ref.actor.use_kl_loss": [True, False],
    "actor_rollout_ref.actor.loss_agg_mode": ["token-mean", "seq-mean", "seq-mean-token-mean"],
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size": [1, 2],
    "actor_rollout_ref.model.use_remove_padding": [True, False],
    "actor_rollout_ref.rollout.temperature": [0, 1.0],
    "actor_rollout_ref.rollout.val_kwargs.do_sample": [True, False],
    "actor_rollout_ref.rollout.multi_turn.enable": [True, False],
    "algorithm.adv_estimator": ["grpo", "gae", "rloo"],
}
OPENRLHF: dict[str, list[object]] = {
    "advantage_estimator": ["gae", "rloo", "reinforce_baseline", "reinforce", "group_norm"],
    "n_samples_per_prompt": [1, 2, 8],
    "vllm_num_engines": [0, 2],
    "packing_samples": [True],
    "colocate_all_models": [True],
    "async_train": [True],
    "vllm_enable_sleep": [True],
    "partial_rollout": [True],
    "dynamic_filtering": [True],
    "remote_rm_url": ["http://127.0.0.1:5000"],
    "eval_dataset": ["d"],
    "use_kl_loss": [True],
    "kl_estimator": ["k1", "k2", "k3"],
    "rollout_batch_size": [8, 128],
    "micro_rollout_batch_size": [1, 8, 64],
    "actor_num_gpus_per_node": [1, 8],
    "ring_attn_size": [1, 2],
    "attn_implementation": ["eager", "flash_attention_2"],
}
# Reads a list of launches, each a list of arguments, from standard input; prints what each raises, as a list.
CHILDREN = {
    "verl": r"""
import json, sys
sys.path.insert(0, sys.argv[1])
from hydra import compose, initialize_config_dir
from verl.trainer.ppo import ray_trainer
try:
    from verl.utils.config import validate_config
except ImportError:
    validate_config = None
said = []
with initialize_config_dir(sys.argv[1] + "/verl/trainer/config", version_base=None):
    for given in json.load(sys.stdin):
        try:
            config = compose("ppo_trainer", overrides=given)
            if validate_config is not None:
                reference, critic = config.actor_rollout_ref.actor.use_kl_loss, config.algorithm.adv_estimator == "gae"
                validate_config(config, use_reference_policy=reference, use_critic=critic)
                from verl.utils.config import omega_conf_to_dataclass
                omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
            else:
                trainer = object.__new__(ray_trainer.RayPPOTrainer)
                trainer.config, trainer.use_critic = config, config.algorithm.adv_estimator == "gae"
                trainer.use_reference_policy = config.actor_rollout_ref.actor.use_kl_loss
                trainer._validate_config()
            said.append(None)
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
print("\nSAID " + json.dumps(said))
""",
    "openrlhf": r"""
import argparse, ast, json, sys
from datetime import datetime
text = open(sys.argv[1] + "/openrlhf/cli/train_ppo_ray.py").read()
program = next(n for n in ast.parse(text).body if isinstance(n, ast.If))
code = compile(ast.Module(program.body, []), "train_ppo_ray.py", "exec")
said = []
for given in json.load(sys.stdin):
    sys.argv[1:] = given
    try:
        exec(code, {"argparse": argparse, "datetime": datetime, "train": lambda args: None, "__name__": "__main__"})
        said.append(None)
    except BaseException as error:
        said.append(f"{type(error).__name__}: {error}")
print("\nSAID " + json.dumps(said))
""",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for path in sorted(asked.folder.iterdir()):
        name, _, version = path.name.rpartition("-")
        if name not in CHILDREN:
            continue
        chance = random.Random(asked.seed)
        launches = [_drawn(chance, name) for _ in range(asked.count)]
        raised = _raised(asked.python, name, path, [_arguments(name, launch) for launch in launches])
        counts: Counter[str] = Counter()
        for launch, said in zip(launches, raised, strict=True):
            told = _told(name, version, path, _arguments(name, launch))
            kind = "quiet" if said is None else "missed"
            if told is not None:
                kind = "told" if said is not None else "FALSE"
            if kind in ("FALSE", "missed") and counts[kind] < 3:
                print(kind, _arguments(name, launch), said, told)
            counts[kind] += 1
        print(f"{path.name}: {sum(s is not None for s in raised)} of {len(raised)} raise; {dict(counts)}", flush=True)
    return 0


def _drawn(chance: random.Random, name: str) -> dict[str, object]:
    values = VERL if name == "verl" else OPENRLHF
    share = chance.choice([0.3, 0.5, 0.8])
    return {option: chance.choice(choices) for option, choices in values.items() if chance.random() < share}


def _arguments(name: str, launch: dict[str, object]) -> list[str]:
    if name == "verl":
        path = ["actor_rollout_ref.model.path=/m", "actor_rollout_ref.rollout.name=vllm"]
        return path + [f"{option}={'null' if value is None else value}" for option, value in launch.items()]
    given = [["--pretrain", "/m", "--reward_pretrain", "/r"]]
    given += [[f"--{option}"] if value is True else [f"--{option}", str(value)] for option, value in launch.items()]
    return [part for parts in given for part in parts]


def _raised(python: str, name: str, path: Path, launches: list[list[str]]) -> list[str | None]:
    command = [python, "-c", CHILDREN[name], str(path.absolute())]
    done = subprocess.run(command, input=json.dumps(launches), capture_output=True, text=True, timeout=900)
    line = next((line for line in done.stdout.splitlines() if line.startswith("SAID ")), None)
    if line is None:
        raise SystemExit(done.stderr[-2000:])
    said: list[str | None] = json.loads(line.removeprefix("SAID "))
    return said


def _told(name: str, version: str, path: Path, arguments: list[str]) -> str | None:
    module = {"verl": "verl.trainer.main_ppo", "openrlhf": "openrlhf.cli.train_ppo_ray"}[name]
    there = Distribution(name=name, version=version, location=str(path.absolute()))
    case = Case(packages=Packages(python="3.12.1", distributions=(there,)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.sh"
        file.write_text(f"python3 -m {module} {' '.join(arguments)}\n")
        plan = plans(file, case)[0]
    record = next(record for record in frameworks() if plan.framework in (record.title, record.name))
    found = refused_by(record, replace(case, plan=plan), Sources(SearchPath([path])))
    return f"{found['type']}: {found['message']} ({found['file']}:{found['line']})" if found is not None else None


if __name__ == "__main__":
    sys.exit(main())
