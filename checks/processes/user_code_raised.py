"""The user's own code raised: a reward function, a data set, a tool, an environment, the script itself.

What it looks for
    A run whose first failure no pattern explains, and whose innermost frame lies outside installed packages and
    frameworks' checkouts. Also a framework that refuses what a user's function returned, and a script that does not
    exist or does not know its arguments.

Why it hurts
    One wrong index ends all ranks.

How sure it is
    The frame is the one that raised. Whether the data or the code is at fault is for its author.

The fix and its cost
    The file and line are named.

References
    https://docs.python.org/3/tutorial/errors.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rldoctor.api import Case, Check, Evidence, Finding, Fix, LogEvent, LogRun
from rldoctor.api.logs import Frame, LoggedException, is_users, package_of, was_none

check = Check("RLD902", "user-code-raised", __doc__, explains=("RLD900",))


@check.concluded
def raised_in_user_code(case: Case, run: LogRun) -> Iterator[Finding]:
    """The innermost frame of the first failure, or of what it grew from, is the user's."""
    if run.root is None:
        return
    for link in run.root.chain:
        frame = link.raised_by_user
        if frame is not None and run.raised is not None and not frame.raises:
            return  # what its line called raised it, and the log leaves out those frames
        if frame is not None and ".so" not in link.message:  # a library that does not load is no fault of the import
            yield _finding(link, frame, run)
            return
    for link in run.root.chain:
        frame = _asked_by(link)
        if frame is not None:
            yield _finding(link, frame, run)
            return
    fix = _REFUSED.get(run.root.type)
    if fix is not None:
        yield check.finding(
            run.root.message.splitlines()[0][:300],
            evidence=(Evidence(text=run.root.message[:300], source=run.root.source, line=run.root.line),),
            fixes=(fix,),
        )


# What ended before anything ran, by the type under which the log's reader knows it.
_REFUSED = {
    "Script not found": Fix(
        title="name the script by a path that exists on every node and in the container; a relative one counts from "
        "the folder in which the launcher was started"
    ),
    "Command line refused": Fix(title="correct the launch command: the program refused it before anything ran"),
}


# What reward functions, judges and tools call: services, parsers, databases, the standard library.
_CALLED = frozenset(
    re.findall(
        r"\S+",
        "python requests urllib3 httpx httpcore aiohttp anyio openai anthropic litellm google grpc boto3 botocore "
        "tenacity backoff redis pymongo sqlalchemy psycopg2 elasticsearch sympy latex2sympy2 latex2sympy2_extended "
        "math_verify antlr4 pebble regex yaml bs4 lxml pandas PIL cv2 scipy sklearn nltk spacy rouge_score sacrebleu "
        "bert_score Levenshtein jsonschema pydantic pydantic_core docker e2b tavily gymnasium playwright selenium",
    )
)
_PLUGIN = re.compile(r"(?i)reward|judge|scor|verif|grader|tool|environment|\benv\b|sandbox|agent|rubric|plugin")


def _asked_by(link: LoggedException) -> Frame | None:
    """The user's reward function, judge or tool that called the library which raised."""
    below: set[str | None] = set()
    for frame in reversed(link.frames):
        if is_users(frame.file):
            fits = bool(below) and below <= _CALLED and _PLUGIN.search(f"{frame.file} {frame.function}") is not None
            return frame if fits else None
        below.add(package_of(frame.file, frame.function))
    return None


# TRL counts what a reward function returns.
check.signature(
    "The reward function '",
    pattern=r"reward function '(?P<name>[^']+)' returned (?P<got>\d+) rewards, but (?P<wanted>\d+) were expected",
    says="the reward function '{name}' returned a list of length {got} for {wanted} completions",
    fixes=(Fix(title="return one number per completion, in the order of the completions"),),
)


# verl 0.4 to 0.9, RayPPOTrainer._validate: what a reward function returns beside the score is kept by key.
check.signature(
    "len(sample_scores)=",
    pattern=r"(?P<key>\w+): len\(lst\)=(?P<some>\d+), len\(sample_scores\)=(?P<all>\d+)",
    exception="AssertionError",
    says="the reward function returned '{key}' {some} times for {all} samples: the keys differ from sample to sample",
    fixes=(Fix(title="return the same keys for every sample, and either a dict for all of them or a number"),),
)


