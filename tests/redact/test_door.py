"""Secrets do not leave; that something was set does, and all that only looks like a secret."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import shlex
import string
import time
import urllib.parse

import pytest

from rldoctor import redact
from rldoctor.redact import columns, handed, logins, named, urls, usages
from rldoctor.redact.door import _BARE_WORD
from rldoctor.redact.readings import readings
from tests.redact.kinds import NOTATIONS

HF = "hf_" + "aB3" * 12


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    redact.begin({})


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
        ("GH_PAT", "anything"),
        ("DB_PASS", "12345"),
        ("SLACK_WEBHOOK", "https://hooks.slack.com/x"),
    ],
)
def test_a_secret_is_known_by_the_name_of_its_variable(name: str, value: str) -> None:
    assert redact.variable(name, value) == f"<removed:{name}>"
    assert redact.without_secrets({name: value, "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("IMAGE_MAX_TOKEN_NUM", "1024"),
        ("N_PASS", "8"),
        ("TRITON_API", "2"),
        ("OPENAI_API", "https://api.openai.com/v1"),
        ("JUDGE_API", "qwen2.5-72b-instruct-x1"),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "true"),
        ("EOS_TOKEN", "<|im_end|>"),
        ("HF_TOKEN", ""),
        ("PWD", "/home/me"),
        ("CUDA_VISIBLE_DEVICES", "GPU-8f6a1c2e-0b1d-4c3e-9a5f-1234567890ab"),
        ("LD_LIBRARY_PATH", "/opt/hf_transfer/lib:/usr/lib/sk-learn"),
        ("PYTHONPATH", "/src/tokenizers=fast:/runs/task-0123456789abcdefghij"),
        ("no_proxy", "localhost,127.0.0.1,.cluster.local"),
    ],
)
def test_a_variable_that_only_looks_like_a_secret_stays(name: str, value: str) -> None:
    assert redact.variable(name, value) == value
    assert redact.without_secrets({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("https_proxy", "http://me:secret@proxy:8080", "http://<removed:credentials>@proxy:8080"),
        ("HTTP_PROXY", "http://me:p@ss/w@proxy:8080", "http://<removed:credentials>@proxy:8080"),
        ("all_proxy", "me:secret@proxy:8080", "<removed:credentials>@proxy:8080"),
        ("HF_ENDPOINT", "https://mirror/hub?token=abcdef&x=1", "https://mirror/hub?token=<removed:token>&x=1"),
        ("VLLM_EXTRA", f"--model a --hf {HF} -v", "--model a --hf <removed:huggingface-token> -v"),
    ],
)
def test_a_secret_inside_a_value_is_cut_out(name: str, value: str, kept: str) -> None:
    assert redact.variable(name, value) == kept


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        (HF, "huggingface-token"),
        ("sk-proj-0123456789abcdefghij", "openai-key"),
        ("ghp_" + "a1" * 18, "github-token"),
        ("github_pat_" + "a1" * 20, "github-token"),
        ("glpat-0123456789abcdefghij", "gitlab-token"),
        ("AKIA" + "A1" * 8, "aws-key"),
        ("xoxb-0123456789-abcdef", "slack-token"),
        ("nvapi-" + "a1" * 20, "nvidia-key"),
        ("AIza" + "a1" * 18, "google-key"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "jwt"),
        ("gsk_" + "a1" * 20, "groq-key"),
        ("dckr_pat_" + "a1" * 14, "docker-token"),
    ],
)
def test_issuers_prefixes_give_tokens_away(token: str, kind: str) -> None:
    assert redact.text(f"loading with {token}, done") == f"loading with <removed:{kind}>, done"


# As the issuers write them; a hole is filled with so many hexadecimal digits (0), letters and digits (x), of one case
# (a, A).
ISSUED = """
gitlab-token GR1348941{x20} | aws-key ABSK{x80} | azure-secret {x3}8Q~{x33} | jwt ZXlK{x60}
langsmith-key lsv2_pt_{032}_{010} | kaggle-token KGAT_{032} | runpod-key rpa_{A44} | modal-token as-{x22}
together-key tgp_v1_{x43} | cerebras-key csk-{a48} | pinecone-key pcsk_{x5}_{x63} | jina-key jina_{032}{x28}
e2b-key e2b_{040} | rubygems-token rubygems_{048} | clojars-token CLOJARS_{a60} | artifactory-key AKCp{x69}
artifactory-key cmVmd{x59} | databricks-token dose{032} | grafana-token eyJrIjoi{x80}
terraform-token {x14}.atlasv1.{x67} | sendgrid-key SG.{x22}.{x43} | brevo-key xkeysib-{064}-{x16}
linear-key lin_api_{x40} | figma-token figd_{x40} | airtable-token pat{x14}.{064} | atlassian-token ATATT3xFfGF0{x180}
postman-key PMAK-{024}-{034} | doppler-token dp.pt.{x43} | 1password-key A3-{A6}-{A6}-{A5}-{A5}-{A5}-{A5}
1password-key ops_eyJ{x200} | newrelic-key NRAK-{A27} | dynatrace-token dt0c01.{A24}.{A64}
circleci-token CCIPAT_{x22}_{040} | buildkite-token bkua_{040} | harness-token pat.{x22}.{x24}.{x20}
octopus-key API-{A26} | openshift-token sha256~{x43} | tailscale-key tskey-auth-{x12}CNTRL-{x32}
defined-key dnkey-{a26}-{a52} | cloudflare-key v1.0-{024}-{0146} | heroku-key HRKU-AA{x58} | netlify-token nfp_{x40}
scalingo-token tk-us-{x48} | supabase-key sbp_{040} | supabase-key sb_secret_{x31} | planetscale-token pscale_pw_{x43}
clickhouse-key 4b1d{x38} | shippo-token shippo_live_{040} | square-token sq0atp-{x22} | easypost-key EZAK{a54}
flutterwave-key FLWSECK_TEST-{012} | duffel-token duffel_test_{x43} | facebook-token EAAM{x100} | twilio-key SK{032}
telegram-token 1234567890:AA{x33} | discord-token MT{x24}.G{x5}.{x38} | adobe-secret p8e-{a32}
frameio-token fio-u-{x64} | infracost-key ico-{x32} | intra42-secret s-s4t2ud-{064} | maxmind-key {x6}_{x29}_mmk
readme-key rdme_{a70} | settlemint-token sm_pat_{x16} | authress-key sc_{a10}.{a5}.acc_{a20}.{x40}
bitbucket-token BBDC-{x44} | contentful-token CFPAT-{x43} | fleetbase-key flb_live_{x20} | flexport-token shltm_{x40}
klaviyo-key pk_{034} | launchdarkly-key sdk-{08}-{04}-{04}-{04}-{012} | posthog-key phx_{x43} | rootly-key rootly_{064}
pubnub-key sub-c-{a8}-{a4}-{a4}-{a4}-{a12} | razorpay-key rzp_live_{x14} | salesforce-token 3MVG9{x80}
serverchan-key SCT88123T{x24} | sourcegraph-token slk_{064} | square-token EAAA{x60} | ubidots-token BBFF-{x30}
zoho-token 1000.{032}.{032} | newrelic-key NRIQ-{x32} | stripe-key pi_{x24}_secret_{x25}
robinhood-key rh-api-{08}-{04}-{04}-{04}-{012}
password-hash $6${x8}${x86} | password-hash $2y$05${x53} | password-hash $y$j9T${x22}${x43}
password-hash $apr1${x8}${x22} | password-hash $argon2id$v=19$m=65536,t=3,p=4${x22}${x43}
"""
DRAWN_FROM = {
    "0": "0123456789abcdef",
    "a": string.ascii_lowercase + string.digits,
    "A": string.ascii_uppercase + string.digits,
    "x": string.ascii_letters + string.digits,
}


@pytest.mark.parametrize("issued", re.split(r"\s*[|\n]\s*", ISSUED.strip()))
def test_every_issuer_is_known_by_its_form(issued: str) -> None:
    kind, form = issued.split(" ", 1)
    drawn = random.Random(issued)
    token = re.sub(r"\{(\w)(\d+)\}", lambda hole: "".join(drawn.choices(DRAWN_FROM[hole[1]], k=int(hole[2]))), form)
    assert redact.text(f"sent {token} there") == f"sent <removed:{kind}> there"


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("serve --api-key S3 --port 80", "serve --api-key <removed:api-key> --port 80"),
        ("serve --admin-key S3", "serve --admin-key <removed:admin-key>"),
        ("serve --api-key=S3,4;x", "serve --api-key=<removed:api-key>"),
        ("Authorization: Bearer S3", "Authorization: <removed:Authorization>"),
        ("-H 'Authorization: Bearer S3' -v", "-H 'Authorization: <removed:Authorization>' -v"),
        ("the header was Bearer S3cr3t-of-mine", "the header was Bearer <removed:bearer>"),
        ("Cookie: a=S3; b=S4", "Cookie: <removed:Cookie>"),
        ("curl -u bob:S3 http://h", "curl -u bob:<removed:password> http://h"),
        ("{'api_key': 'S3', 'max_tokens': 512}", "{'api_key': '<removed:api_key>', 'max_tokens': 512}"),
        ('{"env": {"X_PASS": "S3"}}', '{"env": {"X_PASS": "<removed:X_PASS>"}}'),
        (r'{"more": "{\"api_key\": \"S 3\"}", "n": 1}', r'{"more": "{\"api_key\": \"<removed:api_key>\"}", "n": 1}'),
        ('"api_keys": ["S3", "S4"]', '"api_keys": [<removed:api_keys>]'),
        ("['--api-key', 'S3', '--x']", "['--api-key', '<removed:api-key>', '--x']"),
        ('os.environ["WANDB_API_KEY"] = "S3"', 'os.environ["WANDB_API_KEY"] = "<removed:WANDB_API_KEY>"'),
        ("hub_token: S3\nseed: 1", "hub_token: <removed:hub_token>\nseed: 1"),
        ("- name: HF_TOKEN\n  value: S3\n- name: X", "- name: HF_TOKEN\n  value: <removed:HF_TOKEN>\n- name: X"),
        ("POSTGRES_PASSWORD=postgres", "POSTGRES_PASSWORD=<removed:POSTGRES_PASSWORD>"),
        ("password: пароль-дома", "password: <removed:password>"),
        ("wifi_password=密码", "wifi_password=<removed:wifi_password>"),
        ("hub_token=секрет", "hub_token=<removed:hub_token>"),
        ('password = "S 3"', 'password = "<removed:password>"'),
        ("postgres://user:S,3@host/db", "postgres://<removed:credentials>@host/db"),
        ("mongodb+srv://a:S/3@host/x", "mongodb+srv://<removed:credentials>@host/x"),
        ("redis://:S3@host:1/0", "redis://<removed:credentials>@host:1/0"),
        ("http://a:S3@h,http://b:S4@h", "http://<removed:credentials>@h,http://<removed:credentials>@h"),
        ("AccountName=x;AccountKey=S3/+==;End=s", "AccountName=x;AccountKey=<removed:AccountKey>;End=s"),
        ("dbname=x password=S3 host=h", "dbname=x password=<removed:password> host=h"),
        ("machine h login me password S3", "machine h login me password <removed:password>"),
        ("token=S3", "token=<removed:token>"),
    ],
)
def test_a_secret_is_found_where_its_name_stands(written: str, left: str) -> None:
    assert redact.text(written) == left
    assert redact.text(left) == left


@pytest.mark.parametrize("key", ["8f6a1c2e0b1d4c3e9a5f12345678d0ab12cd34ef", "8f6a1c2e-0b1d-4c3e-9a5f-1234567890ab"])
@pytest.mark.parametrize(
    "written",
    [
        "Incorrect API key provided: {}. You can find yours",
        "the password is: {}",
        "vastai set api-key {}",
        "secret key: {}",
        "WANDB_API_KEY\t{}",
        "rclone config create s3 s3 secret_access_key {}",
    ],
)
def test_a_key_that_looks_like_a_digest_is_one_behind_a_telling_name(key: str, written: str) -> None:
    assert key not in redact.text(written.format(key))


def test_base64_with_slashes_is_no_path() -> None:
    key = "wJ4lrXUtnF3MI/K7MDENG/bPx8fiCY9QAMPLEKEY"
    assert redact.text(f"signature: {key}") == "signature: <removed:signature>"
    path = "signature: Users/JohnDoe9/Repo2X7/Models/Qwen2B5/step_100"
    assert redact.text(path) == path


@pytest.mark.parametrize(
    "ordinary",
    [
        "max_tokens=512 tokenizer=Qwen/Qwen2.5-7B num_tokens: 12 pad_token='<|endoftext|>' eos_token: </s>",
        "prompt_key=question reward_fn_key: data_source image_key: images",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "cache_key=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "KeyError: 'model.layers.0.self_attn.q_proj.weight'",
        'File "/x/vllm/core/scheduler.py", line 702, in _schedule_running',
        "/home/u/.cache/huggingface/hub/models--Qwen--Qwen2.5/snapshots/989aa7980e4cf806f80c7fef2b1adb7bc71aa306",
        "Unexpected token: } at 5; decoded_token='Hello'; tokens/s: 1234.5",
        "export HF_TOKEN=$HF_TOKEN; HF_TOKEN is not set; api_key=os.environ['X']",
        "http://localhost:8000/v1 https://huggingface.co/org/model@main git@github.com:x/y.git",
        "git+https://github.com/x/y@abc123 ssh://git@github.com/x/y",
        'checks: {"pass": 3}, first_pass=yes, bypass: cudagraph, compass, passing=x',
        "signature: (self, x) authors = ['a'] author_email=foo@bar authentication: none",
        "key=lambda x: x, group_key=(1, 2), tensor_keys: ['input_ids'], monkey: patch, keyword=foo",
        "run-20261121_012213-abc123de",
        "basic configuration of the bearer",
        'DEFAULT_LANGUAGE_WRAPPER_KEY = "language_model"; TYPE_KEY: DisconnectMsg.TYPE, MESSAGES_KEY = "_messages"',
        '"VLLM_API_KEY": lambda: os.environ.get("VLLM_API_KEY", None), api_key: str | None = None',
        "def register(self, pm_pass: PatternMatcherPass) -> None: query_rot, query_pass = (x, y)",
        "# Lane t: token = t / 4, sub-chunk = t % 4; next token Hello; for token in tokens: token 12 of 40",
        "RAY_AUTH_MODE=disabled, VLLM_STREAM_TOKEN_THRESHOLD: int = 256, PARTITION_EXTENT_TOKENS = TGPP * BLOCK",
        "token model.layers.12.mlp.experts.101.w1, the key layers.3.self_attn.k_proj.weight, missing key lm_head",
        "the HF_TOKEN is not set; no api key was given; the password is required; set WANDB_API_KEY to log",
        "| max_tokens | 512 | pad_token | <|endoftext|> | loss | 0.5 |",
        "docker login failed; wandb login required; huggingface-cli login first; mysql -uroot; cp -p a1b2c3d4e5f6 x",
        # Frames of engines and trainers.
        "    api_key=judge_api_key, private_key_path=self._private_key_path)",
        "    if token == image_atom_token_id:",
        "    storage_key = (registration_base, mem_type)\n    token = tl.id(0).to(tl.int64)",
        'for key in ("access_key", "secret_key", "session_token"):\n    headers = {"Authorization": f"Bearer {token}"}',
        "outside the target's {window}-token window; a 512-token prompt. The kernel needs 16-token blocks",
        "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringE + 0x98 (0x7f5b1c in libc10.so)",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>",
        "Qwen2_5_VLForConditionalGeneration, kFp8Static128BlockE8M0Sym, B12xNvFp4LinearKernel, perChMaxRingLL128Bws",
        # What trackers, schedulers and hubs name things.
        "wandb: Syncing run-20261121_012213-abc123de, 3f2a9c1d; GPU-8f6a1c2e-0b1d-4c3e-9a5f-1234567890ab",
        "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567 989aa7980e4cf806f80c7fef2b1adb7bc71aa306 ray job raysubmit_4dD3Tz",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B Qwen/Qwen3-30B-A3B-Instruct-2507 unsloth/Llama-3.2-1B-bnb-4bit",
        "/tmp/ray/session_2026-11-21_01-22-13_123456_789/logs/worker-0a1b2c3d4e5f-01000000-1234.err",
        "torch.Size([8, 1024, 151936]) key_states: torch.Size([1, 8, 512, 64]) tensor(0.5, device='cuda:0')",
        "step:12 - actor/kl:0.01 - response_length/mean:512.0 - timing_per_token_ms/gen:0.12 - tokens_per_s:1234.5",
        "{'loss': 0.5, 'num_tokens': 123456.0, 'completions/mean_length': 512.0, 'entropy': 0.2, 'key=': 'x'}",
        "KV cache: 1,234,567 tokens; max_tokens=8192; tokenizer=Qwen/Qwen3-8B; pad_token_id: 151643; eos_token_id=[1]",
        "localhost:8000:x 10.0.0.1:6379 tcp://10.0.0.1:29500 NCCL_SOCKET_IFNAME=eth0 --master_port 29500 --key value",
        "$ git log: 9c1d2e3 fix the key of the cache; secrets: none; password: the one of the cluster",
        "https://wandb.ai/team/project/runs/a1b2c3d4 https://github.com/o/r/blob/main/x.py#L12 https://h/x?page=12345678",
        # Rates, what names a secret that is kept elsewhere, programs' own names.
        "reward/format_pass: 0.93 reward/auth: 0.1 pass@8: 0.83 val/pass_rate: 0.5 train_files=secret_santa/x",
        "secretName: hub-credentials\nimagePullSecrets:\n- name: regcred\nenvFrom:\n- secretRef:\n    name: a-secret",
        "valueFrom: {secretKeyRef: {name: hub-secret, key: HF_TOKEN}} imagePullSecrets: - name: regcred helper=c",
        '    password = getpass.getpass("Password: ")\n    self.api_key = api_key or os.environ.get("OPENAI_API_KEY")',
        'api_key=os.getenv("JUDGE_API_KEY", "EMPTY") export HF_TOKEN=${HF_TOKEN:?set it} JUDGE_API_KEY=your_key_here',
        '"headers[\\"Authorization\\"] = f\\"Bearer {self.api_key}\\""; EXPIRED_TOKEN = "expired_token"',
        "useradd -m me; curl -u http://x; http -a; sqlplus /nolog; net use; ossutil cp -r a b; poetry config x.y false",
        "HF_TOKEN:        required\nAPI_KEY:     see the documentation; PWD=/srv;UID=1000; pwd: /srv/verl; cwd=/srv",
        "the access key (see the documentation) is rotated; API key must be given, got None; got 'bfloat16'",
        "cache key 9f86d081884c7d659a2feaa0c55ad015; key: 3c9a0b1f2e; signature=9f86d081884c7d659a2feaa0c55ad015a3b",
        "s3://bucket/key/prefix/Users2/train42.parquet jdbc:mysql://h:3306/db jdbc:oracle:thin:@h:1521:orcl",
        # Where a secret is kept, digests in base64, a value that fills its line, what lines begin with.
        "private_key_path: /etc/ssl/x.pem; api_key_env_var=WANDB_API_KEY; token_file=~/.token",
        "ssh-ed25519 key fingerprint SHA256:uNiVztksCsDhcc0u9e8BjrJXVGDE0nPMzV6vmQ2GUtI",
        "the password is required; the password was reset; HF_TOKEN -> required; a password is 8 characters long",
        "past_key_values=None sort_key=lambda x: x[0] missing_keys=['lm_head.weight'] token-level loss: 0.412",
        "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8 ampere_bf16_s16816gemm_bf16_128x64_ldg8",
        "chatcmpl-8f3d2a1b4c5e6f708192a3b4c5d6e7f8 BlockHash(hash_value=-3498273498237498) exp_lr1e6_bs1024_n16_kl1e3",
        # What is drawn at random and told to everybody; what follows the mention of a variable.
        "chatcmpl-Bk3Jd8sKq2Lm9Xz4Wv7Yt1Nc6Pb5 call_9aQ2Lm9Xz4Wv7Yt1Nc6PbX x-request-id: req_011CQ8vTzR4mN2bK5sX7yW9p",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3xqk5zv7m2n4b6p8r1t3w5y7z9a2c4e6g8i1k3m5o7 me@laptop",
        "model.path=/m/run-$WANDB_API_KEY trainer.projectname=grpo2x8y16z-Qwen3-8B ${HF_TOKEN} data7/gsm8k-v2x4",
        "the password of the cluster is required; api_key: >-\n  ${KEY}\n  model_of_8b\nwandb:\n  project: key-value",
        '{"log": "{\\"m\\": \\"token: str | None = None, api_key: Optional[str] = None):\\"}"}',
        # What is public, addresses of locks, a proxy with its port, sections and settings without secrets.
        "public key: age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kudlsevcs9fr8yd",
        "Lock key: ipc:///tmp/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
        "curl -x proxy.corp:3128 https://hf.co; pad_token:\n    value: <|endoftext|>\n密码 是 必填项",
        # Columns, what is said of a line or shown below it, words that end like secrets.
        "step,token_acc,loss\n1,0.52,0.3\ntoken,id,logprob\nĠanswer,1234,-0.1\nid,token,logprob\n0,The2x4y,-0.12",
        "key,shape,dtype\nmodel.layers.0.self_attn.q_proj.weight,4096x4096,bf16\ntest,pass\nt1,true\npass,fail\n12,3",
        "| key | value |\n|---|---|\n| max_tokens | 4096 |\n\nToken\tCount\n<eos>\t12\npassword\nis required",
        "x = 3  # the key length\nrun-20261124_101112-3v9qk2xa  # wandb run, api key from netrc\nabcdef01  # cache key",
        "$ echo $HF_HOME\n/data/.cache/huggingface\n>>> tokenizer.pad_token\n'<|endoftext|>'\n(Pdb) p key\n'input_ids'",
        "expected key\nactor_rollout_ref.rollout.tensor_model_parallel_size\nno such key\nmodels--Qwen--Qwen2.5-7B",
        "vllm/vllm-openai:v0.8.5@sha256:7c211433f020 mailto:bob@x.com file:train.py:12:bob@x.com 3:10:00:bob@node7",
        "hotkey, turkey, monkey, bypass, compass, NOPASSWD: ALL, OLDPWD=/srv/run2, numtokens=512, secrets: inherit",
        "[secrets]\n[rank0]: done\n[actor]\nlr = 1e-6; add-mask::$TOKEN; register_hooks_for_activation_2x8",
        # What is switched off, who decides, where a key is kept, a job's task and rank; keys in other languages.
        "authorization: disabled",
        "authentication: none, authorization: rbac, tls: off; webhook: disabled; webhooks are not configured",
        "ssh_key: ~/.ssh/id_ed25519; credentials: /etc/hadoop/conf/me2024.keytab; job:trainer:rank12-of-16@node07",
        "Schlüssel: actor_rollout_12; ключ: checkpoint_120; clave: layers2x4y; senha: obrigatória",
        "Authorization: required for this endpoint",
        "the run is identified by 'grpo-qwen3-8b-lr1e6'; we expect 16 replicas to send \"weights_v12_x1\"",
        "key: Token::END cache-key: Linux-pip-7c211433f020a1b2 ldap:group:rl-team2024@corp redis:6379:db0",
        # What points to a secret; how a program is used; pictures; who opens something in a sentence.
        '-H "Authorization: Bearer $OPENAI_API_KEY"\nAuthorization: Bearer <token>\npassword: !vault',
        "https://$USER:$TOKEN@github.com/corp/verl.git //registry.corp:5000/a@b // see bob@corp: x",
        "usage: vllm serve [--api-key API_KEY] [--hf-token [HF_TOKEN]] [--tokenizer TOKENIZER]",
        "data:image/jpeg;base64,/9j/4AAQ" + "SkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwg",
        '{"image": "iVBORw0KGgo'
        + "AAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
        + '"}',
        "the secret: use a smaller learning rate; lang_sk=0.41, sk_buff, task_sk: none",
        # Sentences about secrets, and versions behind a URL's path.
        "password authentication is disabled; the API key was not set; session token expired; HF token was not found",
        "storage key is checkpoints/step_1200; ray key is actor_8f3c2b1a; hub key 'model-00001' was not found; SK=en",
        'git+ssh://git@github.com/c/r.git@v2.0.1 f"postgresql://{user}:{password}@{host}/{db}"',
        'docker login -u ci --password-stdin registry.corp; next token is \'layer12\'; path="/data/""run2024x"',
        'model = "Qwen2.5-7B-x1"\nkey = model\nhub = {"model": model}\napi_key = keys[model]\ntoken = model.eos',
        '"CredentialsError", "TokenFileError"; f(password=password); self.password = password or ""',
        "headers={'Authorization': f'Bot {self.token}'}; https://discuss.python.org/t/pep-625-file-name-of-a-source/4686",
        "cache:\n  key: 5d41402abc4b2a76b9719d911017c592",
        "wifi: on / disabled; account: lab / project: grpo; account on gpu01: lab / members; log in: ok / failed: 0",
        "kubectl get secret hf\nNAME   TYPE   DATA\nhf     Opaque 1",
        "the second pass will show\nflash_attn_2_fwd_bf16",
        "az account show\n2f1c7a9e-77aa-4e1b-9c0d-8a7b6c5d4e3f",
        "cat > tokenizer.cfg <<EOF\nvocab151936size\nEOF\ncat > token_stats.env <<EOF\nmean_len=1200x7\nEOF",
        'printf "passed %s tests\\n" logs12; printf \'path=%s\\n\' runs2024x7; printf "token %s" step1200x7',
        # What a variable says to be a name, addresses, what stands in for a secret, a store's keys, an answer's tag.
        'name = "run-7Gk2Qz9PxW4L"; token = name',
        '"access_token_url": "https://github.com/login/oauth/access_token"; token_endpoint=/oauth/token2x4y6',
        'echo "HF_TOKEN is ${HF_TOKEN:+set}"; [[ -n $WANDB_API_KEY ]]; [[ -n qwen3-8b-n16 ]]',
        "redis:\n  key: cache-8fK2mQ9xZtR4vB7n",
        'etag: W/"5f3-kQ8mZk1vT7bN2rW8sY4uE6aG0h"',
        '{"msg":"loaded the token"}\n{"log":"the password is reset","n":1}\n{"msg":"api_key"}\n{"msg":"step_1000"}',
        "unknown key rollout_n_gpus_16_per_node2; token: x -> y; key or 'lm_head'; snmpwalk -c public h; key: Str(a2b)",
        # Styles, placeholders, types in docstrings, keys that a program makes, lists of what there is.
        "styles = {\n    Token: '#f8f8f2',\n    Keyword: '#ff79c6',",
        'login(token="hf_***"); InferenceClient(api_key="hf_..."); token=\'hf_xxx\'; OPENAI_API_KEY=sk-...',
        "password (bool): hide what is typed\n    passwd : str, optional\n        of the account",
        'master_key = f"master_{name}"; hub_token = f"{self.prefix}/{rank}"; Params: TypeAlias = Union[int]',
        "CredentialAuthRotateParam: TypeAlias = Union[",
        'Literal["project_id", "user_id", "api_key_id", "model"]; `user_id`, `api_key_id`, `model` or any',
        "__all__ = [\"BatchCancelledWebhookEvent\", \"Data\"]; ['ssh_authorized_key', 'sshkey', 'stage']",
        'b"CERTIFICATE",\nb"PRIVATE KEY",\nb"PUBLIC KEY",\nb"DSA PRIVATE KEY",\nb"DH PARAMETERS",',
        "api_key_ids: Filter to usage by specific API keys",
        "The value is a Workspace ID (for example, `wrkspc_011CZkZaBF1tNoB5wlCeusgy`).",
    ],
)
def test_ordinary_texts_come_through(ordinary: str) -> None:
    assert redact.text(ordinary) == ordinary


def test_a_private_key_goes_with_all_its_lines_and_their_number_stays() -> None:
    key = ["-----BEGIN PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7bq5", "c2VjcmV0c2VjcmV0", "-----END PRIVATE KEY-----"]
    assert redact.lines(["before", *key, "after"]) == ["before", *["<removed:private-key>"] * 4, "after"]
    assert redact.lines([*key[:-1], "an error"]) == [*["<removed:private-key>"] * 3, "an error"]
    assert redact.lines([*key[1:], "after"]) == [*["<removed:private-key>"] * 3, "after"]


def test_words_of_a_command_are_known_before_they_are_joined() -> None:
    command = ["serve", "--api-key", "-a b", "-H", "X-Auth-Token: S3", "DB_PASS=a b,c", "--max-tokens", "5"]
    assert " ".join(redact.argv(command)) == (
        "serve --api-key <removed:api-key> -H X-Auth-Token: <removed:X-Auth-Token> "
        "DB_PASS=<removed:DB_PASS> --max-tokens 5"
    )


def test_a_tree_is_known_by_its_keys() -> None:
    tree = {
        "env": [{"name": "HF_TOKEN", "value": "S3"}, {"name": "SEED", "value": "1"}],
        "a": {"api_key": ["S3", "S4"], "n": 3, "eos_token": "</s>"},
        "command": ("serve", "--api-key", "S3"),
        "wandb": {"key": "5d41402abc4b2a76b9719d911017c592"},
        "cache": {"key": "7d793037a0760186574b0282f2f435e7"},
    }
    assert redact.tree(tree) == {
        "env": [{"name": "HF_TOKEN", "value": "<removed:HF_TOKEN>"}, {"name": "SEED", "value": "1"}],
        "a": {"api_key": ["<removed:api_key>"] * 2, "n": 3, "eos_token": "</s>"},
        "command": ("serve", "--api-key", "<removed:api-key>"),
        "wandb": {"key": "<removed:wandb_key>"},
        "cache": {"key": "7d793037a0760186574b0282f2f435e7"},
    }
    assert redact.tree(tree["env"][1]) is tree["env"][1]  # type: ignore[index]


def test_a_secret_once_known_is_removed_wherever_it_stands() -> None:
    secret = 'quite"secret/1234567'
    redact.begin({"HF_TOKEN": secret})
    assert redact.text(f"login({secret})") == "login(<removed:HF_TOKEN>)"
    assert redact.text(f"login({json.dumps(secret)})") == 'login("<removed:HF_TOKEN>")'
    assert redact.text("login(quite%22secret%2F1234567)") == "login(<removed:HF_TOKEN>)"
    assert redact.text(f"a {secret[:12]}\n  {secret[12:]} b") == "a <removed:HF_TOKEN>\n  <removed:HF_TOKEN> b"
    assert redact.tree(["S0mething-else", "token=S0mething-else"]) == ["<removed:token>", "token=<removed:token>"]


def test_a_secret_of_several_lines_ends() -> None:
    secret = "S0mething-of-two\n7-lines"
    redact.begin({"HF_TOKEN": secret})
    assert redact.text(f"a {secret} b") == "a <removed:HF_TOKEN>\n<removed:HF_TOKEN> b"


def test_a_secret_is_known_in_one_case() -> None:
    redact.begin({"HF_TOKEN": "Zq81xxYY77wwVV55"})
    assert redact.text("ZQ81XXYY77WWVV55 and zq81xxyy77wwvv55") == "<removed:HF_TOKEN> and <removed:HF_TOKEN>"


def test_a_line_of_a_private_key_is_known_alone() -> None:
    line = "hkfBmudE27kIZ1b1e8yF042aTzeowd4rvYpFqyMmE3lhadnqLkEFnyr/fjukmwuD"
    redact.learn(f"-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----\n".encode())
    assert redact.text(f"Hydra refuses {line}: one word") == "Hydra refuses <removed:private-key>: one word"


def test_a_private_key_whose_lines_were_joined_ends_with_its_last() -> None:
    line = "hkfBmudE27kIZ1b1e8yF042aTzeowd4rvYpFqyMmE3lhadnqLkEFnyr/fjukmwuD"
    said = f"(rank 7) -----BEGIN PRIVATE KEY----- (rank 7) {line} (rank 7) {line} (rank 7) it failed"
    assert redact.text(said) == "(rank 7) <removed:private-key> (rank 7) it failed"


@pytest.mark.parametrize("secret", ["Zq81xxyy77wwvv55", "Zq81xxyy"])
def test_a_folder_may_be_called_by_a_name_and_a_value(secret: str) -> None:
    said = f"OSError: /home/u/.cache/token={secret}/model/x not found"
    assert redact.text(said) == "OSError: /home/u/.cache/token=<removed:token>/model/x not found"
    assert redact.text(f'search for "{secret}/model/x not found"') == 'search for "<removed:token>/model/x not found"'


def test_one_of_several_cookies_is_known_alone() -> None:
    redact.text("Set-Cookie: PHPSESSID=Zq81xxyy77wwvv55; Path=/; theme=dark-mode; HttpOnly")
    assert redact.text("session Zq81xxyy77wwvv55 in dark-mode") == "session <removed:Set-Cookie> in dark-mode"


def test_what_stands_before_a_path_is_remembered_alone() -> None:
    assert redact.text("token=Zq81xxyy77wwvv55/x") == "token=<removed:token>"
    assert redact.text("401 for Zq81xxyy77wwvv55") == "401 for <removed:token>"


def test_a_pass_phrase_is_known_with_and_without_its_first_word() -> None:
    redact.remember_phrase("note", ["walrus", "quickly", "dances", "zebra44Q"])
    assert redact.text("walrus quickly dances zebra44Q") == "<removed:note>"
    assert redact.text("unrecognized arguments: quickly dances zebra44Q") == "unrecognized arguments: <removed:note>"
    assert redact.text("a walrus dances, zebra44Q") == "a walrus dances, <removed:note>"


def test_an_ordinary_word_is_not_remembered() -> None:
    redact.begin({"RAY_REDIS_PASSWORD": "vllm", "DB_PASS": "12345678", "X_SECRET": "/etc/secret/file"})
    text = "vllm serve /etc/secret/file --port 12345678"
    assert redact.text(text) == text


def test_names_that_programs_use_are_not_remembered() -> None:
    redact.begin(
        {"A_SECRET": "language_model", "B_TOKEN": "PatternMatcherPass", "C_PASSWORD": "head_2", "D_PAT": "qwen2"}
    )
    text = "language_model of PatternMatcherPass, head_2 of qwen2"
    assert redact.text(text) == text


def test_lines_are_learned_from() -> None:
    redact.learn(b"step 1\nusing api_key='Zq81-xxyy-77' for the judge\nstep 2\n")
    assert redact.text("401 for Zq81-xxyy-77") == "401 for <removed:api_key>"


def test_a_secret_is_known_in_every_form_in_which_programs_write_it() -> None:
    secret = "p'q\"r/s+t&1234"
    redact.begin({"HF_TOKEN": secret})
    forms = [json.dumps({"x": secret}), json.dumps(json.dumps(secret)), repr([secret]), html.escape(secret)]
    forms += [shlex.quote(secret), urllib.parse.quote(secret), urllib.parse.urlencode({"x": secret})]
    for form in forms:
        assert "1234" not in redact.text(f"before {form} behind"), form


@pytest.mark.parametrize("before", ["", "a", "me:", "a:bc", '{"token": "'])
def test_a_secret_is_known_in_base64_wherever_it_begins(before: str) -> None:
    secret = "Zq81xxyy77wwvv55"
    redact.begin({"HF_TOKEN": secret})
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for behind in ("", "?", ">>"):
            held = encode(f"{before}{secret}{behind}".encode()).decode()
            left = redact.text(f"data: {held} end")
            assert "<removed:HF_TOKEN>" in left and left.endswith(" end")
            # What is left of it is what it shares with its neighbours: less than a group at each side.
            assert len(left.replace("<removed:HF_TOKEN>", "")) <= len(held) - 18 + len("data:  end")


@pytest.mark.parametrize(
    "divided",
    [
        "got {} \\\n    {} back",
        "│ got {} │\n│ {} back │",
        "[rank0]: got {}\n[rank0]: {} back",
        "(Worker pid=7, ip=1.2.3.4) got {}\n(Worker pid=7, ip=1.2.3.4) {} back",
        '{{"log": "got {}\\n  {} back"}}',
    ],
)
def test_a_secret_is_known_where_lines_divide_it(divided: str) -> None:
    redact.begin({"HF_TOKEN": "Zq81xxyy77wwvv55"})
    for at in (4, 8, 12):
        left = redact.text(divided.format("Zq81xxyy77wwvv55"[:at], "Zq81xxyy77wwvv55"[at:]))
        assert left == divided.format("<removed:HF_TOKEN>", "<removed:HF_TOKEN>")


def test_a_text_that_was_cut_off_shows_no_piece_of_a_secret() -> None:
    redact.begin({"HF_TOKEN": "Zq81xxyy77wwvv55"})
    for shown in ("got Zq81xxyy77w...", "got Zq81xxyy\u2026", "...yy77wwvv55 was refused", "Zq81xx\\\n  yy77wwvv55"):
        left = redact.text(shown)
        assert "<removed:HF_TOKEN>" in left and "xx" not in left and "yy" not in left


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120])
def test_a_secret_goes_on_where_a_line_was_full(width: int) -> None:
    drawn = random.Random(width)
    secret = "".join(drawn.choices(DRAWN_FROM["x"], k=3 * width // 2))
    said = f"export OPENAI_API_KEY={secret}"
    wrapped = "\n".join(said[at : at + width] for at in range(0, len(said), width))
    shown = redact.text(f"{wrapped}\nstep_1000 of 2000")
    assert not any(secret[at : at + 8] in shown for at in range(len(secret) - 7))
    assert shown.endswith("\nstep_1000 of 2000") and shown.count("\n") == wrapped.count("\n") + 1


def test_a_secret_goes_on_where_a_line_was_full_with_the_rank_that_speaks() -> None:
    said = f"{'x ' * 20}--redis-password Fig73harbor19SADDLE42q --port 6379"
    wrapped = "\n".join(f"[rank0]: {said[at : at + 71]}" for at in range(0, len(said), 71))
    shown = redact.text(wrapped)
    assert "harbor" not in shown and "SADDLE" not in shown and "6379" in shown


@pytest.mark.parametrize(
    "before",
    [
        "2026-11-27 05:00:01.123 | INFO     | judge:init:42 - ",
        "\x1b[32m2026-11-27 05:00:01.123\x1b[0m | \x1b[1mINFO    \x1b[0m | \x1b[36mjudge\x1b[0m:42 - ",
        "\x1b[36m(TaskRunner pid=812, ip=10.0.0.4)\x1b[0m ",
    ],
)
def test_a_block_is_read_behind_what_a_logger_puts_before_its_lines(before: str) -> None:
    said = ["kind: Secret", "stringData:", "  tok: Fig73harbor19SADDLE42q", "api_key: |", "  Elm73harbor19SADDLE42q"]
    shown = redact.text("\n".join(f"{before}{line}" for line in said))
    assert "harbor" not in shown and shown.count("\n") == 4


@pytest.mark.parametrize("before", ["", "[rank3]: ", "(TaskRunner pid=812) ", "2026-11-27T05:35:37.1Z stderr F "])
def test_lines_are_read_that_each_stand_in_a_record(before: str) -> None:
    for first, second in (
        (r'{"log":"- name: HF_TOKEN\n","stream":"stdout"}', r'{"log":"  value: {}\n","stream":"stdout"}'),
        ('{"level":"info","ts":1732.1,"msg":"judge_password: |"}', '{"level":"info","ts":1732.2,"msg":"  {}"}'),
    ):
        redact.begin({})
        shown = redact.text(f"{before}{first}\n{before}{second.replace('{}', 'Elm7harbor')}")
        start, end = second.split("{}")
        assert "harbor" not in shown and shown.startswith(f"{before}{first}\n{before}{start}") and shown.endswith(end)


def test_a_secret_goes_on_behind_a_shells_backslash() -> None:
    assert redact.text("export HF_TOKEN=abra\\\ncadabra\\\nx7 && run") == (
        "export HF_TOKEN=<removed:HF_TOKEN>\\\n<removed:HF_TOKEN>\\\n<removed:HF_TOKEN> && run"
    )
    assert "python train.py" in redact.text("HF_TOKEN=abracadabra77 \\\n    python train.py")


def test_what_a_report_quotes_and_cuts_off_shows_no_piece_of_a_secret() -> None:
    redact.remember("sign", "Zq81xxyyPKWV7731uv")
    assert redact.text("line 3 has “sign=Zq81xxyyPK”, but no end") == "line 3 has “sign=<removed:sign>”, but no end"
    assert redact.text("“PKWV7731uv” has no beginning") == "“<removed:sign>” has no beginning"


def test_lines_are_read_behind_the_sign_that_a_test_gives_them() -> None:
    refused = (
        "api_key\n  Input should be a number [type=int_type, input_value='Timber70quartz71SADDLE68q', input_type=str]"
    )
    assert "Timber70" not in redact.text("\n".join(f"E       {line}" for line in refused.split("\n")))


def test_the_proof_of_a_header_is_known_without_its_header() -> None:
    redact.text('Authorization: Digest username="bob", realm="training-lab", response="8f14e45fceea167a"')
    clean = redact.text("response=8f14e45fceea167a realm=training-lab")
    assert clean == "response=<removed:Authorization> realm=training-lab"


def test_a_key_is_told_for_which_something_failed() -> None:
    key = "8f14e45fceea167a5a36dedd4bea2543f2f1c9aa"
    assert key not in redact.text(f"wandb.errors.AuthenticationError: API key verification failed for {key}")
    assert redact.text("the admin password was changed for worker-01-02").endswith("for worker-01-02")


def test_a_line_that_was_broken_before_its_equals_sign_is_one() -> None:
    line = f"{'cmd ' * 11}os.environ['HUGGING_FACE_HUB_TOKEN']"
    assert redact.text(f"{line:80.80}\n = 'Walnut41beacon81MARBLE50q'").endswith("= '<removed:HUGGING_FACE_HUB_TOKEN>'")


def test_so_much_of_a_secret_that_it_is_no_word_goes_wherever_it_stands() -> None:
    redact.begin({"HF_TOKEN": "Zq81xxyy77wwvv55", "DB_PASSWORD": "correcthorse battery7"})
    assert redact.text('search "got Zq81xxyy77ww", raised by x') == 'search "got <removed:HF_TOKEN>", raised by x'
    assert redact.text("so xxyy77wwvv55, twice") == "so <removed:HF_TOKEN>, twice"
    redact.begin({"DATABASE": ""}, ["x"])
    redact.text("redis://default:walnut-river-44@h")
    assert "walnut" not in redact.text('search "redis://default:walnut-river-", raised by x')
    redact.text('authorization_url = "https://login.example.com/oauth/x7Gh2kLm9QwErTy3"')
    assert redact.text("at https://login.example.com/oauth/ now") == "at https://login.example.com/oauth/ now"
    assert redact.text("correcthorse is a word, Zq81xxyy one of eight") == (
        "correcthorse is a word, Zq81xxyy one of eight"
    )


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("hub_token", True),
        ("token", True),
        ("wandb-api-key", True),
        ("hubApiKey", True),
        ("ssl_keyfile_password", True),
        ("secret_access_key", True),
        ("pad_token", False),
        ("prompt_key", False),
        ("max_num_batched_tokens", False),
        ("ssl_keyfile", False),
    ],
)
def test_the_words_that_make_a_secret_of_an_option(name: str, secret: bool) -> None:
    assert redact.is_secret_option(name, "open sesame") is secret
    assert not redact.is_secret_option(name, "") and not redact.is_secret_option(name, "$NAME")
    assert redact.text(f"{name}=sesame") == (f"{name}={redact.mark(name)}" if secret else f"{name}=sesame")


# Long enough to be cut within the secret.
NAMED = "defaultdict(<class 'str'>, {'HF_TOKEN': 'Canary65hdrb63PJBNA18q'})"


@pytest.mark.parametrize("held", [{NAMED: "hunter2hunter2"}, {"name": NAMED, "value": "hunter2hunter2"}])
def test_a_mark_tells_no_secret_that_is_in_the_name(held: dict[str, str]) -> None:
    shown = str(redact.tree(held))
    assert "Canary" not in shown and "hunter2" not in shown


def test_a_mark_has_no_name_that_is_a_secret() -> None:
    told = redact.text("Hydra refuses apikey: Canary23cbmd75XGKPW56q': it takes each override as one word")
    assert "Canary23" not in told and "<removed:apikey>" in told


def test_the_letters_of_a_name_in_a_secret_make_no_name_of_it() -> None:
    redact.begin({})
    assert redact.text("index-url=https://Canary71gxau21BMVPW25q:@h/simple") == (
        "index-url=https://<removed:credentials>@h/simple"
    )


def test_blocks_that_stand_far_to_the_right_are_read_at_once() -> None:
    """Code in a traceback, or a deep YAML file: each line may be cut into indent and rest in one way only."""
    block = "".join(f"{' ' * 24}else:\n{' ' * 28}# of kind {at}\n{' ' * 28}token = Name.Kind\n" for at in range(40))
    began = time.process_time()
    assert redact.text(block) == block
    assert time.process_time() - began < 2


def test_only_its_own_form_gives_a_bare_word_away() -> None:
    """None of the other searches finds anything in one, whatever it is made of: they are not asked."""
    said = random.Random(3)
    parts = sorted({*re.findall(r"\w+", " ".join(NOTATIONS)), "hunter2", "a1b2c3d4e5f6a7b8c9", "密码", HF})
    for _ in range(2000):
        word = "".join(said.choice(parts) + said.choice(("", "-", "--", ".", "_", "...", "-_")) for _ in range(4))
        if _BARE_WORD.fullmatch(word):
            assert [reading.text for reading in readings(word)] == [word]
            assert not [find for find in (named, columns, usages, logins, urls, handed) if [*find.find(word)]], word
