"""The rollout server, or the Ray instance, that the trainer wants to talk to does not answer.

What it looks for
    A proxy for HTTP that is not kept away from the server's host, a server that is started at another port or listens
    elsewhere than the trainer asks, a time limit too short to load a model; nothing that answers at ``RAY_ADDRESS``, a
    cluster there that wants a token, several where it is ``auto``, an address that an ended Ray left. In a log: TRL's
    and ms-swift's clients that wait for a server that never comes up, refused connections to its port, and
    ``ray.init(address=...)`` without a running Ray.

Why it hurts
    The trainer waits until its time limit and stops, or waits for ever.

How sure it is
    Proxies are judged as ``requests`` takes them. In a log it is the client's own message. Whether the server was not
    started, died, listens elsewhere or is hidden by a proxy stands in the server's log.

The fix and its cost
    Start the server first and point the trainer to its host and port; take the hosts out of the proxy.

References
    ``trl/generation/vllm_client.py`` (``check_server``); https://huggingface.co/docs/trl/vllm_integration
    https://github.com/huggingface/open-r1/issues/543, https://github.com/modelscope/ms-swift/issues/5545
    https://github.com/modelscope/ms-swift/issues/6034; https://requests.readthedocs.io/en/latest/user/advanced/#proxies
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    Kind,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Role,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.logs import is_users, package_of

from ..declared.devices import LOOPBACK
from ..observed.endings import was_raised
from ..observed.servers import serving

check = Check("RLD607", "server-unreachable", __doc__, kind=Kind.STALL)

HOST, URL, PORT, WAIT = (f"placement.server_{name}" for name in ("host", "url", "port", "timeout"))
# Of these the first that is set decides; requests reads both spellings.
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
EXCEPTIONS = ("no_proxy", "NO_PROXY")
# Seconds below which no server has loaded a model.
SHORTEST_WAIT = 30


@check.declared(needs=["plan.placement.mode"])
def proxy_between(case: Case) -> Iterator[Finding | Reach]:
    """The trainer's client is ``requests``, which asks the proxy unless the host is excepted."""
    plan = plan_of(case)
    if plan.value("placement.mode") != "server" or plan.role == "server":
        raise NotApplicable("no rollout server is asked over HTTP")
    proxy = next((name for name in PROXIES if plan.value(f"env.{name}")), None)
    if proxy is None:
        yield Reach("no proxy for HTTP is set")
        return
    hosts = _hosts(plan)
    excepted = next((plan.value(f"env.{name}") for name in EXCEPTIONS if plan.value(f"env.{name}")), "")
    hidden = [host for host in hosts if not _excepted(host, excepted)]
    if not hidden:
        yield Reach(f"{', '.join(hosts)} is excepted from the proxy")
        return
    yield check.finding(
        f"{proxy} is set and {', '.join(hidden)} is not excepted: requests to the rollout server go to the proxy",
        evidence=cite(plan, f"env.{proxy}", *(f"env.{name}" for name in EXCEPTIONS), HOST, URL),
        fixes=(
            Fix.safe(
                "except the server's host from the proxy",
                {"env.no_proxy": ",".join([*filter(None, [excepted]), *hidden])},
            ),
            Fix(title="or set no proxy for this run", commands=("unset http_proxy https_proxy all_proxy",)),
        ),
        url="https://github.com/modelscope/ms-swift/issues/5545",
    )


@check.declared(needs=["plan.placement.mode"])
def server_of_this_file(case: Case) -> Iterator[Finding | Reach]:
    """Where the server listens, and where the trainer asks."""
    plan = plan_of(case)
    if plan.server is None:
        raise NotApplicable("the server's own launch is not in this file")
    asked, listens = plan.value(PORT), plan.server.value("placement.listen_port")
    if asked is not None and listens is not None and plan.value(URL) is None and not _among(listens, asked):
        yield check.finding(
            f"the rollout server listens at port {listens}, and the trainer asks port {asked}",
            evidence=(*cite(plan.server, "placement.listen_port"), *cite(plan, PORT)),
            fixes=(Fix.safe("ask the port at which the server listens", {PORT: listens}),),
            url="https://github.com/modelscope/ms-swift/issues/6034",
        )
    host, at = plan.value(HOST), plan.server.value("placement.listen_host")
    if at in LOOPBACK and isinstance(host, str) and host not in ("0.0.0.0", *LOOPBACK):
        yield check.finding(
            f"the rollout server listens at {at} alone, and the trainer comes to {host}",
            evidence=(*cite(plan.server, "placement.listen_host"), *cite(plan, HOST)),
            fixes=(
                Fix.safe(
                    "let the server listen at all addresses",
                    {"placement.listen_host": "0.0.0.0"},
                    side_effects="the server is open to the network",
                ),
            ),
        )
    wait = plan.value(WAIT)
    if wait is not None and 0 < wait < SHORTEST_WAIT and plan.server.value("process.background"):
        yield check.finding(
            f"the trainer waits {wait:g} s for a server that is started just before it and has a model to load",
            severity=Severity.WARNING,
            evidence=cite(plan, WAIT),
            fixes=(Fix.safe("wait as long as loading may take (the unit is seconds)", {WAIT: 600}),),
            url="https://github.com/modelscope/ms-swift/issues/6034",
        )
    yield Reach(f"server at port {listens}, the trainer asks {asked}")


