"""RLD323: where and at which port the ranks meet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.devices.rendezvous import check

from rldoctor.api import Outcome, Setting, Severity
from rldoctor.judge import judge_one
from rldoctor.logs.triage import triage_text
from tests.cases import host
from tests.checks.launches import LaunchFile, finding, judged, launch, quiet
from tests.logs.asking import finding as logged
from tests.logs.asking import findings, raised

TWO: dict[str, Any] = {"process__launcher": "torchrun", "process__nnodes": 2}
TAKEN = (
    "The server socket has failed to listen on any local network address. port: {}, useIpv6: false, code: -98, "
    "name: EADDRINUSE, message: address already in use"
)


def test_the_second_node_meets_itself() -> None:
    found = finding(check, **TWO, process__node_rank=1, process__master_addr="127.0.0.1")
    assert found.message == "2 nodes are to meet at 127.0.0.1, which is each node itself"
    assert quiet(check, **TWO, process__node_rank=1, process__master_addr="10.0.0.4")


def test_the_first_node_may_call_itself_so() -> None:
    assert quiet(check, **TWO, process__node_rank=0, process__master_addr="127.0.0.1")
    assert quiet(check, **TWO, process__master_addr="127.0.0.1")


def test_one_file_for_all_nodes_may_not() -> None:
    case = launch(**TWO, process__master_addr="127.0.0.1")
    assert case.plan is not None
    shared = Setting(value=None, unknown="RANK is not set in this file", key="NODE_RANK", file="run.sh", line=2)
    plan = replace(case.plan, settings={**case.plan.settings, "process.node_rank": shared})
    assert judge_one(check, replace(case, plan=plan)).findings


def test_a_schedulers_variable_is_left_alone(tmp_path: Path) -> None:
    text = (
        "NNODES=2 NODE_RANK=${RANK} MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} NPROC_PER_NODE=8 \\\n"
        "swift rlhf --rlhf_type grpo --model m --use_vllm true --vllm_mode colocate\n"
    )
    assert LaunchFile(tmp_path, text, {"ms-swift": "3.8.1"}).findings(check) == []
    literal = text.replace("${MASTER_ADDR:-127.0.0.1}", "127.0.0.1")
    assert len(LaunchFile(tmp_path, literal, {"ms-swift": "3.8.1"}).findings(check)) == 1


def test_nobody_names_the_first_node() -> None:
    accelerate = {**TWO, "process__launcher": "accelerate"}
    assert "no master address" in finding(check, **accelerate).message
    assert quiet(check, **accelerate, trainer__strategy="deepspeed")
    swift = {**TWO, "entry": "swift rlhf", "process__node_rank": 1}
    assert "takes 127.0.0.1" in finding(check, "ms-swift", **swift).message
    # torchrun may be told by --rdzv_endpoint.
    assert quiet(check, **TWO, process__node_rank=1)


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("localhost:29500", True),
        ("127.0.0.1:29400", True),
        ("[::1]:29500", True),
        ("node-0:29500", False),
        ("$MASTER_ADDR:29500", False),
        ("${HEAD:-localhost}:29500", False),
    ],
)
def test_the_endpoint_that_every_node_is_given(tmp_path: Path, endpoint: str, told: bool) -> None:
    start = "torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint"
    script = f"{start} {endpoint} grpo.py --model_name_or_path m --use_vllm true\n"
    found = LaunchFile(tmp_path, script, {"trl": "0.23.0"}).findings(check)
    assert [one.severity for one in found] == [Severity.WARNING] * told
    assert LaunchFile(tmp_path, script.replace("nnodes 2", "nnodes 1"), {"trl": "0.23.0"}).findings(check) == []


def test_a_port_that_does_not_exist() -> None:
    found = finding(check, process__master_port=70000)
    assert found.fixes[0].edits[0].value == 29500
    assert quiet(check, process__master_port=29500)


def test_a_port_that_is_taken_on_this_host() -> None:
    found = finding(check, ports=(22, 29500), process__master_port=29500)
    assert found.severity is Severity.WARNING and found.fixes[0].edits[0].value == 29501
    free = judged(check, ports=(22,), process__master_port=29500)
    assert (free.outcome, free.reason) == (Outcome.PASS, "port 29500 is free on this host")
    elsewhere = judged(check, process__master_port=29500)
    assert "port 29500 is a port; who uses it there is not known" in str(elsewhere.reason)


def test_trls_fixed_port() -> None:
    # https://github.com/huggingface/trl/issues/3979
    plan: dict[str, Any] = {"placement__mode": "colocate", "process__launcher": "none", "ports": (12345,)}
    found = finding(check, version="0.23.1", **plan)
    assert found.fixes[0].edits[0].option == "env.MASTER_PORT"
    assert quiet(check, version="0.24.0", **plan)
    assert quiet(check, version="0.23.1", **plan, env__MASTER_PORT="29517")
    assert judged(check, version="0.23.1", **{**plan, "ports": (22,)}).outcome is Outcome.PASS


def test_a_taken_port_in_a_log() -> None:
    assert (
        "port 29527 is in use"
        in logged(check, raised("torch.distributed.DistNetworkError", TAKEN.format(29527))).message
    )
    trl = logged(check, raised("torch.distributed.DistNetworkError", TAKEN.format(12345)))
    assert "TRL 0.24" in trl.fixes[0].title


def test_the_weight_sync_port_is_another_matter() -> None:
    assert findings(check, raised("torch.distributed.DistNetworkError", TAKEN.format(51216))) == []


def test_nobody_answers() -> None:
    text = "The client socket has timed out after 300000ms while trying to connect to (10.0.0.4, 29500)."
    assert "10.0.0.4, port 29500" in logged(check, raised("torch.distributed.DistNetworkError", text)).message
    elastic = "The connection to the C10d store has failed. See inner exception for details."
    assert logged(check, raised("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError", elastic))


def test_a_key_that_is_never_written_comes_after_any_cause() -> None:
    # https://github.com/vllm-project/vllm/issues/12526
    waits = raised("torch.distributed.DistStoreError", "wait timeout after 600000ms, keys: /default_pg/0//cpu//0/0")
    assert "within 600 s" in logged(check, waits).message
    joined = raised(
        "torch.distributed.DistStoreError", "Timed out after 26 seconds waiting for clients. 2/4 clients joined."
    )
    assert triage_text(waits + joined).findings[0].code == "RLD324"


SWIFT = "{before}torchrun --nproc_per_node 2 {port}swift/cli/rlhf.py --rlhf_type grpo --model m{after}\n"


def two(first: dict[str, str], second: dict[str, str], between: str = "") -> str:
    empty = {"before": "", "port": "", "after": ""}
    return SWIFT.format(**{**empty, **first}) + between + SWIFT.format(**{**empty, **second})


def test_two_launches_at_the_same_time_meet_at_one_port(tmp_path: Path) -> None:
    for first, second in (
        ({"after": " &"}, {}),
        ({"port": "--master_port 29600 ", "after": " &"}, {"port": "--master_port=29600 "}),
        (
            {"before": "CUDA_VISIBLE_DEVICES=0,1 nohup ", "after": " > a.log 2>&1 &"},
            {"before": "CUDA_VISIBLE_DEVICES=2,3 "},
        ),
    ):
        (found,) = LaunchFile(tmp_path, two(first, second), {}).findings(check)
        assert "still running in the background, meets at the same port" in found.message
        assert {line.line for line in found.evidence} == {1, 2}


LOOP = """for i in 0 1; do
  MASTER_PORT={port} CUDA_VISIBLE_DEVICES=$i torchrun {option} --nproc_per_node 1 my_eval.py --part $i &
