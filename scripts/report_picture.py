"""Draws docs/report.svg: what `rldoctor check` prints about the README's launch, as a picture that needs no font from
elsewhere. Run in the repository's root: `python scripts/report_picture.py`."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from rldoctor import verdict
from rldoctor.flow import examination, run, session
from rldoctor.report.detail import Detail
from rldoctor.report.page import Drawn
from rldoctor.report.rich_text import print_report

LAUNCH = """python3 -m verl.trainer.main_ppo \\
    data.max_prompt_length=2048 \\
    data.max_response_length=8192 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.enable_chunked_prefill=False
"""
FILE = "run_7b_long.sh"
GPUS = [{"name": "NVIDIA H100 80GB HBM3", "memory_gib": 79.65, "compute_capability": "9.0", "count": 8}]
PACKAGES = {"verl": "0.3.0.post1", "vllm": "0.7.3", "torch": "2.5.1", "transformers": "4.49.0"}
MACHINE = {"python": "3.12", "packages": PACKAGES, "env": {}, "gpus": GPUS, "nodes": 1}
WIDTH = 112


def picture() -> str:
    """The SVG of the report."""
    opened = session.open_session(session.Options(level="static", assume=("machine.json",)))
    judged = verdict.over(
        examination.join([one.report for one in run.examine_all(opened, [Path(FILE)], lambda line: None)]), "error"
    )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text(f"$ rldoctor check {FILE} --assume machine.json", style="bold"))
    print_report(Drawn(console), judged, Detail.USUAL)
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="rldoctor", code_format=plain, unique_id="report")


def main() -> None:
    """Judges the launch in a folder of its own, so that paths are short, and writes the picture."""
    target = Path("docs/report.svg").absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path(FILE).write_text(LAUNCH)
        Path("machine.json").write_text(json.dumps(MACHINE))
        target.write_text(picture())


if __name__ == "__main__":
    main()