def _hosts(plan: RolloutPlan) -> list[str]:
    """The hosts that the trainer asks. Raises :class:`NotChecked` where they cannot be read."""
    given = plan.value(URL)
    if given is not None:
        urls = given if isinstance(given, list) else [given]
        return [urlsplit(str(url)).hostname or str(url) for url in urls]
    setting = plan.get(HOST)
    if setting is None or setting.value is None:
        raise NotChecked("the launch does not say which host the server has")
    return [str(host) for host in (setting.value if isinstance(setting.value, list) else [setting.value])]


def _excepted(host: str, exceptions: str) -> bool:
    """Whether ``no_proxy`` holds a host, its domain, or its network."""
    for part in (part.strip() for part in exceptions.split(",")):
        if part == "*" or (part and (host == part or host.endswith("." + part.lstrip(".")))):
            return True
        try:
            if "/" in part and ip_address(host) in ip_network(part, strict=False):
                return True
        except ValueError:
            continue
    return False


def _among(listens: object, asked: object) -> bool:
    return listens in asked if isinstance(asked, list) else listens == asked


_NO_PROXY = Fix.unsafe(
    "keep the proxy away from the server's address",
    {"env.no_proxy": "localhost,127.0.0.1"},
    side_effects="add the server's host where it is another machine",
)


def _serve(event: LogEvent, port: str = "PORT") -> Fix:
    return Fix(
        title="start the rollout server first, on GPUs of its own, and give the trainer its host and port",
        commands=tuple(f"{command} --port {port}" for command in serving(event)),
    )


# The client gave up, or is still waiting as the log ends.
check.signature(
    "The vLLM server can't be reached at ",
    "Server is not up yet",
    details=(r"can't be reached at (?P<address>\S+) after (?P<seconds>[\d.]+) seconds",),
    when=lambda case, event: (
        not (
            event.literal == "Server is not up yet" and not any(event.literal in line for line in event.run.tail[-20:])
        )
    ),
    says="[[no rollout server answers at {address} within {seconds} s||the rollout server does not answer]]",
    fixes=lambda case, event, words: (_serve(event), _NO_PROXY),
    url="https://huggingface.co/docs/trl/vllm_integration",
)


# Hubs, trackers and package indexes, which have codes of their own: by their address, or by whose code asks.
_OTHERS = (
    *("huggingface.co", "huggingface_hub", "modelscope", "wandb", "swanlab", "/simple/"),
    *(f"-packages/{name}/" for name in ("datasets", "mlflow", "clearml", "pip")),
)
_THEIR_SERVER = Fix(title="start that server before the training, under an address that every node of the run reaches")
# What a client says once somebody answers.
_UP = re.compile(r"(?i:\b(?:ready|is up|connected|healthy)\b)")


def _is_still_tried(case: Case, event: LogEvent) -> bool:
    """Whether attempts of the same kind are the last that the log tells."""
    last = event.run.tail[-4:]
    behind = next((last[len(last) - i :] for i, line in enumerate(reversed(last)) if event.literal in line), None)
    answered = behind is None or any(_UP.search(line) for line in behind)
    return event.incident.kind != "crashed" and not answered and event.count >= 3


check.signature(
    "Server is not up yet",
    "Inference server was not reached after ",
    when=_is_still_tried,
    says="the trainer was still waiting for the rollout server when the log ended ({count} attempts)",
    fixes=lambda case, event, words: (_serve(event), _NO_PROXY),
    silent=True,
)
# OpenRLHF's client of a remote reward model, which its forks have too, tries again before it raises.
check.signature(
    "Request error, please check: ",
    pattern=r"host='(?P<host>[^']+)', port=(?P<port>\d+)\).{0,40}? with url: (?P<path>\S+)",
    when=_is_still_tried,
    says="no server listens at {host}:{port}, which the trainer still asked for {path} when the log ended ({count} "
    "attempts): the reward server, not the rollout engine",
    fixes=(_THEIR_SERVER, _NO_PROXY),
    silent=True,
)


