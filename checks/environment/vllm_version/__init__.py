"""The vLLM in the environment is not one that the RL framework works with.

What it looks for
    What each framework's own metadata declares about vLLM: its requirement, or its extra of that name, which pip does
    not enforce once it was left out (``trl[vllm]``, ``openrlhf[vllm]``). Beside it a table of names that a framework
    imports and that vLLM removed or did not have yet, each read from both packages' sources. Where metadata is not at
    hand (an assumed machine), the published release's metadata stands for it. Where the sources are at hand, every name
    that the framework's modules ask of vLLM as the launch imports them is looked up in the installed vLLM. In a log: a
    name or argument of vLLM that a framework or the script uses and this vLLM lacks, and a framework that refuses
    vLLM's version.

Why it hurts
    The import of the trainer fails (``cannot import name 'GuidedDecodingParams' from 'vllm.sampling_params'``), or an
    engine argument is unknown, after the model was loaded and every rank was up.

How sure it is
    A name that is not there is an error, and so is a vLLM below a declared lower bound. A vLLM newer than declared, or
    beside an exact pin, with nothing known against it, is a warning: the framework was not tested with it. Where
    another extra (OpenRLHF's ``vllm-latest``) lets it in, it is a note; so is TRL's extra under ms-swift, which builds
    its engines itself. A development build of vLLM is not judged.

The fix and its cost
    The vLLM that the framework declares: vLLM pins its torch, so pip moves torch too, and compiled packages follow. Or
    a release of the framework that accepts the vLLM at hand, which may rename options.

References
    https://github.com/huggingface/trl/issues/4617
    https://github.com/OpenRLHF/OpenRLHF/blob/v0.8.5/openrlhf/trainer/ray/vllm_engine.py
    https://github.com/verl-project/verl/issues/4202
    https://packaging.python.org/en/latest/specifications/core-metadata/#requires-dist-multiple-use
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, NotApplicable, NotChecked, Reach, Severity
from rldoctor.api.packages import FRAMEWORKS, is_framework
from rldoctor.api.releases import mended, replaced

from ...declared.linked import judge_links
from ...declared.requirements import Misfit, between_vllm_and, judge

check = Check("RLD101", "vllm-version-incompatible", __doc__)


@check.declared(needs=["packages.vllm"])
def outside_declared(case: Case) -> Iterator[Finding | Reach]:
    """A framework declares, or is known to need, another vLLM."""
    assert case.packages is not None
    if not any(is_framework(d) for d in case.packages.distributions):
        if case.packages.complete:
            raise NotApplicable("no RL framework is installed beside vLLM")
        raise NotChecked("the assumed environment names no RL framework", how="--assume trl==VERSION")
    yield from judge(
        case,
        check,
        between_vllm_and,
        lambda misfit: Severity.NOTE if _is_replaced(case, misfit) else _severity(misfit),
        FRAMEWORKS,
        "no framework here declares which vLLM it works with",
    )


def _is_replaced(case: Case, misfit: Misfit) -> bool:
    """Whether the launch's framework builds engines itself over the one that demands this vLLM, whose declarations are
    about its own then; a break that is known holds unless the framework mends it."""
    if not replaced(case, misfit.by.name):
        return False
    return misfit.known is None or mended(case, misfit.by.name, misfit.known.reason or "")


def _severity(misfit: Misfit) -> Severity:
    if misfit.tolerated:
        return Severity.NOTE
    return Severity.ERROR if misfit.known or misfit.too_old else Severity.WARNING


@check.declared(needs=["links"])
def not_there(case: Case) -> Iterator[Finding | Reach]:
    """A module that the launch imports looks in vLLM for what is not in the installed source."""
    yield from judge_links(case, check, lambda module: module == "vllm")
