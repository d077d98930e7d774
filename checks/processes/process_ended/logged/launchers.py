"""The words of mpirun, Kubeflow, Nomad and torch for a node, a replica or a worker that is gone (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix, Role

from ....observed.endings import unfinished
from .. import check
from ..fixes import RESUME

check.signature(
    "has lost communication with a remote daemon",
    "An ORTE daemon has unexpectedly failed after launch",
    "A PRTE daemon has unexpectedly failed after launch",
    "was unable to reliably start one or more daemons",
    says="mpirun lost a node of the job: its daemon there is gone, or the network to it",
    fixes=(
        Fix(title="see on that node whether it, or its network, is gone; leave it out of the hostfile"),
        RESUME,
    ),
    silent=True,
    url="https://docs.open-mpi.org/en/main/launching-apps/index.html",
)
check.signature(
    " replica(s) failed.",
    pattern=r"\b(?P<kind>\w+Job) (?P<job>\S+) (?:is|has) failed because (?P<why>\d+ \w+ replica\(s\) failed)",
    when=unfinished,
    says="Kubeflow ended the {kind} {job}: {why}; why is in the log of that replica's pod",
    fixes=(Fix(title="read the log of a pod that failed", commands=("kubectl logs POD --previous",)),),
    role=Role.CASCADE,
    silent=True,
    url="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/",
)
# client/allocrunner/taskrunner/restarts/restarts.go
check.signature(
    "Exceeded allowed attempts ",
    pattern=r"Exceeded allowed attempts (?P<most>[1-9]\d*) in interval \S+ and mode is \\?\"fail\\?\"",
    when=unfinished,
    says="Nomad started the task again as often as it may ({most}), and it failed each time",
    fixes=(Fix(title="read what the task wrote before", commands=("nomad alloc logs -stderr ALLOCATION",)),),
    role=Role.CASCADE,
    silent=True,
    url="https://developer.hashicorp.com/nomad/docs/job-specification/restart",
)
# torch/distributed/elastic/agent/server/local_elastic_agent.py: it warns first, and gives the job up then.
check.signature(
    " stuck in uninterruptible sleep (D-state) for ",
    pattern=r"Worker pid=(?P<pid>\d+) stuck in uninterruptible sleep \(D-state\) for (?P<time>[\d.]+) ?s",
    when=unfinished,
    says="torchrun gave up: the worker with pid {pid} was stuck in the kernel for {time} s (a driver, a file system)",
    fixes=(
        Fix(
            title="see on that node what the kernel says of the GPU, the network card or the mount it waits for",
            commands=("dmesg -T | tail -50", "cat /proc/PID/stack"),
        ),
        Fix(title="leave the node out, and restart it: no signal ends such a process"),
    ),
    silent=True,
    url="https://pytorch.org/docs/stable/elastic/agent.html",
)
# torch/distributed/elastic/rendezvous/dynamic_rendezvous.py
check.signature(
    "since they had no heartbeat",
    "has failed to send a keep-alive heartbeat to the rendezvous",
    pattern=r"[Tt]he node (?P<nodes_2>'[^'\n]{1,200}') has failed to send a keep-alive"
    r"|the node\(s\) (?P<nodes>[^\n]{1,200}?) have been removed from the rendezvous",
    when=unfinished,
    says="torchrun lost a node of the job ({nodes}): its agent was not heard of any more",
    fixes=(
        Fix(title="see on that node whether it, its agent or its network is gone: its own log says more"),
        RESUME,
    ),
    role=Role.CASCADE,
    silent=True,
    lost=True,
    url="https://pytorch.org/docs/stable/elastic/rendezvous.html",
)
# torch/csrc/DataLoader.cpp; the kernel's SIGKILL is RLD604, a full /dev/shm RLD113, and what is terminated or hung up
# did not crash.
check.signature(
    ") is killed by signal: ",
    pattern=r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: "
    r"(?P<signal>Segmentation fault|Aborted|Illegal instruction|Floating point exception)",
    says="the loader's worker with pid {pid} crashed in native code ({signal}), without a word of its own",
    fixes=(
        Fix(
            title="let it say where: no workers of their own (dataloader_num_workers=0), and Python's fault handler",
            commands=("export PYTHONFAULTHANDLER=1",),
        ),
        Fix(title="look at what decodes its rows with threads or CUDA of its own (images, videos, tokenizers)"),
    ),
    url="https://docs.python.org/3/library/faulthandler.html",
)