def _of_a_column(case: Case, event: LogEvent) -> Mapping[str, str] | None:
    """The column that a row was asked for, and the function that asked; None for any other key."""
    frames = event.frames
    column = re.search(r"KeyError: '([^'\n]{1,80})'", event.line)
    if column is None or not frames or not frames[-1].file.endswith("datasets/formatting/formatting.py"):
        return None
    asker = next((f.function for f in reversed(frames) if package_of(f.file, f.function) != "datasets"), "")
    return {"column": column[1], "asker": "" if asker.startswith("<") else asker}


check.signature(
    "KeyError: '",
    exception="KeyError",
    when=_of_a_column,
    says="the data set has no column '{column}'[[, which {asker} reads]]",
    fixes=(
        Fix(title="name the column so (dataset.rename_column), or name the column that it is in the launch's options"),
    ),
    url="https://huggingface.co/docs/datasets/process#rename",
)


# Earlier releases of TRL do not count: the tensor of all rewards does.
_COUNTS = re.compile(r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)")


@check.logged('[x["prompt"] for x in ', "rewards_per_func[:, i] = ")
def user_gave_what_trl_does_not_take(case: Case, event: LogEvent) -> Iterator[Finding]:
    """TRL fails over a column that the data set lacks, or over what a reward function returned."""
    error = event.exception
    if error is None or not event.fatal:
        return
    of_a_reward = bool(error.frames) and error.frames[-1].code.startswith("rewards_per_func")
    if error.type == "KeyError" and error.message == "'prompt'":
        yield check.finding(
            "the data set has no column 'prompt', which the trainer reads",
            fixes=(Fix(title='name the column so: dataset.rename_column("question", "prompt")'),),
        )
    elif of_a_reward and (counts := _COUNTS.search(error.message)):
        yield check.finding(
            f"a reward function returned a list of length {counts[2]} for {counts[1]} completions",
            fixes=(Fix(title="return one number per completion, in the order of the completions"),),
        )
    elif of_a_reward and error.type in ("ValueError", "TypeError"):
        yield check.finding(
            f"a reward function returned what is no list of numbers ({str(error).splitlines()[0][:160]})",
            fixes=(Fix(title="return one number (or None) per completion, no tensors of several elements"),),
        )


def _finding(link: LoggedException, frame: Frame, run: LogRun) -> Finding:
    # A module or a comprehension has no name that helps to find it.
    name = "" if frame.function.startswith("<") else frame.function
    place = f"{frame.file}:{frame.line}"
    none = was_none(link)
    said = str(link).splitlines()[0][:300] + (f" (`{none}` was None)" if none is not None else "")
    return check.finding(
        f"{said} raised{f' by {name}' if name else ''} at {place}",
        evidence=(
            Evidence(text=str(link)[:500], source=link.source, line=link.line),
            Evidence(text=frame.code or frame.function, source=frame.file, line=frame.line),
        ),
        fixes=(Fix(title=f"correct {f'{name} at ' if name else ''}{place}"),),
    )