@check.logged(
    "Failed to establish a new connection: [Errno 111] Connection refused",
    "Cannot connect to host ",
    "ConnectError: All connection attempts failed",
    "openai.APIConnectionError: Connection error",
    "timed out. (connect timeout=",
    "httpx.ConnectTimeout",
    unless=_OTHERS,
)
def connection_refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Nothing listens on the port."""
    where = event.search(r"host='([^']+)', port=(\d+)|connect to host ([\w.-]+):(\d+)")
    host, port = (where[1] or where[3], where[2] or where[4]) if where else ("", "PORT")
    address = f" at {host}:{port}" if where else ""
    asks = _asks_another(event)
    if asks is None:
        yield check.finding(f"no server listens{address}", fixes=(_serve(event, port), _NO_PROXY))
        return
    yield check.finding(
        f"no server listens{address}, which {asks} asks: a reward model, a judge or a tool, not the rollout engine",
        fixes=(_THEIR_SERVER, _NO_PROXY),
    )


# The frameworks' clients of their rollout servers. What asks besides is a reward function, a judge or a tool.
_CLIENTS = re.compile(r"vllm_client|vllm_generation|infer_client|inference_engine|rollout|vllm_engine|weight_sync")
# What only those clients ask for, where a log leaves out their frames.
_THEIR_ROUTE = re.compile(r"with url: /(?:health|get_world_size|init_communicator)/ ")
_REQUESTS = ("requests", "urllib3", "httpx", "httpcore", "aiohttp", "openai", "anyio", "tenacity", "python")


def _asks_another(event: LogEvent) -> str | None:
    """The file whose request failed, where it is no client of a rollout server."""
    frames = [frame for link in event.exception.chain for frame in link.frames] if event.exception is not None else []
    if any(_CLIENTS.search(frame.file) and not is_users(frame.file) for frame in frames) or event.search(
        _THEIR_ROUTE.pattern
    ):
        return None
    asking = [frame.file for frame in frames if package_of(frame.file) not in _REQUESTS]
    return asking[-1].rpartition("/")[2] if asking else None


# Something answers at the address, and has no routes for weights: as the trainer's client says it, and as the access
# log of that server has it, which lives on.
_NO_ROUTES = (
    "what answers at the server's address is no rollout server: it has no routes for weight sync (a plain "
    "`vllm serve`, or another program)"
)
_JOINED = re.compile(r'"(?:POST /init_communicator|GET /get_world_size)/? HTTP/[\d.]+" 200\b')
check.signature(
    "Request failed: 404",
    pattern=r"vllm_client|init_communicator|get_world_size",
    says=_NO_ROUTES,
    fixes=lambda case, event, words: (_serve(event), _NO_PROXY),
    url="https://github.com/huggingface/trl/issues/3587",
)
check.signature(
    '"POST /init_communicator',
    '"GET /get_world_size',
    pattern=r'"(?:POST /init_communicator|GET /get_world_size)/? HTTP/[\d.]+" 404\b',
    says=_NO_ROUTES,
    silent=True,
    when=lambda case, event: not any(_JOINED.search(line) for line in event.run.tail),
    fixes=lambda case, event, words: (_serve(event), _NO_PROXY),
    url="https://github.com/huggingface/trl/issues/3587",
)


check.signature(
    "No available workers (all circuits open or unhealthy)",
    says="the router has no rollout engine that answers: they died, or cannot be reached from the router's node",
    fixes=(
        Fix(
            title="judge the engines' logs too: what ended them stands there",
            commands=("rldoctor triage FOLDER_OF_LOGS",),
        ),
        _NO_PROXY,
    ),
    url="https://github.com/THUDM/slime/issues/1026",
)


check.signature(
    "RuntimeError: server launch failed",
    "Waiting generation servers timeout",
    says="the trainer gave up waiting for its rollout servers: they did not come up, or too late",
    fixes=(
        Fix(
            title="judge the servers' logs too: what ended them or what they wait for stands there",
            commands=("rldoctor triage FOLDER_OF_LOGS",),
        ),
        Fix(title="where they only load long: a longer set-up time limit in the trainer's configuration"),
        _NO_PROXY,
    ),
    url="https://docs.sglang.ai/advanced_features/server_arguments.html",
)


@check.observed(needs=["observations.ray_cluster"])
def ray_does_not_answer(case: Case) -> Iterator[Finding | Reach]:
    """The cluster that this shell's processes will join."""
    (observed,) = case.observations["ray_cluster"].values()
    records, error = observed["records"], str((observed.get("error") or {}).get("message", ""))
    address = records.get("address", "the address")
    if "nodes" in records:
        yield Reach(f"Ray at {address} answers")
        return
    if several := records.get("several"):
        yield check.finding(
            f"{len(several)} Rays run on this machine ({', '.join(several)}), and the address is auto: each process "
            "takes any of them, so that an engine's may join another than the trainer's and find no actors",
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            fixes=(
                Fix(title="name one for all processes", commands=(f"export {_RAY}={several[0]}",)),
                Fix(title="or end them all, and start the one for the run", commands=("ray stop", "ray start --head")),
            ),
            url="https://docs.ray.io/en/latest/ray-core/starting-ray.html",
        )
        return
    problems = " ".join((error, *map(str, records.get("problems") or ())))
    if records and _TOKEN.search(problems):
        yield check.finding(
            f"the Ray cluster at {address} asks for a token, and this shell has none that it takes",
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            evidence=(Evidence(text=problems.strip().splitlines()[0][:300], source=f"Ray at {address}"),),
            fixes=(
                Fix(
                    title="give the processes the cluster's own token (the file ~/.ray/auth_token of its head)",
                    commands=("export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=FILE",),
                ),
            ),
            url="https://docs.ray.io/en/latest/ray-security/token-auth.html",
        )
    elif "nothing answers at" in error or "no Ray runs" in error:
        yield check.finding(
            f"the Ray cluster that the run is to join does not answer: {error.splitlines()[0]}",
            severity=Severity.WARNING,
            grade=Grade.OBSERVED,
            fixes=_NO_RAY,
            url="https://docs.ray.io/en/latest/ray-core/starting-ray.html",
        )
    else:
        raise NotChecked(f"Ray at {address} did not tell: {problems.strip()[:200] or observed['ended']}")


