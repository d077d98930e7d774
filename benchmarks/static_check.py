"""`rldoctor check --level static` as a whole process, without and with a launch, against `vllm collect-env` on the same
environment and against the import of what the command line itself is made of.

Targets: 0.30 s and 60 MiB, at least 30 times faster than the peer; in CPU seconds, which a busy machine leaves alone, 3
times the bare import without a launch and 4.5 times with one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Cost, median

AS_IF = [word for one in ("8xH100-80GB", "verl==0.6.1", "vllm==0.11.0") for word in ("--assume", one)]
BARE = "import typer.main, rich.console"
LAUNCH = """python3 -m verl.trainer.main_ppo \\
    data.max_prompt_length=2048 \\
    data.max_response_length=8192 \\
    actor_rollout_ref.rollout.name=vllm \\
    trainer.n_gpus_per_node=8
"""


def main(python: str) -> None:
    doctor = [str(Path(sys.executable).with_name("rldoctor")), "check", "--level", "static", "--fail-on", "never"]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.sh"
        script.write_text(LAUNCH)
        static = median([*doctor, "--python", python], runs=15)
        launched = median([*doctor, "--python", python, *AS_IF, str(script)], runs=15)
    peer = median([str(Path(python).with_name("vllm")), "collect-env"], runs=3)
    bare = median([sys.executable, "-c", BARE], runs=15)
    _show("rldoctor check --level static", static, bare)
    _show("the same with a launch", launched, bare)
    _show("vllm collect-env", peer, bare)
    _show(BARE, bare, bare)
    print(f"ratio peer / rldoctor            {peer.seconds / static.seconds:.1f}")


def _show(what: str, cost: Cost, bare: Cost) -> None:
    ratio = cost.cpu_seconds / bare.cpu_seconds
    print(f"{what:32} {cost.seconds:.3f} s  {cost.cpu_seconds:.3f} CPU s ({ratio:.1f})  {cost.peak_mib:.0f} MiB")


if __name__ == "__main__":
    main(sys.argv[1])
