"""The faults that tests put into a real engine, one at a time, and the codes that must name each: no more and no fewer.

``python -m tests.probes.faults.table`` writes the page of them in the documentation, and how many each scenario sees
(``rldoctor/knowledge/faults_seen.json``), by which ``--budget`` chooses."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from rldoctor.flow.budget import codes_by_probe
from rldoctor.plan.model import RolloutPlan
from tests.loaded import REGISTRY
from tests.plans import QWEN2_7B
from tests.plans import case as planned

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "faults.md"
NUMBERS = ROOT / "rldoctor" / "knowledge" / "faults_seen.json"

# Scenarios that share one engine: a fault of the sampler may not show in what the others compare, nor twice.
WHOLE = ("rollout", "agreement", "answers", "sampling", "tokens")
MIXED = (*WHOLE, "mixed")
DRAWS = ("sampling", "mixed")
ANSWERS = ("agreement", "answers", "tokens")
LENGTHS = ("agreement", "lengths")
SLEEP, SOAK = ("sleep",), ("soak",)
SHORT = planned(lengths__prompt=64, lengths__response=16, engine__max_model_len=256).plan
SLEEPS = planned(engine__enable_sleep_mode=True).plan
# A launch whose adapters have a scale of 1, which would hide that it is missing.
ADAPTERS = planned(
    engine__enable_lora=True, lora__rank=8, lora__alpha=8, engine__max_lora_rank=16, engine__max_loras=2
).plan
# Families of models that have what others lack; their miniatures stand in for the usual one.
FAMILIES = {
    "windows": {
        **QWEN2_7B,
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "sliding_window": 4096,
    },
    "tied": {**QWEN2_7B, "tie_word_embeddings": True},
    "yarn": {
        **QWEN2_7B,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        "max_position_embeddings": 131072,
    },
    "caps": {
        **QWEN2_7B,
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_size": 2304,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "sliding_window": 4096,
        "tie_word_embeddings": True,
    },
    "experts": {
        **QWEN2_7B,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "moe_intermediate_size": 768,
    },
    "latents": {
        **QWEN2_7B,
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "hidden_size": 2048,
        "first_k_dense_replace": 1,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 40.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 0.707,
            "mscale_all_dim": 0.707,
        },
        "max_position_embeddings": 163840,
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1408,
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "topk_method": "greedy",
        "n_group": 1,
        "topk_group": 1,
    },
    "stretched": {
        **QWEN2_7B,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "max_position_embeddings": 131072,
    },
    "locals": {
        **QWEN2_7B,
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_size": 2560,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "tie_word_embeddings": True,
    },
    "gated": {
        **QWEN2_7B,
        "architectures": ["Qwen2MoeForCausalLM"],
        "model_type": "qwen2_moe",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "decoder_sparse_step": 1,
        "norm_topk_prob": False,
    },
}


@dataclass(frozen=True)
class Fault:
    """``name`` is ``module:function`` beside this file, ``scenarios`` are those that are played, ``launch`` what they
    are played for, ``family`` the kind of model. One that is ``often`` is part of every test run, for codes that
    no other test takes from a real engine; the others are of ``make test-power``."""

    name: str
    breaks: str
    codes: tuple[str, ...]
    scenarios: tuple[str, ...] = WHOLE
    launch: RolloutPlan | None = None
    often: bool = False
    family: str | None = None

    @property
    def healthy(self) -> str:
        """What the engine of this fault's group is without one: vLLM has no sleep mode on the CPU."""
        return "sleep:pretended" if self.scenarios == SLEEP else ""

    @property
    def played(self) -> str:
        """What is done to the engine."""
        return ",".join(dict.fromkeys(one for one in (self.healthy, self.name) if one))

    @property
    def group(self) -> tuple[tuple[str, ...], bool, str | None]:
        """Faults of one group share their boots."""
        return self.scenarios, self.launch is not None, self.family