@check.declared(needs=["plan.ray.gpus_needed", "node", "host.listening_ports"])
def last_ray_is_gone(case: Case) -> Iterator[Finding | Reach]:
    """The address that ``ray start`` left on this machine, which ``ray.init`` takes where it is told none."""
    plan, node, host = plan_of(case), case.node, case.host
    assert node is not None and host is not None  # they are among the needs
    told = [plan.value(name) for name in ("ray.address", "env.RAY_ADDRESS")]
    if plan.value("process.launcher") != "ray" or plan.framework in _STARTS_ITS_OWN:
        raise NotApplicable("the launch joins no Ray")
    if plan.value("ray.started") or plan.value("scheduler.name") or any(told) or (case.environment or {}).get(_RAY):
        raise NotApplicable("the launch starts a Ray, names one, or runs elsewhere")
    if node.ray_last is None:
        raise NotApplicable("no Ray was started here before")
    port = node.ray_last.rpartition(":")[2]
    if any(one.address == node.ray_last for one in node.ray) or int(f"0{port}", 10) in host.listening_ports:
        yield Reach(f"the Ray at {node.ray_last}, to which ray start came last, runs")
        return
    yield check.finding(
        f"an earlier Ray that has ended left its address here ({node.ray_last}), where nothing answers: ray.init, told "
        "no address, tries it for minutes and fails",
        severity=Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(Evidence(text=f"{node.ray_last}, and no process of that Ray", source="ray_current_cluster"),),
        fixes=(
            *(
                # `ray stop`, which takes the address away, would end these too.
                Fix.unsafe(f"join the Ray that runs here, at {one.address}", {f"env.{_RAY}": one.address})
                for one in node.ray[:1]
                if one.address
            ),
            *(
                ()
                if node.ray
                else (Fix(title="take away what it left, and start Ray", commands=("ray stop", "ray start --head")),)
            ),
            Fix.safe("or have the run start one of its own", {f"env.{_RAY}": "local"}),
        ),
        url="https://docs.ray.io/en/latest/ray-core/starting-ray.html",
    )


