"""What the checks make of new weights in a running engine: RLD401 and RLD402."""

from __future__ import annotations

from typing import Any

from rldoctor_checks.sync import weight_sync_rejected, weights_stale

from rldoctor.api import Case, Check, Finding, Grade, Outcome, Severity
from rldoctor.judge import judge_one
from tests.observations import link, scenario_case
from tests.plans import case as planned

TOKENS = 8
WAY = {"name": "model.load_weights, all at once", "why": "frameworks call it in the engine's worker"}
NEW, OLD = -2.0, -3.0


def row(engine: float, seen: bool) -> dict[str, Any]:
    reported = {"engine": [engine] * TOKENS, "trainer": [NEW] * TOKENS, "old": [OLD] * TOKENS}
    return {"request": "seen 0" if seen else "new 0", "seen": seen, "token_ids": list(range(TOKENS)), **reported}


def after(fresh: float = NEW, seen: float = NEW) -> list[dict[str, Any]]:
    return [row(seen, True), row(fresh, False)]


def refusal(exceptions: list[dict[str, Any]] | None, moved: float = 0.0) -> dict[str, Any]:
    scores = None if exceptions else [-1.0 - moved] * 4
    return {"sent": "x.weight [3, 4]", "exceptions": exceptions, "before": [-1.0] * 4, "after": scores}


def reported(settings: dict[str, Any] | None = None, **records: Any) -> Case:
    before = {"request": "seen 0", "seen": True, "token_ids": list(range(TOKENS)), "engine": [OLD] * TOKENS}
    healthy: dict[str, Any] = {
        "way": WAY,
        "before": [{**before, "trainer": [OLD] * TOKENS}],
        "after": after(),
        # With its layer 1 old the trainer tells -2.5, with the norm old hardly another thing.
        "sensitivity": {"model.layers.1": [[-2.5] * TOKENS], "model.norm.weight": [[-2.02] * TOKENS]},
        "scores": {"sync": [-1.0] * 4, "again": [-1.0] * 4, "float32": [-1.01] * 4},
        "restored": {"start": [-1.5] * 4, "end": [-1.5] * 4},
        "refusals": {
            "name": refusal([link("ValueError", "no module or parameter named x")]),
            "shape": refusal([link("AssertionError", "")]),
        },
    }
    plan = planned(**settings).plan if settings is not None else None
    given = {name: value for name, value in {**healthy, **records}.items() if value is not None}
    return scenario_case("weights", plan=plan, **given)


def findings(check: Check, case: Case) -> list[Finding]:
    return list(judge_one(check, case).findings)


def test_an_engine_that_follows() -> None:
    for check in (weights_stale.check, weight_sync_rejected.check):
        assert judge_one(check, reported()).outcome is Outcome.PASS
    reason = str(judge_one(weights_stale.check, reported()).reason)
    assert "a stale part would show by 0.02 or more (model.norm.weight)" in reason
    assert "a wrong name is refused with ValueError" in str(judge_one(weight_sync_rejected.check, reported()).reason)


def test_an_engine_that_keeps_its_weights() -> None:
    (finding,) = findings(weights_stale.check, reported(after=after(OLD, OLD)))
    assert finding.message.endswith("it still samples with the old weights")


def test_an_engine_that_follows_in_small_batches_alone() -> None:
    """As graphs do that were captured by the size of a step."""
    many = [{"request": "many 0", "engine": [OLD] * TOKENS, "trainer": [NEW] * TOKENS}]
    (finding,) = findings(weights_stale.check, reported(many=many))
    assert "in small batches and not in a larger one" in finding.message
    many[0]["engine"] = [NEW] * TOKENS
    assert not findings(weights_stale.check, reported(many=many))
    # Where nothing follows, that is what is said.
    (finding,) = findings(weights_stale.check, reported(many=many, after=after(OLD, OLD)))
    assert "old weights" in finding.message


def test_an_engine_that_follows_its_first_update_alone() -> None:
    late = {"start": [-1.5] * 4, "end": [-2.5] * 4}
    (finding,) = findings(weights_stale.check, reported(restored=late))
    assert "follows the first weight sync and not the last" in finding.message
    assert "old weights" in findings(weights_stale.check, reported(restored=late, after=after(OLD, OLD)))[0].message


