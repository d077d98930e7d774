"""A folder of bundles: what differs between nodes, what does not matter, and what cannot be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleet import FAULTS, VARIATIONS, healthy, write
from rldoctor.bundle import parse, place
from rldoctor.cli import main
from rldoctor.errors import InputError
from rldoctor.fleet.folder import read
from rldoctor.fleet.model import Fleet
from rldoctor.report import fleet as report

Change = Callable[[dict[str, Any]], None]


def fleet(folder: Path, *changes: Change | None, nodes: int = 6) -> Fleet:
    """The fleet of so many nodes, of which the last ones are changed, one by each change."""
    for number in range(nodes):
        bundle = healthy(number)
        change = changes[number - nodes + len(changes)] if number >= nodes - len(changes) else None
        if change is not None:
            change(bundle)
        (folder / f"{bundle['node']['host']}.json").write_text(json.dumps(bundle))
    return read(folder)


def lines(found: Fleet) -> list[str]:
    return report.renderer("rich", to_file=True)(found).splitlines()


def test_nodes_that_are_alike(tmp_path: Path) -> None:
    found = fleet(tmp_path)
    assert found.classes == () and len(found.alike) == 6
    assert lines(found) == ["6 nodes, all alike"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_on_one_node(name: str, tmp_path: Path) -> None:
    change, fact = FAULTS[name]
    (only,) = fleet(tmp_path, change, nodes=3).classes
    (skew,) = only.differs
    assert (only.nodes, skew.name) == (("node0002",), fact)
    assert skew.codes and skew.breaks and skew.value != skew.others


@pytest.mark.parametrize("number", range(len(VARIATIONS)))
def test_what_does_not_matter(number: int, tmp_path: Path) -> None:
    assert fleet(tmp_path, VARIATIONS[number], nodes=3).classes == ()


def test_a_head_without_devices_is_held_to_the_software_alone(tmp_path: Path) -> None:
    def head(bundle: dict[str, Any]) -> None:
        bundle["gpus"] = {"vendor": "none", "devices": []}
        bundle["host"].update(listening_ports=[22, 6379], cpu_usable=16.0, shm_total=8 << 30, memory_total=64 << 30)
        bundle["node"].update(interfaces=[], infiniband=[])

    def another(bundle: dict[str, Any]) -> None:
        head(bundle)
        bundle["environment"]["NCCL_SOCKET_IFNAME"] = "docker0"

    assert fleet(tmp_path, head).classes == ()
    (only,) = fleet(tmp_path, another).classes
    assert [skew.name for skew in only.differs] == ["NCCL_SOCKET_IFNAME"]


def test_a_limit_of_all_the_memory_is_none(tmp_path: Path) -> None:
    def limit(bundle: dict[str, Any]) -> None:
        bundle["host"]["locked_memory"] = bundle["host"]["memory_total"]

    assert fleet(tmp_path, limit).classes == ()


def test_a_bundle_without_a_host_name_is_called_like_its_file(tmp_path: Path) -> None:
    (tmp_path / "spare.json").write_text(json.dumps({**healthy(9), "node": {**healthy(9)["node"], "host": ""}}))
    assert "spare" in fleet(tmp_path).alike


def test_a_worker_without_devices_is_told(tmp_path: Path) -> None:
    (only,) = fleet(tmp_path, lambda bundle: bundle.update(gpus={"vendor": "none", "devices": []})).classes
    assert "devices" in {skew.name for skew in only.differs}


def test_what_no_run_survives_is_told_before_what_many_have(tmp_path: Path) -> None:
    def switched(bundle: dict[str, Any]) -> None:
        bundle["environment"]["NCCL_IB_DISABLE"] = "1"

    def without_devices(bundle: dict[str, Any]) -> None:
        bundle["gpus"] = {"vendor": "none", "devices": []}

    found = fleet(tmp_path, switched, switched, without_devices, nodes=9)
    assert [one.nodes for one in found.classes] == [("node0008",), ("node0006", "node0007")]


@pytest.mark.parametrize("token", ["***", "xxxxxx", "<removed>", "hf_" + "aB3" * 8])
def test_tokens_are_not_compared_but_whether_there_is_one(token: str, tmp_path: Path) -> None:
    def given(value: str) -> Change:
        return lambda bundle: bundle["environment"].update(HF_TOKEN=value)

    assert fleet(tmp_path, *map(given, [token, *["hf_" + "Cd5" * 8] * 5])).classes == ()
    (only,) = fleet(tmp_path, given(token)).classes
    assert [skew.name for skew in only.differs] == ["HF_TOKEN"]


def test_the_report_says_it_in_a_line(tmp_path: Path) -> None:
    vllm, gpus = FAULTS["another vLLM"][0], FAULTS["seven GPUs"][0]

    def both(bundle: dict[str, Any]) -> None:
        vllm(bundle)
        gpus(bundle)

    said = lines(fleet(tmp_path, vllm, vllm, both, nodes=9))
    assert said[0] == "9 nodes: 6 alike, 3 differ"
    assert said[1] == "  node0006, node0007: vllm 0.31.0 (others 0.32.0) RLD101"
    assert said[2].startswith("  node0008: vllm 0.31.0 (others 0.32.0) RLD101; 7 of 8 x NVIDIA H100")
    assert "RLD303, RLD324: ranks are counted by the devices of a node" in said


def test_many_ways_to_differ_stay_on_a_screen(tmp_path: Path) -> None:
    def open_files(count: int) -> Change:
        return lambda bundle: bundle["host"].update(open_files=count)

    said = lines(fleet(tmp_path, *map(open_files, range(1000, 1060)), nodes=200))
    assert len(said) <= 40
    assert "and 38 nodes in 38 more ways (--format json)" in said[-2]


def test_two_halves_of_a_cluster(tmp_path: Path) -> None:
    driver = FAULTS["another driver"][0]
    (only,) = fleet(tmp_path, *[driver] * 4, nodes=10).classes
    assert len(only.nodes) == 4 and only.differs[0].others == "570.86.10"


POORER: dict[str, Change] = {
    "open_files": lambda bundle: bundle["host"].update(open_files=1024),
    "shm_total": lambda bundle: bundle["host"].update(shm_total=64 << 20),
    "memory_total": lambda bundle: bundle["host"].update(
        memory_total=(950 << 30) - int(bundle["node"]["started"]) % 4096
    ),
    "memory_limit": lambda bundle: bundle["host"].update(memory_limit=64 << 30),
    "libc": lambda bundle: bundle["host"].update(libc="glibc 2.28"),
    "kernel": lambda bundle: bundle["host"].update(kernel="4.18.0-553.el8.x86_64"),
    "clock is kept right": lambda bundle: bundle["node"].update(clock_kept=False),
    "faults of GPUs (XID)": lambda bundle: bundle["node"].update(xids=["0000:3b:00: 79"]),
    "devices": lambda bundle: bundle["gpus"]["devices"].pop(),
    "disk of temp": lambda bundle: bundle["host"]["disks"][0].update(free=1 << 20),
    "disk of /dev/shm": lambda bundle: bundle["host"].update(shm_free=1 << 20),
}


@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("fact", POORER)
def test_where_none_is_most_the_poorer_half_is_told(fact: str, nodes: int, tmp_path: Path) -> None:
    for number in range(nodes):
        bundle = healthy(number)
        if number < nodes // 2:
            POORER[fact](bundle)
        (tmp_path / f"{number}.json").write_text(json.dumps(bundle))
    (only,) = read(tmp_path).classes
    assert only.nodes == tuple(f"node{number:04}" for number in range(nodes // 2))
    assert fact in {skew.name for skew in only.differs}


def test_sizes_that_vary_are_held_against_the_middle_one(tmp_path: Path) -> None:
    def varied(bundle: dict[str, Any]) -> None:
        bundle["host"]["memory_total"] -= int(bundle["node"]["started"]) % 4096

    def half(bundle: dict[str, Any]) -> None:
        bundle["host"]["memory_total"] //= 2

    (only,) = fleet(tmp_path, *[varied] * 7, half, half, nodes=9).classes
    assert only.nodes == ("node0007", "node0008")


def test_two_nodes_are_called_by_their_names(tmp_path: Path) -> None:
    said = lines(fleet(tmp_path, FAULTS["another vLLM"][0], nodes=2))
    assert said[:2] == ["2 nodes, which differ", "  node0001: vllm 0.31.0 (node0000 0.32.0) RLD101"]


def test_kernels_that_do_no_harm_are_alike(tmp_path: Path) -> None:
    kernels = ("5.10.0-30-amd64", "6.8.0-1021-gke", "6.18.44")
    changes: list[Change] = [lambda bundle, at=at: bundle["host"].update(kernel=at) for at in kernels]  # type: ignore[misc]
    assert fleet(tmp_path, *changes).classes == ()


HARMLESS: dict[str, Change] = {
    "larger packets": lambda bundle: bundle["node"]["interfaces"][1].update(mtu=9216),
    "a faster interface": lambda bundle: bundle["node"]["interfaces"][1].update(speed=800_000),
    "an illegal access of somebody's program": lambda bundle: bundle["node"].update(xids=["0000:5e:00: 13"]),
    "a debugging switch that is off": lambda bundle: bundle["environment"].update(TORCH_COMPILE_DEBUG="0"),
    "little left of a large /dev/shm": lambda bundle: bundle["host"].update(shm_free=10 << 30),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=list(HARMLESS))
def test_what_is_more_or_says_nothing_of_the_node_is_alike(change: Change, tmp_path: Path) -> None:
    assert fleet(tmp_path, change).classes == ()


@pytest.mark.parametrize(("address", "alike"), [("10.0.0.1:6379", True), ("auto", True), ("10.0.0.9:6379", False)])
def test_to_name_the_one_ray_of_the_node_says_nothing(address: str, alike: bool, tmp_path: Path) -> None:
    def joined(bundle: dict[str, Any]) -> None:
        bundle["node"]["ray"] = [{"pid": 7, "address": "10.0.0.1:6379"}]

    def told(bundle: dict[str, Any]) -> None:
        joined(bundle)
        bundle["environment"]["RAY_ADDRESS"] = address

    assert (fleet(tmp_path, joined, joined, told, nodes=3).classes == ()) == alike


@pytest.mark.parametrize(("name", "here", "there", "differs"), [
    ("ACCELERATE_LOCAL_RANK", "0", "1", False), ("HF_JOB_ID", "a", "b", False), ("SGLANG_PORT", "1", "2", False),
    ("VLLM_NIXL_SIDE_CHANNEL_HOST", "10.0.0.1", "10.0.0.2", False),
    ("HF_HOME", "/scratch/70012/hf", "/scratch/70013/hf", False), ("HF_HOME", "/a/hf", "/b/hf", True),
    ("VLLM_LORA_RANK", "8", "16", True), ("MASTER_PORT", "1", "2", True), ("SLURM_JOB_ID", "1", "2", True),
    # What nothing of the stack reads breaks nothing, and what a trainer reads does.
    ("SITE_RACK", "1", "2", False), ("LMOD_VERSION", "1", "2", False), ("WANDB_RUN_ID", "1", "2", False),
    ("LAST_KEYBOARD_LAYOUT", "1", "2", False), ("MAX_TOKENS_NOTE", "1", "2", False), ("MAX_PIXELS", "1", "2", True),
    ("DEEPSPEED_TIMEOUT", "1", "2", True), ("LIBRARY_PATH", "/a", "/b", True), ("HF_TOKEN", "1", "2", True),
    ("VLLM_DP_MASTER_PORT", "1", "2", True), ("LD_LIBRARY_PATH", "/usr/local/cuda-12", "/usr/local/cuda-13", True),
])  # fmt: skip
def test_what_a_node_has_of_its_own_is_known_by_its_kind(
    name: str, here: str, there: str, differs: bool, tmp_path: Path
) -> None:
    def with_(value: str) -> Change:
        return lambda bundle: bundle["environment"].update({name: value})

    assert bool(fleet(tmp_path, *[with_(here)] * 5, with_(there)).classes) is differs


def test_a_variable_that_every_node_has_otherwise_is_a_name(tmp_path: Path) -> None:
    def named(number: int) -> Change:
        return lambda bundle: bundle["environment"].update(SLURM_MY_OWN=f"rack-{number}")

    assert fleet(tmp_path, *map(named, range(6))).classes == ()


def test_the_head_that_names_itself_is_in_the_cluster_that_the_others_name(tmp_path: Path) -> None:
    def head(bundle: dict[str, Any]) -> None:
        bundle["environment"]["RAY_ADDRESS"] = "127.0.0.1:6379"
        bundle["host"]["listening_ports"].append(6379)

    def worker(bundle: dict[str, Any]) -> None:
        bundle["environment"]["RAY_ADDRESS"] = "rl-head-svc.default.svc.cluster.local:6379"

    def astray(bundle: dict[str, Any]) -> None:
        bundle["environment"]["RAY_ADDRESS"] = "127.0.0.1:6379"

    (tmp_path / "well").mkdir()
    assert fleet(tmp_path / "well", head, worker, worker, nodes=3).classes == ()
    (only,) = fleet(tmp_path, head, worker, worker, astray, nodes=4).classes
    assert (only.nodes, only.differs[0].codes) == (("node0003",), ("RLD601",))


def test_nodes_with_a_ray_of_their_own_each_are_alike(tmp_path: Path) -> None:
    def own(number: int) -> Change:
        return lambda bundle: bundle["node"]["ray"][0].update(address=f"10.0.0.{number}:6379")

    assert fleet(tmp_path, *map(own, range(6))).classes == ()


def test_of_many_links_those_that_differ_are_shown(tmp_path: Path) -> None:
    def links(bundle: dict[str, Any]) -> None:
        bundle["gpus"]["links"] = {f"0-{other}": "nvlink" for other in range(1, 8)}

    def cut(bundle: dict[str, Any]) -> None:
        links(bundle)
        bundle["gpus"]["links"]["0-5"] = "sys"

    said = lines(fleet(tmp_path, links, links, cut, nodes=3))
    assert said[1] == "  node0002: GPU links 0-5 sys (others 0-5 nvlink) RLD322"


def test_a_section_that_one_node_lacks_is_said(tmp_path: Path) -> None:
    def without(bundle: dict[str, Any]) -> None:
        del bundle["packages"]
        bundle["unknown"] = {"packages": {"reason": "the interpreter does not start"}}

    (only,) = fleet(tmp_path, without).classes
    assert only.differs[0].value == "not known: the interpreter does not start"


def test_a_package_that_an_assumed_environment_does_not_name_is_no_difference(tmp_path: Path) -> None:
    def partial(bundle: dict[str, Any]) -> None:
        bundle["packages"] = {**bundle["packages"], "distributions": [], "complete": False}

    assert fleet(tmp_path, partial).classes == ()


def test_secrets_of_foreign_bundles_do_not_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "hf_" + "abcdefgh" * 4
    fleet(tmp_path, lambda bundle: bundle["environment"].update(HF_TOKEN=secret, RAY_MY_PASSWORD="kept-to-us-9"))
    for form in ("rich", "json"):
        with pytest.raises(SystemExit):
            main(["fleet", str(tmp_path), "--format", form])
        reported = capsys.readouterr().out
        assert "HF_TOKEN" in reported and secret not in reported and "kept-to-us-9" not in reported


def test_a_nodes_own_name_is_taken_out_of_values_as_a_word(tmp_path: Path) -> None:
    """A machine may be called like a part of a word, or of a secret's name."""
    secret = "Zq81xxYY77wwVV55"

    def called(bundle: dict[str, Any]) -> None:
        bundle["node"]["host"] = "pass"
        bundle["environment"].update(NCCL_NOTE=f"pass:1 compass --password {secret}", NCCL_MORE="at pass_0/pass")

    def named(bundle: dict[str, Any]) -> None:
        bundle["environment"].update(NCCL_MORE=f"at {bundle['node']['host']}_0/{bundle['node']['host']}")

    (only,) = fleet(tmp_path, *[named] * 5, called).classes
    told = {skew.name: skew.value for skew in only.differs}
    assert told == {"NCCL_NOTE": "(host):1 compass --password <removed:password>"}


