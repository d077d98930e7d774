"""How secrets are written where people and programs write them; each ``{@}`` is a hole for one."""

from __future__ import annotations

import random
import re

SIGN = "Canary"
_drawn = random.Random(7)

# One notation to a line; \n, \e and \\ are a line's end, an escape and a backslash.
_NOTATIONS = r"""
serve --api-key {@} --port 8000
serve --admin-key={@} --token {@}
serve --api-key \\\n    {@} --port 8000
huggingface-cli login --token {@} --add-to-git-credential
hf auth login --token={@}
wandb login {@}
wandb login --relogin --host https://wandb.corp {@}
swanlab login -k {@}
sshpass -p {@} ssh host
mysql -u root -p{@} runs
docker login -u bob -p {@} registry.corp
docker run -e HF_TOKEN={@} --env WANDB_API_KEY={@} image
redis-cli -h host -a {@} ping
PGPASSWORD={@} psql
openssl rsa -passin pass:{@} -in key.pem
gpg --batch --passphrase {@} -d x
curl -H 'Authorization: Bearer {@}' -H "X-Api-Key: {@}" http://host
curl --header "Authorization: token {@}" -H "PRIVATE-TOKEN: {@}" http://host
curl -u bob:{@} https://bob:{@}@host/path?token={@}&page=2
curl --oauth2-bearer {@} http://host
wget --header="Authorization: Bearer {@}" --http-password={@} http://host
git clone https://x-access-token:{@}@github.com/o/r.git
git -c http.extraHeader="Authorization: Basic {@}" clone x
pip install --index-url https://u:{@}@pypi.corp/simple x
aws configure set aws_secret_access_key {@}
export WANDB_API_KEY={@} AWS_SECRET_ACCESS_KEY='{@}'
export HF_TOKEN=$'{@}'
setenv HF_TOKEN {@}
set -gx HF_TOKEN {@}
+ export HF_TOKEN={@}
declare -x HF_TOKEN="{@}"
HF_TOKEN = {@}
HF_TOKEN -> {@}
HF_TOKEN is {@}
api key: {@}
using api key {@} for the judge
Incorrect API key provided: {@}.
401 Client Error: invalid api_key={@} for url
token {@} is expired
password is {@}
headers: Authorization: Basic {@}
Cookie: session={@}; csrf={@}
Set-Cookie: session={@}; id={@}
cookies={'session': '{@}'}
x-goog-api-key: {@}
Ocp-Apim-Subscription-Key: {@}
{'api_key': '{@}', 'nested': {'password': "{@}"}, 'max_tokens': 512}
{"runtime_env": {"env_vars": {"X_PASS": "{@}", "GH_PAT": "{@}"}}}
{"payload": "{\\"client_secret\\": \\"{@}\\"}"}
{"payload": "{\\\\\\"client_secret\\\\\\": \\\\\\"{@}\\\\\\"}"}
{"env": [{"name": "HF_TOKEN", "value": "{@}"}]}
{"Key": "HF_TOKEN", "Value": "{@}"}
- name: HF_TOKEN\n  value: {@}
- {name: HF_TOKEN, value: {@}}
- HF_TOKEN={@}
stringData:\n  token: {@}
api_keys: [{@}, {@}]
api_keys:\n  - {@}\n  - {@}
api_key: >-\n  {@}
api_key: |\n  {@}
api_key:\n  {@}
password: !vault {@}
password: &shared {@}
hub_token: {@}
hub_token: "{@}"  # mine
hub_token = '''{@}'''
[pypi]\nusername = __token__\npassword = {@}
machine api.wandb.ai login user password {@}
machine api.wandb.ai\n  login user\n  password {@}
//registry.npmjs.org/:_authToken={@}
['--hf-token', '{@}', '--api-key', '{@}']
Namespace(hf_token='{@}', seed=1)
<Config hf_token='{@}' seed=1>
hub_token=SecretStr('{@}')
os.environ["HF_TOKEN"] = "{@}"
os.environ.setdefault("HF_TOKEN", "{@}")
environ({'HF_TOKEN': '{@}', 'PATH': '/bin'})
env HF_TOKEN={@} python x.py
login(token='{@}', add_to_git_credential=True)
login("{@}")
wandb.login(key="{@}")
OpenAI(base_url="http://x", api_key='{@}')
api_key: str | None = "{@}"
requests.get(url, auth=('bob', '{@}'))
HTTPBasicAuth('bob', '{@}')
headers={"Authorization": f"Bearer {@}"}
create_engine("postgresql+psycopg2://user:{@}@host/db")
postgres://user:{@},more@db/x mongodb+srv://user:{@}/more@db
redis://:{@}@host:6379/0 http://proxy:{@}@host:3128
s3://KEY:{@}@bucket/path
jdbc:postgresql://h/db?user=x&password={@}
Server=h;Database=d;User Id=u;Password={@};
DefaultEndpointsProtocol=https;AccountName=x;AccountKey={@};EndpointSuffix=s
https://x.blob.core.windows.net/c?sv=2020&sig={@}&se=1
https://b.s3.amazonaws.com/k?X-Amz-Expires=9&X-Amz-Signature={@}
https://h/hub?access_token={@}
https://hooks.slack.com/services/T0/B0/{@}
https://discord.com/api/webhooks/123456/{@}
https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={@}
https://open.feishu.cn/open-apis/bot/v2/hook/{@}
host=db password={@} dbname=x
SENTRY_DSN=https://{@}@o1.ingest.sentry.io/1
spark.hadoop.fs.s3a.secret.key={@}
+trainer.wandb_api_key={@}
+ray_init.runtime_env.env_vars.WANDB_API_KEY={@}
actor.env={HF_TOKEN:{@},SEED:1}
--env_vars '{"HF_TOKEN":"{@}"}'
client_secret={@}&grant_type=x
"accessToken":"{@}"
"private_key": "{@}"
signing-key: {@}
HF_TOKEN%3D{@}
%22api_key%22%3A%22{@}%22
&quot;api_key&quot;: &quot;{@}&quot;
\e[32mHF_TOKEN\e[0m={@}
HF_TOKEN=\e[1m{@}\e[0m
{"log": "\\u001b[32mHF_TOKEN\\u001b[0m=\\u001b[1m{@}\\u001b[0m"}
│ hub_token │ {@} │
| hub_token | {@} |
hub_token .......... {@}
hub_token            {@}
'hub_token':\n   '{@}',
hf_{@}{@}
ghp_{@}{@}
sk-{@}{@}
xoxb-{@}{@}
glpat-{@}{@}
"""


NOTATIONS = tuple(
    re.sub(r"\\(.)", lambda found: {"n": "\n", "e": "\x1b"}.get(found[1], found[1]), line)
    for line in _NOTATIONS.strip("\n").split("\n")
)


def canary() -> str:
    """A secret of its own that no form gives away."""
    tail = "".join(_drawn.choices("abcdefghjkmnpqrstuvwxyz", k=9))
    return (
        f"{SIGN}{_drawn.randint(10, 99)}{tail[:4]}{_drawn.randint(10, 99)}{tail[4:].upper()}{_drawn.randint(10, 99)}q"
    )


def planted(notation: str) -> str:
    """The notation with a canary in each of its holes."""
    first, *rest = notation.split("{@}")
    return first + "".join(canary() + piece for piece in rest)