_RAY = "RAY_ADDRESS"
# nemo_rl/distributed/virtual_cluster.py, init_ray: starts a Ray where none answers.
_STARTS_ITS_OWN = ("NeMo-RL",)
# ray/_private/authentication/authentication_constants.py
# and the words of the ray_cluster probe.
_TOKEN = re.compile(
    r"authentication token|Unauthenticated|asks for a token|does not take the token|there is no token", re.IGNORECASE
)
_NO_RAY = (
    Fix(title="start Ray first, the head before the workers", commands=("ray start --head",)),
    Fix(title="or let ray.init() start a local instance: unset RAY_ADDRESS and give no address"),
)
# `ray.init(address='auto')` where no Ray runs.
check.signature(
    "Could not find any running Ray instance",
    says="no Ray instance runs on this node, and the program is configured to join one",
    fixes=_NO_RAY,
    url="https://docs.ray.io/en/latest/ray-core/starting-ray.html",
)


# As urllib3, httpx and aiohttp say it.
@check.logged(
    "Remote end closed connection without response",
    "('Connection aborted.', ",
    "Server disconnected without sending a response",
    "ServerDisconnectedError: ",
    "ClientOSError: [Errno 104]",
    unless=_OTHERS,
    role=Role.CASCADE,
)
def hung_up(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The server closed the connection in the middle of a request: it died, or restarted."""
    if not was_raised(case, event):
        return
    asks = _asks_another(event)
    whose = "the rollout server" if asks is None else f"the server that {asks} asks (a reward model, a judge or a tool)"
    yield check.finding(
        f"{whose} closed the connection without an answer: it died or was overloaded; its own log says why",
        fixes=(
            Fix(title="judge the server's log too", commands=("rldoctor triage server.log trainer.log",)),
            *((Fix(title="TRL 0.28 and later try such requests again", valid_for="trl<0.28"),) if asks is None else ()),
        ),
        url="https://github.com/huggingface/trl/issues/3622",
    )


check.signature(
    "Failed to establish a new connection: [Errno -",
    "NameResolutionError(",
    pattern=r"host='(?P<host>[^']+)'",
    exception=("ConnectionError", "MaxRetryError", "NameResolutionError", "NewConnectionError"),
    unless=_OTHERS,
    says="the name {host} of the server that the run asks does not resolve on this node",
    fixes=(
        Fix(
            title="give the server's address, or a name that every node and container knows (outside of docker compose "
            "its service names are none)",
            commands=("getent hosts HOST",),
        ),
        _THEIR_SERVER,
    ),
)


check.signature(
    "times, returning None. Please check the API server",
    details=(r"(?P<address>https?://[\w.:-]+(?:/\w+)*)",),
    says="the remote reward model does not answer[[ at {address}]]: the rollout engines are not affected",
    fixes=(
        Fix(
            title="start the reward server before training, and see that every node reaches the address of "
            "--remote_rm_url (its route is /get_reward)",
            commands=("python -m openrlhf.cli.serve_rm --reward_pretrain MODEL --port 5000",),
        ),
        _NO_PROXY,
    ),
    url="https://github.com/OpenRLHF/OpenRLHF/blob/main/openrlhf/utils/remote_rm_utils.py",
)
check.signature(
    "Server error '502 Bad Gateway' for url ",
    "Server error '503 Service Unavailable' for url ",
    "Server error '504 Gateway Timeout' for url ",
    pattern=r"Server error '(?P<status>50[234])[^']*' for url '(?P<url>[^'\s]*/(?:generate|flush_cache|health\w*|"
    r"update_weights\w*|v1/(?:chat/)?completions)/?)'",
    says="the rollout server at {url} answers {status}: no engine behind it takes requests (yet), or a proxy stands "
    "between",
    fixes=(
        Fix(title="wait until it has loaded its model: before that it answers so"),
        Fix(title="read the engines' and the router's own logs: an engine that ran out of memory or died is taken out"),
        Fix(title="leave the server out of the proxy", commands=("export NO_PROXY=$NO_PROXY,SERVER_ADDRESS",)),
        Fix(title="give it fewer requests at once, or its health check more time"),
    ),
)


# As requests says it, whatever service it asked.
check.signature(
    " Server Error: Bad Gateway for url: ",
    " Server Error: Service Unavailable for url: ",
    " Server Error: Service Temporarily Unavailable for url: ",
    " Server Error: Gateway Time-out for url: ",
    " Server Error: Gateway Timeout for url: ",
    pattern=r"(?P<status>50[234]) Server Error: [\w -]{1,40} for url: (?P<url>\w+://[^\s?]{1,300})",
    exception="HTTPError",
    unless=_OTHERS,
    says="{url} answers {status}: what is behind that address does not take requests (yet), or a proxy stands between",
    fixes=(
        Fix(title="see that service's own log: it still starts, is overloaded, or has ended"),
        Fix(title="let whoever asks wait for it and try again, where it only starts slowly or is busy"),
        _NO_PROXY,
    ),
)
