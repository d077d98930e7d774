"""RLD607: nobody answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.processes.server_unreachable import check

from rldoctor.api import Case, Outcome, Severity
from rldoctor.case import Node, RayInstance
from rldoctor.judge import judge_one
from rldoctor.logs.triage import triage_text
from tests import cases
from tests.checks import launches
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY, REWARD_RAISES
from tests.logs.raising import traceback

WAITING = "2026-11-20 20:4{}:00 - trl.extras.vllm_client - INFO - Server is not up yet. Retrying in 2.0 seconds...\n"
REFUSED = (
    "HTTPConnectionPool(host='127.0.0.1', port=8000): Failed to establish a new connection: [Errno 111] "
    "Connection refused"
)


def test_a_framework_has_its_own_command_for_the_server() -> None:
    text = WAITING.format(1) + raised(
        "ConnectionError",
        "The vLLM server can't be reached at http://0.0.0.0:8000 after 9 seconds.",
        "/opt/venv/lib/python3.11/site-packages/axolotl/train.py train",
    )
    assert finding(check, text).fixes[0].commands == ("axolotl vllm-serve CONFIG.yaml --port PORT",)


def test_trls_client_gives_up() -> None:
    text = (
        "The vLLM server can't be reached at http://127.0.0.1:8123 after 15 seconds. Make sure the server is running."
    )
    found = finding(check, raised("requests.exceptions.ConnectionError", text))
    assert "http://127.0.0.1:8123 within 15 s" in found.message
    assert any("trl vllm-serve" in command for fix in found.fixes for command in fix.commands)


def test_a_log_that_ends_waiting() -> None:
    assert "5 attempts" in finding(check, "".join(WAITING.format(i) for i in range(5))).message
    assert findings(check, "".join(WAITING.format(i) for i in range(5)) + HEALTHY) == []


def test_a_refused_connection_names_host_and_port() -> None:
    assert "127.0.0.1:8000" in finding(check, raised("urllib3.exceptions.MaxRetryError", REFUSED)).message
    hub = REFUSED.replace("127.0.0.1", "huggingface.co")
    assert findings(check, raised("urllib3.exceptions.MaxRetryError", hub)) == []


ASKED = (
    'INFO:     127.0.0.1:43316 - "GET /health HTTP/1.1" 200 OK\n'
    'INFO:     127.0.0.1:43320 - "POST /init_communicator{} HTTP/1.1" {}\n'
)


def test_a_server_that_lives_on_and_has_no_routes_for_weights() -> None:
    assert "no routes for weight sync" in finding(check, ASKED.format("", "404 Not Found")).message
    assert "no routes for weight sync" in finding(check, ASKED.format("/", "404 Not Found")).message
    assert findings(check, ASKED.format("/", "200 OK")) == []
    assert findings(check, ASKED.format("", "404 Not Found") + ASKED.format("/", "200 OK")) == []
    size = 'INFO:     172.17.0.1:43212 - "GET /get_world_size/ HTTP/1.1" 404 Not Found\n'
    assert "no routes for weight sync" in finding(check, size).message
    assert findings(check, size + size.replace("404 Not Found", "200 OK")) == []


REQUESTS = ("requests/adapters.py send",)


@pytest.mark.parametrize(
    ("error", "asks"),
    [
        (f"requests.exceptions.ConnectionError: {REFUSED}", "rewards/judge.py score"),
        ("openai.APIConnectionError: Connection error.", "rewards/judge.py score"),
        (
            "requests.exceptions.ConnectTimeout: HTTPConnectionPool(host='10.1.1.1', port=8080): Max retries exceeded "
            "with url: /run_code (Caused by ConnectTimeoutError(<HTTPConnection object>, 'Connection to 10.1.1.1 timed "
            "out. (connect timeout=10)'))",
            "verl/utils/reward_score/sandbox_fusion/judge.py call_sandbox_api",
        ),
    ],
)
def test_a_server_that_the_reward_asks_is_no_rollout_server(error: str, asks: str) -> None:
    found = finding(check, traceback(error, asks, *REQUESTS))
    assert "judge.py asks" in found.message
    assert not any("vllm-serve" in command for fix in found.fixes for command in fix.commands)


def test_the_frameworks_own_client_asks_the_rollout_server() -> None:
    client = "trl/extras/vllm_client.py generate"
    found = finding(check, traceback(f"requests.exceptions.ConnectionError: {REFUSED}", client, *REQUESTS))
    assert any("trl vllm-serve" in command for fix in found.fixes for command in fix.commands)


def test_no_ray_to_join() -> None:
    text = "Could not find any running Ray instance. Please specify the one to connect to by setting `--address` flag"
    found = finding(check, raised("ConnectionError", text))
    assert any("ray start" in command for fix in found.fixes for command in fix.commands)


CLIENT = "/opt/venv/lib/python3.11/site-packages/trl/extras/vllm_client.py update_named_param"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("requests.exceptions.ConnectionError", "('Connection aborted.', RemoteDisconnected('Remote end closed "
         "connection without response'))"),
        ("requests.exceptions.ConnectionError", "('Connection aborted.', ConnectionResetError(104, 'Connection reset "
         "by peer'))"),
        ("httpx.RemoteProtocolError", "Server disconnected without sending a response."),
        ("aiohttp.client_exceptions.ServerDisconnectedError", "Server disconnected"),
        ("aiohttp.client_exceptions.ClientOSError", "[Errno 104] Connection reset by peer"),
    ],
)  # fmt: skip
def test_a_server_that_hung_up(kind: str, text: str) -> None:
    assert finding(check, raised(kind, text, CLIENT)).message.startswith("the rollout server closed the connection")
    judge = finding(check, raised(kind, text, "/home/user/rl/judge.py score"))
    assert judge.message.startswith("the server that judge.py asks (a reward model, a judge or a tool) closed")
    assert findings(check, raised(kind, f"{text} for url: https://huggingface.co/api/models/m", CLIENT)) == []


@pytest.mark.parametrize("place", ["huggingface_hub/file_download.py", "datasets/load.py", "wandb/sdk/sender.py"])
def test_a_hub_or_tracker_that_hung_up_is_no_server_of_the_run(place: str) -> None:
    text = "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))"
    where = f"/opt/venv/lib/python3.11/site-packages/{place} get"
    assert findings(check, raised("requests.exceptions.ConnectionError", text, where)) == []


RETRIES = (
    "WARNING:urllib3.connectionpool:Retrying (Retry(total=2)) after connection broken by 'ProtocolError('Connection "
    "aborted.', ConnectionResetError(104, 'Connection reset by peer'))': /reward",
    "retry 1 of 3 after ClientOSError: [Errno 104] Connection reset by peer",
    "WARNING HTTPSConnectionPool(host='telemetry.example.org', port=443): Max retries exceeded with url: /batch/ "
    '(Caused by NameResolutionError("<urllib3.connection.HTTPSConnection object at 0x7f>: Failed to resolve '
    "'telemetry.example.org' ([Errno -3] Temporary failure in name resolution)\"))",
)


@pytest.mark.parametrize("line", RETRIES)
def test_what_a_client_says_and_does_not_raise_ended_nothing(line: str) -> None:
    codes = [found.code for found in triage_text(f"{line}\n{HEALTHY}{REWARD_RAISES}").findings]
    assert codes == ["RLD902"]


def test_a_name_that_does_not_resolve() -> None:
    told = (
        "HTTPConnectionPool(host='judge', port=8000): Max retries exceeded with url: /v1 (Caused by {}: Failed to "
        "{} ([Errno -2] Name or service not known)"
    )
    for cause, what in (
        ('NameResolutionError("<urllib3.connection.HTTPConnection object at 0x7f>', "resolve 'judge'"),
        (
            "NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f>",
            "establish a new connection: [Errno -3]",
        ),
    ):
        found = finding(check, raised("requests.exceptions.ConnectionError", told.format(cause, what)))
        assert found.message.startswith("the name judge of the server")


PROXY: dict[str, Any] = {"placement__mode": "server", "env__http_proxy": "http://10.1.1.9:3128"}
SERVER: dict[str, Any] = {"placement__listen_port": 8000, "process__background": True}


def test_a_proxy_before_the_server() -> None:
    # https://github.com/modelscope/ms-swift/issues/5545
    found = launches.finding(check, **PROXY, placement__server_host="127.0.0.1", env__no_proxy="localhost")
    assert found.message.startswith("http_proxy is set and 127.0.0.1 is not excepted")
    assert found.fixes[0].edits[0].value == "localhost,127.0.0.1"


@pytest.mark.parametrize(
    ("host", "exceptions"),
    [
        ("127.0.0.1", "localhost,127.0.0.1"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("node3.cluster.local", ".cluster.local"),
        ("node3.cluster.local", "cluster.local, example.org"),
        ("10.0.0.7", "*"),
    ],
)
def test_hosts_that_are_excepted(host: str, exceptions: str) -> None:
    assert launches.quiet(check, **PROXY, placement__server_host=host, env__no_proxy=exceptions)
    assert launches.quiet(check, **PROXY, placement__server_host=host, env__NO_PROXY=exceptions)


def test_hosts_that_only_look_excepted() -> None:
    for host, exceptions in (
        ("127.0.0.1", "10.0.0.0/8"),
        ("mycluster.local", "cluster.local"),
        ("0.0.0.0", "localhost"),
    ):
        assert launches.finding(check, **PROXY, placement__server_host=host, env__no_proxy=exceptions), host


def test_who_asks_nobody_over_http() -> None:
    assert launches.quiet(check, **{**PROXY, "placement__mode": "colocate"}, placement__server_host="127.0.0.1")
    assert launches.quiet(check, placement__mode="server", env__https_proxy="http://p:1", placement__server_host="h")
    assert launches.quiet(check, **PROXY)
    assert "10.0.0.7 is not" in launches.finding(check, **PROXY, placement__server_url="http://10.0.0.7:8000").message


def test_a_server_at_another_port() -> None:
    # https://github.com/modelscope/ms-swift/issues/6034
    found = launches.finding(check, server=SERVER, placement__mode="server", placement__server_port=8602)
    assert found.message == "the rollout server listens at port 8000, and the trainer asks port 8602"
    assert found.fixes[0].edits[0].value == 8000
    result = launches.judged(check, server=SERVER, placement__mode="server", placement__server_port=8000)
    assert result.outcome is Outcome.PASS
    assert launches.quiet(check, server=SERVER, placement__mode="server", placement__server_port=[8001, 8000])


def test_a_server_that_listens_for_itself_alone() -> None:
    server = {**SERVER, "placement__listen_host": "127.0.0.1"}
    plan: dict[str, Any] = {"placement__mode": "server", "placement__server_port": 8000}
    assert (
        "comes to 10.0.0.7" in launches.finding(check, server=server, **plan, placement__server_host="10.0.0.7").message
    )
    assert launches.quiet(check, server=server, **plan, placement__server_host="localhost")


def test_a_time_limit_in_the_wrong_unit() -> None:
    plan: dict[str, Any] = {"placement__mode": "server", "placement__server_port": 8000}
    found = launches.finding(check, server=SERVER, **plan, placement__server_timeout=10.0)
    assert found.severity is Severity.WARNING
    assert launches.quiet(check, server=SERVER, **plan, placement__server_timeout=240.0)


def test_the_proxy_is_excepted_in_the_file(tmp_path: Path) -> None:
    text = (
        "export http_proxy=http://10.1.1.9:3128\n"
        "accelerate launch --num_processes 1 train.py --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.7\n"
    )
    file = launches.LaunchFile(tmp_path, text, {"trl": "0.21.0", "vllm": "0.10.0"})
    assert len(file.findings(check)) == 1
    assert "export no_proxy=10.0.0.7\n" in file.mend(check)
    assert file.findings(check) == []
    assert launches.LaunchFile(tmp_path, "unset http_proxy\n" + text[39:], {"trl": "0.21.0"}).findings(check) == []


def test_prime_rls_words_while_it_waits() -> None:
    # https://github.com/PrimeIntellect-ai/prime-rl/pull/1630
    line = "WARNING Inference server was not reached after {} seconds (Error: All connection attempts failed)\n"
    text = "".join(line.format(seconds) for seconds in (10, 20, 30))
    assert "still waiting" in finding(check, text).message
    assert findings(check, text + "SUCCESS Inference pool ready\n" * 5) == []


def test_a_reward_server_that_is_still_asked_when_the_log_ends() -> None:
    # https://github.com/TideDra/lmm-r1/issues/30
    line = (
        "(remote_rm_fn_ray pid=92259) INFO 03-11 19:53:{} remote_rm_utils.py:24] Request error, please check: "
        "HTTPConnectionPool(host='127.0.0.1', port=5000): Max retries exceeded with url: /get_reward (Caused by "
        "NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f4ec87685e0>: Failed to establish a new "
        "connection: [Errno 111] Connection refused'))\n"
    )
    tried = "".join(line.format(second) for second in (36, 37, 38))
    assert "127.0.0.1:5000, which the trainer still asked for /get_reward" in finding(check, tried).message
    assert findings(check, tried + "{'loss': 0.1, 'step': 4}\n" * 9) == []


def test_a_server_that_is_none_for_rollouts() -> None:
    # https://github.com/huggingface/trl/issues/3587
    error = 'Exception: Request failed: 404, {"detail":"Not Found"}'
    client = "trl/extras/vllm_client.py init_communicator"
    assert "no rollout server" in finding(check, traceback(error, client)).message
    assert findings(check, traceback(error, "openai/_client.py post")) == []


def asked(message: str = "", **records: Any) -> Case:
    """What asking a running Ray cluster came to."""
    error = {"type": "ConnectionError", "message": message}
    job = {"ended": "raised" if message else "done", "records": {"version": "2.60.0", **records}, "error": error}
    return Case(observations={"ray_cluster": {"cluster": job}})


def test_a_ray_address_at_which_nothing_answers() -> None:
    (found,) = judge_one(check, asked("nothing answers at head:6379 (Connection refused)")).findings
    assert found.severity is Severity.WARNING
    assert "does not answer: nothing answers at head:6379 (Connection refused)" in found.message


def test_a_ray_that_wants_a_token() -> None:
    refused = "InvalidAuthToken: Token authentication is enabled but no authentication token was found"
    (found,) = judge_one(check, asked(address="head:6379", problems=[f"actors: {refused}"])).findings
    assert "the Ray cluster at head:6379 asks for a token" in found.message


@pytest.mark.parametrize(
    "said",
    [
        "the cluster at head:6379 asks for a token, and RAY_AUTH_MODE is not token here: Ray refuses to join",
        "the cluster at head:6379 does not take the token that is found in RAY_AUTH_TOKEN",
        "RAY_AUTH_MODE is token, and there is no token in RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token",
    ],
)
def test_a_ray_that_does_not_let_the_probe_in(said: str) -> None:
    (found,) = judge_one(check, asked(f"ConnectionError: {said}", address="head:6379")).findings
    assert "asks for a token" in found.message and said in found.evidence[0].text


def test_several_rays_of_which_auto_takes_any() -> None:
    running = ["10.0.0.1:43211", "10.0.0.1:6379"]
    (found,) = judge_one(check, asked("ConnectionError: several Rays run on this machine", several=running)).findings
    assert "2 Rays run on this machine (10.0.0.1:43211, 10.0.0.1:6379)" in found.message


def test_a_ray_that_answers_and_one_that_is_not_understood() -> None:
    assert judge_one(check, asked(address="head:6379", nodes=[], actors=[])).outcome is Outcome.PASS
    assert judge_one(check, asked("AttributeError: no GlobalState", address="head:6379")).outcome is Outcome.NOT_CHECKED


PPO = "python3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8 actor_rollout_ref.model.path=m\n"
LAST = "10.0.0.1:6379"


@pytest.mark.parametrize(
    ("before", "node", "ports", "environment", "fires"),
    [
        ("", {"ray_last": LAST}, (22,), {}, True),
        ("", {"ray_last": LAST, "ray": (RayInstance(pid=9, address="10.0.0.1:6380"),)}, (6380,), {}, True),
        ("", {"ray_last": LAST, "ray": (RayInstance(pid=9, address=LAST),)}, (), {}, False),
        ("", {"ray_last": LAST}, (6379,), {}, False),
        ("", {}, (), {}, False),
        ("", {"ray_last": LAST}, (), {"RAY_ADDRESS": "10.0.0.2:6379"}, False),
        ("ray start --head --port 6380\n", {"ray_last": LAST}, (), {}, False),
        ("ray job submit -- ", {"ray_last": LAST}, (), {"RAY_ADDRESS": "http://h:8265"}, False),
        ("#!/bin/bash\n#SBATCH --nodes=1\n", {"ray_last": LAST}, (), {}, False),
    ],
)
def test_the_address_that_an_ended_ray_left(
    tmp_path: Path, before: str, node: dict[str, Any], ports: tuple[int, ...], environment: dict[str, str], fires: bool
) -> None:
    (case,) = launches.LaunchFile(tmp_path, before + PPO, {"verl": "0.7.0"}, environment=environment).cases()
    case = replace(case, host=cases.host(listening_ports=ports), node=Node(host="n", time=0.0, **node))
    found = judge_one(check, case).findings
    assert [LAST in one.message for one in found] == [True] * fires


def test_where_another_ray_runs_nothing_is_stopped(tmp_path: Path) -> None:
    (case,) = launches.LaunchFile(tmp_path, PPO, {"verl": "0.7.0"}).cases()
    running = RayInstance(pid=9, address="10.0.0.1:6380")
    node = Node(host="n", time=0.0, ray_last=LAST, ray=(running,))
    (found,) = judge_one(check, replace(case, host=cases.host(), node=node)).findings
    edits = [edit.value for fix in found.fixes for edit in fix.edits]
    assert edits == [running.address, "local"] and not any(fix.commands for fix in found.fixes)


def test_a_framework_that_starts_a_ray_where_none_answers(tmp_path: Path) -> None:
    text = "uv run examples/run_grpo_math.py cluster.num_nodes=1 cluster.gpus_per_node=8 policy.model_name=m\n"
    (case,) = launches.LaunchFile(tmp_path, text, {"nemo-rl": "0.4.0"}).cases()
    case = replace(case, host=cases.host(listening_ports=()), node=Node(host="n", time=0.0, ray_last=LAST))
    assert judge_one(check, case).findings == ()


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"])
def test_a_router_without_an_engine(status: str) -> None:
    said = "httpx.HTTPStatusError: Server error '{}' for url 'http://10.4.3.34:3938/{}'\n"
    assert status[:3] in finding(check, said.format(status, "generate")).message
    assert not findings(check, said.format(status, "search"))


def test_the_route_tells_whose_server_is_asked() -> None:
    # https://github.com/axolotl-ai-cloud/axolotl/issues/2528
    said = (
        "HTTPConnectionPool(host='0.0.0.0', port=8000): Max retries exceeded with url: {} (Caused by NewConnectionError"
        "('<urllib3.connection.HTTPConnection object at 0x2>: Failed to establish a new connection: [Errno 111] "
        "Connection refused'))"
    )
    kind = "requests.exceptions.ConnectionError"
    assert "judge" not in finding(check, raised(kind, said.format("/health/"))).message
    assert "judge" in finding(check, raised(kind, said.format("/score"))).message
