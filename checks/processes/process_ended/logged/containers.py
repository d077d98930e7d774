"""The words of Docker, Podman, Apptainer and Slurm's pyxis with enroot for a container that did not start (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix

from ....observed.endings import unfinished
from .. import check

# Kubernetes has the same line of containerd, which says more.
_OF_THE_RUNTIME = ("failed to create task for container: ", "failed to create containerd task: ")
# Of what scripts tidy up before they start: docker rm, stop, rmi, network create.
_TIDIED = (
    *("No such container", "No such image", "No such network", "is not running", "is already in progress"),
    *("network with name ", "unable to remove", "unable to delete"),
)
_IMAGE = Fix(title="correct the image's name and tag, or log in to its registry on every node")

check.signature(
    "Error response from daemon: ",
    unless=(*_OF_THE_RUNTIME, *_TIDIED, "nvidia-container-cli: "),
    pattern=r"Error response from daemon: (?P<why>[^\n]{3,200})",
    when=unfinished,
    says="Docker could not start the container: {why}",
    fixes=(
        Fix(
            title="where it is about an image: its name and tag, or docker login; about a device driver: install the "
            "NVIDIA container toolkit and restart Docker",
            commands=("docker run --rm --gpus all IMAGE nvidia-smi",),
        ),
    ),
    silent=True,
    url="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html",
)
check.signature(
    "error pulling image configuration: ",
    pattern=r"error pulling image configuration: (?P<why>[^\n]{3,200})",
    when=unfinished,
    says="Docker cannot pull the image: {why}",
    fixes=(_IMAGE, Fix(title="where it is about a connection: see whether the node reaches the registry")),
    silent=True,
    url="https://docs.docker.com/reference/cli/docker/image/pull/",
)
check.signature(
    "Error: initializing source docker://",
    "Error: unable to copy from source docker://",
    pattern=r"source docker://(?P<image>[^\s:]+(?::[\w.-]+)?): (?P<why>[^\n]{3,200})",
    when=unfinished,
    says="Podman cannot pull the image {image}: {why}",
    fixes=(_IMAGE,),
    silent=True,
    url="https://docs.podman.io/en/latest/markdown/podman-pull.1.html",
)
check.signature(
    "While making image from ",
    "nable to handle docker://",
    "nable to handle oras://",
    "container creation failed: ",
    "could not open image ",
    pattern=r"(?P<why>(?:While making image from|[Uu]nable to handle|container creation failed|could not open image)"
    r"[^\n]{3,200})",
    when=lambda case, event: event.level == "CRITICAL" and unfinished(case, event),
    says="Apptainer could not start the container: {why}",
    fixes=(
        _IMAGE,
        Fix(
            title="or give the path of a .sif that all nodes see; caches need room", commands=("apptainer cache list",)
        ),
    ),
    silent=True,
    url="https://apptainer.org/docs/user/latest/",
)
# What enroot said is printed behind pyxis' own line. Where all lines are pyxis', its name is a prefix, and gone.
check.signature(
    "failed to import docker image",
    "failed to create container filesystem",
    "couldn't start container",
    "container start failed with error code",
    pattern=r"(?m)(?:^|pyxis: )(?:failed to import docker image|failed to create container filesystem|couldn't start "
    r"container|container start failed with error code: \d+)\s*$",
    details=(r"\[ERROR\] (?P<why>[^\n]{3,200})", r"enroot-\w+: (?P<why_2>[^\n]{3,200})"),
    when=unfinished,
    says="Slurm could not start the container (pyxis)[[: enroot says {why}]]",
    fixes=(
        Fix(
            title="correct --container-image (registry#image:tag), and give enroot the registry's credentials",
            commands=("cat ~/.config/enroot/.credentials", "enroot import docker://REGISTRY#IMAGE:TAG"),
        ),
        Fix(title="where it is about space: the folders of enroot's cache and data need room for the unpacked image"),
    ),
    silent=True,
    url="https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md",
)
