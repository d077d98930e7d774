"""What two replicas draw alike, in a real engine: the random state that is put in place before a draw decides, whatever
the engine's seed, and gives a prompt the same completion only at the same place of the same batch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import rldoctor.probes

CHILDREN = Path(rldoctor.probes.__file__).with_name("children")


@pytest.mark.engine
def test_the_state_before_the_draw_and_the_place_in_the_batch_decide(patient: Path, tmp_path: Path) -> None:
    command = [str(patient), str(Path(__file__).with_name("random_state.py")), str(CHILDREN), str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    drawn = json.loads(done.stdout.splitlines()[-1])
    # Replicas of one seed, each with its copy of the batch: verl's servers of 0.5.0 to 0.6.1 that never sleep.
    assert drawn["first"] == drawn["again"]
    # verl's workers, 1000 + data parallel rank: one seed of all engines does not matter.
    assert drawn["first"] != drawn["next"]
    # The same prompt in another batch, as a hash of its name deals it out.
    assert drawn["first"] != drawn["later"]
