"""Ways out where NCCL's settings or transports stop a group."""

from __future__ import annotations

from rldoctor.api import Fix

DEBUG = Fix(title="let NCCL name the failing call", commands=("export NCCL_DEBUG=WARN",))
SAME_CUMEM = Fix.unsafe(
    "set NCCL_CUMEM_ENABLE to the same value for the trainer and for vLLM's workers (vLLM 0.6.3 to 0.10.1 set "
    "it to 0 for theirs)",
    {"env.NCCL_CUMEM_ENABLE": "0"},
    valid_for="vllm<0.10.2",
)
NO_DIRECT_TRANSFERS = Fix.unsafe(
    "avoid direct GPU transfers",
    {"env.NCCL_P2P_DISABLE": "1", "env.NCCL_SHM_DISABLE": "1"},
    side_effects="slower transfers within a node",
)
NO_NVLS = Fix.unsafe("switch NVLink SHARP off", {"env.NCCL_NVLS_ENABLE": "0"})
NEWER_VLLM = Fix(
    title="vLLM 0.9.2 and later respect the NCCL_CUMEM_ENABLE of the environment, 0.10.2 and later leave it alone",
    commands=('pip install "vllm>=0.9.2"',),
)
NAME_INTERFACE = Fix(
    title="name an interface that exists on every node and reaches the others (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME)",
    commands=("ip -brief address",),
)
