"""Secrets do not become facts; that something was set does."""

from __future__ import annotations

import pytest

from rldoctor.facts.redact import REDACTED, is_secret_option, plain, redact_text, redact_variable, without_secrets

HF = "hf_" + "aB3" * 12


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", HF),
        ("HUGGING_FACE_HUB_TOKEN", "anything"),
        ("VLLM_API_KEY", "letmein"),
        ("RAY_REDIS_PASSWORD", "12345"),
        ("SLURM_JWT", "x.y.z"),
        ("MODELSCOPE_CREDENTIALS_PATH", "/home/me/.credentials"),
        ("wandb_apikey", "0123abc"),
        ("VLLM_CLIENT_SECRET", "s"),
    ],
)
def test_a_secret_is_known_by_its_name(name: str, value: str) -> None:
    assert redact_variable(name, value) == REDACTED
    assert without_secrets({name: value, "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("IMAGE_MAX_TOKEN_NUM", "1024"),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "true"),
        ("HF_TOKEN", ""),
        ("PWD", "/home/me"),
        ("CUDA_VISIBLE_DEVICES", "GPU-8f6a1c2e-0b1d-4c3e-9a5f-1234567890ab"),
        ("LD_LIBRARY_PATH", "/opt/hf_transfer/lib:/usr/lib/sk-learn"),
        ("PYTHONPATH", "/src/tokenizers=fast:/runs/task-0123456789abcdefghij"),
        ("no_proxy", "localhost,127.0.0.1,.cluster.local"),
    ],
)
def test_what_only_looks_like_a_secret_stays(name: str, value: str) -> None:
    assert redact_variable(name, value) == value
    assert without_secrets({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("https_proxy", "http://me:secret@proxy:8080", "http://<redacted>@proxy:8080"),
        ("HTTP_PROXY", "http://me:p@ss/w@proxy:8080", "http://<redacted>@proxy:8080"),
        ("all_proxy", "me:secret@proxy:8080", "<redacted>@proxy:8080"),
        ("HF_ENDPOINT", "https://mirror/hub?token=abcdef&x=1", "https://mirror/hub?token=<redacted>&x=1"),
        ("VLLM_EXTRA", f"--model a --hf {HF} -v", "--model a --hf <redacted> -v"),
    ],
)
def test_a_secret_inside_a_value_is_cut_out(name: str, value: str, kept: str) -> None:
    assert redact_variable(name, value) == kept


@pytest.mark.parametrize(
    "token",
    [
        HF,
        "sk-proj-0123456789abcdefghij",
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1" * 20,
        "glpat-0123456789abcdefghij",
        "AKIA" + "A1" * 8,
        "nvapi-" + "a1" * 20,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    ],
)
def test_issuers_prefixes_give_tokens_away(token: str) -> None:
    assert redact_text(f"loading with {token}, done") == f"loading with {REDACTED}, done"


def test_settings_inside_json_are_found_quoted_and_escaped() -> None:
    text = r'{"env_vars": {"WANDB_API_KEY": "abc def", "max_tokens": 512, "extra": "{\"api_key\": \"x y\"}"}}'
    kept = r'{"env_vars": {"WANDB_API_KEY": <redacted>, "max_tokens": 512, "extra": "{\"api_key\": <redacted>}"}}'
    assert redact_text(text) == kept


def test_bytes_that_are_no_text_come_as_escapes() -> None:
    assert plain(b"caf\xe9".decode("utf-8", "surrogateescape")) == r"caf\xe9"
    assert plain("café") == "café"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("hub_token", True),
        ("token", True),
        ("wandb-api-key", True),
        ("ssl_keyfile_password", True),
        ("secret_access_key", True),
        ("pad_token", False),
        ("prompt_key", False),
        ("max_num_batched_tokens", False),
        ("ssl_keyfile", False),
    ],
)
def test_the_words_that_make_a_secret_of_an_option(name: str, secret: bool) -> None:
    assert is_secret_option(name, "open sesame") is secret
    assert not is_secret_option(name, "true") and not is_secret_option(name, "")
    assert redact_text(f"{name}=sesame") == (f"{name}={REDACTED}" if secret else f"{name}=sesame")
