"""The ``weights`` scenario: new weights for a running engine, the way that the launch's framework sends them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rldoctor import frameworks
from rldoctor.case import Case
from rldoctor.case.lookup import installed_within
from rldoctor.catalogue.check import NotApplicable
from rldoctor.catalogue.probe import Request
from rldoctor.catalogue.scenario import Basis, Engine, Run, Scenario
from rldoctor.frameworks.record import Framework, Sync
from rldoctor.model import Level

RESPONSE = 8
SECONDS = 300.0


def _runs(case: Case, request: Request, basis: Basis) -> Mapping[str, Run]:
    framework = frameworks.framework(case.plan.framework) if case.plan is not None else None
    sync = framework.sync if framework is not None else Sync()
    if request.model is not None:
        raise NotApplicable("the weights of a real model are left as they are")
    arguments = {
        "prompt": max(basis.model_len - RESPONSE - 1, 1),
        "response": min(RESPONSE, max(basis.model_len // 2, 1)),
        "one_by_one": sync.one_by_one,
        "as_saved": not _sends_own_names(case, sync, framework),
    }
    # An engine with adapters has other names for its weights.
    return {"weights": Run(engine=Engine(alone=True), arguments=arguments, time_limit=SECONDS)}


def _sends_own_names(case: Case, sync: Sync, framework: Framework | None) -> bool:
    """Whether the names sent are the parameters' own, which under transformers 5 are not those of a mixture's
    checkpoint."""
    if framework is None or not sync.own_names:
        return sync.own_names is not None
    return any(installed_within(case, package.name, sync.own_names) for package in framework.packages)


weights = Scenario(
    name="weights",
    level=Level.COMPARE,
    program=Path(__file__).parents[1] / "children" / "scenarios" / "weights.py",
    runs=_runs,
    reads=("plan", "model"),
    seconds=4.0,
    vocabulary_seconds=8.0,
    disturbs=True,
)
