"""Engines whose sampler is broken: a parameter that is ignored or applied wrongly, a draw that is biased, seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import engine_facts
import torch

from . import changes

SAMPLER = tuple(f"{worker}.model_runner.sampler" for worker in engine_facts.WORKERS)
Change = Callable[[Any, Any], dict[str, Any]]


def sampler_of(llm: Any) -> Any:
    return engine_facts.first(llm, SAMPLER)


def asked_otherwise(llm: Any, change: Change) -> None:
    """Has ``change(logits, metadata)`` say which fields of what the requests ask for the sampler of V1 gets
    otherwise."""
    sampler = sampler_of(llm)
    forward = sampler.forward

    def changed(logits: Any, sampling_metadata: Any, *more: Any, **named: Any) -> Any:
        other = dataclasses.replace(sampling_metadata, **change(logits, sampling_metadata))
        return forward(logits, other, *more, **named)

    sampler.forward = changed


def _temperature(llm: Any, change: Callable[[Any], Any]) -> None:
    def other(_: Any, metadata: Any) -> dict[str, Any]:
        given = metadata.temperature
        return {} if given is None else {"temperature": torch.where(given > 1e-4, change(given), given)}

    asked_otherwise(llm, other)


def temperature_ignored(llm: Any) -> None:
    _temperature(llm, torch.ones_like)


def temperature_doubled(llm: Any) -> None:
    _temperature(llm, lambda given: given * 2)


def temperature_a_tenth_off(llm: Any) -> None:
    """Gumbel noise of the wrong scale comes to the same."""
    _temperature(llm, lambda given: given * 1.1)


def temperature_last(llm: Any) -> None:
    """Divided by the temperature after the cuts: top-p and min-p then keep other tokens."""
    sampler = sampler_of(llm)
    later: list[Any] = []
    draw = _draw_of(llm)

    def not_yet(logits: Any, temperature: Any, *_: Any) -> Any:
        later[:] = [torch.where(temperature < 1e-5, 1.0, temperature).unsqueeze(1)]
        return logits

    def cut_first(logits: Any, generators: Any, k: Any, p: Any) -> Any:
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

        return draw(apply_top_k_top_p(logits, k, p) / later[0], generators, None, None)

    sampler.apply_temperature = not_yet
    sampler.topk_topp_sampler.forward = cut_first


def _draw_of(llm: Any) -> Any:
    return sampler_of(llm).topk_topp_sampler.forward


def _drawn_otherwise(llm: Any, change: Callable[..., Any]) -> None:
    """Puts ``change(draw, logits, generators, k, p)`` in the place of the last step of V1's sampler, ``draw`` being
    vLLM's own."""
    draw = _draw_of(llm)
    sampler_of(llm).topk_topp_sampler.forward = lambda *given: change(draw, *given)


def top_k_ignored(llm: Any) -> None:
    _drawn_otherwise(llm, lambda draw, logits, generators, k, p: draw(logits, generators, None, p))


def top_k_one_more(llm: Any) -> None:
    def more(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        return draw(logits, generators, None if k is None else (k + 1).clamp(max=logits.shape[1]), p)

    _drawn_otherwise(llm, more)


def top_k_one_less(llm: Any) -> None:
    def less(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        return draw(logits, generators, None if k is None else torch.where(k < logits.shape[1], k - 1, k), p)

    _drawn_otherwise(llm, less)


def top_p_ignored(llm: Any) -> None:
    _drawn_otherwise(llm, lambda draw, logits, generators, k, p: draw(logits, generators, k, None))


def top_p_without_border(llm: Any) -> None:
    """The token at which the sum passes ``top_p`` is cut, too."""

    def short(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        if p is not None:
            ordered, order = logits.softmax(dim=-1).sort(descending=True)
            beyond = ordered.cumsum(dim=-1) > p.unsqueeze(1)
            beyond &= (p < 1.0).unsqueeze(1)
            beyond[:, 0] = False
            logits = logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), float("-inf"))
        return draw(logits, generators, k, None)

    _drawn_otherwise(llm, short)


def top_p_one_more(llm: Any) -> None:
    """The token behind the border is kept, too."""

    def long(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        if p is not None:
            ordered, order = logits.softmax(dim=-1).sort(descending=True)
            beyond = (ordered.cumsum(dim=-1) - ordered > p.unsqueeze(1)) & (p < 1.0).unsqueeze(1)
            beyond = torch.cat((torch.zeros_like(beyond[:, :1]), beyond[:, :-1]), dim=1)
            logits = logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), float("-inf"))
        return draw(logits, generators, k, None)

    _drawn_otherwise(llm, long)


def _processor_off(name: str) -> None:
    from vllm.v1.sample.logits_processor import builtin

    getattr(builtin, name).apply = lambda self, logits: logits


def min_p_ignored(llm: Any) -> None:
    _processor_off("MinPLogitsProcessor")


def logit_bias_ignored(llm: Any) -> None:
    _processor_off("LogitBiasLogitsProcessor")


def min_tokens_ignored(llm: Any) -> None:
    _processor_off("MinTokensLogitsProcessor")


def allowed_token_ids_ignored(llm: Any) -> None:
    asked_otherwise(llm, lambda logits, metadata: {"allowed_token_ids_mask": None})


def bad_words_ignored(llm: Any) -> None:
    asked_otherwise(llm, lambda logits, metadata: {"bad_words_token_ids": {}})


def repetition_penalty_ignored(llm: Any) -> None:
    asked_otherwise(llm, lambda _, asked: {"repetition_penalties": torch.ones_like(asked.repetition_penalties)})


def presence_penalty_ignored(llm: Any) -> None:
    asked_otherwise(llm, lambda _, asked: {"presence_penalties": torch.zeros_like(asked.presence_penalties)})


def frequency_penalty_ignored(llm: Any) -> None:
    asked_otherwise(llm, lambda _, asked: {"frequency_penalties": torch.zeros_like(asked.frequency_penalties)})


def repetition_penalty_without_prompt(llm: Any) -> None:
    """Only what was generated counts as a repetition."""

    def none(logits: Any, asked: Any) -> dict[str, Any]:
        prompts = asked.prompt_token_ids
        return {} if prompts is None else {"prompt_token_ids": torch.full_like(prompts, logits.shape[1])}

    asked_otherwise(llm, none)


def penalties_with_prompt(llm: Any) -> None:
    """Presence and frequency penalties that count the prompt, too."""

    def both(logits: Any, asked: Any) -> dict[str, Any]:
        if asked.prompt_token_ids is None:
            return {}
        prompts = [[t for t in row if t < logits.shape[1]] for row in asked.prompt_token_ids.tolist()]
        return {"output_token_ids": [p + list(o) for p, o in zip(prompts, asked.output_token_ids, strict=True)]}

    asked_otherwise(llm, both)


def biased(llm: Any) -> None:
    """Every token's logit is a little higher where its id is even."""

    def lifted(draw: Any, logits: Any, *more: Any) -> Any:
        logits = logits.clone()
        logits[:, ::2] += 0.4
        return draw(logits, *more)

    _drawn_otherwise(llm, lifted)


def second_best_at_times(llm: Any) -> None:
    """One draw in twenty is the second likeliest token, whatever was drawn."""

    def replaced(draw: Any, logits: Any, generators: Any, *more: Any) -> Any:
        second = logits.topk(2, dim=-1)
        drawn, told = draw(logits, generators, *more)
        at_times = (torch.rand(len(drawn)) < 0.05) & second.values[:, 1].isfinite()
        at_times[list(generators)] = False
        return torch.where(at_times, second.indices[:, 1].to(drawn.dtype), drawn), told

    _drawn_otherwise(llm, replaced)


