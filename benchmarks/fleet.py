"""A thousand bundles with planted faults and two hundred harmless variations: what is found, and at what cost.

python -m benchmarks.fleet [--nodes N] [--keep DIR]"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Bundle = dict[str, Any]
GIB = 1 << 30
INTERFACES = ("eth0", "ib0", "ib1")


def healthy(number: int) -> Bundle:
    """The bundle of one node of a cluster of eight GPUs each, with what every node has of its own."""
    name = f"node{number:04}"
    chance = random.Random(number)
    gpu = {"name": "NVIDIA H100 80GB HBM3", "memory_total": 85_520_809_984, "compute_capability": "9.0",
           "power_limit": 700, "pcie_lanes": 16, "ecc": True}  # fmt: skip
    devices = [
        {**gpu, "index": i, "memory_used": chance.randrange(1 << 29), "uuid": f"GPU-{chance.getrandbits(128):032x}"}
        for i in range(8)
    ]
    packages = {"vllm": "0.32.0", "torch": "2.13.0", "transformers": "5.19.0", "ray": "2.60.0", "verl": "0.9.0",
                "nvidia-nccl-cu13": "2.28.3", "flash-attn": "2.8.3", "tokenizers": "0.22.1",
                "numpy": "2.3.0", "triton": "3.6.0", "wandb": "0.22.0"}  # fmt: skip
    requires = [f"package-{n}>=1.{n}; extra == 'test'" for n in range(40)]
    distributions = [{"name": name, "version": version, "requires": requires} for name, version in packages.items()]
    distributions += [{"name": f"other-{n}", "version": "1.0", "requires": requires[:8]} for n in range(150)]
    disk = {"path": "/tmp", "total": 900 * GIB, "free": chance.randrange(200, 800) * GIB}
    return {
        "schema_version": 1,
        "tool": "rldoctor",
        "packages": {"python": "3.12.7", "distributions": distributions},
        "gpus": {"vendor": "nvidia", "devices": devices, "driver": "570.86.10", "cuda": "12.8",
                 "links": {"0-1": "nvlink"}},
        "environment": {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "mlx5", "VLLM_USE_V1": "1",
                        "MASTER_ADDR": "node0000",
                        "SLURM_NODEID": str(number), "SLURM_JOB_ID": "8812", "SLURMD_NODENAME": name,
                        "TRITON_CACHE_DIR": f"/scratch/{name}/triton",
                        "VLLM_HOST_IP": f"10.0.{number // 250}.{number % 250}"},
        "host": {
            "system": "Linux", "machine": "x86_64", "kernel": "5.15.0-91-generic", "libc": "glibc 2.35",
            "cpu_model": "Intel Xeon Platinum 8480+", "cpu_count": 224, "cpu_usable": 224.0,
            "load": chance.random() * 50,
            "memory_total": 2000 * GIB, "memory_available": chance.randrange(900, 1900) * GIB, "memory_limit": None,
            "shm_total": 1000 * GIB, "shm_free": chance.randrange(900, 1000) * GIB, "open_files": 1048576,
            "open_files_hard": 1048576, "processes": 8_240_000 + 37 * number % 1000, "locked_memory": None,
            "disks": [{"role": "temp", **disk}, {"role": "ray", **disk}],
            "listening_ports": [22, chance.randrange(30000, 60000)], "compilers": {"gcc": "/usr/bin/gcc"},
            "glibcxx": "3.4.30",
        },
        "node": {
            "host": name, "time": 1795384893.0 + chance.random() * 60, "boot": f"{chance.getrandbits(128):032x}",
            "started": 1795000000.0 + number,
            "interfaces": [{"name": one, "state": "up", "speed": 400_000, "mtu": 9000} for one in INTERFACES],
            "infiniband": [{"name": f"mlx5_{i}:1", "state": "active", "rate": "400 Gb/sec (4X NDR)"} for i in range(8)],
            "ray": [{"pid": chance.randrange(5000, 90000), "address": "10.0.0.0:6379", "session": "session_2026"}],
            "xids": [], "clock_kept": True, "clock_offset": 0.0,
            "hashes": {"config.json": "11", "tokenizer.json": "22", "model-00001-of-00004.safetensors": "33"},
        },
        "model": {"path": "/models/q", "config": {"model_type": "qwen2", "rope_theta": 1000000.0, "vocab_size": 151936,
                                                  "torch_dtype": "bfloat16", "transformers_version": "4.57.1"},
                  "files": {"config.json": 700, "tokenizer.json": 7_031_645}},
    }  # fmt: skip


def _package(name: str, version: str | None) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        listed = bundle["packages"]["distributions"]
        listed[:] = [one for one in listed if one["name"] != name]
        if version is not None:
            listed.append({"name": name, "version": version})

    return change


def _set(path: str, value: Any) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        *above, last = path.split("/")
        holder: Any = bundle
        for part in above:
            holder = holder[int(part) if isinstance(holder, list) else part]
        holder[int(last) if isinstance(holder, list) else last] = value

    return change


def _named(bundle: Bundle, name: str) -> Bundle:
    distributions: list[Bundle] = bundle["packages"]["distributions"]
    return next(one for one in distributions if one["name"] == name)


def _drop(path: str) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        *above, last = path.split("/")
        holder: Any = bundle
        for part in above:
            holder = holder[part]
        holder.pop(int(last) if isinstance(holder, list) else last)

    return change


FAULTS: dict[str, tuple[Callable[[Bundle], None], str]] = {
    "another vLLM": (_package("vllm", "0.31.0"), "vllm"),
    "another torch": (_package("torch", "2.12.1"), "torch"),
    "another Ray": (_package("ray", "2.59.0"), "ray"),
    "no verl": (_package("verl", None), "verl"),
    "another NCCL": (_package("nvidia-nccl-cu13", "2.27.5"), "nvidia-nccl-cu13"),
    "another Python": (_set("packages/python", "3.11.9"), "python"),
    "seven GPUs": (_drop("gpus/devices/7"), "devices"),
    "another driver": (_set("gpus/driver", "550.54.15"), "driver"),
    "no driver": (_set("gpus/error", "the driver does not answer"), "error"),
    "no NVLink": (_set("gpus/links", {"0-1": "sys"}), "links"),
    "a device in use": (_set("gpus/devices/3/memory_used", 60 * GIB), "GPUs in use"),
    "another interface for NCCL": (_set("environment/NCCL_SOCKET_IFNAME", "docker0"), "NCCL_SOCKET_IFNAME"),
    "another master": (_set("environment/MASTER_ADDR", "node0001"), "MASTER_ADDR"),
    "an engine's switch": (_drop("environment/VLLM_USE_V1"), "VLLM_USE_V1"),
    "little shared memory": (_set("host/shm_total", 64 << 20), "shm_total"),
    "few open files": (_set("host/open_files", 1024), "open_files"),
    "a full disk": (_set("host/disks/0/free", 100 << 20), "disk of temp"),
    "an interface that is down": (_set("node/interfaces/1/state", "down"), "interface ib0"),
    "seven InfiniBand ports": (_drop("node/infiniband/7"), "InfiniBand ports"),
    "a stale Ray": (
        lambda bundle: bundle["node"]["ray"].append({"pid": 7, "address": "127.0.0.1:6379", "session": "old"}),
        "Ray instances",
    ),
    "another tokenizer": (_set("node/hashes/tokenizer.json", "99"), "content of tokenizer.json"),
    "a shard of other weights": (
        _set("node/hashes/model-00001-of-00004.safetensors", "99"),
        "content of model-00001-of-00004.safetensors",
    ),
    "another configuration": (_set("model/config/rope_theta", 10000.0), "config.rope_theta"),
    "a clock that is behind": (_set("node/clock_offset", -41.5), "clock"),
    "a clock that nothing keeps": (_set("node/clock_kept", False), "clock is kept right"),
    "few cores": (_set("host/cpu_usable", 8.0), "cpu_usable"),
    "a limit of memory": (_set("host/memory_limit", 64 * GIB), "memory_limit"),
    "little locked memory": (_set("host/locked_memory", 65536), "locked_memory"),
    "few processes": (_set("host/processes", 4096), "processes"),
    "an older C library": (_set("host/libc", "glibc 2.28"), "libc"),
    "torch without CUDA": (_package("torch", "2.13.0+cpu"), "torch"),
    "no flash-attn": (_package("flash-attn", None), "flash-attn"),
    "another tokenizers": (_package("tokenizers", "0.21.0"), "tokenizers"),
    "a slow interface": (_set("node/interfaces/0/speed", 10_000), "interface " + INTERFACES[0]),
    "small packets": (_set("node/interfaces/1/mtu", 1500), "interface " + INTERFACES[1]),
    "a slow InfiniBand port": (_set("node/infiniband/3/rate", "200 Gb/sec (4X HDR)"), "InfiniBand ports"),
    "a device that fell off the bus": (_set("node/xids", ["0000:1b:00: 79"]), "faults of GPUs (XID)"),
    "a device in slices": (_set("gpus/devices/2/mig", True), "devices"),
    "another kind of device": (_set("gpus/devices/5/name", "NVIDIA H800"), "devices"),
    "libraries in front": (_set("environment/LD_LIBRARY_PATH", "/opt/old/lib"), "LD_LIBRARY_PATH"),
    "a pair of devices without NVLink": (
        _set("gpus/links", {"0-1": "nvlink", "0-2": "pix"}),
        "links",
    ),
    "a Ray of its own": (_set("node/ray/0/address", "127.0.0.1:6379"), "Ray instances"),
    "no InfiniBand for NCCL": (_set("environment/NCCL_IB_DISABLE", "1"), "NCCL_IB_DISABLE"),
    "launches one at a time": (_set("environment/CUDA_LAUNCH_BLOCKING", "1"), "CUDA_LAUNCH_BLOCKING"),
    "collectives that are checked": (_set("environment/TORCH_DISTRIBUTED_DEBUG", "DETAIL"), "TORCH_DISTRIBUTED_DEBUG"),
    "somebody's checkout in front": (_set("environment/PYTHONPATH", "/home/me/verl"), "PYTHONPATH"),
    "a proxy": (_set("environment/https_proxy", "http://proxy:3128"), "https_proxy"),
    "another job": (_set("environment/SLURM_JOB_ID", "8813"), "SLURM_JOB_ID"),
    "a disk on which Ray keeps nothing more": (_set("host/disks/1/free", 40 * GIB), "disk of ray"),
    "somebody's checkout of the trainer": (_package("verl", "0.9.0.dev0"), "verl"),
    "another torch's CUDA": (_package("torch", "2.13.0+cu126"), "torch"),
    "a shard that is cut short": (_set("model/files/tokenizer.json", 1_000), "files.tokenizer.json"),
    "a node that joined no Ray": (_set("node/ray", []), "Ray instances"),
    "no compiler": (_set("host/compilers", {}), "compilers"),
    "another port to meet at": (_set("environment/MASTER_PORT", "29501"), "MASTER_PORT"),
    "one thread": (_set("environment/OMP_NUM_THREADS", "1"), "OMP_NUM_THREADS"),
    "an older triton": (_package("triton", "3.5.1"), "triton"),
    "a damaged vLLM": (lambda bundle: _named(bundle, "vllm").update(damage="no RECORD"), "vllm"),
    "another FSDP": (_set("environment/FSDP_VERSION", "2"), "FSDP_VERSION"),
    "checked gathers": (_set("environment/ACCELERATE_DEBUG_MODE", "1"), "ACCELERATE_DEBUG_MODE"),
    "Python from a patch ago": (_set("packages/python", "3.12.3"), "python"),
    "a model of another type": (_set("model/config/torch_dtype", "float16"), "config.torch_dtype"),
    "no tokenizer": (_drop("model/files/tokenizer.json"), "files.tokenizer.json"),
    "few processes for a container": (_set("host/pids_limit", 1024), "pids_limit"),
    "an older C++ library": (_set("host/glibcxx", "3.4.28"), "glibcxx"),
    "another compiler": (_set("environment/CC", "/opt/old/bin/gcc-7"), "CC"),
    "no device visible": (_set("environment/CUDA_VISIBLE_DEVICES", ""), "CUDA_VISIBLE_DEVICES"),
    "a process on a device": (
        _set("gpus/devices/4/processes", [{"pid": 4242, "name": "python", "memory": 1 << 30}]),
        "GPUs in use",
    ),
    "a device that may draw less": (_set("gpus/devices/2/power_limit", 500), "lowest power limit (W)"),
    "a device on few lanes": (_set("gpus/devices/6/pcie_lanes", 4), "fewest PCIe lanes"),
    "a device whose memory is not corrected": (_set("gpus/devices/1/ecc", False), "correction of memory (ECC)"),
    "a device that ran out of spare rows": (_set("gpus/devices/5/remapping", "failed"), "rows of memory"),
    "half of the devices visible": (_set("environment/CUDA_VISIBLE_DEVICES", "0,1,2,3"), "CUDA_VISIBLE_DEVICES"),
}
"""What is planted, and the fact that must tell."""

VARIATIONS: tuple[Callable[[Bundle], None], ...] = (
    _set("host/load", 180.0),
    _set("host/kernel", "5.15.0-92-generic"),
    _set("host/memory_total", 1999 * GIB),
    _set("host/memory_available", 100 * GIB),
    _set("host/shm_free", 10 * GIB),
    _set("host/shm_total", 1000 * GIB - 4096),
    _set("host/listening_ports", [22, 111, 8265]),
    _set("host/disks/0/free", 90 * GIB),
    _set("host/disks/0/path", "/local/tmp"),
    _set("gpus/devices/0/memory_used", GIB),
    _set("gpus/devices/0/uuid", "GPU-00000000"),
    _set("environment/SLURM_PROCID", "12"),
    _set("environment/SLURM_LOCALID", "0"),
    _set("environment/TORCHELASTIC_RESTART_COUNT", "1"),
    _set("environment/RANK", "64"),
    _set("environment/SLURM_TASK_PID", "88123"),
    _set("environment/NVIDIA_VISIBLE_DEVICES", "GPU-1,GPU-2"),
    _set("node/boot", "another"),
    _set("node/started", 1790000000.0),
    _package("wandb", "0.21.4"),
    _package("other-3", None),
    _package("a-tool-of-someone", "1.0"),
    _set("host/compilers", {"gcc": "/opt/gcc/bin/gcc"}),
    _set("target", "train.sh"),
    _set("host/processes", 7_900_000),
    _set("host/open_files", 4_000_000),
    _set("host/memory_total", 4000 * GIB),
    _set("host/cpu_model", "Intel Xeon Platinum 8468"),
    _set("node/clock_offset", 0.6),
    _set("node/infiniband/0/name", "ibp24s0:1"),
    _set("environment/NCCL_DEBUG", "INFO"),
    _set("environment/VLLM_LOGGING_LEVEL", "DEBUG"),
    _set("environment/RAY_DEDUP_LOGS", "0"),
    _set("environment/HF_HUB_DISABLE_PROGRESS_BARS", "1"),
    _set("environment/TRANSFORMERS_VERBOSITY", "error"),
    _set("environment/PYTHONUNBUFFERED", "1"),
    _set("environment/VLLM_CACHE_ROOT", "/local/vllm"),
    _set("environment/TMPDIR", "/local"),
    _set("environment/no_proxy", "localhost"),
    _set("environment/SLURM_DEBUG", "2"),
    _set("environment/CONDA_DEFAULT_ENV", "base"),
    _set("environment/CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"),
    _set("environment/NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
    _set("environment/HF_DATASETS_CACHE", "/local/datasets"),
    _set("environment/RAY_worker_niceness", "15"),
    _set("host/compilers", {"gcc": "/usr/bin/gcc", "clang": "/usr/bin/clang"}),
    _set("host/locked_memory", 1999 * GIB),
    _set("node/xids", ["0000:5e:00: 43", "0000:5e:00: 45"]),
    _set("environment/NCCL_HOSTID", "rack-4-12"),
    _set("environment/UCX_LOG_LEVEL", "warn"),
    _set("environment/CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1"),
    _set("environment/RAY_ROTATION_MAX_BYTES", "100000000"),
    _set("environment/KMP_WARNINGS", "0"),
    _set("environment/TORCHINDUCTOR_COMPILE_THREADS", "8"),
    _set("environment/TORCH_HOME", "/local/torch"),
    _set("environment/DS_BUILD_FUSED_ADAM", "1"),
    _set("environment/TORCHDYNAMO_DISABLE", "0"),
    _set("environment/all_proxy", ""),
    _set("environment/CUDA_MODULE_LOADING", "LAZY"),
    _set("environment/CC", "/usr/bin/gcc"),
    _set("environment/PYTHON_UV_VERSION", "0.9.9"),
    _package("nvidia-ml-py", "13.580.82"),
    _set("model/files/README.md", 4000),
    _set("model/files/LICENSE.txt", 11000),
    _set("model/config/transformers_version", "5.0.0"),
    _set("model/config/_name_or_path", "/local/q"),
    _set("model/cached", True),
    _set("node/clock_kept", None),
    _set("host/pids_limit", 4_194_304),
    _set("host/libc", "glibc 2.41"),
    _set("host/glibcxx", "3.4.33"),
    _set("gpus/cuda", None),
    _set("gpus/devices/0/power_limit", None),
    _set("gpus/devices/0/pcie_lanes", 32),
    _set("gpus/devices/0/processes", [{"pid": 900, "name": "Xorg", "memory": 40 << 20}]),
    _set("environment/HF_HUB_OFFLINE", "0"),
    _set("node/interfaces/0/state", "unknown"),
    _set("node/interfaces/0/speed", None),
    lambda bundle: bundle["node"]["interfaces"].append({"name": "enxbe3af2b6059f", "state": "up", "speed": 425}),
    lambda bundle: bundle["node"]["interfaces"].append({"name": "eno2", "state": "down"}),
    lambda bundle: bundle["host"]["disks"].pop(1),
    lambda bundle: bundle["host"]["disks"].append({**bundle["host"]["disks"][0], "role": "cwd"}),
)


def write(folder: Path, nodes: int, faults: int, variations: int) -> dict[str, str]:
    """Bundles of so many nodes; which fact must tell on which node."""
    chance = random.Random(20261122)
    numbers = chance.sample(range(1, nodes), faults + variations)
    planted: dict[str, str] = {}
    changes: dict[int, Callable[[Bundle], None]] = {}
    for number, (change, fact) in zip(numbers, list(FAULTS.values())[:faults], strict=False):
        changes[number], planted[f"node{number:04}"] = change, fact
    for index, number in enumerate(numbers[faults:]):
        changes[number] = VARIATIONS[index % len(VARIATIONS)]
    for number in range(nodes):
        bundle = healthy(number)
        if number in changes:
            changes[number](bundle)
        (folder / f"{bundle['node']['host']}.json").write_text(json.dumps(bundle))
    return planted


def main() -> None:
    """Writes the bundles, runs ``rldoctor fleet`` on them and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        planted = write(folder, given.nodes, len(FAULTS), min(200, given.nodes // 5))
        command = [sys.executable, "-m", "rldoctor", "fleet", str(folder)]
        text = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600).stdout
        began = time.perf_counter()
        reported = subprocess.run([*command, "--format", "json"], capture_output=True, check=False, timeout=600).stdout
        seconds = time.perf_counter() - began
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        found = {
            (name, skew["name"])
            for one in json.loads(reported)["classes"]
            for name in one["nodes"]
            for skew in one["differs"]
        }
        right = sum((name, fact) in found for name, fact in planted.items())
        false = sorted((name, fact) for name, fact in found if planted.get(name) != fact)
        print(f"{given.nodes} bundles: {right} of {len(planted)} faults found, {len(false)} false {false[:5]}")
        print(f"{seconds:.1f} s, {most:.0f} MB, {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
