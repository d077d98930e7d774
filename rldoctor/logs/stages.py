"""Which stage of training an exception happened in, by the functions that were running."""

from __future__ import annotations

from collections.abc import Sequence

from rldoctor.expressions import expression
from rldoctor.logs.model import Frame

# Names of functions and files in trainers, vLLM and transformers; the innermost frame that fits decides, and within a
# frame the first row.
_FRAMES: tuple[tuple[str, str], ...] = (
    (
        "checkpoint",
        r"save_(?:pretrained|checkpoint|model|file|state)|load_checkpoint|_rotate_checkpoints|_save\b|/checkpoint",
    ),
    (
        "weight sync",
        r"update_(?:named_param|weight)|sync_(?:weight|policy|model)|init_communicator|_move_(?:full_)?model_to_vllm|"
        r"broadcast_(?:to_vllm|param)|sharding_manager|refit|transfer_weights|reset_prefix_cache|wake_up|init_weight",
    ),
    ("reward", r"reward|compute_score|verifier|\bscore_\w+"),
    ("log-probabilities", r"log_?prob|per_token_logps|logps"),
    ("evaluation", r"\bevaluate\b|_validate\b|evaluation_loop|prediction_step|eval_step"),
    ("weights", r"load_model|load_weights|from_pretrained|get_model\b|/model_loader/|load_state_dict|load_dummy"),
    (
        "rollout",
        r"\bgenerate\b|generate_(?:sequences|and_score|single)|rollout|_run_engine|execute_model|run_busy_loop|"
        r"_schedule\b|\bschedule\b|add_request|llm_engine\.py step|infer_(?:async|task)|async_generate",
    ),
    (
        "update",
        r"training_step|update_(?:actor|policy|critic)|compute_loss|\bbackward\b|optimizer|ppo_train|train_step|_inner_training_loop|"
        r"micro_batch",
    ),
    (
        "start",
        r"__init__|__post_init__|init_process_group|from_engine_args|create_engine_config|init_workers|init_model|init_device|"
        r"determine_available_memory|initialize_kv|parse_args|_validate_launch|get_actor|\binit\b",
    ),
)
_PATTERNS = tuple((stage, expression(pattern)) for stage, pattern in _FRAMES)


def stage_of(frames: Sequence[Frame]) -> str | None:
    """The stage that the innermost telling frame belongs to, or None where no frame tells. A module's own top level (an
    import, the script itself) is the start."""
    found = [stage for frame in reversed(frames) if (stage := _of_frame(frame)) is not None]
    if found:
        # An update of the engine's weights ends in the functions that load them at the start.
        return "weight sync" if found[0] == "weights" and "weight sync" in found else found[0]
    return "start" if frames and frames[-1].function == "<module>" else None


def _of_frame(frame: Frame) -> str | None:
    name = f"{frame.file} {frame.function} {frame.code}" if frame.function != "<module>" else frame.code
    return next((stage for stage, pattern in _PATTERNS if pattern.search(name)), None)


def stage_before(number: int, marks: Sequence[tuple[int, str]]) -> str | None:
    """The last stage that the log had announced before a line."""
    return next((stage for at, stage in reversed(marks) if at <= number), None)
