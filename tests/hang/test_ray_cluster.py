"""What a Ray cluster tells of itself, as a record."""

from __future__ import annotations

from rldoctor.hang.ray_cluster import cluster


def test_resources_that_name_a_place_are_not_waited_for() -> None:
    waits = [
        {"resources": {"CPU_group_0_29a1": 1.0, "bundle_group_29a1": 0.001}, "count": 1},
        {"resources": {"CPU": 1.0, "node:10.0.0.7": 0.001}, "count": 3},
    ]
    found = cluster("here:6379", {"nodes": [], "actors": [], "demands": waits}, "done", "")
    assert [(one.resources, one.count) for one in found.demands] == [({"CPU": 1.0}, 3)]