_AS_THE_TRAINER = Fix(
    title="name the parameters as the trainer does: the columns of the data set (TRL, ms-swift); data_source, "
    "solution_str, ground_truth, extra_info (verl)"
)
check.signature(
    "() got an unexpected keyword argument '",
    pattern=r"(?P<function>[\w.]*(?:reward|score|accuracy|format)\w*)\(\) got an unexpected "
    r"keyword argument '(?P<argument>\w+)'",
    exception="TypeError",
    when=lambda case, event: "__init__" not in event.line,
    says="the reward function {function} does not take {argument}, which the trainer hands it",
    fixes=(Fix(title="let {function} take what the trainer adds: end its parameters with **kwargs"),),
)
check.signature(
    " required positional argument",
    pattern=r"(?P<function>[\w.]*(?:reward|score|accuracy|format)\w*)\(\) missing \d+ "
    r"required positional arguments?: (?P<missing>[^\n]{1,120})",
    exception="TypeError",
    when=lambda case, event: "__init__" not in event.line,
    says="the reward function {function} asks for {missing}, which the trainer does not hand it",
    fixes=(_AS_THE_TRAINER,),
)
check.signature(
    " positional argument but ",
    " positional arguments but ",
    pattern=r"(?P<function>[\w.]*(?:reward|score|accuracy|format)\w*)\(\) takes (?P<takes>(?:from \d+ to )?\d+) "
    r"positional arguments? but (?P<given>\d+) (?:was|were) given",
    exception="TypeError",
    when=lambda case, event: "__init__" not in event.line,
    says="the reward function {function} takes {takes} arguments, and the trainer hands it {given}",
    fixes=(_AS_THE_TRAINER,),
)
check.signature(
    "KeyError: 'reward_model'",
    "KeyError: 'ground_truth'",
    "KeyError: 'data_source'",
    "KeyError: 'extra_info'",
    pattern=r"KeyError: '(?P<field>\w+)'",
    exception="KeyError",
    when=lambda case, event: event.search(r"reward") is not None,
    says="the rows of the data set have no field {field}, which the reward manager reads",
    fixes=(
        Fix(
            title='write it when the data set is prepared: {"data_source": NAME, "prompt": [...], "reward_model": '
            '{"style": "rule", "ground_truth": ANSWER}}'
        ),
    ),
    url="https://verl.readthedocs.io/en/latest/preparation/prepare_data.html",
)
_OWN_REWARD = (
    Fix(
        title="give your own: a file with compute_score(data_source, solution_str, ground_truth, extra_info)",
        commands=(
            "custom_reward_function.path=/path/on/every/node/reward.py custom_reward_function.name=compute_score",
        ),
    ),
    Fix(title="or write a data_source into the data set that verl knows (openai/gsm8k, ...)"),
)
_REWARDS = "https://verl.readthedocs.io/en/latest/preparation/reward_function.html"
check.signature(
    "Reward function is not implemented for data_source=",
    pattern=r"not implemented for data_source=(?P<source>[^\n]{1,120})",
    says="verl has no reward function of its own for data_source={source}",
    fixes=_OWN_REWARD,
    url=_REWARDS,
)
check.signature(
    "default_compute_score",
    exception="NotImplementedError",
    when=lambda case, event: event.exception is not None and not event.exception.message,
    says="verl has no reward function of its own for the data_source of a row",
    fixes=_OWN_REWARD,
    url=_REWARDS,
)
check.signature(
    "Reward function file '",
    "Custom reward function file ",
    pattern=r"[Rr]eward function file '?(?P<file>[^'\n]{1,300}?)'? not found",
    says="the file of the reward function is not there: {file}",
    fixes=(Fix(title="name a path that exists on the node that computes rewards (Ray: on every node), best absolute"),),
)
check.signature(
    "Reward function '",
    pattern=r"Reward function '(?P<name>[^'\n]{1,120})' not found in '?(?P<file>[^'\n]{1,300}?)'?\.?$",
    says="{file} defines no {name}",
    fixes=(Fix(title="name the function that the file defines: custom_reward_function.name"),),
)
check.signature(
    "is not implemented in swift.",
    pattern=r"reward_function (?P<name>[^\n]{1,120}?) is not implemented in swift",
    says="ms-swift knows no reward function {name}",
    fixes=(
        Fix(
            title="register it in a plugin (orms['{name}'] = ...) and name the plugin's file",
            commands=("--external_plugins plugin.py --reward_funcs {name}",),
        ),
    ),
    url="https://swift.readthedocs.io/en/latest/Customization/Pluginization.html",
)
check.signature(
    "doesn't exist on the Hub or cannot be accessed",
    pattern=r"Dataset '(?P<name>[^'\n]{1,200})' doesn't exist on the Hub",
    says="there is no data set {name} on the hub, or this node's token may not read it",
    fixes=(
        Fix(title="correct its name, or name a local folder or file that exists on every node"),
        Fix(title="or give a token that may read it", commands=("hf auth login",)),
    ),
)

# pyarrow's words; what follows the launch's own path is the user's data.
_NO_PARQUET = Fix(
    title="where the data set was cloned with git: the file is a pointer until git LFS has fetched it",
    commands=("git lfs install && git lfs pull",),
)
check.signature(
    "Parquet magic bytes not found in footer",
    "Parquet file size is 0 bytes",
    details=(r"Could not open Parquet input source '(?P<file>[^'\n]{1,300})'",),
    says="a file of the data set is no Parquet file[[: {file}]]",
    fixes=(_NO_PARQUET, Fix(title="else write it again, or fetch it again: it is cut off or of another format")),
    url="https://huggingface.co/docs/hub/datasets-downloading",
)
check.signature(
    "Nested data conversions not implemented for chunked array outputs",
    exception="ArrowNotImplementedError",  # a loader that reads another form of the file instead says it in prose
    says="a column of the data set holds nested values, more of them in one row group than pyarrow can read at once",
    fixes=(
        Fix(title="write the file with smaller row groups: to_parquet(PATH, row_group_size=1000), or as JSON lines"),
    ),
    url="https://github.com/apache/arrow/issues/32723",
)