done
wait
"""


@pytest.mark.parametrize(
    ("port", "option", "fires"),
    [
        ("29600", "--master_port 29600", True),
        ("29600", "--master_port $((29600 + i))", False),
        ("1", "--standalone", False),
    ],
)
def test_rounds_of_a_loop_in_the_background(tmp_path: Path, port: str, option: str, fires: bool) -> None:
    found = LaunchFile(tmp_path, LOOP.format(port=port, option=option), {}).findings(check)
    assert bool(found) == fires
    for one in found:
        assert "that the same line started before" in one.message
        assert [fix.title for fix in one.fixes] == [
            "let the port count up with each start: $((29600 + N)), where N is 0, 1, ..."
        ]


def test_a_port_that_both_take_from_one_variable(tmp_path: Path) -> None:
    text = "PORT=29700\n" + two({"port": "--master_port $PORT ", "after": " &"}, {"port": "--master_port=${PORT} "})
    (found,) = LaunchFile(tmp_path, text, {}).findings(check)
    assert "at the same port 29700" in found.message
    counted = text.replace("=${PORT}", "=$((PORT + 1))")
    assert LaunchFile(tmp_path, counted, {}).findings(check) == []


OWN = "torchrun --nproc_per_node 2 {port}my_eval.py{after}\n"


@pytest.mark.parametrize(
    ("port", "after", "fires"),
    [
        ("", " &", True),
        ("--master_port 29600 ", " &", False),
        ("--master_port $(cat port) ", " &", False),  # what cannot be read is no default
        ("", "", False),
    ],
)
def test_a_program_that_no_framework_claims_meets_at_a_port_as_well(
    tmp_path: Path, port: str, after: str, fires: bool
) -> None:
    found = LaunchFile(tmp_path, OWN.format(port=port, after=after) + two({}, {"before": "# "}), {}).findings(check)
    assert bool(found) == fires


def test_a_port_that_cannot_be_read_is_not_the_launchers_default(tmp_path: Path) -> None:
    text = two({"port": "--master_port $(cat port) ", "after": " &"}, {})
    assert LaunchFile(tmp_path, text, {}).findings(check) == []


SERVER = "CUDA_VISIBLE_DEVICES={devices} vllm serve ./m --port {port} --gpu-memory-utilization {share} &\n"


@pytest.mark.parametrize(("port", "between", "fires"), [(8000, "", True), (8001, "", False), (8000, "wait\n", False)])
def test_two_servers_at_the_same_time_listen_at_one_port(tmp_path: Path, port: int, between: str, fires: bool) -> None:
    text = SERVER.format(devices=0, port=8000, share=0.9) + between + SERVER.format(devices=1, port=port, share=0.9)
    found = LaunchFile(tmp_path, text, {"vllm": "0.10.2"}).findings(check)
    assert [finding.message for finding in found if "listens at the same port 8000" in finding.message] == (
        [found[0].message] if fires else []
    )


SERVE = "vllm serve m --port 8000"
IN_BOTH = f"{{}} {SERVE} &\n{{}} {SERVE} &\nwait\n"


@pytest.mark.parametrize(
    ("first", "second", "fires"),
    [
        ("", "", True),
        ("ssh node1", "ssh node1", True),
        ("ssh node1", "ssh node2", False),
        ('ssh "$A"', 'ssh "$B"', False),
        ("kubectl exec pod-a --", "kubectl exec pod-b --", False),
        ("docker run -p 8000:8000 image", "docker run -p 8001:8000 image", False),
        ("docker run --network host image", "docker run --network=host image", True),
        ('srun -N1 -w "${nodes[0]}"', 'srun -N1 -w "${nodes[1]}"', False),
        ("srun -N1 -w node1", "srun -N1 -w node1", True),
        ("srun -N1 -n1", "srun -N1 -n1", False),
    ],
)
def test_servers_of_two_machines_or_containers_may_have_one_port(
    tmp_path: Path, first: str, second: str, fires: bool
) -> None:
    found = LaunchFile(tmp_path, IN_BOTH.format(first, second), {"vllm": "0.10.2"}).findings(check)
    assert ["same port 8000" in one.message for one in found] == ([True] if fires else [])


@pytest.mark.parametrize(
    ("before", "port", "fires"),
    [
        ("vllm serve m --port 29500 &", "--master_port 29500", True),
        ("vllm serve m --port 29500 &", "", True),  # torchrun's default
        ("vllm serve m --port 8000 &", "--master_port 29500", False),
        ("ssh node1 vllm serve m --port 29500 &", "--master_port 29500", False),
        ("vllm serve m --port 29500", "--master_port 29500", False),  # it has ended
        ("vllm serve m --port 29500 &", "--standalone", False),
        ("swift rollout --model m --port 29500 &", "--master_port 29500", False),  # it takes the next one
    ],
)
def test_a_server_may_not_listen_where_the_ranks_meet(tmp_path: Path, before: str, port: str, fires: bool) -> None:
    (tmp_path / "train.py").write_text("from trl import GRPOConfig\nconfig = GRPOConfig(use_vllm=True)\n")
    text = f"{before}\ntorchrun --nproc_per_node 1 {port} train.py\n"
    found = LaunchFile(tmp_path, text, {"trl": "0.24.0", "vllm": "0.10.2"}).findings(check)
    assert ["listens at port 29500, at which this one meets" in one.message for one in found] == [True] * fires


@pytest.mark.parametrize(
    ("first", "second", "fires"),
    [
        ("", "", True),
        ("", ", vllm_group_port=51300", False),
        (', vllm_server_host="10.0.0.7"', "", False),
        (', vllm_server_host="10.0.0.7"', ', vllm_server_host="10.0.0.8"', False),
    ],
)
def test_two_pairs_on_one_host_need_two_ports_for_weights(tmp_path: Path, first: str, second: str, fires: bool) -> None:
    text = ""
    for number, further in enumerate((first, second)):
        (tmp_path / f"train{number}.py").write_text(
            f"from trl import GRPOConfig\nconfig = GRPOConfig(use_vllm=True, vllm_mode='server', "
            f"vllm_server_port=800{number}{further})\n"
        )
        text += f"accelerate launch --main_process_port 2951{number} train{number}.py &\n"
    found = LaunchFile(tmp_path, f"{text}wait\n", {"trl": "0.28.0" if second.startswith(", vllm_g") else "0.24.0"})
    told = [one.message for one in found.findings(check) if "group for weights" in one.message]
    assert bool(told) is fires and all("port 51216, at which this one does the same" in one for one in told)


def test_launches_of_two_machines_may_meet_at_one_port(tmp_path: Path) -> None:
    text = "for h in node1 node2; do\n  ssh $h torchrun --nproc_per_node 8 --master_port 29500 grpo.py &\ndone\nwait\n"
    assert not LaunchFile(tmp_path, text, {"trl": "0.24.0"}).findings(check)


@pytest.mark.parametrize(
    ("serve", "taken", "fires"),
    [
        ("vllm serve m --port 8123", 8123, True),
        ("vllm serve m", 8000, True),
        ("vllm serve m --port 8123", 8000, False),
        ("ssh node1 vllm serve m --port 8123", 8123, False),
        ("docker run -p 9000:8123 image vllm serve m --port 8123", 8123, False),
        ("swift rollout --model m --port 8123", 8123, False),
    ],
)
def test_the_port_of_a_server_is_taken_on_this_host(tmp_path: Path, serve: str, taken: int, fires: bool) -> None:
    (case,) = LaunchFile(tmp_path, serve + "\n", {"vllm": "0.10.2", "ms-swift": "3.9.0"}).cases()
    found = judge_one(check, replace(case, host=host(listening_ports=(22, taken)))).findings
    assert [f"at port {taken}" in one.message for one in found] == ([True] if fires else [])


@pytest.mark.parametrize(
    ("head", "joined", "fires"),
    [
        ("--port=6379", '--address "$head_ip:6380"', True),
        ("", "--address=10.0.0.4:6380", True),
        ("", '--address "$head_ip:6379"', False),
        ("--port 6380", '--address="$head_ip":6380', False),
        ("--port=$port", '--address "$head_ip:6380"', False),
        ("--port=6379", '--address "$head_ip:$port"', False),
        ("--port=6379", "--address=$RAY_HEAD", False),
    ],
)
def test_further_nodes_join_ray_where_its_head_listens(tmp_path: Path, head: str, joined: str, fires: bool) -> None:
    text = (
        f'srun -N 1 -w "$head" ray start --head --node-ip-address="$head_ip" {head} --block &\n'
        f'srun -N 1 -w "$second" ray start {joined} --block &\n'
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm trainer.nnodes=2\n"
    )
    messages = [found.message for found in LaunchFile(tmp_path, text, {"verl": "0.6.1"}).findings(check)]
    assert [" at port 6380, and the head that the file starts listens at 6379" in one for one in messages] == (
        [True] if fires else []
    )


def test_which_of_two_heads_is_joined_is_open(tmp_path: Path) -> None:
    text = (
        "ray start --head --port=6379 || ray start --head --port=6381\n"
        'ssh node1 "ray start --address=10.0.0.4:6379"\n'
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.name=vllm trainer.nnodes=2\n"
    )
    assert LaunchFile(tmp_path, text, {"verl": "0.6.1"}).findings(check) == []


def test_launches_that_do_not_meet_the_same_way(tmp_path: Path) -> None:
    for text in (
        two({}, {}),
        two({"after": " &"}, {}, between="wait\n"),
        two({"port": "--master_port 29600 ", "after": " &"}, {}),
        two({"after": " &"}, {"port": "--standalone "}),
        two({"after": " &"}, {"port": "--rdzv_backend c10d --rdzv_endpoint localhost:0 "}),
        "vllm serve m --port 8000 &\n" + two({}, {"before": "# "}),
    ):
        assert LaunchFile(tmp_path, text, {}).findings(check) == []


UVICORN = """\
INFO 11-12 10:00:01 [api_server.py:1896] vLLM API server version 0.11.0
INFO:     Started server process [812]
INFO:     Application startup complete.
ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use
INFO:     Application shutdown complete.
"""


@pytest.mark.parametrize(
    ("text", "port"),
    [
        (raised("OSError", "[Errno 98] Address already in use", "vllm/entrypoints/openai/api_server.py run"), ""),
        (raised("zmq.error.ZMQError", "Address already in use (addr='tcp://127.0.0.1:5555')"), " 5555"),
        (UVICORN, " 8000"),
    ],
)
def test_a_servers_port_is_taken(text: str, port: str) -> None:
    found = logged(check, text)
    assert found.message == f"another program on this host has the port{port} already"
    assert found.fixes[0].commands == (f"ss -ltnp 'sport = :{port.strip() or 'PORT'}'",)


def test_a_sync_port_that_is_taken_is_another_check_s() -> None:
    text = raised("OSError", "[Errno 98] Address already in use", "trl/extras/vllm_client.py init_communicator")
    assert findings(check, text.replace("step()", "StatelessProcessGroup.create(host, port)")) == []


def test_the_next_port_was_free() -> None:
    assert findings(check, "INFO Port 8000 is already in use, trying port 8001\nstep 1 loss 0.1\n") == []
