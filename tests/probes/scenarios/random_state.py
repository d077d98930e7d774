"""Child: draws from one engine in its own process, with random states that are put in place before each draw.

Arguments: the folder of the probes' children, and a folder for the model. Prints the draws as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1", VLLM_USE_V1="1")
sys.path.insert(0, sys.argv[1])

import miniature
import torch
from vllm import LLM, SamplingParams

ONE, OTHERS = [3, 7, 11, 19], [[5, 6, 7, 8 + number] for number in range(3)]


def main() -> None:
    miniature.make(Path(sys.argv[2]))
    engine = LLM(
        model=sys.argv[2], seed=0, max_model_len=256, max_num_seqs=8, enforce_eager=True, enable_prefix_caching=False
    )
    asked = SamplingParams(temperature=1.0, max_tokens=16, ignore_eos=True)

    def draw(state: int, place: int) -> list[int]:
        """What the one prompt gets at this place of a batch."""
        batch = [*OTHERS[:place], ONE, *OTHERS[place:]]
        torch.manual_seed(state)
        answers = engine.generate([{"prompt_token_ids": prompt} for prompt in batch], asked, use_tqdm=False)
        return list(answers[place].outputs[0].token_ids)

    drawn = {name: draw(*at) for name, at in {"first": (1000, 0), "again": (1000, 0), "next": (1001, 0),
                                              "later": (1000, 2)}.items()}  # fmt: skip
    print(json.dumps(drawn))


if __name__ == "__main__":
    main()
