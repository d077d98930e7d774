"""The words of managed services for a job that they ended, or could not start: SkyPilot, SageMaker, runners of GitHub
and GitLab (RLD603)."""

from __future__ import annotations

from functools import partial

from rldoctor.api import Fix, Role

from ....observed.endings import cut_short, nothing_failed_before, unfinished
from ....observed.outside import is_of_a_tool
from .. import check
from ..fixes import RESUME

_SAGEMAKER = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html"
_DESCRIBE = "aws sagemaker describe-training-job --training-job-name JOB"
_LOGS = "aws logs tail /aws/sagemaker/TrainingJobs --log-stream-name-prefix JOB"
_ended = partial(check.signature, when=nothing_failed_before, silent=True)

_ended(
    "Cluster is preempted or failed",
    says="SkyPilot's cluster was preempted or failed, and the managed job starts again on another",
    fixes=(
        Fix(title="resume from the last checkpoint, kept in a mounted bucket"),
        Fix(title="or use machines that are not preempted (use_spot: false)", commands=("sky jobs queue",)),
    ),
    url="https://docs.skypilot.co/en/latest/examples/managed-jobs.html",
)
check.signature(
    "MaxRuntimeExceeded",
    "MaxWaitTimeExceeded",
    pattern=r"(?P<limit>MaxRuntime|MaxWaitTime)Exceeded",
    says="SageMaker ended the job at its time limit ({limit}InSeconds): nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or ask for more time ({limit}InSeconds; max_run, max_wait in the SDK)")),
    silent=True,
    url=_SAGEMAKER,
)
check.signature(
    "InternalServerError: We encountered an internal error",
    when=unfinished,
    says="SageMaker failed by itself, or a machine of it did (InternalServerError): nothing in the run is at fault",
    fixes=(RESUME, Fix(title="where it comes again, ask AWS what failed", commands=(_DESCRIBE,))),
    silent=True,
    url=_SAGEMAKER,
)
# Its name for a script that ended with an exit code.
check.signature(
    "AlgorithmError: ",
    pattern=r"\b(?:Failure)?Reason[\"']?: [\"']?AlgorithmError: (?P<why>[^\n\"]{3,160})",
    # Of a signal that ended it the exit code tells more.
    when=lambda case, event: unfinished(case, event) and nothing_failed_before(case, event) and not event.run.departed,
    says="the job's own program failed, as SageMaker tells, and the cause is not in this log: {why}",
    fixes=(Fix(title="read what the program wrote", commands=(_LOGS,)),),
    role=Role.CASCADE,
    silent=True,
    url=_SAGEMAKER,
)
# What an instance of EC2 is told of itself, and who watches for it writes down.
check.signature(
    *(f'"action":{gap}"{action}",{gap}"time":' for action in ("terminate", "stop", "hibernate") for gap in ("", " ")),
    # The whole document, with its hour in UTC: an agent's action has other fields, or is told as a tool's.
    pattern=r"^[^{}]*\{\"action\": ?\"(?P<how>\w+)\", ?\"time\": ?\"(?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z)\"\}",
    when=lambda case, event: cut_short(case, event) and not is_of_a_tool(event.line),
    says="EC2 took the spot instance away ({how}, at {time}): nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or use machines that are not taken back")),
    silent=True,
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html",
)
# agent/spotinstancemetadata of the ECS agent.
_ended(
    "Received a spot interruption (",
    pattern=r"spot interruption \((?P<how>\w+)\) scheduled for (?P<time>[\dT:.Z-]{10,40})",
    says="EC2 took the spot instance away ({how}, at {time}): nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or use machines that are not taken back")),
    url="https://docs.aws.amazon.com/AmazonECS/latest/developerguide/container-instance-spot.html",
)
# Exceptions that a service raises in the job's own process.
check.signature(
    "AirflowTaskTimeout",
    "FunctionTimeoutError",
    exception=("airflow.exceptions.AirflowTaskTimeout", "modal.exception.FunctionTimeoutError"),
    says="whoever runs the job ended it at a time limit: {error}",
    fixes=(RESUME, Fix(title="or give the job longer (Airflow: execution_timeout, Modal: timeout)")),
    url="https://airflow.apache.org/docs/apache-airflow/stable/core-concepts/tasks.html#timeouts",
)
_ended(
    " hit its timeout of ",
    pattern=r"current input \S+ hit its timeout of (?P<limit>\d+) ?s",
    says="Modal ended the function at its time limit of {limit} s: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or give the function longer (timeout=)")),
    url="https://modal.com/docs/guide/timeouts",
)
check.signature(
    "Quota '",
    pattern=r"\bQuota '(?P<quota>\w{3,120})' (?:exhausted|exceeded)\b",
    when=unfinished,
    says="the cloud's quota {quota} is used up: the machines of the run cannot be had",
    fixes=(
        Fix(title="have it raised, end what else uses it, or ask in another region or for another kind of machine"),
    ),
    silent=True,
    url="https://cloud.google.com/compute/resource-usage",
)
check.signature(
    "Resources are insufficient in region: ",
    when=unfinished,
    says="Vertex AI found no place for all of it: its region has no machine of that kind left",
    fixes=(Fix(title="try later, in another region, or ask for another kind of machine"),),
    silent=True,
    url="https://cloud.google.com/vertex-ai/docs/training/troubleshooting",
)
check.signature(
    "InsufficientInstanceCapacity",
    when=unfinished,
    says="the cloud has no machine of that kind left (capacity): the run has not started",
    fixes=(Fix(title="try later, in another zone or region, or ask for another kind of machine"),),
    silent=True,
    url=_SAGEMAKER,
)
_ended(
    "Job failed: execution took longer than ",
    " has exceeded the maximum execution time of ",
    pattern=r"(?:took longer than|maximum execution time of) (?P<limit>\w[\w ]{0,40}?)(?: seconds)?\.?\s*$",
    says="the CI runner ended the job at its time limit ({limit}): nothing in the run is at fault",
    fixes=(Fix(title="give the job longer (GitHub: timeout-minutes, GitLab: timeout), or start the run outside CI"),),
    url="https://docs.github.com/en/actions/reference/limits",
)
check.signature(
    "The operation was canceled.",
    "The runner has received a shutdown signal",
    "ERROR: Job failed (system failure): ",
    when=cut_short,
    general=True,
    says="the CI job was ended from outside: {line}",
    fixes=(
        Fix(title="see in the workflow's own page who or what ended it (a person, a newer run, the runner's machine)"),
        RESUME,
    ),
    silent=True,
    url="https://docs.github.com/en/actions/how-tos/manage-runners/self-hosted-runners/monitor-and-troubleshoot",
)
# clearml/task.py, by whose word its own process ends itself.
check.signature(
    "### TASK STOPPED - USER ABORTED",
    when=cut_short,
    says="somebody stopped the ClearML task of the run",
    fixes=(RESUME,),
    role=Role.CASCADE,
    silent=True,
    url="https://clear.ml/docs/latest/docs/fundamentals/task",
)
# Jenkins' pipelines, of the agent that a build runs on: workflow-durable-task-step.
check.signature(
    "Cannot contact ",
    " was marked offline: ",
    "went offline during the build",
    "; cancelling node body",
    pattern=r"^(?:Cannot contact (?P<node>[\w.-]{1,200}): (?:hudson|java)\."
    r"|(?P<node_2>[\w.-]{1,200}) was marked offline: [A-Z]|(?:Agent|Slave) went offline during the build"
    r"|Agent (?P<node_3>[\w.-]{1,200}) was deleted; cancelling node body)",
    when=cut_short,
    says="the CI job lost the machine[[ {node}]] that it ran on",
    fixes=(Fix(title="see what ails that agent: its machine, its process, its network"), RESUME),
    silent=True,
    url="https://www.jenkins.io/doc/book/using/using-agents/",
)