FAULTS = (
    Fault("sampling:temperature_ignored", "temperature has no effect", ("RLD219",), often=True),
    Fault("sampling:temperature_doubled", "temperature counts twice", ("RLD404",)),
    Fault("sampling:temperature_a_tenth_off", "temperature off by 10 %", ("RLD404",)),
    Fault("sampling:temperature_last", "temperature applied behind top-p and min-p", ("RLD219",)),
    Fault("sampling:top_k_ignored", "top-k has no effect", ("RLD219",)),
    Fault("sampling:top_k_one_more", "top-k keeps one token more", ("RLD404",)),
    Fault("sampling:top_k_one_less", "top-k keeps one token less", ("RLD404",)),
    Fault("sampling:top_p_ignored", "top-p has no effect", ("RLD219",)),
    Fault("sampling:top_p_without_border", "top-p cuts the token that passes the border", ("RLD404",)),
    Fault("sampling:min_p_ignored", "min-p has no effect", ("RLD219",)),
    Fault("sampling:logit_bias_ignored", "logit_bias has no effect", ("RLD219",)),
    Fault("sampling:allowed_token_ids_ignored", "allowed_token_ids has no effect", ("RLD219",)),
    Fault("sampling:bad_words_ignored", "bad_words has no effect", ("RLD219",)),
    Fault("sampling:min_tokens_ignored", "min_tokens has no effect", ("RLD219",)),
    Fault("sampling:repetition_penalty_ignored", "repetition_penalty has no effect", ("RLD219",)),
    Fault("sampling:repetition_penalty_without_prompt", "repetition_penalty leaves the prompt out", ("RLD404",)),
    Fault("sampling:presence_penalty_ignored", "presence_penalty has no effect", ("RLD219",)),
    Fault("sampling:frequency_penalty_ignored", "frequency_penalty has no effect", ("RLD219",)),
    Fault("sampling:penalties_with_prompt", "presence and frequency penalties count the prompt", ("RLD404",)),
    Fault("sampling:biased", "tokens of even id are likelier", ("RLD404",)),
    Fault("sampling:second_best_at_times", "one draw in 20 is the second likeliest token", ("RLD404",), often=True),
    Fault("sampling:inverse_cdf_off", "the last 5 % of the distribution never come", ("RLD404",)),
    Fault("sampling:noise_shared_by_pairs", "neighbours in a batch share random numbers", ("RLD311",)),
    Fault("sampling:noise_of_every_step_alike", "random numbers begin anew at each step", ("RLD311",)),
    Fault("sampling:seeds_ignored", "seeds of requests have no effect", ("RLD219",)),
    Fault("sampling:seeds_of_the_first", "all seeded requests of a batch draw alike", ("RLD219",)),
    Fault("sampling:seeds_by_place", "what a seed draws depends on its place in the batch", ("RLD219",)),
    Fault("sampling:seeds_begin_anew", "a seeded request draws alike at each step", ("RLD404",)),
    Fault("sampling:greedy_among_the_best", "greedy takes the second best in near ties", ("RLD219",)),
    Fault("sampling:processed_in_place_of_raw", "log-probabilities of another mode than configured", ("RLD213",)),
    Fault("sampling:logprob_of_a_neighbour", "log-probability of another token than the sampled one", ("RLD403",)),
    Fault("sampling:ranks_off_by_one", "ranks of sampled tokens off by one", ("RLD213",)),
    Fault("answers:sampled_logprob_left_out", "no log-probability of the sampled token", ("RLD213",), often=True),
    Fault("answers:prompt_logprobs_late", "log-probabilities of prompt tokens off by one place", ("RLD403",)),
    Fault("answers:ignore_eos_ignored", "ignore_eos has no effect", ("RLD219",)),
    Fault("answers:eos_ignored", "the end of sequence does not end a completion", ("RLD215",)),
    Fault("answers:stop_token_ids_ignored", "stop_token_ids have no effect", ("RLD219",)),
    Fault("answers:one_token_more", "max_tokens gives one more", ("RLD219",)),
    Fault("answers:one_token_less", "max_tokens gives one less", ("RLD219",)),
    Fault("answers:always_length", "every finish reason is 'length'", ("RLD404",)),
    Fault("answers:tokens_of_another_text", "token ids that are not those of the text", ("RLD404",)),
    Fault("answers:swapped", "two answers of a batch swapped", ("RLD220",), often=True),
    Fault("answers:out_of_order", "answers in the order in which they end", ("RLD220",)),
    Fault("answers:lost", "one answer of a batch lost", ("RLD220",)),
    Fault("answers:doubled", "one answer of a batch twice", ("RLD220",)),
    Fault("answers:completion_lost", "one of n completions lost", ("RLD220",)),
    Fault("answers:prompt_cut", "prompts lose their first tokens silently", ("RLD220",)),
    Fault("texts:garbled", "letters of the other case in the text", ("RLD404",)),
    Fault("texts:first_character_dropped", "the text lacks its first character", ("RLD404",)),
    Fault("texts:characters_of_several_bytes_doubled", "characters of several bytes come twice", ("RLD404",)),
    Fault("texts:incremental_alone", "each token is decoded for itself", ("RLD404",)),
    Fault("texts:special_tokens_shown", "skip_special_tokens has no effect", ("RLD219",)),
    Fault("texts:prompt_echoed", "the text begins with the prompt's", ("RLD404",)),
    Fault("texts:stop_strings_ignored", "stop strings have no effect", ("RLD219",)),
    Fault("texts:stop_strings_left_in", "the stop string stays in the text", ("RLD219",)),
    Fault("texts:stop_strings_cut_short", "text is cut a character before the stop string", ("RLD219",)),
    Fault("small:layer_off", "one matrix off by 0.5 %", ("RLD403",)),
    Fault("small:first_layer_off", "one matrix of the first layer off by 0.5 %", ("RLD403",), ("agreement",)),
    Fault("small:head_off", "one attention head's output off by 1 %", ("RLD403",), ("agreement",)),
    Fault("small:key_row_off", "one row of a key matrix off by 5 %", ("RLD403",), ("agreement",)),
    Fault("small:norm_off", "one value of a norm's weight off by 5 %", ("RLD403",), ("agreement",)),
    Fault("small:norm_not_loaded", "a norm's weight left as it was made", ("RLD403",), ("agreement",)),
    Fault("small:bias_dropped", "a bias is not added", ("RLD403",), ("agreement",)),
    Fault("small:last_embedding_off", "the last row of the embedding off by 5 %", ("RLD403",), ("agreement",)),
    Fault("small:last_logit_off", "the last row of the head off by 20 %", ("RLD403",), ("agreement",)),
    Fault("small:bfloat16_layer", "one matrix's product rounded to bfloat16", ("RLD403",), ("agreement",)),
    Fault("small:bfloat16_keys", "keys kept in bfloat16", ("RLD403",), ("agreement",)),
    Fault("small:softcapped", "logits softly capped", ("RLD403",), ("agreement",)),
    Fault("small:logprobs_scaled", "log-probabilities scaled", ("RLD403",), ("agreement",)),
    Fault("small:logprobs_shifted", "log-probabilities shifted", ("RLD403",), ("agreement",)),
    Fault("small:decode_one_late", "positions in decode off by one", ("RLD403",), ("agreement",)),
    Fault("small:one_late_after_16", "positions off by one from 16 on", ("RLD403",), ("agreement",)),
    Fault("small:one_late_after_64", "positions off by one from 64 on", ("RLD403",), ("agreement",)),
    Fault("small:rotary_base_off", "another base of the rotary table", ("RLD403",), ("agreement",)),
    Fault("small:rotary_scaled", "the rotary table scaled", ("RLD403",), ("agreement",)),
    Fault("small:attention_scale_off", "attention's scale off", ("RLD403",), ("agreement",)),
    Fault("small:keys_off_at_block_ends", "keys off at the ends of blocks", ("RLD403",), ("agreement",)),
    Fault(
        "small:keys_off_where_decoding_begins_a_block",
        "keys off where decoding begins a block",
        ("RLD403",),
        ("agreement",),
    ),
    Fault("small:another_requests_block", "a request reads another one's block", ("RLD403",), ("agreement",)),
    Fault(
        "small:prefixes_by_all_but_the_last_token",
        "the prefix cache ignores a block's last token",
        ("RLD403",),
        ("agreement",),
    ),
    Fault(
        "small:logprobs_of_the_neighbour",
        "log-probabilities of the token with the next id",
        ("RLD405",),
        ("agreement",),
    ),
    Fault("small:batches_one_late", "positions off by one in batches", ("RLD405",), ("agreement",)),
    Fault("small:one_token_masked", "one ordinary token has no probability", ("RLD404",)),
    Fault("small:last_rotary_row", "the last row of the rotary table is empty", ("RLD204",)),
    Fault("sampling:bad_words_of_one_token_ignored", "bad words of one token are not forbidden", ("RLD404",), MIXED),
    Fault("sampling:frequency_counts_once", "frequency_penalty counts each token once", ("RLD404",), MIXED),
    Fault("sampling:top_p_not_beside_top_k", "top-p has no effect beside top-k", ("RLD404",), MIXED),
    Fault("sampling:min_p_of_all", "min-p is not relative to the likeliest token", ("RLD404",)),
    Fault("sampling:temperature_at_most_one", "temperatures above 1 count as 1", ("RLD404",), MIXED),
    Fault("sampling:temperature_of_the_neighbour", "a request gets its neighbour's temperature", ("RLD404",), MIXED),
    Fault("sampling:temperature_left_behind", "a row that moves leaves its temperature", ("RLD404",), MIXED),
    Fault(
        "sampling:allowed_tokens_of_the_neighbour", "a request gets its neighbour's allowed tokens", ("RLD219",), MIXED
    ),
    Fault("answers:one_top_less", "one of the likeliest tokens is not told", ("RLD213",)),
    Fault("texts:stripped", "texts lose white space at their ends", ("RLD404",)),
    Fault("small:epsilon_of_norms", "another epsilon in norms", ("RLD403",), ("agreement",)),
    Fault("small:another_activation", "another activation in one layer", ("RLD403",), ("agreement",)),
    Fault("weights:averaged", "from the second update on weights are averaged", ("RLD402",), ("weights",)),
    Fault("weights:keys_and_values_exchanged", "keys and values arrive exchanged", ("RLD402",), ("weights",)),
    Fault("weights:in_bfloat16", "weights arrive in bfloat16", ("RLD402",), ("weights",)),
    Fault("small:keys_off_at_chunk_ends", "keys off by 5 % at the ends of chunks", ("RLD201",), ("chunked_prefill",)),
    Fault("small:adapters_without_scale", "an adapter without its scale", ("RLD214",), ("lora",), ADAPTERS),
    Fault(
        "lora:scale_of_its_root",
        "an adapter scaled by alpha over the root of its rank",
        ("RLD214",),
        ("lora",),
        ADAPTERS,
    ),
    Fault("lora:one_module_left_out", "one module of an adapter is not applied", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:one_rank_left_out", "one rank of an adapter is not applied", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:only_prompts", "an adapter is applied in prefill alone", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:prefixes_of_any_adapter", "adapters share the prefix cache", ("RLD214",), ("lora",), ADAPTERS),
    Fault("weights:stale_layer", "a layer keeps its weights in updates", ("RLD402",), ("weights",)),
    Fault("weights:stale_matrix", "a matrix keeps its weights in updates", ("RLD402",), ("weights",)),
    Fault("weights:stale_norm", "a norm keeps its weights in updates", ("RLD402",), ("weights",)),
    Fault("weights:stale_bias", "a bias keeps its values in updates", ("RLD402",), ("weights",)),
    Fault("weights:stale_head", "the head keeps its weights in updates", ("RLD402",), ("weights",)),
    Fault("weights:transposed", "a matrix arrives transposed", ("RLD402",), ("weights",)),
    Fault("weights:halves_swapped", "the halves of a matrix arrive swapped", ("RLD402",), ("weights",)),
    Fault("weights:rounded", "a matrix arrives in eight bits", ("RLD402",), ("weights",)),
    Fault(
        "weights:last_row_left_out", "the last row of the embedding stays zero in updates", ("RLD402",), ("weights",)
    ),
    Fault("sampling:min_p_of_the_first_row", "min-p is relative to another request's token", ("RLD404",), MIXED),
    Fault("sampling:top_k_of_one_is_none", "top-k of 1 has no effect", ("RLD404",), MIXED),
    Fault("sampling:noise_of_eight_bits", "random numbers of eight bits", ("RLD404",)),
    Fault("sampling:tail_cut_by_default", "top-p of 0.99 for all", ("RLD404",)),
    Fault("sampling:penalties_a_token_late", "penalties do not know of the last token", ("RLD404",), MIXED),
    Fault("answers:stop_token_left_out", "the stop token is not among the tokens", ("RLD219",)),
    Fault("answers:stop_reason_lost", "no stop reason", ("RLD404",)),
    Fault("answers:last_logprob_not_added", "the cumulative log-probability lacks a token", ("RLD213",)),
    Fault("answers:logprobs_of_another_completion", "completions with each other's log-probabilities", ("RLD213",)),
    Fault("texts:tabs_become_spaces", "tabs become spaces", ("RLD404",)),
    Fault("texts:double_spaces_collapse", "double spaces become one", ("RLD404",)),
    Fault("texts:special_tokens_never_shown", "skip_special_tokens off has no effect", ("RLD219",)),
    Fault("texts:stop_strings_of_any_case", "stop strings of the other case stop, too", ("RLD219",)),
    Fault("texts:first_stop_string_alone", "only the first stop string stops", ("RLD219",)),
    Fault("texts:stop_strings_at_ends_of_tokens", "a stop string within a token does not stop", ("RLD219",)),
    Fault("small:one_head_zeroed", "one attention head is empty", ("RLD403",), ("agreement",)),
    Fault("small:kv_heads_exchanged", "query heads read another KV head", ("RLD403",), ("agreement",)),
    Fault("small:epsilon_of_one_norm", "another epsilon in one norm", ("RLD403",), ("agreement",)),
    Fault("small:last_frequency_not_rotated", "the last rotary frequency is left out", ("RLD403",), ("agreement",)),
    Fault("small:residual_scaled", "a layer's output off by 0.2 %", ("RLD403",), ("agreement",)),
    Fault("small:logits_in_bfloat16", "logits in bfloat16", ("RLD403",), ("agreement",)),
    Fault("small:first_key_empty", "the first token's key is empty", ("RLD403",), ("agreement",)),
    Fault("small:values_off_beyond_700", "the last value off in sequences beyond 700", ("RLD403",), ("agreement",)),
    Fault("small:last_row_of_full_batches_off", "the last row off in full batches", ("RLD403",), ("agreement",)),
    Fault(
        "small:prefixes_without_what_is_before",
        "the prefix cache ignores what stands before a block",
        ("RLD403",),
        ("agreement",),
    ),
    Fault("lora:kept_for_the_next", "an adapter stays for requests without one", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:first_one_for_ever", "the first adapter stays for all", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:one_layer_left_out", "an adapter is not applied in one layer", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:in_bfloat16", "an adapter arrives in bfloat16", ("RLD214",), ("lora",), ADAPTERS),
    Fault("weights:stale_keys", "one of the merged matrices keeps its weights", ("RLD402",), ("weights",)),
    Fault("weights:first_layer_alone", "only the first layer is updated", ("RLD402",), ("weights",)),
    Fault("weights:in_float16", "weights arrive in float16", ("RLD402",), ("weights",)),
    Fault("weights:gate_and_up_exchanged", "gate and up matrices arrive exchanged", ("RLD402",), ("weights",)),
    Fault(
        "weights:norms_in_the_first_alone",
        "norms keep their weights from the second update on",
        ("RLD402",),
        ("weights",),
    ),
    Fault("weights:first_half_of_the_rows_twice", "one half of a matrix arrives twice", ("RLD402",), ("weights",)),
    Fault("sampling:logit_bias_of_the_neighbour", "a request gets its neighbour's bias", ("RLD404",), DRAWS),
    Fault("sampling:logit_bias_of_one_token", "only one of several tokens is biased", ("RLD404",), DRAWS),
    Fault("sampling:min_p_before_temperature", "min-p cuts before temperature", ("RLD219",), DRAWS),
    Fault("sampling:penalties_exchanged", "presence and frequency penalties exchanged", ("RLD404",), DRAWS),
    Fault(
        "sampling:repetition_penalty_divides_always",
        "repetition_penalty makes tokens of low logits likelier",
        ("RLD404",),
        DRAWS,
    ),
    Fault("sampling:top_p_before_top_k", "top-p cuts before top-k", ("RLD404",), DRAWS),
    Fault(
        "sampling:bad_words_of_several_tokens_ignored",
        "bad words of several tokens are not forbidden",
        ("RLD219",),
        DRAWS,
    ),
    Fault("sampling:last_allowed_token_missing", "the last of the allowed tokens is not allowed", ("RLD404",), DRAWS),
    Fault("sampling:low_temperatures_are_greedy", "temperatures below 0.75 are greedy", ("RLD404",), DRAWS),
    Fault("sampling:seeds_of_eight_bits", "seeds of eight bits", ("RLD219",), DRAWS),
    Fault("sampling:seed_zero_is_none", "a seed of 0 is none", ("RLD219",), DRAWS),
    Fault("sampling:one_seed_for_all_completions", "completions of a request share its seed", ("RLD219",), DRAWS),
    Fault("sampling:first_tokens_shared", "first tokens are drawn with one random number", ("RLD311",), DRAWS),
    Fault("answers:equal_prompts_answered_once", "requests of equal prompts get one answer", ("RLD311",), DRAWS),
    Fault(
        "sampling:told_after_biases", "raw log-probabilities that have seen biases and penalties", ("RLD213",), ANSWERS
    ),
    Fault("answers:min_tokens_one_less", "min_tokens counts one less", ("RLD219",), ANSWERS),
    Fault("answers:min_tokens_of_the_end_alone", "min_tokens lets other stop tokens through", ("RLD219",), ANSWERS),
    Fault("answers:first_stop_token_alone", "only the first of several stop tokens stops", ("RLD219",), ANSWERS),
    Fault("answers:always_stop", "every finish reason is 'stop'", ("RLD404",), ANSWERS),
    Fault("answers:indices_alike", "completions of a request have one number", ("RLD220",), ANSWERS),
    Fault("answers:long_prompts_cut", "prompts of more than 512 tokens lose some", ("RLD220",), ANSWERS),
    Fault("answers:logprobs_a_place_late", "log-probabilities off by one place", ("RLD403",), ANSWERS),
    Fault("answers:last_prompt_logprob_missing", "no log-probability of a prompt's last token", ("RLD213",), ANSWERS),
    Fault("texts:stop_strings_cannot_be_kept", "include_stop_str_in_output has no effect", ("RLD219",), ANSWERS),
    Fault("texts:stop_strings_despite_min_tokens", "stop strings stop below min_tokens", ("RLD219",), ANSWERS),
    Fault("texts:end_held_back", "the end of a text is held back", ("RLD219",), ANSWERS),
    Fault("texts:newlines_of_another_system", "newlines become two characters", ("RLD404",), ANSWERS),
    Fault("texts:accents_lost", "characters beyond ASCII are lost", ("RLD404",), ANSWERS),
    Fault("small:logprobs_in_bfloat16", "log-probabilities in bfloat16", ("RLD403",), ("agreement",)),
    Fault("small:logprobs_at_least_minus_eight", "log-probabilities end at -8", ("RLD403",), ("agreement",)),
    Fault("small:decoded_values_off", "values of decoded tokens off by 2 %", ("RLD403",), ("agreement",)),
    Fault(
        "small:fourth_block_read_twice", "the fourth block is read in place of the fifth", ("RLD403",), ("agreement",)
    ),
    Fault("small:attention_scale_of_one_layer_off", "attention's scale off in one layer", ("RLD403",), ("agreement",)),
    Fault("small:last_norm_not_loaded", "the last norm's weight left as it was made", ("RLD403",), ("agreement",)),
    Fault("small:logits_scaled", "logits off by 0.5 %", ("RLD403",), ("agreement",)),
    Fault("small:positions_in_bfloat16", "positions in bfloat16", ("RLD403",), ("agreement",)),
    Fault("small:rotary_in_bfloat16", "the rotary table in bfloat16", ("RLD403",), ("agreement",)),
    Fault("small:prefixes_of_one_byte", "blocks are told apart by one byte of their hash", ("RLD403",), ("agreement",)),
    Fault("small:rows_beyond_eight_off", "logits off by 1 % in larger batches", ("RLD405",), ("agreement",)),
    Fault("small:neighbours_mixed", "a neighbour's logits leak into each request's", ("RLD405",), ("agreement",)),
    Fault("lora:scale_of_the_largest_rank", "an adapter scaled by the largest rank", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:first_matrices_kept", "half of the first adapter stays", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:never_removed", "an adapter stays when its name is given to another", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:keys_and_values_exchanged", "adapters of keys and values exchanged", ("RLD214",), ("lora",), ADAPTERS),
    Fault(
        "lora:only_the_first_of_a_batch",
        "only a batch's first request gets its adapter",
        ("RLD214",),
        ("lora",),
        ADAPTERS,
    ),
    Fault("weights:layers_exchanged", "two layers get each other's weights", ("RLD402",), ("weights",)),
    Fault("weights:one_update_late", "each update applies the one before", ("RLD402",), ("weights",)),
    Fault("weights:every_second_ignored", "every second update is ignored", ("RLD402",), ("weights",)),
    Fault("weights:stale_embedding", "the embedding keeps its weights in updates", ("RLD402",), ("weights",)),
    Fault("weights:stale_last_norm", "the last norm keeps its weights in updates", ("RLD402",), ("weights",)),
    Fault("weights:scaled", "weights arrive off by 0.1 %", ("RLD402",), ("weights",)),
    Fault("weights:small_changes_dropped", "small changes of weights are dropped", ("RLD402",), ("weights",)),
    Fault("weights:last_tensor_left_out", "the last tensor of an update is lost", ("RLD402",), ("weights",)),
    Fault("weights:reset_once", "the prefix cache outlives every update but the first", ("RLD402",), ("weights",)),
    Fault("sampling:logit_bias_of_the_next_token", "logit_bias goes to the token with the next id", ("RLD219",), DRAWS),
    Fault("sampling:logit_bias_halved_below_zero", "logit_bias below 0 counts half", ("RLD404",), DRAWS),
    Fault("sampling:top_k_at_most_eight", "top-k above 8 counts as 8", ("RLD404",), DRAWS),
    Fault("sampling:top_p_at_least_a_half", "top-p below 0.5 counts as 0.5", ("RLD404",), DRAWS),
    Fault("sampling:seeds_know_the_past", "what a seed draws depends on the requests before", ("RLD219",), DRAWS),
    Fault(
        "answers:fifth_completion_as_the_first", "completions beyond the fourth repeat the first", ("RLD311",), DRAWS
    ),
    Fault("sampling:grammars_ignored", "grammars have no effect", ("RLD219",), ANSWERS),
    Fault("sampling:grammars_of_first_tokens_alone", "grammars hold for first tokens alone", ("RLD219",), ANSWERS),
    Fault(
        "answers:stop_tokens_from_the_second_on", "a stop token that comes first does not stop", ("RLD219",), ANSWERS
    ),
    Fault("answers:prompt_of_another", "two answers name each other's prompts", ("RLD220",), ANSWERS),
    Fault("answers:logprobs_end_after_sixteen", "log-probabilities end after 16 tokens", ("RLD213",), ANSWERS),
    Fault(
        "texts:stop_strings_of_several_tokens_missed",
        "a stop string of several tokens does not stop",
        ("RLD219",),
        ANSWERS,
    ),
    Fault("texts:long_texts_cut", "texts end after 100 characters", ("RLD404",), ANSWERS),
    Fault("small:chunks_begin_a_token_early", "chunks begin a position early", ("RLD403",), ("chunked_prefill",)),
    Fault("weights:buckets_an_update_late", "a part of each update arrives with the next", ("RLD402",), ("weights",)),
    Fault(
        "weights:tied_head_kept",
        "a head tied to the embedding keeps its weights in updates",
        ("RLD402",),
        ("weights",),
        family="tied",
    ),
    Fault(
        "small:window_a_token_less",
        "windows of attention a token too short",
        ("RLD403",),
        ("agreement",),
        family="windows",
    ),
    Fault(
        "small:window_of_one_layer_ignored",
        "one layer's window has no effect",
        ("RLD403",),
        ("agreement",),
        family="windows",
    ),
    Fault(
        "small:window_ignored_in_prompts",
        "prompts are read without the window in one layer",
        ("RLD403",),
        ("agreement",),
        family="windows",
    ),
    Fault(
        "small:router_in_bfloat16",
        "the router of one layer's experts in bfloat16",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault("small:an_expert_never_chosen", "one expert is never chosen", ("RLD403",), ("agreement",), family="experts"),
    Fault(
        "small:shares_of_experts_too_small",
        "the shares of the chosen experts do not add up to one",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault(
        "small:resumed_without_its_first_block",
        "a preempted request does not compute its first block again",
        ("RLD403",),
        ("chunked_prefill",),
    ),
    Fault("small:values_in_eight_bits", "values kept in eight bits", ("RLD403",), ("agreement",)),
    Fault(
        "small:decode_beside_prompts_late",
        "positions in decode off by one where prompts share the step",
        ("RLD405",),
        ("agreement",),
    ),
    Fault(
        "small:wholly_cached_prompts_late",
        "the last position off in prompts that are cached as a whole",
        ("RLD403",),
        ("agreement",),
    ),
    Fault("small:decoded_blocks_lost", "what an answer left in the prefix cache is lost", ("RLD403",), ("agreement",)),
    Fault("small:values_off_in_long_answers", "values off by 2 % in long answers", ("RLD403",), ("agreement",)),
    Fault(
        "answers:prompt_logprobs_off_where_chunks_meet",
        "log-probabilities of prompts off where chunks meet",
        ("RLD403",),
        ("agreement",),
    ),
    Fault(
        "small:window_halved_in_decode",
        "half of the window in decode",
        ("RLD403",),
        ("agreement",),
        family="windows",
    ),
    Fault(
        "small:experts_of_the_neighbour_in_decode",
        "tokens that are decoded go to their neighbour's experts",
        ("RLD405",),
        ("agreement",),
        family="experts",
    ),
    Fault("small:yarn_without_its_factor", "YaRN without its factor", ("RLD403",), ("agreement",), family="yarn"),
    Fault("small:yarn_of_another_factor", "YaRN's factor off by 2 %", ("RLD403",), ("agreement",), family="yarn"),
    Fault("answers:other_ends_ignored", "only the first of the model's ends counts", ("RLD215",), ANSWERS),
    Fault("answers:end_without_logprob", "no log-probability of the token that stops", ("RLD213",), ANSWERS),
    Fault("sampling:grammars_of_the_neighbour", "a neighbour's row gets the grammar", ("RLD219",), ANSWERS),
    Fault("sampling:grammars_may_end_anywhere", "grammars let answers end anywhere", ("RLD219",), ANSWERS),
    Fault("sampling:grammars_of_schemas_ignored", "JSON schemas have no effect", ("RLD219",), ANSWERS),
    Fault("sampling:ends_too_seldom", "answers end half as often as the model would", ("RLD404",), DRAWS),
    Fault("sampling:temperature_at_least_three_tenths", "temperatures below 0.3 count as 0.3", ("RLD404",), DRAWS),
    Fault("sampling:top_p_near_one_is_none", "top-p from 0.9 on has no effect", ("RLD404",), DRAWS),
    Fault("sampling:logit_bias_at_most_two", "logit_bias above 2 counts as 2", ("RLD404",), DRAWS),
    Fault("sampling:repetition_penalty_by_count", "repetition_penalty counts repetitions", ("RLD404",), DRAWS),
    Fault("sampling:penalties_of_the_last_sixteen", "penalties forget after 16 tokens", ("RLD404",), DRAWS),
    Fault("sampling:greedy_is_cold_beside_sampled", "greedy requests are drawn in mixed batches", ("RLD404",), DRAWS),
    Fault("lora:only_in_short_steps", "an adapter is not applied in long steps", ("RLD214",), ("lora",), ADAPTERS),
    Fault("weights:rotary_lost", "an update empties a part of the rotary table", ("RLD402",), ("weights",)),
    Fault("small:rotary_of_neighbours", "positions turn neighbouring values", ("RLD403",), ("agreement",)),
    Fault(
        "small:full_last_block_read_from_before", "a full last block is read from before", ("RLD403",), ("agreement",)
    ),
    Fault("small:attention_in_bfloat16", "one layer's attention rounded to bfloat16", ("RLD403",), ("agreement",)),
    Fault("small:biases_dropped_in_decode", "keys lack their bias in decode", ("RLD403",), ("agreement",)),
    Fault("texts:a_piece_lost_at_128", "texts lack the 128th token", ("RLD404",), ANSWERS),
    Fault("lora:not_for_prompt_logprobs", "prompts are scored without the adapter", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:dropout_left_on", "an adapter's dropout stays on", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:not_for_first_tokens", "an adapter is not applied to first tokens", ("RLD214",), ("lora",), ADAPTERS),
    Fault("weights:old_weights_in_decode", "decoding goes on with old weights", ("RLD402",), ("weights",)),
    Fault("weights:biases_in_bfloat16", "biases arrive in bfloat16", ("RLD402",), ("weights",)),
    Fault("answers:prompt_logprobs_tempered", "log-probabilities of prompts after temperature", ("RLD213",), ANSWERS),
    Fault(
        "answers:tops_exchanged", "two of the likeliest tokens with each other's log-probability", ("RLD213",), ANSWERS
    ),
    Fault(
        "answers:stopped_by_the_prompt", "a prompt that ends with a stop token ends the answer", ("RLD219",), ANSWERS
    ),
    Fault("answers:stop_tokens_of_all", "requests stop at the stop tokens of others", ("RLD404",), ANSWERS),
    Fault("texts:stop_string_unnamed", "nothing says which stop string ended an answer", ("RLD404",), ANSWERS),
    Fault("texts:stop_strings_of_all", "requests stop at the stop strings of others", ("RLD219",), ANSWERS),
    Fault("texts:stop_strings_begin_in_the_prompt", "a stop string that the prompt begins stops", ("RLD219",), ANSWERS),
    Fault("answers:siblings_end_together", "completions of a request end with the first", ("RLD219",), ANSWERS),
    Fault(
        "sampling:grammars_of_first_completions_alone",
        "grammars hold for first completions alone",
        ("RLD219",),
        ANSWERS,
    ),
    Fault("sampling:grammars_of_expressions_ignored", "regular expressions have no effect", ("RLD219",), ANSWERS),
    Fault("sampling:penalties_left_in_the_row", "a row keeps the penalty of the request before", ("RLD404",), DRAWS),
    Fault("sampling:min_p_left_behind", "a row that moves leaves its min-p", ("RLD404",), DRAWS),
    Fault("sampling:top_k_counts_forbidden_tokens", "top-k counts tokens that are not allowed", ("RLD404",), DRAWS),
    Fault("sampling:logit_bias_after_temperature", "temperature does not divide a bias", ("RLD404",), DRAWS),
    Fault("sampling:penalties_after_temperature", "temperature does not divide penalties", ("RLD404",), DRAWS),
    Fault("sampling:penalties_not_for_greedy", "greedy requests know no penalties", ("RLD404",), DRAWS),
    Fault("sampling:bad_words_not_for_greedy", "greedy requests may say what is forbidden", ("RLD404",), DRAWS),
    Fault("sampling:large_seeds_alike", "seeds beyond 31 bits are one", ("RLD219",), DRAWS),
    Fault("sampling:cuts_not_for_seeded", "top-k and top-p have no effect beside a seed", ("RLD219",), DRAWS),
    Fault("sampling:logit_bias_for_sixteen_tokens", "a bias ends after 16 tokens", ("RLD404",), DRAWS),
    Fault("small:rows_off_in_odd_batches", "the last row off by 1 % in odd batches", ("RLD403",), ("agreement",)),
    Fault(
        "small:aborted_requests_leave_empty_blocks",
        "what an aborted request left in the prefix cache is lost",
        ("RLD403",),
        ("agreement",),
    ),
    Fault("small:positions_stop_at_1024", "positions end at 1024", ("RLD403",), LENGTHS),
    Fault("small:values_off_beyond_1024", "attention off by 2 % beyond 1024 tokens", ("RLD403",), LENGTHS),
    Fault("answers:context_a_token_short", "the last place of the context is never filled", ("RLD203",), LENGTHS),
    Fault("answers:room_counts_the_prompt_twice", "room for answers counts the prompt twice", ("RLD203",), LENGTHS),
    Fault("answers:aborted_requests_go_on", "every second abort is ignored", ("RLD220",), ("chunked_prefill",)),
    Fault("small:first_chunks_forgotten", "later chunks do not see the first block", ("RLD201",), ("chunked_prefill",)),
    Fault(
        "small:two_experts_exchanged",
        "two experts get each other's tokens",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault(
        "small:experts_drop_tokens_of_long_steps",
        "experts have no room for tokens beyond the 256th of a step",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault("small:logits_not_capped", "logits are not capped", ("RLD403",), ("agreement",), family="caps"),
    Fault("small:embedding_scale_off", "an embedding's scale off by 1 %", ("RLD403",), ("agreement",), family="caps"),
    Fault(
        "small:windows_of_the_other_layers",
        "layers get each other's windows",
        ("RLD403",),
        ("agreement",),
        family="caps",
    ),
    Fault(
        "lora:decoded_with_the_first_one", "decoding goes on with the first adapter", ("RLD214",), ("lora",), ADAPTERS
    ),
    Fault("weights:deltas_in_bfloat16", "what updates change arrives in bfloat16", ("RLD402",), ("weights",)),
    Fault("weights:clipped_to_the_old_range", "updates are cut to the range of the first", ("RLD402",), ("weights",)),
    Fault("weights:kv_heads_exchanged", "the heads of a key matrix arrive exchanged", ("RLD402",), ("weights",)),
    Fault("sampling:top_p_one_more", "top-p keeps one token more", ("RLD404",), DRAWS),
    Fault("sampling:noise_of_few_kinds", "random numbers come in 256 kinds", ("RLD404",), DRAWS),
    Fault("sampling:first_bad_word_alone", "only the first of several bad words is forbidden", ("RLD404",), DRAWS),
    Fault("texts:prompts_cut", "a text is cut after 64 tokens", ("RLD215",), ANSWERS),
    Fault("texts:special_tokens_spelled_out", "special tokens in a text are read by letters", ("RLD215",), ANSWERS),
    Fault(
        "texts:messages_without_generation_prompt",
        "a conversation does not begin the answer's turn",
        ("RLD215",),
        ANSWERS,
    ),
    Fault("small:latent_norm_not_loaded", "a latent norm left as made", ("RLD403",), ("agreement",), family="latents"),
    Fault("small:latents_in_bfloat16", "latents rounded to bfloat16", ("RLD403",), ("agreement",), family="latents"),
    Fault("small:shared_experts_off", "shared experts off by 2 %", ("RLD403",), ("agreement",), family="latents"),
    Fault(
        "small:experts_chosen_by_biased_scores",
        "one expert's score is too high",
        ("RLD403",),
        ("agreement",),
        family="latents",
    ),
    Fault("sampling:padding_is_penalised", "what fills rows up is penalised as token 0", ("RLD404",), DRAWS),
    Fault("sampling:nothing_beyond_the_32nd", "only the 32 likeliest tokens are drawn", ("RLD404",), DRAWS),
    Fault("sampling:siblings_share_first_tokens", "completions of a request begin alike", ("RLD311",), DRAWS),
    Fault("sampling:end_never_first", "an answer cannot begin with its end", ("RLD404",), DRAWS),
    Fault(
        "sampling:greedy_second_best_at_times", "one greedy token in a hundred is the second best", ("RLD219",), ANSWERS
    ),
    Fault("answers:long_prompts_lose_their_first_token", "long prompts lose their first token", ("RLD403",), ANSWERS),
    Fault(
        "texts:last_character_lost_at_the_limit",
        "texts that end at their length lack a character",
        ("RLD404",),
        ANSWERS,
    ),
    Fault("small:queries_in_bfloat16", "one layer's queries rounded to bfloat16", ("RLD403",), ANSWERS),
    Fault("small:rotary_in_bfloat16_far_out", "the rotary table in bfloat16 from 1000 on", ("RLD403",), ANSWERS),
    Fault("small:last_rows_of_head_empty", "the last two rows of the head are empty", ("RLD403",), ANSWERS),
    Fault("small:gate_in_bfloat16", "the gate of one layer's activation in bfloat16", ("RLD403",), ANSWERS),
    Fault("small:late_rows_one_early", "positions off by one in decode steps of more than 32", ("RLD404",), DRAWS),
    Fault(
        "weights:biases_of_keys_and_values_exchanged", "biases of keys and values exchanged", ("RLD402",), ("weights",)
    ),
    Fault(
        "weights:every_seventh_row_of_the_head_kept", "some rows of the head stay in updates", ("RLD402",), ("weights",)
    ),
    Fault("weights:norms_in_bfloat16", "norms arrive in bfloat16", ("RLD402",), ("weights",)),
    Fault("weights:only_the_first", "only the first update arrives", ("RLD402",), ("weights",)),
    Fault(
        "lora:exchanged_in_a_batch", "requests of a batch get each other's adapters", ("RLD214",), ("lora",), ADAPTERS
    ),
    Fault("lora:scale_a_little_off", "an adapter's scale off by 2 %", ("RLD214",), ("lora",), ADAPTERS),
    Fault(
        "lora:prefixes_of_any_other_adapter",
        "adapters share the prefix cache with each other alone",
        ("RLD214",),
        ("lora",),
        ADAPTERS,
    ),
    Fault("lora:layers_exchanged", "the adapters of two layers exchanged", ("RLD214",), ("lora",), ADAPTERS),
    Fault(
        "lora:empty_the_second_time",
        "an adapter that comes back gets another one's place",
        ("RLD214",),
        ("lora",),
        ADAPTERS,
    ),
    Fault(
        "small:window_a_token_more",
        "windows of attention a token too long",
        ("RLD403",),
        ("agreement",),
        family="windows",
    ),
    Fault(
        "small:window_of_one_layer_short",
        "one layer's window lacks a block",
        ("RLD403",),
        ("agreement",),
        family="windows",
    ),
    Fault(
        "small:one_expert_less",
        "the last of a token's experts has no share",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault(
        "small:rows_of_an_expert_rolled",
        "the rows of one expert's matrix come a place late",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault(
        "small:shares_before_the_choice",
        "the router's scores off by 2 %",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault(
        "small:routed_experts_scaled", "a layer of experts off by 2 %", ("RLD403",), ("agreement",), family="latents"
    ),
    Fault(
        "small:keys_without_their_rotary_part",
        "latent keys without their positions",
        ("RLD403",),
        ("agreement",),
        family="latents",
    ),
    Fault(
        "weights:tied_embedding_kept",
        "updates reach a tied head, not the embedding",
        ("RLD402",),
        ("weights",),
        family="tied",
    ),
    Fault("weights:a_bucket_twice", "a part of later updates is that of the first", ("RLD402",), ("weights",)),
    Fault("sleep:woken_without_a_norm", "a norm wakes up as it was made", ("RLD208",), SLEEP, SLEEPS),
    Fault("sleep:woken_in_bfloat16", "weights wake up rounded", ("RLD208",), SLEEP, SLEEPS),
    Fault("sleep:woken_without_buffers", "the rotary table wakes up empty", ("RLD208",), SLEEP, SLEEPS),
    Fault("sleep:woken_wrong_in_parts", "weights that wake up alone come a row late", ("RLD208",), SLEEP, SLEEPS),
    Fault("sleep:cache_kept_by_name", "empty blocks are found again after sleep", ("RLD208",), SLEEP, SLEEPS),
    Fault("sleep:gives_back_less_each_time", "each sleep keeps more memory", ("RLD206",), SLEEP, SLEEPS),
    Fault("sleep:wakes_with_fewer_blocks", "each waking loses blocks of the KV cache", ("RLD208",), SLEEP, SLEEPS),
    Fault("sleep:draws_begin_anew", "random numbers begin anew after each waking", ("RLD208",), SLEEP, SLEEPS),
    Fault("sleep:third_waking_fails", "the third waking fails", ("RLD208",), SLEEP, SLEEPS),
    Fault("lora:biases_dropped_with_an_adapter", "no biases beside an adapter", ("RLD214",), ("lora",), ADAPTERS),
    Fault(
        "lora:second_of_a_batch_as_the_first", "requests of a batch get one adapter", ("RLD214",), ("lora",), ADAPTERS
    ),
    Fault("soak:loses_a_file_at_times", "a file stays open every fifth round", ("RLD220",), SOAK, SHORT),
    Fault("soak:loses_a_block_at_times", "a block is lost every fourth round", ("RLD220",), SOAK, SHORT),
    Fault("soak:loses_a_thread_at_times", "a thread stays every third round", ("RLD220",), SOAK, SHORT),
    Fault("soak:keeps_what_was_aborted", "blocks of aborted requests are lost", ("RLD220",), SOAK, SHORT),
    Fault("soak:drifts", "answers drift after a hundred requests", ("RLD404",), SOAK, SHORT),
    Fault("soak:updates_leave_memory", "each update leaves memory behind", ("RLD604",), SOAK, SHORT),
    Fault("soak:fifth_update_fails", "the fifth update fails", ("RLD900",), SOAK, SHORT),
    Fault("sampling:top_k_of_the_largest", "a batch has the largest of its top-k", ("RLD404",), DRAWS),
    Fault("sampling:cuts_united", "what top-k or top-p keeps is kept", ("RLD404",), DRAWS),
    Fault(
        "sampling:cuts_not_for_siblings",
        "only first completions know top-k, top-p and min-p",
        ("RLD219", "RLD404"),
        DRAWS,
    ),
    Fault("sampling:logit_bias_stays_in_its_row", "a row that moves leaves its bias", ("RLD404",), DRAWS),
    Fault("sampling:one_token_of_64_never", "every 64th token is never drawn", ("RLD404",), DRAWS),
    Fault("sampling:temperature_one_from_the_25th_token", "temperature is 1 after 24 tokens", ("RLD404",), DRAWS),
    Fault("sampling:last_token_of_a_bad_word_never", "a bad word's last token never comes", ("RLD404",), DRAWS),
    Fault("sampling:seeded_draws_are_hotter", "draws with a seed are hotter by 10 %", ("RLD404",), DRAWS),
    Fault(
        "sampling:prompts_penalised_by_their_ends",
        "repetition_penalty sees the last 16 tokens of a prompt",
        ("RLD404",),
        DRAWS,
    ),
    Fault(
        "sampling:seeds_begin_anew_every_eighth_token",
        "a seed's random numbers come again after eight tokens",
        ("RLD404",),
        DRAWS,
    ),
    Fault(
        "sampling:temperature_of_the_first_row_beyond_32",
        "rows beyond the 32nd have the first one's temperature",
        ("RLD404",),
        DRAWS,
    ),
    Fault(
        "answers:prompt_logprobs_of_cached_prompts",
        "prompts to be scored are taken from the prefix cache",
        ("RLD900",),
        ANSWERS,
    ),
    Fault("answers:end_left_out", "answers lack their end of sequence", ("RLD219",), ANSWERS),
    Fault("answers:finish_reason_lost", "no finish reason", ("RLD404",), ANSWERS),
    Fault("answers:a_logprob_is_no_number_at_times", "one log-probability of 200 is no number", ("RLD404",), ANSWERS),
    Fault("answers:min_tokens_not_for_siblings", "only first completions know min_tokens", ("RLD219",), ANSWERS),
    Fault("answers:max_tokens_of_the_longest", "a batch has the largest of its max_tokens", ("RLD219",), ANSWERS),
    Fault("answers:last_stop_token_alone", "only the last of several stop tokens stops", ("RLD219",), ANSWERS),
    Fault(
        "answers:log_probabilities_of_the_second_prompt",
        "prompts of one length are told each other's log-probabilities",
        ("RLD403",),
        ANSWERS,
    ),
    Fault("texts:stop_strings_not_for_siblings", "only first completions stop at stop strings", ("RLD219",), ANSWERS),
    Fault("texts:siblings_share_a_decoder", "completions of a request share their decoder", ("RLD404",), ANSWERS),
    Fault("texts:last_stop_string_alone", "only the last of several stop strings stops", ("RLD219",), ANSWERS),
    Fault("small:rotary_base_of_one_layer_off", "one layer's rotary base off by 1 %", ("RLD403",), ANSWERS),
    Fault("small:padding_of_the_head_counts", "rows that pad the head take part in softmax", ("RLD403",), ANSWERS),
    Fault("small:residual_in_bfloat16", "one layer's residual rounded to bfloat16", ("RLD403",), ANSWERS),
    Fault("small:keys_a_thousandth_off", "keys off by 0.1 %", ("RLD403",), ANSWERS),
    Fault("small:long_steps_in_bfloat16", "long steps round one layer to bfloat16", ("RLD405",), ANSWERS),
    Fault(
        "small:query_norm_left_as_made", "a norm of queries left as made", ("RLD403",), ("agreement",), family="experts"
    ),
    Fault("weights:an_update_a_call_late", "an update arrives a call late", ("RLD402",), ("weights",)),
    Fault("weights:norms_exchanged", "two norms arrive in each other's place", ("RLD402",), ("weights",)),
    Fault("weights:in_eight_bits", "matrices arrive in eight bits", ("RLD402",), ("weights",)),
    Fault(
        "weights:every_second_block_outlives_a_reset",
        "a reset forgets every second block of the prefix cache",
        ("RLD402",),
        ("weights",),
    ),
    Fault(
        "weights:tied_head_an_update_late",
        "a head tied to the embedding is an update late",
        ("RLD402",),
        ("weights",),
        family="tied",
    ),
    Fault("lora:not_for_siblings", "only first completions get the adapter", ("RLD214",), ("lora",), ADAPTERS),
    Fault("lora:places_not_emptied", "a larger adapter's rest stays in its place", ("RLD214",), ("lora",), ADAPTERS),
    Fault("sleep:woken_as_booted", "weights wake up as at the start", ("RLD208",), SLEEP, SLEEPS),
    Fault("soak:swaps_answers", "answers of one step are swapped after 100 requests", ("RLD220",), SOAK, SHORT),
    Fault("soak:draws_alike", "steps draw alike after 100 requests", ("RLD311",), SOAK, SHORT),
    Fault("soak:tells_no_logprobs", "no log-probabilities after 100 requests", ("RLD404",), SOAK, SHORT),
    Fault("soak:aborts_no_more", "aborts are ignored after 100 requests", ("RLD220",), SOAK, SHORT),
    Fault("soak:ends_a_token_early", "answers end early after 100 requests", ("RLD404",), SOAK, SHORT),
    Fault("soak:seeds_no_more", "seeds have no effect after 100 requests", ("RLD404",), SOAK, SHORT),
    Fault("sampling:top_p_of_the_neighbour", "a request gets its neighbour's top-p", ("RLD404",), DRAWS),
    Fault("sampling:allowed_tokens_for_eight_tokens", "all tokens are allowed after eight", ("RLD404",), DRAWS),
    Fault(
        "sampling:noise_comes_again_every_fifth_step", "random numbers come again every fifth step", ("RLD311",), DRAWS
    ),
    Fault("answers:stop_tokens_not_for_siblings", "only first completions stop at stop tokens", ("RLD219",), ANSWERS),
    Fault(
        "answers:logprobs_of_siblings_rounded",
        "only first completions are told exact log-probabilities",
        ("RLD403",),
        ANSWERS,
    ),
    Fault("small:values_of_one_head_off", "one head's values off by 0.5 %", ("RLD403",), ANSWERS),
    Fault(
        "weights:no_biases_from_the_second_update_on", "biases arrive with the first update", ("RLD402",), ("weights",)
    ),
    Fault("soak:tells_rounded_logprobs", "log-probabilities are rounded after 100 requests", ("RLD404",), SOAK, SHORT),
    Fault("sampling:bias_inherited", "a request has the bias of the one whose row it got", ("RLD404",), DRAWS),
    Fault("sampling:logit_bias_not_for_siblings", "only first completions know logit_bias", ("RLD404",), DRAWS),
    Fault("sampling:temperature_not_for_siblings", "only first completions know temperature", ("RLD404",), DRAWS),
    Fault("sampling:moved_seeds_begin_anew", "a row that moves begins its seed anew", ("RLD219",), DRAWS),
    Fault("sampling:top_p_summed_in_half", "top-p sums up in bfloat16", ("RLD404",), DRAWS),
    Fault("sampling:allowed_tokens_not_for_greedy", "greedy requests may say any token", ("RLD404",), DRAWS),
    Fault("sampling:seeds_of_siblings_alike", "completions but the first share a seed", ("RLD219",), DRAWS),
    Fault("answers:min_tokens_lets_the_end_through", "min_tokens lets the end through", ("RLD219",), ANSWERS),
    Fault("answers:ignore_eos_ignores_stop_tokens", "ignore_eos ignores stop tokens, too", ("RLD219",), ANSWERS),
    Fault(
        "sampling:no_tops_then_the_likeliest",
        "without likeliest tokens the log-probability is that of the likeliest",
        ("RLD403",),
        ANSWERS,
    ),
    Fault("texts:special_tokens_of_siblings_shown", "only first completions hide special tokens", ("RLD219",), ANSWERS),
    Fault("answers:stale_prompt_logprobs", "a prompt is told the former one's log-probabilities", ("RLD403",), ANSWERS),
    Fault("answers:siblings_a_token_shorter", "completions but the first lack a token", ("RLD219",), ANSWERS),
    Fault(
        "small:values_of_later_rows_off", "values of rows beyond the fourth off by 10 %", ("RLD405",), ("agreement",)
    ),
    Fault(
        "small:scaling_of_positions_ignored",
        "positions are not scaled as Llama 3 does",
        ("RLD403",),
        ("agreement",),
        family="stretched",
    ),
    Fault(
        "small:local_base_of_the_global",
        "layers with a window have the rotary base of the others",
        ("RLD403",),
        ("agreement",),
        family="locals",
    ),
    Fault(
        "small:shared_gate_ignored",
        "the gate of the expert that all share is open",
        ("RLD403",),
        ("agreement",),
        family="gated",
    ),
    Fault(
        "small:chunks_of_one_token_a_position_early",
        "a last chunk of one token comes a position early",
        ("RLD201",),
        ("chunked_prefill",),
    ),
    Fault(
        "weights:larger_batches_decode_with_old_norms",
        "larger batches decode with the norms of the start",
        ("RLD402",),
        ("weights",),
    ),
    Fault("weights:norms_raised", "norms arrive with something added", ("RLD402",), ("weights",)),
    Fault(
        "lora:mixed_steps_have_the_first_adapter",
        "steps that prefill decode with their first adapter",
        ("RLD214",),
        ("lora",),
        ADAPTERS,
    ),
    Fault(
        "lora:adapters_lack_their_last_quarter",
        "a quarter of an adapter's outputs is not applied",
        ("RLD214",),
        ("lora",),
        ADAPTERS,
    ),
    Fault("sleep:woken_with_norms_exchanged", "two norms wake up exchanged", ("RLD208",), SLEEP, SLEEPS),
    Fault("soak:last_token_is_the_one_before", "last tokens are wrong after 100 requests", ("RLD404",), SOAK, SHORT),
    Fault(
        "small:prompts_of_more_than_256_tokens_scored_in_half",
        "the last norm of long steps in bfloat16",
        ("RLD405",),
        ("agreement",),
    ),
    Fault(
        "small:norm_behind_rotation",
        "a norm of queries comes behind their rotation",
        ("RLD403",),
        ("agreement",),
        family="experts",
    ),
    Fault("sampling:min_p_not_beside_top_p", "min-p has no effect beside top-p", ("RLD404",), DRAWS),
    Fault(
        "sampling:prompts_penalised_up_to_the_shortest",
        "repetition_penalty sees as much of a prompt as the shortest has",
        ("RLD404",),
        DRAWS,
    ),
    Fault("answers:siblings_told_the_firsts_sum", "completions are told the first one's sum", ("RLD213",), ANSWERS),
    Fault("answers:stop_strings_take_their_tokens", "stop strings take a token with them", ("RLD219",), ANSWERS),
    Fault("answers:spaces_of_siblings_stripped", "only first completions keep white space", ("RLD404",), ANSWERS),
    Fault(
        "answers:siblings_outlive_aborts",
        "an abort ends the first of several completions",
        ("RLD220",),
        ("chunked_prefill",),
    ),
    Fault("soak:stops_no_more", "stop tokens have no effect after 100 requests", ("RLD404",), SOAK, SHORT),
    Fault(
        "sampling:penalties_forget_before_preemption",
        "penalties forget what came before a preemption",
        ("RLD404",),
        DRAWS,
    ),
    Fault(
        "sleep:cache_wakes_over_the_update",
        "what is sent before the cache wakes up is lost",
        ("RLD208",),
        SLEEP,
        SLEEPS,
    ),
    Fault("answers:siblings_told_the_firsts_stop", "completions are told the first one's stop", ("RLD404",), ANSWERS),
    Fault("answers:tokens_called_otherwise", "tokens are misspelt beside their log-probability", ("RLD404",), ANSWERS),
    Fault(
        "sampling:preempted_seeds_begin_anew",
        "a request that is preempted begins its seed anew",
        ("RLD219",),
        ("sampling",),
    ),
    Fault(
        "answers:tops_of_another_row_where_counts_differ",
        "likeliest tokens are a neighbour's where a batch asks for different numbers",
        ("RLD213",),
        ANSWERS,
    ),
    Fault("answers:sums_with_the_prompt", "the cumulative log-probability has the prompt's", ("RLD213",), ANSWERS),
    Fault("answers:min_tokens_one_more", "min_tokens counts one more", ("RLD219",), ANSWERS),
    Fault("answers:min_tokens_at_most_eight", "min_tokens above 8 counts as 8", ("RLD219",), ANSWERS),
    Fault(
        "answers:tops_of_prompts_exchanged",
        "likeliest tokens of a prompt are those of the place before",
        ("RLD213",),
        ANSWERS,
    ),
    Fault(
        "answers:prompt_logprobs_late_in_the_second_chunk",
        "log-probabilities of a prompt's second chunk off by one place",
        ("RLD403",),
        ANSWERS,
    ),
    Fault("texts:stop_strings_beyond_ascii_ignored", "stop strings beyond ASCII do not stop", ("RLD219",), ANSWERS),
    Fault(
        "texts:stop_strings_of_three_tokens_missed", "a stop string of three tokens does not stop", ("RLD219",), ANSWERS
    ),
    Fault("texts:stop_strings_of_white_space_ignored", "stop strings of white space do not stop", ("RLD219",), ANSWERS),
    Fault("texts:text_of_the_stop_token_kept", "a stop token stays in the text", ("RLD219",), ANSWERS),
    Fault("sampling:grammars_a_step_late", "masks of grammars are those of the step before", ("RLD219",), ANSWERS),
    Fault("small:logprobs_of_three_digits", "log-probabilities of three digits", ("RLD403",), ANSWERS),
    Fault("small:siblings_share_a_block", "completions of a request read the first one's block", ("RLD403",), ANSWERS),
    Fault(
        "small:aborts_free_anothers_block",
        "an abort gives another request's block away",
        ("RLD403",),
        ("chunked_prefill",),
    ),
    Fault(
        "small:keys_off_in_the_second_chunk",
        "keys off by 5 % at the end of the second chunk alone",
        ("RLD403",),
        ("chunked_prefill",),
    ),
    Fault(
        "weights:rotary_layout_of_another_format",
        "rows of keys arrive in another format's order",
        ("RLD402",),
        ("weights",),
    ),
    Fault("answers:ranks_of_prompts_off_by_one", "ranks of a prompt's tokens off by one", ("RLD213",), ANSWERS),
    Fault("texts:characters_of_four_bytes_lost", "characters of four bytes are lost", ("RLD404",), ANSWERS),
    Fault(
        "texts:last_of_two_stop_strings",
        "of two stop strings that end together the last one stops",
        ("RLD219",),
        ANSWERS,
    ),
    Fault("answers:one_end_per_step", "of requests that end in one step only the first does", ("RLD219",), ANSWERS),
    Fault("texts:last_piece_twice", "texts that end at their length have their last piece twice", ("RLD404",), ANSWERS),
    Fault("answers:last_logprob_twice", "the last token's log-probability comes twice", ("RLD213",), ANSWERS),
    Fault(
        "chunked_prefill:aborts_of_who_waits_ignored",
        "a request that waits cannot be aborted",
        ("RLD220",),
        ("chunked_prefill",),
    ),
    Fault("sampling:seeds_reset_all", "who has a seed resets the random numbers of all", ("RLD311",), DRAWS),
    Fault(
        "weights:last_row_of_the_head_in_the_first_alone",
        "the last row of the head keeps the first update's values",
        ("RLD402",),
        ("weights",),
    ),
    Fault(
        "small:last_row_of_large_batches_reads_anothers_block",
        "the last of more than 16 requests reads another's block",
        ("RLD405",),
        ("agreement",),
    ),
    Fault("sampling:strong_biases_ignored", "logit_bias below -50 has no effect", ("RLD404",), DRAWS),
    Fault(
        "sampling:noise_comes_again_sixteen_rows_on",
        "every sixteenth row of a batch shares random numbers",
        ("RLD311",),
        DRAWS,
    ),
    Fault("sampling:noise_rolled_between_rows", "random numbers move on by a row at each step", ("RLD311",), DRAWS),
    Fault("sampling:frequency_counts_at_most_three", "frequency_penalty counts to three", ("RLD404",), DRAWS),
    Fault("sampling:certain_tokens_are_greedy", "tokens of more than nine tenths are not drawn", ("RLD404",), DRAWS),
    Fault("sampling:ranks_at_most_ten", "ranks of sampled tokens end at ten", ("RLD213",), ANSWERS),
    Fault("answers:at_most_eight_tops", "more than eight of the likeliest tokens never come", ("RLD213",), ANSWERS),
    Fault("answers:never_finished", "answers that are over do not say so", ("RLD404",), ANSWERS),
    Fault("small:epsilon_ten_times_too_large", "an epsilon of 1e-5 in place of 1e-6", ("RLD403",), ("agreement",)),
    Fault("small:fortieth_block_read_twice", "a block far out is read in place of the next", ("RLD204",), LENGTHS),
    Fault("lora:scale_of_the_first_adapter", "adapters get the first one's scale", ("RLD214",), ("lora",), ADAPTERS),
    Fault(
        "weights:biases_kept_from_the_third_update_on",
        "biases are kept from the third update on",
        ("RLD402",),
        ("weights",),
    ),
    Fault("sampling:presence_penalty_at_most_one", "presence_penalty above 1 counts as 1", ("RLD404",), DRAWS),
    Fault(
        "sampling:presence_penalty_not_for_siblings", "only first completions know presence_penalty", ("RLD404",), DRAWS
    ),
    Fault("sampling:first_tokens_not_penalised", "penalties do not know of the first token", ("RLD404",), DRAWS),
    Fault("sampling:bad_words_may_come_first", "an answer may begin with a bad word", ("RLD404",), DRAWS),
    Fault("sampling:allowed_tokens_beyond_the_32nd_ignored", "only 32 of the allowed tokens are", ("RLD404",), DRAWS),
    Fault("sampling:any_token_at_times", "one draw in 200 is any token", ("RLD404",), DRAWS),
    Fault(
        "sampling:last_word_of_masks_open",
        "a grammar lets the last tokens of the vocabulary through",
        ("RLD219",),
        ANSWERS,
    ),
    Fault(
        "sampling:grammars_stay_in_their_row", "a grammar stays in its row for the next request", ("RLD219",), ANSWERS
    ),
    Fault("answers:completions_reversed", "completions of a request come in reverse order", ("RLD220",), ANSWERS),
    Fault("answers:likeliest_misspelt", "the likeliest tokens are called otherwise", ("RLD404",), ANSWERS),
    Fault(
        "answers:length_before_stop", "a stop token in the last place is said to be the length's", ("RLD404",), ANSWERS
    ),
    Fault(
        "answers:no_prompt_logprobs_for_groups",
        "prompts of several completions have no log-probabilities",
        ("RLD213",),
        ANSWERS,
    ),
    Fault(
        "texts:signs_of_broken_characters_lost", "nothing stands for bytes that are no character", ("RLD404",), ANSWERS
    ),
    Fault("texts:stop_tokens_never_in_text", "a stop token that is to stay in the text does not", ("RLD219",), ANSWERS),
    Fault("texts:special_stop_strings_ignored", "the text of a special token does not stop", ("RLD219",), ANSWERS),
    Fault("texts:pieces_overlap", "pieces of a text overlap by a character", ("RLD219",), ANSWERS),
    Fault("lora:scale_in_whole_numbers", "scales of adapters are whole numbers", ("RLD214",), ("lora",), ADAPTERS),
    Fault("weights:views_arrive_by_their_memory", "views arrive as their memory has them", ("RLD402",), ("weights",)),
    Fault(
        "chunked_prefill:youngest_first", "the request that came last is begun first", ("RLD220",), ("chunked_prefill",)
    ),
    Fault("rows:frequency_penalty_left_behind", "a row that moves leaves its frequency_penalty", ("RLD404",), DRAWS),
    Fault("rows:top_k_inherited", "a request has the top-k of the one whose row it got", ("RLD404",), DRAWS),
    Fault(
        "rows:last_token_left_behind", "a row that moves reads another one's last token", ("RLD403",), ("agreement",)
    ),
    Fault("rows:later_blocks_left_behind", "a row that moves leaves its later blocks", ("RLD403",), ("agreement",)),
    Fault("rows:min_tokens_left_behind", "a row that moves leaves its min_tokens", ("RLD219",), ANSWERS),
    Fault(
        "rows:logprobs_by_arrival", "log-probabilities come in the order of requests, not of rows", ("RLD213",), ANSWERS
    ),
    Fault(
        "rows:adapters_end_with_the_first",
        "the first request that ends takes the adapter with it",
        ("RLD214",),
        ("lora",),
        ADAPTERS,
    ),
    Fault(
        "rows:adapters_lost_in_preemption", "a request that comes back has no adapter", ("RLD214",), ("lora",), ADAPTERS
    ),
    Fault(
        "rows:last_token_again_after_preemption",
        "a request that comes back says its last token again",
        ("RLD220",),
        ("chunked_prefill",),
    ),
    Fault("sampling:bias_of_token_zero_ignored", "the token with the id 0 has no bias", ("RLD404",), DRAWS),
    Fault("sampling:seeded_top_p_heated_twice", "temperature counts twice beside a seed and top-p", ("RLD404",), DRAWS),
    Fault(
        "sampling:grammars_shared_by_completions",
        "completions of a request share the state of their grammar",
        ("RLD219",),
        ANSWERS,
    ),
    Fault("texts:stop_strings_remembered", "a stop string from before min_tokens stops later on", ("RLD219",), ANSWERS),
    Fault(
        "answers:pieces_with_the_first_logprobs",
        "pieces of an answer come with the first tokens' log-probabilities",
        ("RLD213",),
        ANSWERS,
    ),
    Fault(
        "answers:pieces_of_the_first_completion",
        "pieces of all completions are said to be the first one's",
        ("RLD219",),
        ANSWERS,
    ),
    Fault(
        "answers:ends_name_themselves", "the end of sequence is told as a stop that was asked for", ("RLD404",), ANSWERS
    ),
    Fault(
        "small:prefixes_in_any_order",
        "the prefix cache ignores the order of a block's tokens",
        ("RLD403",),
        ("agreement",),
    ),
    Fault(
        "chunked_prefill:chunks_answer", "a chunk amid a prompt begins the answer", ("RLD201",), ("chunked_prefill",)
    ),
    Fault(
        "answers:likeliest_first",
        "log-probabilities come by their size, not the token's own first",
        ("RLD213",),
        ANSWERS,
    ),
    Fault(
        "answers:no_length_is_sixteen", "a request that names no length ends after sixteen tokens", ("RLD219",), ANSWERS
    ),
    Fault(
        "chunked_prefill:aborts_take_the_next_in_line",
        "an abort takes the request behind the one that waits",
        ("RLD220",),
        ("chunked_prefill",),
    ),
)


def page() -> str:
    """The table as a page of the documentation."""
    rows = [f"| {fault.breaks} | {', '.join(fault.scenarios)} | {' '.join(fault.codes)} |" for fault in FAULTS]
    return (
        "# What live probes see\n\n"
        f"Tests put these {len(FAULTS)} faults into a real vLLM 0.32 on the CPU, one at a time. Each must be found "
        "under its codes and under\nno other, and the same engine without a fault must give no finding "
        "(`make test-power`).\n\n"
        "| put into the engine | played | found as |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def numbers() -> str:
    """How many of the faults each scenario sees, as JSON; those that played one and judge a code of it share it."""
    codes = codes_by_probe(REGISTRY.checks.values())
    shares: defaultdict[str, float] = defaultdict(float)
    for fault in FAULTS:
        seeing = [name for name in fault.scenarios if not codes.get(name, set()).isdisjoint(fault.codes)]
        for name in seeing:
            shares[name] += 1 / len(seeing)
    return json.dumps({name: round(share) for name, share in sorted(shares.items())}, indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    NUMBERS.write_text(numbers(), encoding="utf-8")
