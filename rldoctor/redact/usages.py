"""How programs are given secrets on their command line, as their own usage says it.

A row has the words that name a program and its command, then what stands before the secret, in the usual signs. ``a|b``
are spellings of one word; ``-p`` takes its value with or without a space, ``-p+`` without, ``--pass`` behind a space or
``=``; words in capitals stand for anything, ``*`` for a part of a word, ``...`` for other words between, ``-...`` for
options alone.
``SECRET`` is a secret whatever it is, ``SECRET?`` where it looks like one, ``< SECRET`` is what the program reads
from its standard input, and ``> SECRET`` what it prints in the line below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rldoctor.expressions import expression
from rldoctor.records import dataclass
from rldoctor.redact.names import is_nothing, looks_made
from rldoctor.redact.spans import Span
from rldoctor.redact.values import whole

_USAGES = r"""
sshpass -... -p SECRET
sshpass -P WORD -p SECRET
mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump -p+ SECRET
mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump -p SECRET?
mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport|twine|couchbase-cli|cqlsh|beeline|hdbsql -p SECRET
hadoop credential -value SECRET
7z|7za|7zr|7zz|rar|unrar -p SECRET
redis-cli -a|--pass SECRET
zip|unzip|sqlcmd|bcp|ipmitool -P SECRET
isql WORD WORD SECRET?
kadmin -P|-w SECRET
ssh-keygen -N|-P SECRET
plink|pscp|psftp -pw SECRET
openssl enc -k SECRET
openssl ... pass:SECRET
keytool|jarsigner -storepass|-keypass|-srcstorepass|-deststorepass SECRET
ossutil|ossutil64|obsutil -i|-k SECRET
coscmd config -s SECRET
rclone obscure SECRET
huggingface-cli -t SECRET
ldapsearch|ldapadd|ldapmodify|ldapdelete|ldapwhoami|ldappasswd -w SECRET
net user WORD SECRET
net use ... /user:USER SECRET
net use ... \\* SECRET
cmdkey ... /pass:SECRET
xfreerdp|xfreerdp3|wlfreerdp ... /p:SECRET
rdesktop -p SECRET
snmpwalk|snmpget|snmpset|snmpbulkwalk|snmptrap -A|-X SECRET
snmpwalk|snmpget|snmpset|snmpbulkwalk|snmptrap -c SECRET?
wpa_passphrase WORD SECRET
nmcli password SECRET
az keyvault --value SECRET
aws ssm --value SECRET
aws secretsmanager --secret-string SECRET
htpasswd -*b* WORD WORD SECRET
rabbitmqctl add_user|change_password|authenticate_user WORD SECRET
skopeo|buildah|crictl|podman --creds|--src-creds|--dest-creds USER:SECRET
smbclient|rpcclient|net -U|--user USER%SECRET
lftp|ncftp -u USER,SECRET
curl -*u|--user|-U|--proxy-user USER:SECRET
curl -b|--cookie NAME=SECRET
curl -E|--cert FILE:SECRET
ttyd -c|--credential USER:SECRET
curl -x|--proxy USER:SECRET@
http|https|xh|xhs -a|--auth USER:SECRET
http|https|xh|xhs bearer -a|--auth SECRET?
useradd|usermod -p SECRET
docker|podman|skopeo|helm|az|oc|nerdctl|buildah|oras|crane login -p SECRET
mc alias set WORD WORD WORD SECRET
mc config host add WORD WORD WORD SECRET
clearml-init --key SECRET
vastai set api-key SECRET
hatch publish -a|--auth SECRET
pulumi config set ... --secret WORD SECRET
gh secret set -b|--body SECRET
gcloud auth activate-refresh-token WORD SECRET
poetry config ... pypi-token.* SECRET
poetry config ... http-basic.* WORD SECRET
npm|pnpm config set ... *_authToken|*_auth|*_password SECRET
sqlplus ... USER/SECRET
ansible-vault encrypt_string SECRET?
vault unwrap|unseal ... SECRET?
vault kv put WORD *=SECRET?
wandb|swanlab|hf|huggingface-cli|modelscope|comet|neptune|clearml|npm|twine|vault login ... SECRET?
kubectl|oc create secret ... --from-literal NAME=SECRET
--password-stdin|--passphrase-fd|chpasswd|kinit|vncpasswd|su < SECRET
login|--with-token|--stdin|cryptsetup|age < SECRET?
gh secret set < SECRET?
sshfs ... password_stdin < SECRET?
docker|podman secret create < SECRET?
ngc config set < SECRET?
base64 -*d|-*D|--decode < SECRET?
sudo -*S < SECRET
kubectl|oc get secret|secrets > SECRET?
gcloud auth ... print-access-token|print-identity-token|print-refresh-token > SECRET?
aws ecr|codeartifact get-login-password|get-authorization-token > SECRET?
aws secretsmanager|ssm get-secret-value|get-parameter > SECRET?
az account get-access-token > SECRET?
az keyvault secret show > SECRET?
gh|hf|glab auth token > SECRET?
vault kv get > SECRET?
vault read|print > SECRET?
pass|secret-tool show|lookup > SECRET?
op read > SECRET?
ray get-auth-token > SECRET?
"""
_QUOTE = r"[\"'`]?"
# Between words, as a shell writes them, also over lines, and as a list of Python or JSON does.
_SPACE = r"(?:(?:[ \t]|\\\r?\n){1,8}|[\"'],\s{0,8}[\"'])"
_VALUE = r"(?P<value>(?<=\")[^\"\n]{1,256}|(?<=')[^'\n]{1,256}|[^\s\"'`]{1,256})"
_PLACES = {
    "SECRET": rf"(?![-/]/|-){_QUOTE}{_VALUE}",  # a word may have quotes in its middle: bot:'secret'
    "USER": r"[\w\\/.@$-]{1,64}",
    "NAME": r"[^\s\"'=]{1,64}",
    "FILE": r"[^\s\"':]{1,128}",
    "WORD": r"[^\s\"']{1,200}",
}
_PLACE = expression(r"SECRET|USER|NAME|FILE|WORD|\*")
# An option that its value may follow without a space.
_LETTER = expression(r"-\*?[A-Za-z]")
# A word that may be a program's, and the words behind it.
_PROGRAM = expression(r"(?<![\w.-])-{0,2}[a-z0-9][\w-]{1,24}(?![\w./=(-]|:\S)")
_WORDS = expression(r"(?:[^\n|;]|(?<=\\)\n){0,300}")
_FED = expression(
    rf"\b(?:echo|printf)[ \t](?:-\w[ \t]|'?%s(?:\\n)?'?[ \t])?{_QUOTE}(?P<user>\w{{1,32}}:)?{_VALUE}{_QUOTE}"
    r"[ \t]{0,4}\|[^\n|;]{0,80}\Z"
)
_HERE = expression(rf"<<<[ \t]{{0,4}}{_QUOTE}(?P<user>\w{{1,32}}:(?=\S))?{_VALUE}")
# Where a command begins: a line, a prompt, a substitution, behind another one. Elsewhere its words are those of a
# sentence: "the pass will show".
_COMMAND_BEGINS = expression(r"(?:\A|[\n\r$#%>;&|(`!+\"'])[ \t]{0,4}\Z")
# Alone in the line below that of a command.
_PRINTED = expression(r"[^\n]{0,300}\r?\n[ \t]{0,8}(?P<value>[^\s\"'`]{12,4096})[ \t]{0,80}(?=[\"'\r\n]|\Z)")


@dataclass(frozen=True)
class Usage:
    """A row: the words of the command behind the program, and what stands before the secret; of what it reads or prints
    ``flow`` has the sign."""

    command: tuple[re.Pattern[str], ...]
    before: re.Pattern[str] | None
    follows: bool
    certain: bool
    flow: str = ""


def find(text: str) -> Iterator[Span]:
    """Where programs are given secrets."""
    usages = _usages()
    for program in _PROGRAM.finditer(text):
        for usage in usages.get(program[0], ()):
            yield from _given(text, program.start(), program.end(), usage)


def _given(text: str, start: int, position: int, usage: Usage) -> Iterator[Span]:
    words = _WORDS.match(text, position)
    end = words.end() if words else position
    for word in usage.command:
        if (found := word.search(text, position, end)) is None:
            return
        position = found.end()
    if usage.flow == ">":
        begins = _COMMAND_BEGINS.search(text, max(0, start - 8), start)
        hits = [hit] if begins and (hit := _PRINTED.match(text, position)) else []
    elif usage.before is None:
        fed = _FED.search(text, max(0, start - 400), start), _HERE.search(text, position, end)
        hits = [hit for hit in fed if hit]
    elif usage.follows:
        hits = [hit] if (hit := usage.before.match(text, position, end)) else []
    else:
        hits = [*usage.before.finditer(text, position, end)]
    for hit in hits:
        first, last = hit.span("value")
        value = text[first : whole(text, first, last)] if usage.certain else hit["value"].rstrip(".,:;)")
        if not is_nothing(value) and (usage.certain or looks_made(value)):
            yield Span(first, first + len(value), "password" if usage.certain else "login")


@cache
def _usages() -> dict[str, list[Usage]]:
    """The rows by program."""
    by_program: dict[str, list[Usage]] = {}
    for row in _USAGES.strip().split("\n"):
        programs, *words = row.split(" ")
        for program in programs.split("|"):
            by_program.setdefault(program, []).append(_usage(words))
    return by_program


def _usage(words: list[str]) -> Usage:
    """A row without its program."""
    certain = not words[-1].endswith("?")
    flow = next((word for word in words if word in ("<", ">")), "")
    first = words.index(flow) if flow else next(at for at, word in enumerate(words) if _is_given(word))
    command = tuple(
        expression(rf"{_SPACE}{_QUOTE}{_spelled(word)}(?![\w-])") for word in words[:first] if word != "..."
    )
    if flow:
        return Usage(command, None, follows=False, certain=certain, flow=flow)
    follows = words[first][0] != "-" and words[first - 1 : first] != ["..."]
    before, between = "", _SPACE
    for word in words[first:]:
        if word == "-...":
            before, follows = rf"(?:{_SPACE}-\S{{1,64}}){{0,4}}?", True
            continue
        option = word[0] == "-"
        before += f"{between}{_QUOTE}{_spelled(word.removesuffix('?'), option=option)}"
        between = "" if option else _SPACE
    return Usage(command, expression(before), follows=follows, certain=certain)


def _is_given(word: str) -> bool:
    """Whether this is no word of the command any more."""
    return word[0] == "-" or _PLACE.search(word) is not None


def _spelled(word: str, *, option: bool = False) -> str:
    """The expression of a word of a row; of an option with what divides it from its value."""
    spellings = (f"{_one_spelling(one.removesuffix('+'))}{_between(one) if option else ''}" for one in word.split("|"))
    return f"(?:{'|'.join(spellings)})"


def _between(option: str) -> str:
    if option.endswith("+"):
        return ""
    return rf"(?:=|{_SPACE}){'?' if _LETTER.fullmatch(option) else ''}"


def _one_spelling(word: str) -> str:
    parts = re.split(f"({_PLACE.pattern})", word)
    anything = r"[A-Za-z]{0,6}" if word[0] == "-" else r"[^\s\"'=]{0,64}"
    return "".join(_PLACES.get(part) or (anything if part == "*" else re.escape(part)) for part in parts)
