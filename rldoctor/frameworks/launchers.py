"""The options of the programs that start ranks, in canonical names; the first rule of a launcher names it."""

from __future__ import annotations

from rldoctor.frameworks.accelerate import ACCELERATE_DEEPSPEED, ACCELERATE_PROCESSES

TORCHRUN = {
    "nproc_per_node": "process.nproc",
    "nnodes": "process.nnodes",
    "node_rank": "process.node_rank",
    "master_addr": "process.master_addr",
    "master_port": "process.master_port",
    "rdzv_backend": "process.rdzv_backend",
    "rdzv_endpoint": "process.rdzv_endpoint",
    "standalone": "process.standalone",
}
ACCELERATE = {**ACCELERATE_PROCESSES, **ACCELERATE_DEEPSPEED}
DEEPSPEED = {
    "num_gpus": "process.nproc",
    "num_nodes": "process.nnodes",
    "node_rank": "process.node_rank",
    "master_addr": "process.master_addr",
    "master_port": "process.master_port",
    "include": "process.devices",
}
# What starts each, and its options, by the name that a plan gives the launcher.
LAUNCHERS = {
    "torchrun": ("torchrun", TORCHRUN),
    "accelerate": ("accelerate launch", ACCELERATE),
    "deepspeed": ("deepspeed", DEEPSPEED),
}
