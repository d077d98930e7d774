"""A password that people think out is removed whole, however it is quoted; what a sentence says of one stays."""

from __future__ import annotations

import html
import json
import re
import shlex
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor import redact

# One notation to a line, each with a hole that says how it quotes.
NOTATIONS = Path(__file__).with_name("phrases.txt").read_text("utf-8").strip("\n").split("\n")
PASSWORDS = (
    "walrus quickly dances tango",
    "correct horse battery staple",
    'it\'s a "Grünspan", kiwi & fig',
    "quokka",
    "74920183",
)
_HOLE = re.compile(r"\{@([a-z]+)\}")


def _in_quotes(quote: str, embedded: str) -> Callable[[str], str]:
    return lambda value: f"{quote}{value.replace(quote, embedded)}{quote}"


def _word(value: str) -> str | None:
    return None if " " in value else value


QUOTED: dict[str, Callable[[str], str | None]] = {
    "line": str,
    "plain": lambda value: None if '"' in value else value,
    "word": _word,
    "single": _in_quotes("'", "'\\''"),
    "shell": shlex.quote,
    "double": _in_quotes('"', '\\"'),
    "ansi": lambda value: f"$'{value.replace(chr(39), chr(92) + chr(39))}'",
    "backslash": lambda value: re.sub(r"([ \"'&,])", r"\\\1", value),
    "json": json.dumps,
    "repr": repr,
    "bytes": lambda value: repr(value.encode()),
    "sql": _in_quotes("'", "''"),
    "csv": _in_quotes('"', '""'),
    "libpq": _in_quotes("'", "\\'"),
    "odbc": lambda value: f"{{{value}}}",
    "xml": html.escape,
    "url": lambda value: urllib.parse.quote(value, safe=""),
    "form": urllib.parse.quote_plus,
    "pgpass": lambda value: value.replace(":", "\\:"),
}


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    redact.begin({})


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_is_removed_whole_however_it_is_quoted(password: str) -> None:
    told = []
    for notation in NOTATIONS:
        hole = _HOLE.search(notation)
        assert hole is not None, notation
        value = QUOTED[hole[1]](password)
        if value is None:
            continue
        written = notation.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\").replace(hole[0], value)
        redact.begin({})
        left = urllib.parse.unquote(redact.text(written))
        if any(word in left for word in re.findall(r"[^\W_]{4,}", password)):
            told.append(written)
    assert told == []


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("PASSWORD='it'\"'\"'s me' python train.py", "PASSWORD='<removed:PASSWORD>' python train.py"),
        ("DB_PASSWORD=quokka python train.py --lr 1e-6", "DB_PASSWORD=<removed:DB_PASSWORD> python train.py --lr 1e-6"),
        ("password: walrus dances tango # prod\nseed: 1", "password: <removed:password> # prod\nseed: 1"),
        ("<password>walrus dances</password><port>1</port>", "<password><removed:password></password><port>1</port>"),
        ("login('bot', 'quokka', timeout=3)", "login('bot', '<removed:password>', timeout=3)"),
        ("Server=h;PWD={a b};Database=m", "Server=h;PWD={<removed:pwd>};Database=m"),
        ("GET /x?password=a%26b&n=1", "GET /x?password=<removed:password>&n=1"),
        ("<wsse:Password Type='x'>a b</wsse:Password>", "<wsse:Password Type='x'><removed:Password></wsse:Password>"),
        ("E  assert password != 'quokka'", "E  assert password != '<removed:password>'"),
        ('{"Name": "/prod/password", "Value": "a b"}', '{"Name": "/prod/password", "Value": "<removed:password>"}'),
        ("client.username_pw_set('u', 'quokka')", "client.username_pw_set('u', '<removed:password>')"),
        ("the keystore pass is quokka", "the keystore pass is <removed:pass>"),
        ("Admin Pass: quokka", "Admin Pass: <removed:Admin-Pass>"),
        ("db --password your --port 3", "db --password <removed:password> --port 3"),
        ("mysql -pquokka metrics", "mysql -p<removed:password> metrics"),
    ],
)
def test_what_stands_behind_a_password_stays(written: str, left: str) -> None:
    assert redact.text(written) == left


