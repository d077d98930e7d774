"""Programs are given secrets where their usage says so, and nowhere else."""

from __future__ import annotations

import pytest

from rldoctor import redact

SECRET = "open-sesame77"


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    redact.begin({})


@pytest.mark.parametrize(
    "command",
    [
        "sshpass -p {} ssh worker1 nvidia-smi",
        "sshpass -p{} ssh worker1 nvidia-smi",
        "sshpass -p '{}' ssh worker1 nvidia-smi",
        "['sshpass', '-p', '{}', 'ssh', 'worker1']",
        '"sshpass", "-p", "{}", "ssh"',
        "docker login \\\n    -u ci -p {} \\\n    registry.corp",
        "echo {} | docker login -u ci --password-stdin registry.corp",
        "gh auth login --with-token <<< {}",
        "echo '{}' | sudo -S apt install x",
        "echo 'root:{}' | chpasswd",
        "curl -sSuci:{} https://svc",
        "curl --user=ci:{} https://svc",
        "curl -su ci:'{}' https://svc",
        "curl -b session={} https://svc",
        "kubectl get secret hf -o jsonpath='{{.data.token}}' | base64 -d\n{}\n",
        "$ gh auth token\n{}",
        "gcloud auth application-default print-access-token\n{}",
        "tos.TosClientV2('AKLTx', '{}', 'h')",
        "printf 'HF_TOKEN=%s\\n' {} >> .env",
        "mc --quiet alias set lab http://minio:9000 minio {}",
        "poetry config --local http-basic.corp ci {}",
        "lftp -u ci,{} ftp://nas",
        "smbclient //nas/ckpt -U ci%{}",
        "openssl enc -d -aes-256-cbc -pass pass:{} -in x",
        "net use Z: '\\\\nas\\ckpt' /user:ci {}",
        "wpa_passphrase lab {}",
        "vault kv put secret/hub note={}",
        "wandb login --relogin --host https://wandb.corp {}",
    ],
)
def test_a_program_is_given_a_secret(command: str) -> None:
    shown = redact.text(command.format(SECRET))
    assert SECRET not in shown
    assert "<removed:" in shown


def test_a_word_of_a_command_is_known_for_one_where_it_stands_alone() -> None:
    """As a bundle keeps the options of a launch and their values."""
    said = {"given": [{"key": "-pass", "value": "pass:Wunderbar1"}, {"key": "-b", "value": "JSESSIONID=ab12x"}]}
    assert redact.argv(["openssl", "rsa", "-passin", "pass:walrus"]) == [
        "openssl",
        "rsa",
        "-passin",
        "<removed:passin>",
    ]
    shown = redact.tree(said)["given"]
    assert [one["value"] for one in shown] == ["pass:<removed:password>", "JSESSIONID=<removed:JSESSIONID>"]
    for kept in ("pass: 12", "pass:warmup", "pass:3"):
        assert redact.text(kept) == kept


@pytest.mark.parametrize(
    "command",
    [
        "docker run -p 8000:8000 --name ci vllm/vllm-openai",
        "mysql -h db -P 3306 -u root",
        "docker login registry.corp",
        "wandb login",
        "curl -u $CI_USER:$CI_PASSWORD https://svc",
        "sshpass -p $PASSWORD ssh worker1",
        "sshpass -e ssh -p 2222 worker1",
        "mkdir -p /data/run77 && unzip -q data.zip",
        "echo run77-start | tee log.txt",
        "echo stage77-done | sudo tee -a log.txt",
        "mc ls lab/ckpt/step_1200",
        "vault kv get secret/hub",
        "vllm serve LTAIbigmodel7b/checkpoint-1200",
        "kubectl get secret hf\nsecret/hf",
        "gh auth token\n>>> done",
        "sed -i 's/lr=.*/lr=1e-6/' token.yaml",
        "netstat -p tcp4567 | grep LISTEN",
    ],
)
def test_what_only_resembles_it_stays(command: str) -> None:
    assert redact.text(command) == command
