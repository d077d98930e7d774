"""What the modules of a package import from others, whatever the versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rldoctor.link.uses import uses

Site = Callable[[dict[str, str]], Path]
TRAINER = """
import vllm.distributed
from vllm import LLM
from .parts import Part
try:
    from vllm.utils import old
except ModuleNotFoundError:
    from vllm.utils.new import old
if is_vllm_available():
    from vllm.sampling_params import GuidedDecodingParams
if VERSION > "3":
    from vllm import Newer
from requests import get
def later():
    from vllm import Later
"""


def test_what_no_condition_stands_around(site: Site) -> None:
    files = {"trl/__init__.py": "", "trl/trainer.py": TRAINER, "trl/parts.py": "from vllm.v1 import Part\n"}
    found = uses(site(files), frozenset({"trl"}), frozenset({"vllm"}), ["trl.trainer", "trl.no_such"])
    assert found == {
        "vllm.distributed:",
        "vllm:LLM",
        "vllm.v1:",
        "vllm.v1:Part",
        # The handler runs where the body fails, which nobody knows.
        "vllm.sampling_params:",
        "vllm.sampling_params:GuidedDecodingParams",
    }