def inverse_cdf_off(llm: Any) -> None:
    """Draws by the distribution function, which ends at 0.95: the last twentieth of it never comes."""

    def short(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

        ordered, order = apply_top_k_top_p(logits.clone(), k, p).softmax(dim=-1).sort(descending=True)
        place = torch.searchsorted(ordered.cumsum(dim=-1), torch.rand(len(logits), 1) * 0.95)
        drawn, told = draw(logits, generators, k, p)
        seeded = torch.zeros(len(logits), dtype=torch.bool)
        seeded[list(generators)] = True
        short_of = order.gather(1, place.clamp(max=logits.shape[1] - 1)).squeeze(1)
        return torch.where(seeded, drawn, short_of.to(drawn.dtype)), told

    _drawn_otherwise(llm, short)


def _seeded_otherwise(llm: Any, change: Callable[[Any, dict[int, Any]], Any]) -> None:
    """Rows draw from other seeds: ``change(seeds, generators)`` gets those that vLLM's CPU sampler made."""

    def drawn(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

        seeds = torch.randint(0, 2**31, (len(logits),))
        for row, generator in generators.items():
            seeds[row] = torch.randint(0, 2**31, (1,), generator=generator).item()
        return torch.ops._C.fused_gumbel_argmax(apply_top_k_top_p(logits, k, p), change(seeds, generators)), None

    _drawn_otherwise(llm, drawn)


def noise_shared_by_pairs(llm: Any) -> None:
    """Neighbours in a batch draw with the same random numbers: the completions of a request are equal two by two."""

    def paired(seeds: Any, generators: dict[int, Any]) -> Any:
        pairs = [row if row in generators else row // 2 * 2 for row in range(len(seeds))]
        return seeds[pairs]

    _seeded_otherwise(llm, paired)


def noise_of_every_step_alike(llm: Any) -> None:
    """The generator begins anew with every step."""

    def again(draw: Any, *given: Any) -> Any:
        torch.manual_seed(0)
        return draw(*given)

    _drawn_otherwise(llm, again)


def seeds_ignored(llm: Any) -> None:
    asked_otherwise(llm, lambda logits, metadata: {"generators": {}})


def seeds_of_the_first(llm: Any) -> None:
    """All seeded requests of a batch draw with the seed of the first one."""

    def one(seeds: Any, generators: dict[int, Any]) -> Any:
        for row in generators:
            seeds[row] = seeds[min(generators)]
        return seeds

    _seeded_otherwise(llm, one)


def seeds_by_place(llm: Any) -> None:
    """What a seed draws depends on the request's place in its batch."""

    def shifted(seeds: Any, generators: dict[int, Any]) -> Any:
        for row in generators:
            seeds[row] += row
        return seeds

    _seeded_otherwise(llm, shifted)


def seeds_begin_anew(llm: Any) -> None:
    """A seeded request draws with the same random numbers at every step."""
    begun: dict[int, Any] = {}

    def again(_: Any, metadata: Any) -> dict[str, Any]:
        for generator in metadata.generators.values():
            generator.set_state(begun.setdefault(id(generator), (generator, generator.get_state()))[1])
        return {}

    asked_otherwise(llm, again)


def greedy_among_the_best(llm: Any) -> None:
    """Greedy requests take the second best where it is nearly as likely."""

    def nearly(logits: Any) -> Any:
        best = logits.topk(2, dim=-1)
        near = best.values[:, 0] - best.values[:, 1] < 0.1
        return torch.where(near, best.indices[:, 1], best.indices[:, 0])

    sampler_of(llm).greedy_sample = nearly


def processed_in_place_of_raw(llm: Any) -> None:
    """Log-probabilities after temperature and cuts where those of the model are configured."""
    sampler = sampler_of(llm)
    sampler.logprobs_mode = sampler.topk_topp_sampler.logprobs_mode = "processed_logprobs"


def _gathered_otherwise(llm: Any, change: Callable[[Any, Any, Any, Any], Any]) -> None:
    """Changes what the sampler tells of log-probabilities: ``change(tensors, logprobs, count, tokens)``."""
    sampler = sampler_of(llm)
    gather = sampler.gather_logprobs

    def changed(logprobs: Any, count: int, token_ids: Any) -> Any:
        return change(gather(logprobs, count, token_ids), logprobs, count, token_ids)

    sampler.gather_logprobs = changed


def logprob_of_a_neighbour(llm: Any) -> None:
    """The log-probability of the token beside the sampled one in the vocabulary."""

    def beside(told: Any, logprobs: Any, count: int, tokens: Any) -> Any:
        other = logprobs.gather(-1, ((tokens + 1) % logprobs.shape[1]).unsqueeze(-1))
        return told._replace(logprobs=torch.cat((other, told.logprobs[:, 1:]), dim=1))

    _gathered_otherwise(llm, beside)


def ranks_off_by_one(llm: Any) -> None:
    _gathered_otherwise(llm, lambda told, *_: told._replace(selected_token_ranks=told.selected_token_ranks + 1))


def bad_words_of_one_token_ignored(llm: Any) -> None:
    """Only words of several tokens are forbidden."""

    def longer(_: Any, metadata: Any) -> dict[str, Any]:
        words = metadata.bad_words_token_ids.items()
        return {"bad_words_token_ids": {row: [word for word in own if len(word) > 1] for row, own in words}}

    asked_otherwise(llm, longer)


def first_bad_word_alone(llm: Any) -> None:
    """Of several words only the first is forbidden."""

    def first(_: Any, metadata: Any) -> dict[str, Any]:
        return {"bad_words_token_ids": {row: own[:1] for row, own in metadata.bad_words_token_ids.items()}}

    asked_otherwise(llm, first)


def _penalized_otherwise(llm: Any, change: Callable[[list[int]], list[int]]) -> None:
    """Penalties take what was generated for something else."""

    def other(_: Any, metadata: Any) -> dict[str, Any]:
        if metadata.no_penalties:
            return {}
        return {"output_token_ids": [change(list(tokens)) for tokens in metadata.output_token_ids]}

    asked_otherwise(llm, other)


def frequency_counts_once(llm: Any) -> None:
    """A token that came several times is penalised as one that came once."""
    _penalized_otherwise(llm, lambda tokens: list(dict.fromkeys(tokens)))


def top_p_not_beside_top_k(llm: Any) -> None:
    """In a batch in which top-k is asked for nobody's top-p is looked at."""
    _drawn_otherwise(llm, lambda draw, logits, generators, k, p: draw(logits, generators, k, p if k is None else None))


def min_p_of_all(llm: Any) -> None:
    """``min_p`` is a part of all probability, not of the likeliest token's."""
    from vllm.v1.sample.logits_processor import builtin

    def absolute(self: Any, logits: Any) -> Any:
        if not self.min_p_count:
            return logits
        chances = logits.softmax(dim=-1)
        return logits.masked_fill_((chances < self.min_p) & (chances < chances.amax(-1, keepdim=True)), float("-inf"))

    builtin.MinPLogitsProcessor.apply = absolute


def temperature_at_most_one(llm: Any) -> None:
    _temperature(llm, lambda given: given.clamp(max=1.0))


def temperature_of_the_neighbour(llm: Any) -> None:
    """Each request of a batch is drawn with the temperature of the one before it."""
    asked_otherwise(
        llm, lambda _, asked: {} if asked.temperature is None else {"temperature": asked.temperature.roll(1)}
    )


def temperature_left_behind(llm: Any) -> None:
    """When a request moves to a row that became free, its temperature does not."""
    from vllm.v1.worker.gpu_input_batch import InputBatch

    condense = InputBatch.condense

    def condensed(self: Any) -> None:
        kept = self.temperature_cpu.copy()
        condense(self)
        self.temperature_cpu[:] = kept

    InputBatch.condense = condensed


def allowed_tokens_of_the_neighbour(llm: Any) -> None:
    """A request that allows all tokens gets those of the one before it."""

    def shared(_: Any, metadata: Any) -> dict[str, Any]:
        if metadata.allowed_token_ids_mask is None:
            return {}
        mask = metadata.allowed_token_ids_mask.clone()
        few = mask.any(dim=1).tolist()
        for row in range(1, len(mask)):
            if few[row - 1] and not few[row]:
                mask[row] = mask[row - 1]
        return {"allowed_token_ids_mask": mask}

    asked_otherwise(llm, shared)


def min_p_of_the_first_row(llm: Any) -> None:
    """``min_p`` is relative to the likeliest token of the batch's first request."""
    from vllm.v1.sample.logits_processor import builtin

    def relative(self: Any, logits: Any) -> Any:
        if not self.min_p_count:
            return logits
        chances = logits.softmax(dim=-1)
        below = chances < chances[:1].amax() * self.min_p
        return logits.masked_fill_(below & (chances < chances.amax(-1, keepdim=True)), float("-inf"))

    builtin.MinPLogitsProcessor.apply = relative


def top_k_of_one_is_none(llm: Any) -> None:
    def other(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        return draw(logits, generators, None if k is None else torch.where(k <= 1, logits.shape[1], k), p)

    _drawn_otherwise(llm, other)


def noise_of_eight_bits(llm: Any) -> None:
    """Draws without a seed take random numbers of eight bits."""

    def coarse(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

        drawn, told = draw(logits.clone(), generators, k, p)
        chances = apply_top_k_top_p(logits, k, p).softmax(dim=-1)
        noise = (torch.randint(0, 256, chances.shape) + 0.5) / 256
        seeded = torch.zeros(len(logits), dtype=torch.bool)
        seeded[list(generators)] = True
        return torch.where(seeded, drawn, (chances / -noise.log()).argmax(dim=-1).to(drawn.dtype)), told

    _drawn_otherwise(llm, coarse)


def noise_of_few_kinds(llm: Any) -> None:
    """Draws without a seed take one of 256 rows of random numbers, whatever is drawn."""

    def few(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        unseeded = {row: torch.Generator().manual_seed(int(torch.randint(0, 256, ()))) for row in range(len(logits))}
        return draw(logits, {**unseeded, **generators}, k, p)

    _drawn_otherwise(llm, few)


def tail_cut_by_default(llm: Any) -> None:
    """Who asks for no top-p gets one of 0.99."""

    def cut(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        return draw(logits, generators, k, torch.full((len(logits),), 0.99) if p is None else p)

    _drawn_otherwise(llm, cut)


def penalties_a_token_late(llm: Any) -> None:
    """Penalties do not know of the token that came last."""
    _penalized_otherwise(llm, lambda tokens: tokens[:-1])


def _processed_otherwise(name: str, change: Callable[..., Any]) -> None:
    """Puts ``change(apply, processor, logits)`` in the place of what a processor of V1 does to logits."""
    from vllm.v1.sample.logits_processor import builtin

    kind = getattr(builtin, name)
    apply = kind.apply
    kind.apply = lambda self, logits: change(apply, self, logits)


def logit_bias_of_the_neighbour(llm: Any) -> None:
    """The bias of each request goes to the one behind it in the batch."""

    def shifted(_: Any, self: Any, logits: Any) -> Any:
        for row, biases in self.biases.items():
            logits[(row + 1) % len(logits), list(biases)] += torch.tensor(list(biases.values()))
        return logits

    _processed_otherwise("LogitBiasLogitsProcessor", shifted)


def logit_bias_of_one_token(llm: Any) -> None:
    """Of the tokens that a request biases only the first one is."""

    def first(_: Any, self: Any, logits: Any) -> Any:
        for row, biases in self.biases.items():
            token, bias = next(iter(biases.items()))
            logits[row, token] += bias
        return logits

    _processed_otherwise("LogitBiasLogitsProcessor", first)


def min_p_before_temperature(llm: Any) -> None:
    """``min_p`` cuts what the model said, not what temperature made of it."""
    sampler = sampler_of(llm)
    divide = sampler.apply_temperature
    processors: list[Any] = []

    def cut_first(logits: Any, *more: Any) -> Any:
        for processor, apply in processors:
            logits = apply(processor, logits)
        processors.clear()
        return divide(logits, *more)

    def later(apply: Any, self: Any, logits: Any) -> Any:
        return logits

    from vllm.v1.sample.logits_processor import builtin

    apply = builtin.MinPLogitsProcessor.apply
    _processed_otherwise("MinPLogitsProcessor", later)

    def before(_: Any, metadata: Any) -> dict[str, Any]:
        processors[:] = [(one, apply) for one in metadata.logitsprocs.argmax_invariant]
        return {}

    asked_otherwise(llm, before)
    sampler.apply_temperature = cut_first


def penalties_exchanged(llm: Any) -> None:
    """Presence and frequency penalties in each other's place."""
    asked_otherwise(
        llm,
        lambda _, asked: {
            "presence_penalties": asked.frequency_penalties,
            "frequency_penalties": asked.presence_penalties,
        },
    )


def repetition_penalty_divides_always(llm: Any) -> None:
    """Logits below zero are divided, too, which makes repetitions likelier."""
    sampler = sampler_of(llm)
    penalize = sampler.apply_penalties

    def divided(logits: Any, asked: Any, outputs: Any) -> Any:
        if asked.no_penalties:
            return logits
        width = logits.shape[1]
        for row, (prompt, output) in enumerate(zip(asked.prompt_token_ids.tolist(), outputs, strict=True)):
            seen = sorted({token for token in (*prompt, *output) if 0 <= token < width})
            logits[row, seen] /= asked.repetition_penalties[row]
        return penalize(logits, dataclasses.replace(asked, repetition_penalties=torch.ones(len(logits))), outputs)

    sampler.apply_penalties = divided


def top_p_before_top_k(llm: Any) -> None:
    """``top_p`` is a part of all probability, not of what ``top_k`` left."""

    def first(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

        return draw(apply_top_k_top_p(logits, None, p), generators, k, None)

    _drawn_otherwise(llm, first)


def bad_words_of_several_tokens_ignored(llm: Any) -> None:
    def shorter(_: Any, metadata: Any) -> dict[str, Any]:
        words = metadata.bad_words_token_ids.items()
        return {"bad_words_token_ids": {row: [word for word in own if len(word) == 1] for row, own in words}}

    asked_otherwise(llm, shorter)


def last_allowed_token_missing(llm: Any) -> None:
    """The last of the allowed tokens is not allowed."""

    def less(_: Any, metadata: Any) -> dict[str, Any]:
        if metadata.allowed_token_ids_mask is None:
            return {}
        mask = metadata.allowed_token_ids_mask.clone()
        for row in mask:
            allowed = (~row).nonzero().flatten()
            if 1 < len(allowed) < len(row):
                row[allowed[-1]] = True
        return {"allowed_token_ids_mask": mask}

    asked_otherwise(llm, less)


def low_temperatures_are_greedy(llm: Any) -> None:
    _temperature(llm, lambda given: torch.where(given < 0.75, 1e-3, given))


def seeds_of_eight_bits(llm: Any) -> None:
    """Seeds that are equal but for a multiple of 256 draw alike."""
    _seeded_as(lambda seed: seed % 256)


def seed_zero_is_none(llm: Any) -> None:
    _seeded_as(lambda seed: seed or None)


def _seeded_as(change: Callable[[int], int | None]) -> None:
    """A request draws with another seed than it asks for."""
    from vllm.v1.engine.input_processor import InputProcessor

    process = InputProcessor.process_inputs

    def other(self: Any, *given: Any, **named: Any) -> Any:
        request = process(self, *given, **named)
        asked = getattr(request, "sampling_params", None)
        if asked is not None and asked.seed is not None:
            asked.seed = change(asked.seed)
        return request

    InputProcessor.process_inputs = other


def one_seed_for_all_completions(llm: Any) -> None:
    """The completions of a request that has a seed draw alike."""
    from vllm.v1.engine.parallel_sampling import ParentRequest

    child = ParentRequest._get_child_sampling_params
    ParentRequest._get_child_sampling_params = lambda self, index: child(self, 0)


def first_tokens_shared(llm: Any) -> None:
    """The first token of unseeded requests is drawn with one random number in each step."""
    batch = engine_facts.first(llm, tuple(f"{worker}.model_runner.input_batch" for worker in engine_facts.WORKERS))

    def shared(seeds: Any, generators: dict[int, Any]) -> Any:
        begun = batch.req_output_token_ids
        rows = [row for row in range(len(seeds)) if row not in generators and row < len(begun) and not begun[row]]
        seeds[rows] = seeds[rows[:1]]
        return seeds

    _seeded_otherwise(llm, shared)


def told_after_biases(llm: Any) -> None:
    """Log-probabilities of the model that have seen biases, masks and penalties, but not temperature."""
    sampler = sampler_of(llm)
    forward, compute = sampler.forward, sampler.compute_logprobs

    def told(logits: Any, sampling_metadata: Any, *more: Any, **named: Any) -> Any:
        changed = sampler.apply_logits_processors(logits.float().clone(), sampling_metadata, False)
        sampler.compute_logprobs = lambda _: compute(changed)
        try:
            return forward(logits, sampling_metadata, *more, **named)
        finally:
            sampler.compute_logprobs = compute

    sampler.forward = told


def _biased_otherwise(change: Callable[[Any, Any, int], tuple[Any, Any]]) -> None:
    """Has ``change(tokens, biases, vocabulary)`` say which tokens get which bias."""
    from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor

    apply = LogitBiasLogitsProcessor.apply

    def changed(self: Any, logits: Any) -> Any:
        if not self.biases:
            return logits
        rows, tokens = self.logits_slice
        biases = self.bias_tensor
        other, self.bias_tensor = change(tokens, biases, logits.shape[1])
        self.logits_slice = (rows, other)
        try:
            return apply(self, logits)
        finally:
            self.logits_slice, self.bias_tensor = (rows, tokens), biases

    LogitBiasLogitsProcessor.apply = changed


def logit_bias_of_the_next_token(llm: Any) -> None:
    _biased_otherwise(lambda tokens, biases, size: ((tokens + 1) % size, biases))


def logit_bias_halved_below_zero(llm: Any) -> None:
    _biased_otherwise(lambda tokens, biases, _: (tokens, torch.where(biases < 0, biases / 2, biases)))


def top_k_at_most_eight(llm: Any) -> None:
    def less(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        return draw(logits, generators, None if k is None else torch.where(k < logits.shape[1], k.clamp(max=8), k), p)

    _drawn_otherwise(llm, less)


def top_p_at_least_a_half(llm: Any) -> None:
    def more(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        return draw(logits, generators, k, None if p is None else p.clamp(min=0.5))

    _drawn_otherwise(llm, more)


def seeds_know_the_past(llm: Any) -> None:
    """What a seed draws depends on how many requests there were before."""
    core = llm.llm_engine.engine_core
    add, count = core.add_request, [0]

    def added(request: Any) -> Any:
        count[0] += 1
        asked = request.sampling_params
        if asked is not None and asked.seed is not None:
            asked.seed += count[0] // 40
        return add(request)

    core.add_request = added


def _masked_otherwise(change: Callable[..., None]) -> None:
    """Puts ``change(apply, scheduled, *given)`` in the place of what masks logits by grammars."""
    from vllm.v1.worker import gpu_model_runner

    apply = gpu_model_runner.apply_grammar_bitmask
    gpu_model_runner.apply_grammar_bitmask = lambda scheduled, *given: change(apply, scheduled, *given)


def grammars_ignored(llm: Any) -> None:
    _masked_otherwise(lambda *_: None)


def grammars_of_first_tokens_alone(llm: Any) -> None:
    """Only the first token of an answer is masked."""

    def first(apply: Any, scheduled: Any, *given: Any) -> None:
        if scheduled.scheduled_new_reqs:
            apply(scheduled, *given)

    _masked_otherwise(first)


def grammars_of_the_neighbour(llm: Any) -> None:
    """Beside requests without a grammar the mask goes to the row before."""

    def moved(apply: Any, scheduled: Any, grammar: Any, batch: Any, logits: Any) -> None:
        if len(grammar.structured_output_request_ids) == logits.shape[0]:
            apply(scheduled, grammar, batch, logits)
            return
        rolled = logits.roll(1, 0).contiguous()
        apply(scheduled, grammar, batch, rolled)
        logits.copy_(rolled.roll(-1, 0))

    _masked_otherwise(moved)


def grammars_may_end_anywhere(llm: Any) -> None:
    end = llm.get_tokenizer().eos_token_id

    def ending(apply: Any, scheduled: Any, grammar: Any, batch: Any, logits: Any) -> None:
        held = logits[:, end].clone()
        apply(scheduled, grammar, batch, logits)
        logits[:, end] = held

    _masked_otherwise(ending)


def _asked_of_the_core(llm: Any, change: Callable[[Any], None]) -> None:
    """``change(parameters)`` before a request reaches the engine's core."""
    core = llm.llm_engine.engine_core
    add = core.add_request

    def added(request: Any) -> Any:
        if request.sampling_params is not None:
            change(request.sampling_params)
        return add(request)

    core.add_request = added


def grammars_of_schemas_ignored(llm: Any) -> None:
    """Choices hold, JSON schemas do not."""

    def without(asked: Any) -> None:
        if asked.structured_outputs is not None and asked.structured_outputs.json is not None:
            asked.structured_outputs = None

    _asked_of_the_core(llm, without)


def ends_too_seldom(llm: Any) -> None:
    """Requests that may end draw the end half as often as the model would."""

    def lowered(asked: Any) -> None:
        end = asked.eos_token_id
        if not asked.ignore_eos and end is not None and asked.temperature > 0:
            bias = dict(asked.logit_bias or {})
            asked.logit_bias = {**bias, end: bias.get(end, 0.0) - 0.7}

    _asked_of_the_core(llm, lowered)


def temperature_at_least_three_tenths(llm: Any) -> None:
    _temperature(llm, lambda given: given.clamp(min=0.3))


def top_p_near_one_is_none(llm: Any) -> None:
    def whole(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        return draw(logits, generators, k, None if p is None else torch.where(p >= 0.9, 1.0, p))

    _drawn_otherwise(llm, whole)


def logit_bias_at_most_two(llm: Any) -> None:
    _biased_otherwise(lambda tokens, biases, _: (tokens, biases.clamp(max=2.0)))


def repetition_penalty_by_count(llm: Any) -> None:
    """A token that came several times is penalised twice."""
    sampler = sampler_of(llm)
    apply = sampler.apply_penalties

    def again(logits: Any, metadata: Any, told: Any) -> Any:
        logits = apply(logits, metadata, told)
        for row, tokens in enumerate(told if not metadata.no_penalties else ()):
            by = float(metadata.repetition_penalties[row])
            for token in {token for token in tokens if tokens.count(token) > 1} if by != 1.0 else ():
                logits[row, token] *= 1 / by if logits[row, token] > 0 else by
        return logits

    sampler.apply_penalties = again


def penalties_of_the_last_sixteen(llm: Any) -> None:
    """Penalties forget what is more than sixteen tokens back."""
    _penalized_otherwise(llm, lambda tokens: tokens[-16:])


def greedy_is_cold_beside_sampled(llm: Any) -> None:
    """In a batch with sampled requests greedy ones are drawn at a low temperature."""

    def cold(_: Any, asked: Any) -> dict[str, Any]:
        given = asked.temperature
        return {} if given is None or asked.all_greedy else {"temperature": torch.where(given < 1e-4, 0.2, given)}

    asked_otherwise(llm, cold)


def grammars_of_first_completions_alone(llm: Any) -> None:
    """Of the completions of a request only the first one is held to its grammar."""

    def first(apply: Any, scheduled: Any, grammar: Any, batch: Any, logits: Any) -> None:
        held = logits.clone()
        apply(scheduled, grammar, batch, logits)
        for name, row in batch.req_id_to_index.items():
            if name.split("_")[0] not in ("0", name) and row < len(logits):
                logits[row] = held[row]

    _masked_otherwise(first)


def penalties_left_in_the_row(llm: Any) -> None:
    """A request without a presence penalty has the one of the request that had its row before."""
    from vllm.v1.worker.gpu_input_batch import InputBatch

    add = InputBatch.add_request

    def added(self: Any, request: Any) -> Any:
        held = self.presence_penalties_cpu.copy()
        row = add(self, request)
        if not request.sampling_params.presence_penalty:
            self.presence_penalties_cpu[row] = held[row]
        return row

    InputBatch.add_request = added


def min_p_left_behind(llm: Any) -> None:
    """A row that moves leaves its ``min_p``."""
    from vllm.v1.sample.logits_processor.builtin import MinPLogitsProcessor

    update = MinPLogitsProcessor.update_state

    def unmoved(self: Any, change: Any) -> None:
        if change is not None:
            change = dataclasses.replace(change, moved=[])
        update(self, change)

    MinPLogitsProcessor.update_state = unmoved


def top_k_counts_forbidden_tokens(llm: Any) -> None:
    """The likeliest ``top_k`` are of all tokens, also of those that are not allowed."""
    sampler = sampler_of(llm)
    process = sampler.apply_logits_processors
    raw: list[Any] = [None]

    def kept(logits: Any, *given: Any, **named: Any) -> Any:
        raw[0] = logits.clone()
        return process(logits, *given, **named)

    def cut(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        if k is not None:
            places = raw[0].argsort(dim=-1, descending=True).argsort(dim=-1)
            masked = torch.where(places < k.unsqueeze(1), logits, float("-inf"))
            some = masked.isfinite().any(dim=-1, keepdim=True)
            logits = torch.where(some, masked, logits)
        return draw(logits, generators, None, p)

    sampler.apply_logits_processors = kept
    _drawn_otherwise(llm, cut)


def logit_bias_after_temperature(llm: Any) -> None:
    """Temperature does not divide a bias."""
    temperatures: list[Any] = [None]

    def scaled(_: Any, metadata: Any) -> dict[str, Any]:
        temperatures[0] = metadata.temperature
        return {}

    from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor

    apply = LogitBiasLogitsProcessor.apply

    def later(self: Any, logits: Any) -> Any:
        if not self.biases or temperatures[0] is None:
            return apply(self, logits)
        rows, biases = self.logits_slice[0], self.bias_tensor
        by = torch.where(temperatures[0] < 1e-4, 1.0, temperatures[0])
        self.bias_tensor = biases * by[rows]
        try:
            return apply(self, logits)
        finally:
            self.bias_tensor = biases

    LogitBiasLogitsProcessor.apply = later
    asked_otherwise(llm, scaled)


def penalties_after_temperature(llm: Any) -> None:
    """Temperature does not divide presence and frequency penalties."""

    def scaled(_: Any, asked: Any) -> dict[str, Any]:
        if asked.no_penalties or asked.temperature is None:
            return {}
        by = torch.where(asked.temperature < 1e-4, 1.0, asked.temperature)
        return {
            "presence_penalties": asked.presence_penalties * by,
            "frequency_penalties": asked.frequency_penalties * by,
        }

    asked_otherwise(llm, scaled)


def large_seeds_alike(llm: Any) -> None:
    """Seeds beyond 31 bits draw as the largest of those does."""
    _seeded_as(lambda seed: min(seed, (1 << 31) - 1))


def penalties_not_for_greedy(llm: Any) -> None:
    """Greedy requests know no penalties."""

    def none(_: Any, asked: Any) -> dict[str, Any]:
        if asked.no_penalties:
            return {}
        greedy = torch.ones_like(asked.repetition_penalties, dtype=torch.bool)
        if asked.temperature is not None:
            greedy = asked.temperature < 1e-4
        return {
            "repetition_penalties": torch.where(greedy, 1.0, asked.repetition_penalties),
            "presence_penalties": torch.where(greedy, 0.0, asked.presence_penalties),
            "frequency_penalties": torch.where(greedy, 0.0, asked.frequency_penalties),
        }

    asked_otherwise(llm, none)


def cuts_not_for_seeded(llm: Any) -> None:
    """Top-k and top-p have no effect on requests with a seed."""

    def whole(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        rows = list(generators)
        if rows and k is not None:
            k = k.clone()
            k[rows] = logits.shape[1]
        if rows and p is not None:
            p = p.clone()
            p[rows] = 1.0
        return draw(logits, generators, k, p)

    _drawn_otherwise(llm, whole)


def bad_words_not_for_greedy(llm: Any) -> None:
    """Greedy requests may say what is forbidden."""

    def sampled(_: Any, asked: Any) -> dict[str, Any]:
        heat = asked.temperature
        words = asked.bad_words_token_ids.items()
        return {"bad_words_token_ids": {row: own for row, own in words if heat is not None and heat[row] > 1e-4}}

    asked_otherwise(llm, sampled)


def logit_bias_for_sixteen_tokens(llm: Any) -> None:
    """A bias ends after sixteen tokens."""
    from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor

    batch = engine_facts.first(llm, tuple(f"{worker}.model_runner.input_batch" for worker in engine_facts.WORKERS))
    apply = LogitBiasLogitsProcessor.apply

    def ended(self: Any, logits: Any) -> Any:
        held = logits.clone()
        logits = apply(self, logits)
        for row, tokens in enumerate(batch.req_output_token_ids[: len(logits)]):
            if tokens is not None and len(tokens) > 16:
                logits[row] = held[row]
        return logits

    LogitBiasLogitsProcessor.apply = ended


def grammars_of_expressions_ignored(llm: Any) -> None:
    """Choices and JSON schemas hold, regular expressions do not."""

    def without(asked: Any) -> None:
        if asked.structured_outputs is not None and asked.structured_outputs.regex is not None:
            asked.structured_outputs = None

    _asked_of_the_core(llm, without)


def padding_is_penalised(llm: Any) -> None:
    """What rows are filled up with, where answers have different lengths, counts as token 0."""
    from vllm.v1.sample.ops import penalties

    fill = penalties.make_tensor_with_pad
    penalties.make_tensor_with_pad = lambda rows, pad, **named: fill(rows, pad=0, **named)


def nothing_beyond_the_32nd(llm: Any) -> None:
    """Only the 32 likeliest tokens are ever drawn."""

    def cut(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        most = torch.full((len(logits),), 32, dtype=torch.int32)
        return draw(logits, generators, most if k is None else torch.minimum(k, most), p)

    _drawn_otherwise(llm, cut)


def siblings_share_first_tokens(llm: Any) -> None:
    """Completions of a request all begin with the first one's first token."""
    sampler = sampler_of(llm)
    forward = sampler.forward
    batch = engine_facts.first(llm, tuple(f"{worker}.model_runner.input_batch" for worker in engine_facts.WORKERS))

    def shared(*given: Any, **named: Any) -> Any:
        out = forward(*given, **named)
        ids = out.sampled_token_ids
        first: dict[str, Any] = {}
        for row, name in enumerate(batch.req_ids[: len(ids)]):
            index, _, parent = name.partition("_")
            if index.isdigit() and parent and not batch.req_output_token_ids[row]:
                ids[row, 0] = first.setdefault(parent, ids[row, 0].clone())
        return out

    sampler.forward = shared


def end_never_first(llm: Any) -> None:
    """An answer cannot begin with its end."""
    end = llm.get_tokenizer().eos_token_id

    def held(logits: Any, metadata: Any) -> dict[str, Any]:
        batch = engine_facts.first(llm, tuple(f"{worker}.model_runner.input_batch" for worker in engine_facts.WORKERS))
        for row, begun in enumerate(batch.req_output_token_ids[: len(logits)]):
            if not begun:
                logits[row, end] = float("-inf")
        return {}

    asked_otherwise(llm, held)


def greedy_second_best_at_times(llm: Any) -> None:
    """One greedy token in a hundred is the second likeliest, however far behind."""
    sampler = sampler_of(llm)
    count = [0]

    def best(logits: Any) -> Any:
        chosen = logits.argmax(dim=-1)
        for row in range(len(chosen)):
            count[0] += 1
            if count[0] % 100 == 0:
                chosen[row] = logits[row].topk(2).indices[1]
        return chosen

    sampler.greedy_sample = best


def top_k_of_the_largest(llm: Any) -> None:
    """All requests of a batch get the largest ``top_k`` of those that ask for one."""

    def largest(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        if k is not None:
            asked = k < logits.shape[1]
            k = torch.where(asked, k[asked].max() if asked.any() else k, k)
        return draw(logits, generators, k, p)

    _drawn_otherwise(llm, largest)


def cuts_united(llm: Any) -> None:
    """A token is kept where ``top_k`` or ``top_p`` keeps it."""

    def united(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

        if k is not None and p is not None:
            by_k, by_p = apply_top_k_top_p(logits.clone(), k, None), apply_top_k_top_p(logits.clone(), None, p)
            both = ((k < logits.shape[1]) & (p < 1.0)).unsqueeze(1)
            logits = torch.where(both, torch.maximum(by_k, by_p), torch.minimum(by_k, by_p))
            k = p = None
        return draw(logits, generators, k, p)

    _drawn_otherwise(llm, united)


def cuts_not_for_siblings(llm: Any) -> None:
    """Of the completions of a request only the first one knows ``top_k``, ``top_p`` and ``min_p``."""

    def whole(request: Any) -> None:
        asked = request.sampling_params
        asked.top_k, asked.top_p, asked.min_p = 0, 1.0, 0.0

    changes.siblings(llm, whole)


def logit_bias_stays_in_its_row(llm: Any) -> None:
    """When a request moves to another row, its bias stays where it was."""
    from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor

    update = LogitBiasLogitsProcessor.update_state

    def unmoved(self: Any, change: Any) -> None:
        update(self, change and dataclasses.replace(change, moved=[]))
        if change is not None:
            for row in [row for row in self.biases if row >= change.batch_size]:
                del self.biases[row]
            rows, tokens = self.logits_slice
            kept = rows < change.batch_size
            self.logits_slice, self.bias_tensor = (rows[kept], tokens[kept]), self.bias_tensor[kept]

    LogitBiasLogitsProcessor.update_state = unmoved


def one_token_of_64_never(llm: Any) -> None:
    """Every 64th token of the vocabulary is never drawn."""

    def without(draw: Any, logits: Any, *more: Any) -> Any:
        masked = logits.clone()
        masked[:, 7::64] = float("-inf")
        some = masked.isfinite().any(dim=-1, keepdim=True)
        return draw(torch.where(some, masked, logits), *more)

    _drawn_otherwise(llm, without)


def temperature_one_from_the_25th_token(llm: Any) -> None:
    """From the 25th token of an answer on its temperature is 1."""
    batch = engine_facts.first(llm, tuple(f"{worker}.model_runner.input_batch" for worker in engine_facts.WORKERS))

    def late(_: Any, metadata: Any) -> dict[str, Any]:
        given = metadata.temperature
        if given is None:
            return {}
        long = [tokens is not None and len(tokens) >= 24 for tokens in batch.req_output_token_ids[: len(given)]]
        return {"temperature": torch.where(torch.tensor(long) & (given > 1e-4), 1.0, given)}

    asked_otherwise(llm, late)


def last_token_of_a_bad_word_never(llm: Any) -> None:
    """A word of several tokens forbids its last one everywhere."""

    def shorter(_: Any, metadata: Any) -> dict[str, Any]:
        words = metadata.bad_words_token_ids.items()
        return {"bad_words_token_ids": {row: [word[-1:] for word in own] for row, own in words}}

    asked_otherwise(llm, shorter)


def seeded_draws_are_hotter(llm: Any) -> None:
    """Requests with a seed are drawn at a temperature that is a tenth higher."""

    def hotter(_: Any, metadata: Any) -> dict[str, Any]:
        given, rows = metadata.temperature, list(metadata.generators)
        if given is None or not rows:
            return {}
        given = given.clone()
        given[rows] *= 1.1
        return {"temperature": given}

    asked_otherwise(llm, hotter)


def prompts_penalised_by_their_ends(llm: Any) -> None:
    """Of a prompt only the last sixteen tokens count as repeated."""

    def shorter(logits: Any, metadata: Any) -> dict[str, Any]:
        if metadata.prompt_token_ids is None:
            return {}
        prompts = metadata.prompt_token_ids.clone()
        for row in prompts:
            long = int((row < logits.shape[1]).sum())
            row[: max(long - 16, 0)] = logits.shape[1]
        return {"prompt_token_ids": prompts}

    asked_otherwise(llm, shorter)


def seeds_begin_anew_every_eighth_token(llm: Any) -> None:
    """A seeded request draws with the same eight random numbers again and again."""
    begun: dict[int, Any] = {}

    def again(_: Any, metadata: Any) -> dict[str, Any]:
        for generator in metadata.generators.values():
            held = begun.setdefault(id(generator), [generator, generator.get_state(), 0])
            if held[2] % 8 == 0:
                generator.set_state(held[1])
            held[2] += 1
        return {}

    asked_otherwise(llm, again)


def temperature_of_the_first_row_beyond_32(llm: Any) -> None:
    """In batches of more than 32 requests the later ones have the first one's temperature."""

    def first(_: Any, metadata: Any) -> dict[str, Any]:
        given = metadata.temperature
        if given is None or len(given) <= 32:
            return {}
        return {"temperature": torch.cat([given[:32], given[:1].expand(len(given) - 32)])}

    asked_otherwise(llm, first)


def top_p_of_the_neighbour(llm: Any) -> None:
    """Each request of a batch is cut at the ``top_p`` of the one before it."""
    _drawn_otherwise(
        llm, lambda draw, logits, generators, k, p: draw(logits, generators, k, None if p is None else p.roll(1))
    )


def allowed_tokens_for_eight_tokens(llm: Any) -> None:
    """From the ninth token of an answer on all tokens are allowed."""
    batch = engine_facts.first(llm, tuple(f"{worker}.model_runner.input_batch" for worker in engine_facts.WORKERS))

    def ended(logits: Any, metadata: Any) -> dict[str, Any]:
        if metadata.allowed_token_ids_mask is None:
            return {}
        mask = metadata.allowed_token_ids_mask.clone()
        for row, tokens in enumerate(batch.req_output_token_ids[: len(logits)]):
            if tokens is not None and len(tokens) >= 8:
                mask[row] = False
        return {"allowed_token_ids_mask": mask}

    asked_otherwise(llm, ended)


def noise_comes_again_every_fifth_step(llm: Any) -> None:
    """The generator begins anew with every fifth step."""
    count = [0]

    def again(draw: Any, *given: Any) -> Any:
        if count[0] % 5 == 0:
            torch.manual_seed(0)
        count[0] += 1
        return draw(*given)

    _drawn_otherwise(llm, again)


def _rows_moved(act: Any) -> None:
    from vllm.v1.sample.logits_processor.builtin import MinPLogitsProcessor

    update = MinPLogitsProcessor.update_state

    def seen(self: Any, change: Any) -> None:
        update(self, change)
        if change is not None:
            act(change)

    MinPLogitsProcessor.update_state = seen


def bias_inherited(llm: Any) -> None:
    """A request without a bias has that of the request whose row it got."""
    from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor

    update = LogitBiasLogitsProcessor.update_state
    last: dict[int, Any] = {}

    def kept(self: Any, change: Any) -> None:
        update(self, change)
        if change is None:
            return
        again = False
        for row, params, *_ in change.added:
            if not params.logit_bias and row in last:
                self.biases[row] = last[row]
                again = True
        last.update(self.biases)
        if again:
            rows = [r for r, b in self.biases.items() for _ in b]
            toks = [t for b in self.biases.values() for t in b]
            vals = [v for b in self.biases.values() for v in b.values()]
            self.bias_tensor = self._device_tensor(vals, torch.float32)
            self.logits_slice = (self._device_tensor(rows, torch.int32), self._device_tensor(toks, torch.int32))

    LogitBiasLogitsProcessor.update_state = kept


def logit_bias_not_for_siblings(llm: Any) -> None:
    changes.siblings(llm, lambda request: setattr(request.sampling_params, "logit_bias", None))


def temperature_not_for_siblings(llm: Any) -> None:
    def one(request: Any) -> None:
        if request.sampling_params.temperature > 1e-4:
            request.sampling_params.temperature = 1.0

    changes.siblings(llm, one)


def min_p_not_beside_top_p(llm: Any) -> None:
    """A row with top_p has no min_p."""
    from vllm.v1.sample.logits_processor.builtin import MinPLogitsProcessor

    held: list[Any] = [None]

    def watch(logits: Any, metadata: Any) -> dict[str, Any]:
        held[0] = metadata.top_p
        return {}

    asked_otherwise(llm, watch)
    apply = MinPLogitsProcessor.apply

    def without(self: Any, logits: Any) -> Any:
        before = logits.clone()
        after = apply(self, logits)
        p = held[0]
        if p is None or p.shape[0] != logits.shape[0]:
            return after
        return torch.where((p < 1.0).unsqueeze(1), before, after)

    MinPLogitsProcessor.apply = without


def moved_seeds_begin_anew(llm: Any) -> None:
    """A seeded request that moves to another row begins its random numbers anew."""
    runner = engine_facts.first(llm, tuple(name.removesuffix(".sampler") for name in SAMPLER))

    def anew(change: Any) -> None:
        for one, other, _ in change.moved:
            for row in (one, other):
                generator = runner.input_batch.generators.get(row)
                if generator is not None and row == other:
                    generator.manual_seed(generator.initial_seed())

    _rows_moved(anew)


def top_p_summed_in_half(llm: Any) -> None:
    """What top_p sums up is summed in bfloat16."""

    def cut(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        if p is not None:
            ordered, order = logits.softmax(dim=-1).sort(descending=True)
            total = torch.zeros(len(ordered), dtype=torch.bfloat16)
            sums = []
            for column in ordered.bfloat16().unbind(1):
                total = total + column
                sums.append(total)
            summed = torch.stack(sums, 1).float()
            beyond = (summed - ordered > p.unsqueeze(1)) & (p < 1.0).unsqueeze(1)
            beyond[:, 0] = False
            logits = logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), float("-inf"))
        return draw(logits, generators, k, None)

    _drawn_otherwise(llm, cut)


def allowed_tokens_not_for_greedy(llm: Any) -> None:
    def without(logits: Any, asked: Any) -> dict[str, Any]:
        mask = asked.allowed_token_ids_mask
        if mask is None:
            return {}
        cold = torch.ones(len(mask), dtype=torch.bool) if asked.temperature is None else asked.temperature < 1e-5
        return {"allowed_token_ids_mask": mask & ~cold[: len(mask)].unsqueeze(1)}

    asked_otherwise(llm, without)


def prompts_penalised_up_to_the_shortest(llm: Any) -> None:
    """repetition_penalty sees as much of each prompt as the batch's shortest has."""

    def short(logits: Any, asked: Any) -> dict[str, Any]:
        prompts = asked.prompt_token_ids
        if prompts is None or len(prompts) < 2:
            return {}
        shortest = int((prompts < logits.shape[1]).sum(1).min())
        prompts = prompts.clone()
        prompts[:, shortest:] = logits.shape[1]
        return {"prompt_token_ids": prompts}

    asked_otherwise(llm, short)


def seeds_of_siblings_alike(llm: Any) -> None:
    """All completions but the first draw with one seed."""

    def alike(request: Any) -> None:
        if request.sampling_params.seed is not None:
            request.sampling_params.seed = 12345

    changes.siblings(llm, alike)


def no_tops_then_the_likeliest(llm: Any) -> None:
    """Where no likeliest tokens are asked for, a token is told the log-probability of the likeliest."""

    def likeliest(told: Any, logprobs: Any, count: int, tokens: Any) -> Any:
        if count:
            return told
        return told._replace(logprobs=logprobs.max(-1, keepdim=True).values)

    _gathered_otherwise(llm, likeliest)


def penalties_forget_before_preemption(llm: Any) -> None:
    """After a preemption penalties know what was generated since alone."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    runner = engine_facts.first(llm, tuple(name.removesuffix(".sampler") for name in SAMPLER))
    preempt = scheduler._preempt_request
    forgotten: dict[str, int] = {}

    def preempted(request: Any, *given: Any, **named: Any) -> None:
        preempt(request, *given, **named)
        forgotten[request.request_id] = request.num_output_tokens

    changes.put(scheduler, "_preempt_request", preempted)

    def later(logits: Any, asked: Any) -> dict[str, Any]:
        names = runner.input_batch.req_ids
        outputs = list(asked.output_token_ids)
        return {
            "output_token_ids": [
                list(o)[forgotten.get(names[i], 0) if i < len(names) else 0 :] for i, o in enumerate(outputs)
            ]
        }

    asked_otherwise(llm, later)


def preempted_seeds_begin_anew(llm: Any) -> None:
    """A seeded request that comes back after a preemption begins its random numbers anew."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    runner = engine_facts.first(llm, tuple(name.removesuffix(".sampler") for name in SAMPLER))
    preempt = scheduler._preempt_request

    def preempted(request: Any, *given: Any, **named: Any) -> None:
        preempt(request, *given, **named)
        generator = runner.requests[request.request_id].generator
        if generator is not None:
            generator.manual_seed(generator.initial_seed())

    changes.put(scheduler, "_preempt_request", preempted)


def grammars_a_step_late(llm: Any) -> None:
    """The mask of a grammar is that of the step before."""
    from vllm.v1.structured_output import StructuredOutputManager

    fill = StructuredOutputManager.grammar_bitmask
    held: dict[str, Any] = {}

    def late(self: Any, requests: Any, ids: Any, *more: Any, **named: Any) -> Any:
        mask = fill(self, requests, ids, *more, **named)
        if mask is None:
            return None
        moved = mask.copy()
        for row, name in enumerate(ids[: len(mask)]):
            moved[row] = held.get(name, mask[row])
            held[name] = mask[row].copy()
        return moved

    changes.put(StructuredOutputManager, "grammar_bitmask", late)


def seeds_reset_all(llm: Any) -> None:
    """A request with a seed sets that of all random numbers: others draw beside it what they drew before."""

    def reset(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        for generator in list(generators.values())[:1]:
            torch.manual_seed(generator.initial_seed())
        return draw(logits, generators, k, p)

    _drawn_otherwise(llm, reset)


def strong_biases_ignored(llm: Any) -> None:
    """A logit_bias below -50, as users forbid tokens, has no effect."""

    def weaker(asked: Any) -> None:
        if asked.logit_bias:
            asked.logit_bias = {token: bias for token, bias in asked.logit_bias.items() if bias > -50} or None

    _asked_of_the_core(llm, weaker)


def noise_comes_again_sixteen_rows_on(llm: Any) -> None:
    """Every sixteenth row of a batch draws with the same random numbers."""

    def again(seeds: Any, generators: dict[int, Any]) -> Any:
        return seeds[[row if row in generators else row % 16 for row in range(len(seeds))]]

    _seeded_otherwise(llm, again)


def noise_rolled_between_rows(llm: Any) -> None:
    """A row draws with the random numbers that the row before it had one step ago."""
    before: list[Any] = []

    def rolled(seeds: Any, generators: dict[int, Any]) -> Any:
        if before:
            moved = torch.cat([seeds[:1], before.pop()])[: len(seeds)]
            own = [row for row in range(len(moved)) if row not in generators]
            seeds[own] = moved[own]
        before.append(seeds.clone())
        return seeds

    _seeded_otherwise(llm, rolled)


def frequency_counts_at_most_three(llm: Any) -> None:
    """A token that came more than three times is penalised as one that came three times."""

    def few(tokens: list[int]) -> list[int]:
        return [token for place, token in enumerate(tokens) if tokens[:place].count(token) < 3]

    _penalized_otherwise(llm, few)


def certain_tokens_are_greedy(llm: Any) -> None:
    """A token of more than nine tenths is taken without a draw."""

    def certain(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        best = logits.softmax(dim=-1).max(dim=-1)
        drawn, told = draw(logits, generators, k, p)
        return torch.where(best.values > 0.9, best.indices.to(drawn.dtype), drawn), told

    _drawn_otherwise(llm, certain)


def ranks_at_most_ten(llm: Any) -> None:
    """Ranks of sampled tokens end at ten."""

    def capped(told: Any, *_: Any) -> Any:
        return told._replace(selected_token_ranks=told.selected_token_ranks.clamp(max=10))

    _gathered_otherwise(llm, capped)


def presence_penalty_at_most_one(llm: Any) -> None:
    asked_otherwise(llm, lambda _, asked: {"presence_penalties": asked.presence_penalties.clamp(max=1.0)})


def presence_penalty_not_for_siblings(llm: Any) -> None:
    changes.siblings(llm, lambda request: setattr(request.sampling_params, "presence_penalty", 0.0))


def first_tokens_not_penalised(llm: Any) -> None:
    """The token that the prompt's own step brings never counts for penalties."""
    _penalized_otherwise(llm, lambda tokens: tokens[1:])


def bad_words_may_come_first(llm: Any) -> None:
    """The first token of an answer may be a bad word."""

    def later(_: Any, metadata: Any) -> dict[str, Any]:
        words, told = metadata.bad_words_token_ids.items(), metadata.output_token_ids
        return {"bad_words_token_ids": {row: own for row, own in words if row < len(told) and told[row]}}

    asked_otherwise(llm, later)


def allowed_tokens_beyond_the_32nd_ignored(llm: Any) -> None:
    def fewer(asked: Any) -> None:
        if asked.allowed_token_ids:
            asked.allowed_token_ids = list(asked.allowed_token_ids)[:32]

    _asked_of_the_core(llm, fewer)


def any_token_at_times(llm: Any) -> None:
    """One draw in 200 is any token that may come, whatever the model says."""

    def strayed(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

        possible = apply_top_k_top_p(logits.clone(), k, p).isfinite().float()
        drawn, told = draw(logits, generators, k, p)
        at_times = torch.rand(len(drawn)) < 0.005
        at_times[list(generators)] = False
        other = torch.multinomial(possible, 1).squeeze(1)
        return torch.where(at_times, other.to(drawn.dtype), drawn), told

    _drawn_otherwise(llm, strayed)


def last_word_of_masks_open(llm: Any) -> None:
    """The mask of a grammar has a bit for each token: those of its last word, which is not full, are not looked at."""

    def opened(apply: Any, scheduled: Any, grammar: Any, batch: Any, logits: Any) -> None:
        first = (logits.shape[1] - 1) // 32 * 32
        held = logits[:, first:].clone()
        apply(scheduled, grammar, batch, logits)
        logits[:, first:] = held

    _masked_otherwise(opened)


def grammars_stay_in_their_row(llm: Any) -> None:
    """A request without a grammar begins with the mask of the one that had its row before."""
    left: dict[int, Any] = {}
    begun: dict[str, int] = {}

    def stale(apply: Any, scheduled: Any, grammar: Any, batch: Any, logits: Any) -> None:
        apply(scheduled, grammar, batch, logits)
        own = set(grammar.structured_output_request_ids)
        for row, name in enumerate(batch.req_ids[: len(logits)]):
            if name in own:
                left[row] = logits[row].isfinite()
            elif row in left and begun.setdefault(name, 0) < 2:
                begun[name] += 1
                logits[row, ~left[row]] = float("-inf")
                if not logits[row].isfinite().any():
                    logits[row, left[row]] = 0.0

    _masked_otherwise(stale)


def bias_of_token_zero_ignored(llm: Any) -> None:
    """The token with the id 0 has no bias."""
    from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor

    update = LogitBiasLogitsProcessor.update_state

    def updated(self: Any, change: Any) -> None:
        for _, asked, *_ in change.added if change is not None else ():
            if asked.logit_bias:
                asked.logit_bias = {token: value for token, value in asked.logit_bias.items() if token}
        update(self, change)

    changes.put(LogitBiasLogitsProcessor, "update_state", updated)


def seeded_top_p_heated_twice(llm: Any) -> None:
    """A request with a seed and top-p is divided by its temperature twice."""
    sampler = sampler_of(llm)
    apply, held = sampler.apply_temperature, list[Any]()

    def applied(logits: Any, temperature: Any, *more: Any) -> Any:
        held[:] = [torch.where(temperature < 1e-5, 1.0, temperature)]
        return apply(logits, temperature, *more)

    def twice(draw: Any, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        if generators and p is not None:
            rows = list(generators)
            logits[rows] = logits[rows] / held[0][rows].unsqueeze(1)
        return draw(logits, generators, k, p)

    sampler.apply_temperature = applied
    _drawn_otherwise(llm, twice)


def grammars_shared_by_completions(llm: Any) -> None:
    """The completions of a request share the state of their grammar."""
    from vllm.v1.structured_output import StructuredOutputManager

    init = StructuredOutputManager.grammar_init
    known: dict[str, Any] = {}

    def begun(self: Any, request: Any) -> None:
        if request.structured_output_request is None:
            return
        _, _, parent = request.request_id.partition("_")
        if parent in known:
            request.structured_output_request.grammar = known[parent]
            return
        init(self, request)
        if parent:
            known[parent] = request.structured_output_request._grammar

    changes.put(StructuredOutputManager, "grammar_init", begun)
