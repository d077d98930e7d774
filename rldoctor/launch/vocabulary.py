"""The canonical names of a rollout plan: one table with type, unit and meaning, the same for every framework."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Term:
    """One canonical name. ``kind`` is int, float, bool, str, list, dict or any; ``unit`` is empty for a plain value."""

    name: str
    kind: str
    unit: str
    meaning: str


# Groups that take names beyond the table: vLLM's own option names, and environment variables (always text).
OPEN_GROUPS = {"engine": "any", "env": "str"}

# One row per line: name, kind, unit (- for none), meaning.
# engine.*: exactly vLLM's names (EngineArgs), for the engine that samples, whoever starts it.
_ENGINE = """
engine.model                     str   -      model that the engine loads
engine.tokenizer                 str   -      tokenizer path, where it is not the model's
engine.revision                  str   -      model revision
engine.trust_remote_code         bool  -      code from the model repository is run
engine.task                      str   -      what the engine does with the model: generate, embed, ...
engine.runner                    str   -      newer name of task
engine.dtype                     str   -      precision of weights and activations: auto, bfloat16, float16, float32
engine.quantization              str   -      quantization method: awq, fp8, bitsandbytes, ...
engine.load_format               str   -      how weights are loaded: auto, safetensors, dummy, ...
engine.kv_cache_dtype            str   -      precision of the KV cache: auto, fp8, ...
engine.calculate_kv_scales       bool  -      scales of an fp8 KV cache are computed at run time
engine.max_model_len             int   tokens longest sequence (prompt and response) that the engine accepts
engine.max_num_batched_tokens    int   tokens token budget of one scheduler step
engine.max_num_seqs              int   seqs   sequences of one scheduler step
engine.max_seq_len_to_capture    int   tokens longest sequence that CUDA graphs cover (V0)
engine.max_num_partial_prefills  int   -      prompts prefilled in chunks at the same time
engine.enable_chunked_prefill    bool  -      long prompts are prefilled in chunks
engine.enable_prefix_caching     bool  -      KV blocks of equal prefixes are shared
engine.num_scheduler_steps       int   -      decoding steps per scheduler call (V0 multi-step)
engine.scheduling_policy         str   -      fcfs or priority
engine.async_scheduling          bool  -      scheduling overlaps with execution
engine.disable_async_output_proc bool  -      asynchronous output processing is off (V0)
engine.preemption_mode           str   -      recompute or swap (V0)
engine.use_v2_block_manager      bool  -      block manager of early V0 releases
engine.gpu_memory_utilization    float share  share of each device's memory that the engine claims
engine.kv_cache_memory_bytes     int   bytes  KV cache size, in place of a share
engine.num_gpu_blocks_override   int   blocks KV blocks, in place of profiling
engine.block_size                int   tokens tokens per KV block
engine.swap_space                float GiB    host memory for swapped KV blocks, per device
engine.cpu_offload_gb            float GiB    weights kept in host memory, per device
engine.enforce_eager             bool  -      no CUDA graphs, no compilation
engine.compilation_config        any   -      compilation level or settings
engine.cudagraph_capture_sizes   list  seqs   batch sizes captured as CUDA graphs
engine.tensor_parallel_size      int   ranks  tensor parallel ranks of one engine
engine.pipeline_parallel_size    int   ranks  pipeline parallel ranks of one engine
engine.data_parallel_size        int   ranks  engine replicas run by vLLM itself
engine.data_parallel_rank        int   -      this engine's rank among them
engine.data_parallel_size_local  int   ranks  of them on this node
engine.data_parallel_address     str   -      host of the data parallel coordinator
engine.data_parallel_rpc_port    int   -      its port
engine.data_parallel_start_rank  int   -      first rank on this node
engine.all2all_backend           str   -      communication of expert parallel engines
engine.enable_eplb               bool  -      experts are rebalanced while serving
engine.disable_chunked_mm_input  bool  -      an image or video is never split over two steps
engine.kv_transfer_config        dict  -      KV cache moved between engines
engine.data_parallel_backend     str   -      mp or ray, for data parallel engines
engine.enable_expert_parallel    bool  -      experts are spread over the tensor parallel ranks
engine.prefill_context_parallel_size int ranks context parallel ranks of prefill
engine.decode_context_parallel_size  int ranks context parallel ranks of decode
engine.distributed_executor_backend  str -    mp, ray, uni or external_launcher
engine.disable_custom_all_reduce bool  -      NCCL only, no custom all-reduce kernel
engine.worker_cls                str   -      class of the workers
engine.worker_extension_cls      str   -      class mixed into the workers (weight sync)
engine.device                    str   -      device type or index given to the engine
engine.seed                      int   -      the engine's own seed
engine.enable_sleep_mode         bool  -      the engine can free its memory between phases
engine.enable_lora               bool  -      LoRA adapters are served
engine.max_loras                 int   -      adapters in one batch
engine.max_lora_rank             int   rank   largest adapter rank
engine.max_cpu_loras             int   -      adapters kept in host memory
engine.lora_dtype                str   -      precision of adapters
engine.fully_sharded_loras       bool  -      adapters are sharded like the weights
engine.logprobs_mode             str   -      log-probabilities before or after sampling changes them
engine.max_logprobs              int   -      most log-probabilities per token that a request may ask for
engine.disable_log_stats         bool  -      no statistics
engine.hf_overrides              dict  -      changes to the model's config
engine.rope_scaling              dict  -      rotary scaling (older releases)
engine.rope_theta                float -      rotary base (older releases)
engine.limit_mm_per_prompt       dict  -      images, videos, ... per prompt
engine.mm_processor_kwargs       dict  -      arguments of the multimodal processor
engine.disable_mm_preprocessor_cache bool -   processed images are not kept
engine.mm_processor_cache_gb     float GiB    cache for processed images
engine.mm_encoder_tp_mode        str   -      weights or data, for the vision encoder
engine.generation_config         str   -      where default sampling settings come from: auto, vllm, a path
engine.override_generation_config dict -      changes to them
engine.chat_template             str   -      chat template of the server
engine.speculative_config        dict  -      speculative decoding
engine.guided_decoding_backend   str   -      constrained decoding (older releases)
engine.structured_outputs_config dict  -      constrained decoding
engine.attention_backend         str   -      attention kernel
engine.skip_tokenizer_init       bool  -      the engine handles token ids only
engine.weight_transfer_config    dict  -      weight sync built into the engine
engine.served_model_name         any   -      name(s) that clients ask for
"""

_WORK = """
lengths.prompt      int  tokens longest prompt
lengths.response    int  tokens longest response (of one generation; of the whole dialogue where turns are many)
lengths.total       int  tokens longest prompt and response together, where the framework limits the sum
lengths.turns       int  turns  most turns of one rollout
lengths.turn        int  tokens longest response of one turn
lengths.model       int  tokens context that the launch states for the model itself
lengths.truncation  str  -      what happens to a longer prompt: error, left, right, delete, ...
lengths.overlong_filtered bool - longer prompts are dropped before training
sampling.n                  int   -      completions per request, as the engine is asked
sampling.temperature        float -      temperature
sampling.top_p              float share  nucleus
sampling.top_k              int   -      most likely tokens considered; -1 or 0 for all
sampling.min_p              float share  least probability relative to the best token
sampling.repetition_penalty float -      1 for none
sampling.presence_penalty   float -      0 for none
sampling.frequency_penalty  float -      0 for none
sampling.max_tokens         int   tokens longest completion as the engine is asked
sampling.min_tokens         int   tokens shortest completion
sampling.stop               list  -      stop strings
sampling.stop_token_ids     list  -      stop tokens
sampling.include_stop       bool  -      the stop string stays in the output
sampling.ignore_eos         bool  -      generation runs on after the end token
sampling.skip_special_tokens bool -      special tokens are left out of the text
sampling.detokenize         bool  -      the engine turns tokens into text
sampling.logprobs           int   -      log-probabilities per generated token (0: of the chosen one)
sampling.prompt_logprobs    int   -      log-probabilities per prompt token
sampling.seed               int   -      seed given with each request
sampling.guided             str   -      regular expression or grammar that completions must match
batch.prompts               int   prompts      distinct prompts per rollout step, all ranks
batch.generations           int   completions  completions per prompt (the group)
batch.generation            int   completions  completions generated in one go, all ranks
batch.steps_per_generation  int   steps        micro steps that one generation feeds
batch.iterations            int   -            passes over each generated batch
batch.per_device            int   completions  completions per device in one training micro step
batch.per_device_eval       int   completions  the same for evaluation
batch.accumulation          int   steps        micro steps per optimizer step
batch.train                 int   completions  completions per optimizer step, all ranks
batch.mini_prompts          int   prompts      prompts per optimizer step, all ranks, where the framework counts prompts
batch.logprob_per_device    int   completions  completions per device when log-probabilities are computed
batch.reference_per_device  int   completions  the same for the reference model
batch.rollout_per_device    int   completions  completions per device in one generation call
batch.tokens_per_device     int   tokens       token limit of a packed or dynamic training micro step
batch.logprob_tokens_per_device int tokens     token limit when log-probabilities are computed
batch.dynamic               bool  -            micro batches are cut by tokens, not by sequences
batch.packing               bool  -            sequences are packed without padding
batch.micro                 int   completions  completions per training micro step, all ranks, where so counted
batch.logprob_dynamic       bool  -            the same as batch.dynamic when log-probabilities are computed
batch.reference_dynamic     bool  -            the same for the reference model
batch.reference_tokens_per_device int tokens   token limit of the reference model
batch.critic_per_device     int   completions  completions per device in one micro step of the value model
batch.critic_mini_prompts   int   prompts      prompts per optimizer step of the value model, all ranks
batch.pool                  int   prompts      prompts sampled at a time before filtering, where that differs
batch.validation            int   prompts      prompts per validation step
"""

_PLACE = """
rollout.backend       str  -     engine: vllm, sglang, hf
rollout.enabled       bool -     an engine samples (false: the trainer's own generate)
rollout.async         bool -     generation and training overlap (staleness, background threads)
rollout.async_engine  bool -     the engine's asynchronous interface serves the requests
rollout.staleness     float steps how many updates old a sample may be
rollout.partial       bool -     a generation may be interrupted for an update and continued
rollout.required_batches int -   mini batches collected before each update
rollout.multi_turn    bool -     dialogues of several turns
rollout.tools         bool -     tools or environments are called in between
rollout.evaluates     bool -     evaluation during training drives the same engine
rollout.eval_sampling dict -     sampling settings of evaluation, where they differ
rollout.engine_logprobs bool -   the engine's log-probabilities are used by the loss or compared with the trainer's
rollout.importance_correction bool - the loss corrects for the difference between engine and trainer
rollout.workers       int  -     processes that drive dialogues or requests
rollout.filtered      bool -     groups without a learning signal are dropped and sampled anew
rollout.sampler       str  -     how the next requests are chosen, where the framework has a choice
rollout.concurrency   int  -     requests or samples in flight
placement.mode            str  -       colocate, server, async (own devices, overlapping), separate (own, in turn), none
placement.engines         int  engines engine replicas in all
placement.engine_device   str  -       the device argument for the engine (cuda:1), of older frameworks
placement.engine_devices  list -       device ids that the engine's processes see
placement.trainer_devices list -       device ids that the trainer's processes see
placement.engine_gpus     int  devices devices that engines take, all nodes
placement.trainer_gpus    int  devices devices that training takes, all nodes
placement.gpus_per_node   int  devices devices used on each node
placement.engine_gpus_per_node int devices devices for engines on each node, where they are separate
placement.engine_nodes    int  nodes   nodes for engines, where they are separate
placement.nodes           int  nodes   nodes of the run
placement.roles           dict -       devices asked for by role: {"actor": 8, "reference": 8, "engine": 4}
placement.colocated_roles list -       roles that share devices
placement.server_host     any  -       host (or hosts) of the rollout server
placement.server_port     any  -       its port (or ports)
placement.server_url      any  -       its base URL (or URLs)
placement.server_timeout  float seconds how long the trainer waits for it
placement.listen_host     str  -       host that a server launch binds
placement.listen_port     int  -       port that a server launch binds
parallel.tensor     int  ranks trainer: tensor parallel
parallel.pipeline   int  ranks trainer: pipeline parallel
parallel.virtual_pipeline int - trainer: virtual pipeline stages
parallel.context    int  ranks trainer: context parallel
parallel.expert     int  ranks trainer: expert parallel
parallel.expert_tensor int ranks trainer: tensor parallel inside experts
parallel.sequence   int  ranks trainer: sequence parallel (Ulysses, ring)
parallel.megatron_sequence bool - trainer: Megatron's sequence parallelism along tensor ranks
parallel.data       int  ranks trainer: data parallel, where stated
parallel.reference_tensor   int ranks reference model: tensor parallel
parallel.reference_pipeline int ranks reference model: pipeline parallel
parallel.reference_context  int ranks reference model: context parallel
parallel.reference_expert   int ranks reference model: expert parallel
parallel.reference_sequence int ranks reference model: sequence parallel
parallel.fsdp       int  ranks trainer: FSDP shard group, -1 for all
seed.trainer        int  -     the trainer's seed
seed.data           int  -     seed of shuffling
seed.engine         int  -     base seed from which the engines' seeds are made
seed.per_replica    str  -     how replicas differ: same, rank, replica, random (none is fixed)
seed.per_request    str  -     how requests differ: none (no seed), same, rank, counter
seed.deterministic  bool -     full determinism is asked for
sync.backend        str  -     nccl, gloo, ipc, cuda_ipc, http, file, ...
sync.host           str  -     address that the sync group meets at
sync.port           int  -     its port
sync.group          str  -     its name
sync.ray            bool -     Ray's collective library carries it
sync.bucket_mb      int  MiB   size of one transfer
sync.interval       int  steps optimizer steps between syncs
sync.timeout        float seconds time limit of a sync
sync.layered        bool -     weights are gathered layer by layer
lora.enabled        bool -     training is by adapters
lora.rank           int  rank  adapter rank
lora.alpha          float -    adapter scale
lora.dropout        float share adapter dropout
lora.target_modules any  -     modules with adapters
lora.excluded_modules any -    modules without
lora.modules_to_save any -     modules trained in full beside the adapters
lora.merged         bool -     adapters are merged into the weights before they reach the engine
lora.path           str  -     adapter to start from
lora.quantized      bool -     the base model is quantized (QLoRA)
lora.dora           bool -     weight-decomposed adapters
sleep.enabled       bool -     the engine sleeps while the trainer works
sleep.level         int  -     0 none, 1 weights kept in host memory, 2 weights discarded
sleep.trainer       bool -     the trainer's states leave the device while the engine works
sleep.free_cache    bool -     the KV cache is freed after each rollout
"""

_TRAIN = """
trainer.algorithm     str  -     grpo, ppo, rloo, dapo, gspo, ...
trainer.strategy      str  -     ddp, fsdp, fsdp2, deepspeed, megatron, dataparallel
trainer.zero_stage    int  -     DeepSpeed ZeRO stage
trainer.deepspeed     any  -     DeepSpeed config: a path, a preset's name or the settings
trainer.offload_params    bool - weights rest in host memory
trainer.offload_optimizer bool - optimizer states rest in host memory
trainer.offload_gradients bool - gradients rest in host memory
trainer.reference_offload bool - the reference model rests in host memory
trainer.reference     bool -     a reference model is kept
trainer.critic        bool -     a value model is trained
trainer.dtype         str  -     precision of training: bfloat16, float16, float32
trainer.param_dtype   str  -     precision in which the trained weights are stored
trainer.full          bool -     all weights are trained
trainer.freeze_vision bool -     the vision tower is not trained
trainer.optimizer     str  -     optimizer
trainer.gradient_checkpointing bool - activations are recomputed
trainer.logits_chunked bool -    the loss never holds all logits at once (chunked, fused, Liger)
trainer.logits_chunks int  -     chunks in which logits are computed
trainer.attention     str  -     attention kernel of the trainer
trainer.compile       bool -     torch.compile
trainer.temperature   float -    temperature at which the trainer evaluates log-probabilities
trainer.kl_coefficient float -   weight of the KL term
trainer.steps         int  steps optimizer or rollout steps in all
trainer.epochs        float epochs passes over the prompts
trainer.save_every    float steps steps between checkpoints
trainer.eval_every    float steps steps between evaluations
trainer.eval_strategy str  -     no, steps, epoch
trainer.balanced      bool -     sequences are spread over ranks by length
trainer.timeout       float seconds time limit of collectives
process.launcher      str  -     none, torchrun, accelerate, deepspeed, ray, srun, mpirun or the framework's own
process.nproc         int  ranks processes per node
process.nnodes        int  nodes nodes that the launcher starts
process.total         int  ranks processes in all, where the launcher counts them so
process.node_rank     int  -     this node's rank
process.master_addr   str  -     rendezvous host
process.master_port   int  -     rendezvous port
process.rdzv_backend  str  -     static, c10d, etcd
process.standalone    bool -     one node, own rendezvous
process.devices       str  -     devices chosen by the launcher (--gpu_ids, --include)
process.start_method  str  -     fork, spawn or forkserver
process.main_guard    bool -     the script starts its work under if __name__ == "__main__"
process.background    bool -     the command is started in the background
ray.started           bool -     the file starts a Ray cluster itself
ray.address           str  -     cluster that is joined or submitted to
ray.namespace         str  -     namespace
ray.num_gpus          int  devices devices that the started node offers
ray.num_cpus          int  cores  cores that it offers
ray.runtime_env       dict -     runtime environment
ray.gpus_needed       float devices devices that the run's placement groups ask for
ray.cpus_needed       float cores   cores that they ask for
ray.strategy          str  -     PACK, SPREAD, STRICT_PACK
model.path            str  -     the policy
model.reference_path  str  -     the reference model
model.critic_path     str  -     the value model
model.reward_path     str  -     the reward model
model.dtype           str  -     precision in which the trainer loads it
model.trust_remote_code bool -   code from the model repository is run
model.attention       str  -     attention implementation asked of transformers
model.quantization    str  -     4bit, 8bit, fp8, ...
model.chat_template   str  -     chat template file or text
model.apply_chat_template bool - prompts go through the chat template
model.tokenizer       str  -     tokenizer path, where it is not the model's
model.overrides       dict -     changes to the model's config
model.rope_scaling    any  -     rotary scaling given to the trainer
model.max_pixels      int  pixels largest image
model.type            str  -     model family, where the launch names it
"""


def _rows(text: str) -> list[Term]:
    rows = (line.split(None, 3) for line in text.strip().splitlines())
    return [Term(name, kind, "" if unit == "-" else unit, meaning) for name, kind, unit, meaning in rows]


@lru_cache(maxsize=1)
def terms() -> dict[str, Term]:
    """Every canonical name of the table, in its order."""
    return {term.name: term for part in (_ENGINE, _WORK, _PLACE, _TRAIN) for term in _rows(part)}


def term(name: str) -> Term | None:
    """The row of a canonical name; a name of an open group that the table lacks gets an untyped one, any other None."""
    found = terms().get(name)
    group, _, rest = name.partition(".")
    if found is None and rest and group in OPEN_GROUPS:
        return Term(name, OPEN_GROUPS[group], "", "")
    return found