def test_bundles_that_cannot_be_read_are_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    fleet(tmp_path, FAULTS["another vLLM"][0])
    whole = (tmp_path / "node0001.json").read_text()
    (tmp_path / "node0001.json").write_text(whole[: len(whole) // 2])
    (tmp_path / "node0002.json").write_text("")
    (tmp_path / "note.json").write_text('{"a": 1}')
    (tmp_path / "readme.txt").write_text("no bundle")
    (tmp_path / "folder.json").mkdir()
    found = read(tmp_path)
    assert found.nodes == 4 and len(found.classes) == 1
    assert {one.source: one.reason.partition(":")[0] for one in found.unread} == {
        "folder.json": "not a regular file",
        "node0001.json": "not a bundle, not valid JSON",
        "node0002.json": "not a bundle, not valid JSON",
        "note.json": "not a bundle, no schema_version",
    }


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_bundle_that_may_not_be_read(tmp_path: Path) -> None:
    fleet(tmp_path)
    (tmp_path / "node0001.json").chmod(0)
    assert [one.reason for one in read(tmp_path).unread] == ["Permission denied"]


def test_of_two_bundles_of_a_node_the_newer_counts(tmp_path: Path) -> None:
    fleet(tmp_path)
    older = healthy(3)
    older["node"]["time"] -= 3600
    FAULTS["another vLLM"][0](older)
    (tmp_path / "again.json").write_text(json.dumps(older))
    found = read(tmp_path)
    assert (found.nodes, found.classes) == (6, ())
    assert found.notes[0].startswith(
        "node0003 is there twice: node0003.json (3600 s later) counts, again.json does not"
    )


def test_two_machines_of_one_name_are_two_nodes(tmp_path: Path) -> None:
    fleet(tmp_path)
    other = healthy(3)
    other["node"].update(boot="another", time=other["node"]["time"] + 4)
    FAULTS["another vLLM"][0](other)
    (tmp_path / "pod-3.json").write_text(json.dumps(other))
    found = read(tmp_path)
    assert (found.nodes, [one.nodes for one in found.classes]) == (7, [("node0003 (pod-3)",)])
    assert found.notes[0].startswith("two machines are called node0003 (node0003.json, pod-3.json)")


def test_a_node_that_was_booted_again_is_one(tmp_path: Path) -> None:
    fleet(tmp_path)
    again = healthy(3)
    again["node"].update(boot="another", started=again["node"]["time"] + 60, time=again["node"]["time"] + 600)
    (tmp_path / "again.json").write_text(json.dumps(again))
    assert read(tmp_path).nodes == 6


def test_a_namesakes_bundle_stays(tmp_path: Path) -> None:
    def written(**node: object) -> Path:
        bundle = healthy(3)
        bundle["node"].update(node)
        found = place(f"{tmp_path}/", parse(json.dumps(bundle).encode(), "bundle"))
        found.write_text(json.dumps(bundle))
        return found

    assert written() == written() == tmp_path / "node0003.json"
    assert written(boot="another") == tmp_path / "node0003-another.json"
    assert read(tmp_path).nodes == 2


def test_two_jobs_on_one_node_are_named(tmp_path: Path) -> None:
    fleet(tmp_path)
    other = healthy(3)
    other["node"]["time"] -= 60
    other["environment"]["SLURM_JOB_ID"] = "8813"
    (tmp_path / "other.json").write_text(json.dumps(other))
    found = read(tmp_path)
    assert found.notes[0].startswith("node0003 is there twice, for the jobs 8813 and 8812: node0003.json (60 s later)")


def test_bundles_from_before_nodes_had_names_go_by_their_file(tmp_path: Path) -> None:
    for number in range(3):
        bundle = healthy(number)
        del bundle["node"]
        (tmp_path / f"host-{number}.json").write_text(json.dumps(bundle))
    assert read(tmp_path).alike == ("host-0", "host-1", "host-2")


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, Path.touch])
def test_a_folder_without_bundles_is_one_line(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "fleet")
    with pytest.raises(InputError) as raised:
        read(tmp_path / "fleet")
    assert len(str(raised.value).splitlines()) == 1


