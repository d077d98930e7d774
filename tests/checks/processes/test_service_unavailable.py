"""RLD611: trackers without a key, judges that refuse."""

from __future__ import annotations

import pytest
from rldoctor_checks.processes.service_unavailable import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import HEALTHY

NO_KEY = "api_key not configured (no-tty). call wandb.login(key=[your_api_key])"
STEPS = HEALTHY.replace("DONE\n", "")


@pytest.mark.parametrize(
    "text",
    [
        raised("wandb.errors.errors.UsageError", NO_KEY),
        raised("wandb.errors.UsageError", NO_KEY),
        f"wandb: ERROR {NO_KEY}\n",
        f"(TaskRunner pid=412) wandb: ERROR {NO_KEY}\n",
    ],
)
def test_a_tracker_has_no_key(text: str) -> None:
    found = finding(check, text)
    assert "no valid key" in found.message
    assert [command for fix in found.fixes for command in fix.commands] == [
        "wandb login --verify",
        "export WANDB_MODE=offline",
    ]


def test_a_tracker_is_not_reached() -> None:
    text = raised("wandb.errors.errors.CommError", "Run initialization has timed out after 90.0 sec.")
    assert "export WANDB_MODE=offline" in [c for fix in finding(check, text).fixes for c in fix.commands]


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        ("swanlab.error.KeyFileError", "api key not found", "SwanLab"),
        ("mlflow.exceptions.MlflowException", "API request to http://mlflow:5000 failed", "MLflow"),
        ("openai.AuthenticationError", "Error code: 401 - {'error': 'Incorrect API key'}", "refuses the key"),
        ("openai.RateLimitError", "Error code: 429 - {'error': 'Rate limit reached'}", "refuses more requests"),
    ],
)
def test_other_services(kind: str, message: str, said: str) -> None:
    report = triage_text(raised(kind, message, "/home/user/rl/rewards.py judge"))
    assert report.findings[0].code == "RLD611"
    assert said in report.findings[0].message


@pytest.mark.parametrize(
    "text",
    [
        f"wandb: ERROR {NO_KEY}\n" + HEALTHY,
        STEPS + "wandb: Network error (ConnectionError), entering retry loop.\n" + HEALTHY,
        raised(
            "ValueError", "the step is behind the last one", "/opt/venv/lib/python3.11/site-packages/wandb/run.py f"
        ),
    ],
)
def test_quiet(text: str) -> None:
    assert findings(check, text) == []
