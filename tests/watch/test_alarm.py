"""A webhook hears of a finding, and nothing that it does holds up the watch or learns a secret."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from rldoctor.errors import InputError
from rldoctor.model import Finding, Grade, Severity
from rldoctor.watch import alarm

KEY = "hf_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7"
FINDING = Finding(
    code="RLD501",
    name="reward-variance-zero",
    severity=Severity.ERROR,
    grade=Grade.OBSERVED,
    message=f"the rewards of every group are equal; HF_TOKEN={KEY}",
)


class Hook(BaseHTTPRequestHandler):
    """Answers with the status that its path names; ``/slow`` answers late."""

    heard: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        asked = self.path.partition("?")[0].strip("/")
        if asked == "slow":
            time.sleep(3)
        self.send_response(int(asked) if asked.isdigit() else 200)
        self.send_header("Location", "/200")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Hook, "heard", [])
    monkeypatch.setenv("no_proxy", "*")
    served = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_address[1]}"
    served.shutdown()
    served.server_close()


def test_it_gets_a_line_for_people_and_the_finding_without_secrets(
    server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    alarm.post(f"{server}/200", "run.log", FINDING)
    (heard,) = Hook.heard
    assert heard["text"].startswith("run.log: error RLD501: the rewards of every group are equal")
    assert heard["finding"]["code"] == "RLD501"
    assert KEY not in json.dumps(heard)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("path", ["/500", "/404", "/302"])
def test_what_it_answers_is_said_and_no_redirect_is_followed(
    server: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    alarm.post(f"{server}{path}?key=secret-of-the-hook", "run.log", FINDING)
    said = capsys.readouterr().err
    assert f"answered {path[1:]}" in said and "secret-of-the-hook" not in said
    assert len(Hook.heard) == 1


def test_one_that_does_not_answer_is_left_alone(
    server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(alarm, "POST_LIMIT", 0.3)
    alarm.post(f"{server}/slow", "run.log", FINDING)
    assert "did not take RLD501" in capsys.readouterr().err


def test_one_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    alarm.post("http://localhost:1/secret-of-the-hook", "run.log", FINDING)
    said = capsys.readouterr().err
    assert "the webhook at http://localhost did not take RLD501" in said
    assert "secret-of-the-hook" not in said


@pytest.mark.parametrize("url", ["", "ftp://x/y", "file:///etc/passwd", "http://", "http://a b/", "http://[x/"])
def test_what_is_no_address_is_refused_beforehand(url: str) -> None:
    with pytest.raises(InputError, match="--webhook"):
        alarm.address(url)


def test_only_the_host_is_ever_printed() -> None:
    assert alarm.address("https://user:word@hooks.example:8443/T0/B0/key?x=1") == "https://hooks.example"
