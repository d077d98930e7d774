"""RLD607: nobody answers."""

from __future__ import annotations

from rldoctor_checks.processes.server_unreachable import check

from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY

WAITING = "2026-11-20 20:4{}:00 - trl.extras.vllm_client - INFO - Server is not up yet. Retrying in 2.0 seconds...\n"
REFUSED = (
    "HTTPConnectionPool(host='127.0.0.1', port=8000): Failed to establish a new connection: [Errno 111] "
    "Connection refused"
)


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


def test_no_ray_to_join() -> None:
    text = "Could not find any running Ray instance. Please specify the one to connect to by setting `--address` flag"
    found = finding(check, raised("ConnectionError", text))
    assert any("ray start" in command for fix in found.fixes for command in fix.commands)


def test_a_server_that_hung_up() -> None:
    text = "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))"
    assert "closed the connection" in finding(check, raised("requests.exceptions.ConnectionError", text)).message
