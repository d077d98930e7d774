"""Kubernetes' words for a pod that it ended, evicted or could not start (RLD603)."""

from __future__ import annotations

import re

from rldoctor.api import Case, Fix, LogEvent, Role

from ....observed.endings import before_its_end, cut_short, pod_never_was, unfinished
from .. import check
from ..fixes import RESUME

_EVICTION = "https://kubernetes.io/docs/concepts/scheduling-eviction/"
_NODE_PRESSURE = "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/"

check.signature(
    "Preempted in order to admit critical pod",
    "reason: Preempting",
    "reason: Preempted",
    "reason: PreemptionByScheduler",
    "reason: DeletionByTaintManager",
    "reason: EvictionByEvictionAPI",
    "TaintManagerEviction",
    when=before_its_end,
    says="Kubernetes ended the pod: {line}",
    fixes=(RESUME, Fix(title="or give the job a higher priority class")),
    silent=True,
    url=_EVICTION,
)
# The scheduler's event has named the pod that takes the place in three ways since 1.20.
check.signature(
    "Preempted by ",
    pattern=r"Preempted by (?:a pod|pod \S{1,80}|[\w.-]{1,253}/[\w.-]{1,253})(?: on node (?P<node>[\w.-]+))",
    when=before_its_end,
    says="Kubernetes ended the pod on {node}: it was preempted for one of higher priority, nothing in the run is at "
    "fault",
    fixes=(RESUME, Fix(title="or give the job a higher priority class")),
    silent=True,
    url=_EVICTION,
)
check.signature(
    "Job was active longer than specified deadline",
    "Pod was active on the node longer than the specified deadline",
    when=before_its_end,
    says="Kubernetes ended the pod at its deadline: {line}",
    fixes=(RESUME, Fix(title="or give the job a longer activeDeadlineSeconds")),
    silent=True,
    url="https://kubernetes.io/docs/concepts/workloads/controllers/job/",
)
check.signature(
    "Usage of EmptyDir volume ",
    pattern=r"Usage of EmptyDir volume \\?\"(?P<volume>[^\"\\]+)\\?\" exceeds the limit \\?\"(?P<limit>[^\"\\]+)",
    when=before_its_end,
    says="Kubernetes evicted the pod: its volume {volume} holds more than the {limit} of its limit",
    fixes=(
        Fix(title="raise the sizeLimit of that emptyDir, or write less there (checkpoints, caches, Ray's session)"),
        RESUME,
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
)
check.signature(
    "The node was low on resource: ",
    unless=("resource: memory", "resource: ephemeral-storage"),
    pattern=r"The node was low on resource: (?P<what>[\w./-]{1,60})",
    when=before_its_end,
    says="Kubernetes evicted the pod: its node was low on {what}",
    fixes=(RESUME, Fix(title="see who uses it on that node", commands=("kubectl describe node NODE",))),
    silent=True,
    url=_NODE_PRESSURE,
)
check.signature(
    "The node had condition: [",
    pattern=r"The node had condition: \[(?P<what>\w{3,60})\]",
    when=before_its_end,
    says="Kubernetes evicted the pod: its node was in {what}",
    fixes=(RESUME, Fix(title="see what fills that node", commands=("kubectl describe node NODE",))),
    silent=True,
    url=_NODE_PRESSURE,
)
check.signature(
    " is forbidden: exceeded quota: ",
    pattern=r"exceeded quota: (?P<quota>[\w.-]{1,253}), requested: (?P<asked>.{1,200}?), used: (?P<used>.{1,200}?), "
    r"limited: (?P<most>[^\s\"]{1,200})",
    when=unfinished,
    says="Kubernetes makes no pod beyond the quota {quota}: {asked} asked for, {used} in use of {most}",
    fixes=(
        Fix(
            title="wait for others' jobs to end, ask for less, or have the quota raised",
            commands=("kubectl describe quota {quota}",),
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/policy/resource-quotas/",
)
check.signature(
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "MountVolume.SetUp failed for volume",
    "AttachVolume.Attach failed for volume",
    "Multi-Attach error for volume",
    "Unable to attach or mount volumes",
    "Failed to create pod sandbox",
    "failed to create containerd task: ",
    "failed to create task for container: ",
    unless=("nvidia-container-cli: ",),  # RLD106
    when=pod_never_was("Started"),
    says="Kubernetes could not start the container: {line}",
    fixes=(
        Fix(
            title="correct what the event names (a secret, a config map, a volume, a command), or leave it out",
            commands=("kubectl describe pod POD",),
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/",
)
# The kubelet's event for a container that it could not make: a secret, a user, a device, a mount.
check.signature(
    "  Error: ",
    unless=("nvidia-container-cli: ",),  # RLD106
    pattern=r"\bWarning\s+Failed\s+(?:\S+(?: \(x\d+ over \w+\))?\s+)?(?:pod/\S+\s+)?(?:kubelet\S*(?: \S+)?\s+)?"
    r"Error: (?P<why>(?!ErrImage|ImagePull)[^\n]{3,200})",
    when=pod_never_was("Started"),
    says="Kubernetes could not start the container: {why}",
    fixes=(
        Fix(
            title="correct what the event names (a secret, a config map, a user, a mount), or leave it out",
            commands=("kubectl describe pod POD",),
        ),
    ),
    silent=True,
    url="https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/",
)
_COMPLETED = re.compile(r"\bNormal\s+(?:\S+\s+){0,3}?(?:Completed|SuccessfulDelete|ScalingReplicaSet)\b")
_never_started = pod_never_was("Started")


def _is_the_last(case: Case, event: LogEvent) -> bool:
    """Whether no event beside it tells that the job was done, or that another pod was started in its stead."""
    return _never_started(case, event) and not any(map(_COMPLETED.search, (*event.before, *event.after)))


# Sidecars are stopped, too.
check.signature(
    "Stopping container ",
    pattern=r"\bKilling\s[^\n]{0,200}Stopping container "
    r"(?P<name>[\w.-]*(?:train|torch|main|worker|learner|ray|grpo|ppo)[\w.-]*)",
    when=lambda case, event: cut_short(case, event) and _is_the_last(case, event),
    says="Kubernetes stopped the container {name}: somebody deleted or scaled down its pod, or its job is over",
    fixes=(Fix(title="see who asked for it", commands=("kubectl get events --sort-by=.lastTimestamp",)), RESUME),
    role=Role.CASCADE,
    silent=True,
    url="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination",
)
check.signature(
    "deleting pod for node scale down",
    when=unfinished,
    says="the cluster's autoscaler ended the pod to take its node away",
    fixes=(
        RESUME,
        Fix(title='or mark the pod: annotation cluster-autoscaler.kubernetes.io/safe-to-evict: "false"'),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/cluster-administration/node-autoscaling/",
)
check.signature(
    "failed liveness probe, will be restarted",
    "failed startup probe, will be restarted",
    pattern=r"Container (?P<name>\S{1,80}) failed (?P<kind>liveness|startup) probe",
    when=before_its_end,
    says="Kubernetes ended the container {name}: it did not answer its {kind} probe",
    fixes=(
        Fix(title="give it longer (initialDelaySeconds, failureThreshold): loading a model takes minutes"),
        Fix(title="read what it did before", commands=("kubectl logs POD --previous",)),
    ),
    role=Role.CASCADE,
    url="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
)
check.signature(
    "Failed to pull image ",
    "Back-off pulling image ",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "Failed to apply default image tag",
    details=(r"(?:[Ff]ailed to pull|Back-off pulling|apply default) image (?:tag )?\\?\"(?P<image>[^\"\\]+)",),
    when=pod_never_was("Started"),
    says="Kubernetes cannot pull the image[[ {image}]]: the run has not started",
    fixes=(
        Fix(title="correct the image's name and tag, or give the pod the registry's credentials (imagePullSecrets)"),
        Fix(title="see what the registry answered", commands=("kubectl describe pod POD",)),
    ),
    silent=True,
    url="https://kubernetes.io/docs/concepts/containers/images/",
)
check.signature(
    "NodeNotReady",
    " which was running pod ",
    "NodeLost",
    "NodeControllerEviction",
    details=(r"\bNode (?P<node>[\w.-]+) (?:status is now|is not ready|was unresponsive|which was running pod)",),
    when=before_its_end,
    says="the node[[ {node}]] of the pod is not ready: Kubernetes ends what runs on it",
    fixes=(RESUME, Fix(title="see what ails the node", commands=("kubectl describe node {node|NODE}",))),
    silent=True,
    url="https://kubernetes.io/docs/concepts/architecture/nodes/",
)
check.signature(
    "in response to imminent node shutdown",
    "Pod was rejected as the node is shutting down",
    "NodeShutdown",
    when=before_its_end,
    says="the node of the pod was shut down, and Kubernetes ended the pod with it: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="see who shut it down (maintenance, an autoscaler, a spot machine taken back)")),
    silent=True,
    url="https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/",
)
check.signature(
    "has reached the specified backoff limit",
    "BackoffLimitExceeded",
    " matching FailJob rule at index ",
    "Back-off restarting failed container",
    "jobset failed due to one or more job failures",
    "jobset failed due to reaching max number of restarts",
    "applying FailJobSet failure policy action",
    # LeaderWorkerSet
    " to recreate group ",
    when=unfinished,
    says="Kubernetes started the pod again, and it failed each time: the cause is in the pods' logs",
    fixes=(Fix(title="read the log of a pod that failed", commands=("kubectl logs POD --previous",)),),
    role=Role.CASCADE,
    silent=True,
    url="https://kubernetes.io/docs/concepts/workloads/controllers/job/",
)