@pytest.mark.parametrize(
    "ordinary",
    """
password: must not be empty
password: Field required [type=missing, input_value={}, input_type=dict]
BAD PASSWORD: The password is shorter than 8 characters
passwd: password updated successfully
if password != expected_password: raise AuthError
Password for 'https://bot@git.corp':
mysql -h db -u root -p metrics < dump.sql
mysqladmin -u root -p status
openssl enc -d -aes-256-cbc -pass env:PW -in x
  --password TEXT  Password for basic auth.  [env var: X_PASSWORD]
MountVolume.SetUp failed for volume "creds" : secret "s3-creds" not found
kubectl patch deploy x -n ml -p '{"spec": {"replicas": 2}}'
second pass: "reduce"
First pass: prefill of 512 prompts
Optimizer pass is skipped on this rank
PASS: test_rollout_worker on all ranks
--api-key is ignored when VLLM_API_KEY is set
--hf-token option is deprecated, use --token
fusion pass: noop
custom_pass: "RMSNormQuantFusionPass"
fields = ["username", "password", "email"]
invalid choice: 'password' (choose from 'password', 'token', 'none')
{"type": "token", "value": "Hello"}
{"field": "lr", "value": 1e-6}
session_tokens: 4096
"token": 151645
auth: scram-sha-256
runs are identified by 'exp-7'
api.login(user, password)
password=[REDACTED]
# Do not pass 'self' as callback to 'finalize'; pass `{"type": "approximate"}`
password rotation policy: 90 days
passing a password via stdin is safer
password-less sudo is needed
gpg --passphrase-fd 0
git clone https://bot@git.corp/x
pass: 12 of 13 tests
PASS=1
PASS=12 FAIL=0 SKIP=3
pass: 12/13
passwd: files systemd
["passwd: files systemd"]
Please set the password with --password or PASSWORD
1st pass: tokenise; 2nd pass: pack
password:\n  type: string\n  minLength: 8
auth: ["basic", "bearer"]
redis: user:password pairs are refused
password: expired yesterday
password: incorrect for this user
password: wrong length
ssh ada@gpu-7 (password required)
user ada (password expired)
the login page (password reset)
auth error for model:7b-instruct@main
docker:dind login failed
verl:0.5.0 auth failed
INFO auth: user ada logged in as ada / team rl
login as admin / root with sudo
basic auth: user:password
auth: ["read", "write"]
parser.add_argument("--user", "password", "help")
token:\n  eos_token
--api-key sets VLLM_API_KEY
password = self.password or ""
model, hf_token = "Qwen/Qwen3-8B", os.environ["HF_TOKEN"]
user, password = password, user
read -s -p "Password: " password; export PGPASSWORD="$password"
extras = {"password": ["argon2-cffi==23.1.0"], "token": "1.2.3rc1"}
""".strip("\n").split("\n"),
)
def test_what_is_said_of_passwords_stays(ordinary: str) -> None:
    assert redact.text(ordinary) == ordinary


@pytest.mark.parametrize(
    "line",
    r'''
creds = f"{login}:{password}".encode(encoding)
__all__ = ["close_credentials", "async_close_credentials", "has_async_close"]
    """Async `close_credentials`: awaits the call."""
    private_key: CertificateIssuerPrivateKeyTypes,
    server_credentials: grpc.ServerCredentials,
        "cookies": {"mode": "denylist", "terms": terms},
token = self.stream.current
token = TOKEN_BLOCK_BEGIN
token = -1
# Pass any additional kwargs to `__post_init__` and let the object
# counting handles most cleanup immediately, so 1 pass is sufficient.
_SENSITIVE_ARG_FIELDS = frozenset({"api_key", "hf_token", "watermark_config"})
HTTPBasicAuthHandler(password_mgr=auth)
b64encode(b":".join((username, password))).strip()
headers["authorization"] = f"Key {api_key}"
login, account, password = auth_from_netrc
    secret_name: str = "wandb"; secret_key: str = "api-key"
password_hash = hashlib.sha256(password.encode()).hexdigest()
cookie = request.cookies.get("session")
    password: bool,
    HAS_PASS: tl.constexpr,
judge_key: answer
'''.strip("\n").split("\n"),
)
def test_lines_of_libraries_stay(line: str) -> None:
    assert redact.text(line) == line


def test_a_docstring_below_a_signature_stays() -> None:
    source = 'def refresh(self) -> AccessToken:\n    """Exchange it for a new one.\n\n    Args:\n    """'
    assert redact.text(source) == source


def test_what_is_below_a_name_and_says_what_it_is_for_stays() -> None:
    """In docstrings, in help, in YAML whose key has more below it."""
    for written in (
        "Args:\n    password:\n        Plain text that the server asks for.\n    api_key:\n        Key to use.\n",
        "password:\n  length: 12\n  policy: strong\n",
        "if not password:\n    raise ValueError(message)\n",
        "secrets:\n  - hub\n",
        "token:\nstep 1\n",
    ):
        assert redact.text(written) == written


@pytest.mark.parametrize(
    "written",
    [
        "password {}",
        "x\n  password {}\ndone",
        "login bot\npassword {}",
        "password {}\nuser bot",
        "host h\n password {}",
    ],
)
def test_a_word_alone_behind_the_word_password_is_one(written: str) -> None:
    assert redact.text(written.format("quokkaharbor")) == written.format("<removed:password>")


@pytest.mark.parametrize("said", ["authentication", "plaintext", "placeholder", "confirmation", "entry", "complexity"])
def test_a_word_that_says_which_password_is_none(said: str) -> None:
    assert redact.text(f"x\npassword {said}\ny") == f"x\npassword {said}\ny"


def test_what_stands_behind_a_password_below_its_name_stays() -> None:
    shown = redact.text("db:\n  password:  # of the pool\n    walrus dances  # mine\n  port: 5432\n")
    assert shown == "db:\n  password:  # of the pool\n    <removed:password>  # mine\n  port: 5432\n"


def test_a_list_of_names_over_lines_is_no_table() -> None:
    source = '    "password",\n    "server_hostname",\n    "assert_hostname",\n'
    assert redact.text(source) == source
