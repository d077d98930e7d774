"""Lines of schedulers, of the kernel and of the system's services."""

from __future__ import annotations

import pytest

from rldoctor.logs.services import is_signed


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ("slurmstepd-n7: error: *** JOB 8 ON n7 CANCELLED", True),
        ("Nov 20 21:14:02 gpu01 systemd[1]: Stopping grpo.service", True),
        ("Nov 20 21:14:02 gpu01 sshd[88]: Connection closed", False),
        ("  Warning  Evicted  2m  kubelet  The node was low on resource", True),
        ("Warning: the node is slow", False),
        ("kernel size: 3", False),
    ],
)
def test_who_signs_a_line(text: str, signed: bool) -> None:
    assert is_signed(text) is signed