def test_an_engine_that_resets_its_prefix_cache_once() -> None:
    (finding,) = findings(weights_stale.check, reported(again=[{**row(OLD, True), "trainer": [NEW] * TOKENS}]))
    assert "has seen before the last weight sync" in finding.message
    assert not findings(weights_stale.check, reported(again=[row(NEW, True)]))


def test_an_engine_that_takes_some_updates_is_not_judged_by_wrong_ones() -> None:
    silent = {"name": refusal(None), "shape": refusal(None)}
    late = {"start": [-1.5] * 4, "end": [-2.5] * 4}
    assert findings(weight_sync_rejected.check, reported(refusals=silent))
    assert not findings(weight_sync_rejected.check, reported(refusals=silent, restored=late))


def test_an_engine_that_keeps_one_row() -> None:
    rows = {"token_ids": [3, 4, 5, 6], "engine": [-2.0, -2.0, -4.0], "trainer": [-2.0, -2.0, -2.0]}
    (finding,) = findings(weights_stale.check, reported(vocabulary=rows))
    assert "not on others: rows of the embedding or of the head" in finding.message
    late = {"start": [-1.5] * 4, "end": [-2.5] * 4}
    assert findings(weights_stale.check, reported(vocabulary=rows, restored=late)) == [finding]
    assert not findings(weights_stale.check, reported(vocabulary={**rows, "engine": rows["trainer"]}))


def test_an_engine_that_keeps_one_layer() -> None:
    (finding,) = findings(weights_stale.check, reported(after=after(-2.5, -2.5)))
    assert finding.message.endswith("its model.layers.1 is still the old one")


def test_an_engine_that_has_neither_the_old_nor_the_new_weights() -> None:
    (finding,) = findings(weights_stale.check, reported(after=after(-4.0, -4.0)))
    assert "neither the old weights nor the new ones" in finding.message


def test_a_prefix_cache_that_outlives_the_sync() -> None:
    stale = after(NEW, -2.6)
    (finding,) = findings(weights_stale.check, reported(after=stale))
    assert "prefix cache" in finding.message and finding.grade is Grade.OBSERVED
    (finding,) = findings(weights_stale.check, reported({"engine__enable_prefix_caching": True}, after=stale))
    assert finding.grade is Grade.REPRODUCED
    assert [(edit.option, edit.value) for edit in finding.fixes[0].edits] == [("engine.enable_prefix_caching", False)]


def test_a_sync_that_does_more_than_it_should() -> None:
    scores = {"sync": [-1.0] * 4, "again": [-1.4] * 4, "float32": [-1.0] * 4}
    (finding,) = findings(weights_stale.check, reported(scores=scores))
    assert "the same weights once more" in finding.message
    scores = {"sync": [-1.0] * 4, "again": [-1.0] * 4, "float32": [-1.0] * 4, "views": [-1.4] * 4}
    (finding,) = findings(weights_stale.check, reported(scores=scores))
    assert "the same weights as views of other memory" in finding.message


def test_what_the_change_does_not_show_is_not_checked() -> None:
    flat = [{**one, "old": [NEW] * TOKENS} for one in after()]
    result = judge_one(weights_stale.check, reported(after=flat, scores=None))
    assert result.outcome is Outcome.NOT_CHECKED and "too little" in str(result.reason)


def test_weights_that_the_engine_refuses() -> None:
    exceptions = [link("ValueError", "There is no module or parameter named 'x'", "vllm/utils.py:3")]
    rejected = {"what": "the trainer's weights", "exceptions": exceptions}
    case = reported(rejected=rejected, after=None, scores=None, refusals=None)
    (finding,) = findings(weight_sync_rejected.check, case)
    assert "refuses the trainer's weights: ValueError: There is no module" in finding.message
    assert finding.evidence[-1].line == 3
    assert not findings(weights_stale.check, case)


def test_an_engine_that_takes_anything() -> None:
    name, shape = findings(
        weight_sync_rejected.check, reported(refusals={"name": refusal(None), "shape": refusal(None, moved=0.5)})
    )
    assert name.severity is Severity.NOTE and "ignores it" in name.message
    assert shape.severity is Severity.WARNING and "computes with it" in shape.message


def test_a_build_that_takes_no_weights_is_not_judged() -> None:
    case = scenario_case("weights", way={"name": None, "why": "packed copies"})
    for check in (weights_stale.check, weight_sync_rejected.check):
        assert not findings(check, case) and judge_one(check, case).outcome is not Outcome.PASS