def test_a_hundred_nodes_with_faults_and_variations(tmp_path: Path) -> None:
    planted = write(tmp_path, nodes=150, faults=len(FAULTS), variations=30)
    found = {(name, skew.name) for one in read(tmp_path).classes for name in one.nodes for skew in one.differs}
    assert found == set(planted.items())


def test_what_this_machine_writes_is_read(tmp_path: Path) -> None:
    for _ in range(2):
        command = [sys.executable, "-m", "rldoctor", "bundle", "--output", f"{tmp_path}/new/"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "new").iterdir()
    node = json.loads(file.read_text())["node"]
    assert file.name == f"{os.uname().nodename}.json" and node["time"] > node["started"] > 0
    other = json.loads(file.read_text())
    other["node"]["host"] = "another"
    (tmp_path / "new" / "another.json").write_text(json.dumps(other))
    found = read(tmp_path / "new")
    assert found.nodes == 2 and found.classes == ()


@pytest.mark.parametrize(("change", "code"), [(None, 0), ("another vLLM", 1)])
def test_the_exit_code(change: str | None, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet(tmp_path, FAULTS[change][0] if change else None)
    with pytest.raises(SystemExit) as ended:
        main(["fleet", str(tmp_path), "--format", "json"])
    assert ended.value.code == code
    assert json.loads(capsys.readouterr().out)["nodes"] == 6


def cluster(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """What ``rldoctor machine`` writes of the nodes whose bundles lie in a folder, and what it says it leaves out."""
    with pytest.raises(SystemExit) as ended:
        main(["machine", "--from", str(folder)])
    written = capsys.readouterr()
    assert ended.value.code == 0, written.err
    return json.loads(written.out), written.err


def test_a_cluster_is_described_for_a_launch_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet(tmp_path)
    described, said = cluster(tmp_path, capsys)
    node = healthy(0)
    assert described["nodes"] == 6 and described["python"] == node["packages"]["python"]
    assert described["gpus"][0]["count"] == len(node["gpus"]["devices"])
    assert described["packages"]["vllm"] and "left out: GPUs" not in said


def test_what_differs_between_nodes_is_not_assumed_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def older(bundle: dict[str, Any]) -> None:
        next(one for one in bundle["packages"]["distributions"] if one["name"] == "vllm")["version"] = "0.1.0"

    def without_a_device(bundle: dict[str, Any]) -> None:
        bundle["gpus"]["devices"].pop()

    fleet(tmp_path, older, without_a_device)
    (tmp_path / "torn.json").write_text("{")
    described, said = cluster(tmp_path, capsys)
    assert described["nodes"] == 6 and "vllm" not in described["packages"] and "gpus" not in described
    assert "left out: packages that differ between nodes: vllm\n" in said
    assert "left out: GPUs: 8 x NVIDIA H100 80GB HBM3" in said and "7 x NVIDIA H100 80GB HBM3" in said
    assert "left out: torn.json: " in said