# How readers of a data set's rows call one of them.
_ROW = re.compile(
    r"\b(?:example|row|sample|item|feature|record|instance)s?\[(?P<quote>['\"])(?P<field>\w+)(?P=quote)\]"
)


@check.logged("example['", 'example["', "= row['", '= row["', "sample['", 'sample["', "item['", 'item["')
def row_lacks_a_field(case: Case, event: LogEvent) -> Iterator[Finding]:
    """A package reads a field that the rows of the data set do not have."""
    error = event.exception
    if error is None or error.type != "KeyError" or not error.frames:
        return
    read = {match["field"] for match in _ROW.finditer(error.frames[-1].code)}
    field = error.message.strip().strip("'\"")
    if field in read:
        yield check.finding(
            f"the rows of the data set have no field {field!r}, which {error.frames[-1].function} reads",
            fixes=(Fix(title=f"write {field!r} into every row, or name the column so where the data set is loaded"),),
        )


# Rows whose content no loader takes.
check.signature(
    "image file is truncated (",
    "PIL.UnidentifiedImageError: ",
    "cannot find video stream with wanted index",
    "moov atom not found",
    "absolute aspect ratio must be smaller than ",
    "nframes should in interval [",
    "Invalid data found when processing input",
    pattern=r"(?P<why>image file is truncated[^\n]{0,60}|cannot identify image file[^\n]{0,200}"
    r"|cannot find video stream|moov atom not found|absolute aspect ratio must be smaller than [^\n]{1,60}"
    r"|nframes should in interval[^\n]{1,60}"
    r"|Invalid data found when processing input[^\n]{0,200})",
    when=lambda case, event: event.exception is not None,
    says="a row of the data set holds an image or video that cannot be used: {why}",
    fixes=(
        Fix(title="open every image and video once before the training, and leave the rows out that fail"),
        Fix(title="or let the loader take another row in its place (ms-swift: without --strict true)"),
    ),
)
check.signature(
    "text input must be of type `str`",
    exception="ValueError",
    says="the tokenizer got something else than text: a row of the data set (or a chat template's message) holds None, "
    "a number or a list",
    fixes=(
        Fix(
            title="leave such rows out, or write them as text: dataset.filter(lambda row: isinstance(row[COLUMN], str))"
        ),
    ),
)
check.signature(
    "Couldn't reach '",
    pattern=r"Couldn't reach '(?P<name>[^'\n]{1,200})' on the Hub(?: \((?P<why>[^)\n]{1,80})\))?",
    says="the data set {name} cannot be fetched from the hub[[ ({why})]]",
    fixes=(
        Fix(
            title="fetch it where there is a network, and name the local folder or files",
            commands=("hf download {name} --repo-type dataset",),
        ),
        Fix(
            title="where the hub limits requests (429): log in, and let one process fetch it first",
            commands=("hf auth login",),
        ),
    ),
)
check.signature(
    "DatasetGenerationCastError",
    "All the data files must have the same columns",
    "because column names don't match",
    "TypeError: Couldn't cast array of type",
    "ArrowInvalid: JSON parse error: ",
    pattern=r"(?P<why>DatasetGenerationCastError"
    r"|All the data files must have the same columns[^\n]{0,160}|column names don't match|Couldn't cast "
    r"array of type[^\n]{0,160}|JSON parse error: [^\n]{0,160})",
    when=lambda case, event: event.exception is not None,
    says="the data set's files do not make one table: {why}",
    fixes=(
        Fix(title="write every row with the same columns and types, None where there is nothing"),
        Fix(title="or load the files that differ as data sets of their own (data_files=...)"),
    ),
    url="https://huggingface.co/docs/datasets/loading",
)
# Arrow counts the bytes of a column of text with 32 bits.
check.signature(
    "offset overflow while concatenating arrays",
    exception="ArrowInvalid",
    says="a column of one batch of the data set holds more than 2 GiB, which Arrow cannot put into one array",
    fixes=(
        Fix(title="write smaller batches: map(..., batch_size=100, writer_batch_size=100), more files of fewer rows"),
        Fix(title="or name images and videos by their paths, where the rows hold their bytes"),
    ),
    url="https://github.com/huggingface/datasets/issues/6206",
)
check.signature(
    "Please pass `features` or at least one example when writing data",
    says="the data set came out empty: no row was left to write",
    fixes=(
        Fix(title="see that the files hold rows in the form that the loader reads, and that no filter drops them all"),
    ),
    url="https://huggingface.co/docs/datasets/loading",
)
