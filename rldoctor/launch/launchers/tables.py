"""What the launchers' options mean, which of their options take a value, and which programs only wrap another."""

from __future__ import annotations

import re

from rldoctor.frameworks import frameworks

# Console programs whose first argument is a command of its own.
SUBCOMMANDS = frozenset(
    ("ray", "accelerate", "llamafactory-cli", *(name for framework in frameworks() for name in framework.programs))
)
# Programs that only wrap another: what follows their options is the command. Options listed take a value of their own.
WRAPPERS: dict[str, frozenset[str]] = {
    "nohup": frozenset(),
    "time": frozenset({"-o", "-f"}),
    "command": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "nice": frozenset({"-n"}),
    "sudo": frozenset({"-u", "-g"}),
    "blaunch": frozenset({"-u", "-z"}),
    "pbsdsh": frozenset({"-c", "-n"}),
    # https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=SSWRJV_10.1.0/jsm/jsrun.htm
    "jsrun": frozenset(
        {
            *(f"-{letter}" for letter in "nacgrbdlmpKEDFUtoeiJ"),
            *(
                "--nrs",
                "--tasks_per_rs",
                "--cpu_per_rs",
                "--gpu_per_rs",
                "--rs_per_host",
                "--bind",
                "--launch_distribution",
            ),
            *("--latency_priority", "--np", "--env", "--smpiargs", "--stdio_stdout", "--stdio_stderr"),
        }
    ),
    "numactl": frozenset({"-N", "-m", "-C"}),
    "nsys": frozenset({"-o", "-t", "-s", "-w", "-f", "-x", "-c"}),
    "conda": frozenset({"-n", "-p", "--name", "--prefix"}),
    "mamba": frozenset({"-n", "-p"}),
    "micromamba": frozenset({"-n", "-p"}),
    "uv": frozenset(
        {
            "--with",
            "--extra",
            "--group",
            "--python",
            "-p",
            "--project",
            "--package",
            "--env-file",
            "--directory",
            "--index-url",
            "--with-editable",
            "--with-requirements",
            "--index",
        }
    ),
    "poetry": frozenset(),
    "pdm": frozenset(),
    "pixi": frozenset({"-e"}),
    "coverage": frozenset(),
    "timeout": frozenset({"-k", "-s"}),
    "taskset": frozenset(),
    "unbuffer": frozenset(),
    "xvfb-run": frozenset({"-n", "-s", "-e", "-f", "-w"}),
    "ionice": frozenset({"-c", "-n"}),
    "chrt": frozenset(),
    "py-spy": frozenset({"-o", "-r", "-d", "-f"}),
    "dotenv": frozenset({"-f", "--file", "-e"}),
    "tini": frozenset(),
    "dumb-init": frozenset(),
    "gosu": frozenset(),
    "doppler": frozenset({"-p", "-c"}),
}
# The word (or words) that such a program expects before the command.
SKIPPED = {
    "conda": 1,
    "mamba": 1,
    "micromamba": 1,
    "uv": 1,
    "poetry": 1,
    "pdm": 1,
    "pixi": 1,
    "coverage": 1,
    "timeout": 1,
    "taskset": 1,
    "nsys": 1,
    "chrt": 1,
    "py-spy": 1,
    "dotenv": 1,
    "gosu": 1,
    "doppler": 1,
}
# Options of wrappers and containers that name a file of variables.
ENV_FILES = {
    "uv": frozenset({"--env-file"}),
    "dotenv": frozenset({"-f", "--file", "-e"}),
    "docker": frozenset({"--env-file"}),
    "podman": frozenset({"--env-file"}),
}
# Programs that hand a command to another machine, once their options and, after these, the machine are named.
REMOTE = {
    "ssh": (frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw"), 1),
    "pdsh": (frozenset(f"-{letter}" for letter in "wRlfutxg"), 0),
    "clush": (frozenset(f"-{letter}" for letter in "wxgfltuo"), 0),
    "pssh": (frozenset(f"-{letter}" for letter in "Hhlptoex"), 0),
    "parallel-ssh": (frozenset(f"-{letter}" for letter in "Hhlptoex"), 0),
}
# Programs with an option whose value is the text that a shell reads.
TEXTS = {
    "su": ("-c", "--command"),
    "runuser": ("-c", "--command"),
    "script": ("-c", "--command"),
    "gcloud": ("--command",),
    "flock": ("-c", "--command"),
}
# What tmux is told to start something with, and the options of these that take a value.
TMUX = frozenset(
    {"new-session", "new", "new-window", "neww", "split-window", "splitw", "respawn-pane", "send-keys", "send"}
)
TMUX_VALUED = frozenset(f"-{letter}" for letter in "snctexyFlp")
SCREEN_VALUED = frozenset({"-S", "-c", "-t", "-h", "-s", "-T", "-p", "-Logfile"})
CLUSTERS = frozenset({"kubectl", "oc", "k3s"})
CONTAINERS = frozenset({"docker", "podman", "singularity", "apptainer", "enroot", "nerdctl"})
# Those whose containers have a /dev/shm of their own, and what gives them another than its default.
PRIVATE_MEMORY = frozenset({"docker", "podman", "nerdctl"})
SHARED_MEMORY = re.compile(r"--shm-size|--ipc|--pod|/dev/shm|\$")
# What gives a container the ports of its machine.
HOSTS_PORTS = re.compile(r"^--net(?:work)?[ =]host\b")
CONTAINER_FLAGS = frozenset(
    {
        "-d",
        "-i",
        "-t",
        "-it",
        "-ti",
        "--rm",
        "--privileged",
        "--nv",
        "--detach",
        "--interactive",
        "--tty",
        "--init",
        "--writable",
        "--cleanenv",
        "--rw",
        "--root",
        "-T",
        "--no-deps",
        "--service-ports",
        "--no-TTY",
    }
)
SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

# Options of Ray's commands in canonical names.
RAY_SUBMIT = {
    "address": "ray.address",
    "runtime_env_json": "ray.runtime_env",
    "runtime_env": "ray.runtime_env",
    "working_dir": "ray.working_dir",
}
RAY_START = {"num_gpus": "ray.num_gpus", "num_cpus": "ray.num_cpus", "address": "ray.address"}
# ray/_private/ray_constants.py DEFAULT_PORT
RAY_PORT = 6379
# The ports of `ray start` and what it takes where none is named (ray/scripts/scripts.py): of any node, and of a head.
RAY_PORTS = {
    "object_manager_port": ("object_manager", None),
    "node_manager_port": ("node_manager", None),
    "dashboard_port": ("dashboard", 8265),
    "dashboard_agent_grpc_port": ("dashboard_agent_grpc", None),
    "dashboard_agent_listen_port": ("dashboard_agent_http", 52365),
    "runtime_env_agent_port": ("runtime_env_agent", None),
    "metrics_export_port": ("metrics_export", None),
    "ray_client_server_port": ("client_server", None),
}
RAY_WORKERS = {"min_worker_port": 10002, "max_worker_port": 19999}
# Flags of the launchers that take no value, so that the script after them is not taken for one.
FLAGS = frozenset(
    {
        "standalone", "module", "m", "no_python", "use_deepspeed", "use_fsdp", "multi_gpu", "no_wait", "cpu",
        "same_network", "debug", "quiet", "no_local_rank", "force_multi", "enable_each_rank_log", "use_env", "tpu",
        "use_megatron_lm", "no_ssh", "verbose", "use_megatron",
    }
)  # fmt: skip
