"""A service beside the training refuses: a tracker without a key, a judge whose API says no.

What it looks for
    In a log: experiment trackers (W&B, SwanLab, MLflow, Comet) that have no key, no login or no server, and hosted
    models, as reward functions and judges ask them, that refuse the key, the model or the rate.

Why it hurts
    The training itself is sound. It ends all the same, often on the first step, and on Ray behind three wrappers.

How sure it is
    It is the client's own message. Whether the key is wrong or only unknown on that node is not told.

The fix and its cost
    Give the key where the process runs, keep the records on the node, or leave the tracker out. For a judge: fewer
    requests at once, and a retry.

References
    https://docs.wandb.ai/guides/track/environment-variables
    https://docs.swanlab.cn/en/api/environment-variable.html
    https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

from rldoctor.api import Check, Fix

check = Check("RLD611", "service-unavailable", __doc__, before=("RLD902",))

_NO_TRACKER = Fix(
    title="or do not report there (transformers, TRL, ms-swift: report_to none; verl, EasyR1: "
    "trainer.logger=['console'])"
)
_OFFLINE = "export WANDB_MODE=offline"
_WANDB = "https://docs.wandb.ai/guides/track/environment-variables"

check.signature(
    "api_key not configured (no-tty)",
    "No API key configured. Use `wandb login`",
    "API key must be 40 characters long",
    "wandb: ERROR API key verification failed",
    says="wandb has no valid key, and no terminal to ask for one",
    fixes=(
        Fix(
            title="give wandb its key where the process runs: WANDB_API_KEY in the job's environment (on Ray also in "
            "runtime_env), as there is no terminal to type it",
            commands=("wandb login --verify",),
        ),
        Fix(title="or keep the records on the node", commands=(_OFFLINE,)),
        _NO_TRACKER,
    ),
    url=_WANDB,
)
check.signature(
    "wandb.errors.CommError",
    "wandb.errors.errors.CommError",
    "wandb.sdk.lib.service.ipc_support",
    "Run initialization has timed out after ",
    exception=("CommError", "wandb.errors.CommError", "wandb.errors.errors.CommError"),
    unless=("api_key not configured", "API key"),
    says="wandb does not reach its server, or the server refuses the run: {error}",
    fixes=(
        Fix(title="wandb's server is not reached: keep the records on the node", commands=(_OFFLINE,)),
        Fix(title="or correct entity and project: the key's account must be allowed to write there"),
        _NO_TRACKER,
    ),
    url=_WANDB,
)
check.signature(
    "swanlab.error.KeyFileError",
    "swanlab.error.ApiError",
    "swanlab.error.ValidationError",
    "api key not configured (no-tty), call swanlab.login",
    says="SwanLab has no valid key, or refuses the run: {error}",
    fixes=(
        Fix(
            title="give SwanLab its key where the process runs",
            commands=("export SWANLAB_API_KEY=KEY", "swanlab login"),
        ),
        Fix(title="or keep the records on the node", commands=("export SWANLAB_MODE=local",)),
        _NO_TRACKER,
    ),
    url="https://docs.swanlab.cn/en/api/environment-variable.html",
)
check.signature(
    "mlflow.exceptions.MlflowException: ",
    "mlflow.exceptions.RestException: ",
    says="MLflow's server is not reached, or refuses: {error}",
    fixes=(
        Fix(
            title="name an MLflow server that is up, or a folder",
            commands=("export MLFLOW_TRACKING_URI=file:///path/mlruns",),
        ),
        _NO_TRACKER,
    ),
    url="https://mlflow.org/docs/latest/tracking/",
)

_JUDGE = "https://platform.openai.com/docs/guides/error-codes"
check.signature(
    "openai.AuthenticationError: ",
    "openai.PermissionDeniedError: ",
    "openai.NotFoundError: ",
    says="the API that a reward function, judge or tool asks refuses the key or the model: {error}",
    fixes=(
        Fix(
            title="set the key and the address where the process runs (OPENAI_API_KEY, OPENAI_BASE_URL; on Ray in "
            "runtime_env), and name a model that the server serves",
            commands=('curl -H "Authorization: Bearer $OPENAI_API_KEY" $OPENAI_BASE_URL/models',),
        ),
    ),
    url=_JUDGE,
)
check.signature(
    "openai.RateLimitError: ",
    says="the API that a reward function, judge or tool asks refuses more requests: {error}",
    fixes=(
        Fix(title="ask it less often at once, and again after a pause (max_retries of the client), or serve the judge"),
    ),
    url=_JUDGE,
)
