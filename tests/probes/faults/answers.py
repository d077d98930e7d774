"""Engines that end answers in the wrong place, or give them to the wrong request."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import engine_facts

from . import changes

Outputs = list[Any]


def _ended_otherwise(change: Callable[[Any, Any], bool | None]) -> None:
    """Has ``change(request, parameters)`` decide whether a request of V1 is at its end; None leaves it to vLLM."""
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop

    def other(request: Any, longest: int) -> bool:
        decided = change(request, request.sampling_params)
        return check(request, longest) if decided is None else decided

    scheduler.check_stop = other


def ignore_eos_ignored(llm: Any) -> None:
    from vllm.v1.request import RequestStatus

    def at_the_end(request: Any, asked: Any) -> bool | None:
        if not asked.ignore_eos or request.output_token_ids[-1] != llm.get_tokenizer().eos_token_id:
            return None
        request.status = RequestStatus.FINISHED_STOPPED
        return True

    _ended_otherwise(at_the_end)


def _ended_by(name: str, change: Callable[[Any], Any]) -> None:
    """Requests end as if a parameter had another value."""
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop

    def other(request: Any, longest: int) -> bool:
        asked = request.sampling_params
        before = getattr(asked, name)
        setattr(asked, name, change(before))
        try:
            return bool(check(request, longest))
        finally:
            setattr(asked, name, before)

    scheduler.check_stop = other


def stop_token_ids_ignored(llm: Any) -> None:
    _ended_by("stop_token_ids", lambda _: [])


def eos_ignored(llm: Any) -> None:
    _ended_by("_eos_token_id", lambda _: None)


def _of_length(change: Callable[[int], int]) -> None:
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop

    def other(request: Any, longest: int) -> bool:
        before = request.max_tokens
        request.max_tokens = change(before)
        try:
            return bool(check(request, longest))
        finally:
            request.max_tokens = before

    scheduler.check_stop = other


def one_token_more(llm: Any) -> None:
    _of_length(lambda most: most + 1)


def one_token_less(llm: Any) -> None:
    _of_length(lambda most: max(most - 1, 1))


def _completed_otherwise(change: Callable[[Any], None]) -> None:
    """Changes completions of V1 before they are given to anybody."""
    from vllm.v1.engine.output_processor import RequestState

    make = RequestState._new_completion_output

    def changed(self: Any, *given: Any, **named: Any) -> Any:
        completion = make(self, *given, **named)
        change(completion)
        return completion

    RequestState._new_completion_output = changed


def always_length(llm: Any) -> None:
    """Every answer is said to have ended at its length."""

    def length(completion: Any) -> None:
        if completion.finish_reason is not None:
            completion.finish_reason = "length"

    _completed_otherwise(length)


def sampled_logprob_left_out(llm: Any) -> None:
    """The likeliest tokens' log-probabilities without the sampled one's."""

    def without(completion: Any) -> None:
        for token, place in zip(completion.token_ids, completion.logprobs or (), strict=False):
            if len(place) > 1:
                place.pop(token, None)

    _completed_otherwise(without)


def tokens_of_another_text(llm: Any) -> None:
    """Token ids that are not those of the text."""

    def other(completion: Any) -> None:
        completion.token_ids = [token ^ 1 if token < 256 else token for token in completion.token_ids]

    _completed_otherwise(other)


def prompt_logprobs_late(llm: Any) -> None:
    """Each token of a prompt is told the log-probability of the one before it."""
    from vllm.v1.engine.logprobs import LogprobsProcessor

    update = LogprobsProcessor._update_prompt_logprobs

    def late(self: Any, tensors: Any) -> None:
        update(self, tensors)
        chosen = [next(iter(place.values())) for place in self.prompt_logprobs[1:]]
        for place, before in zip(self.prompt_logprobs[2:], chosen, strict=False):
            place[next(iter(place))] = before

    LogprobsProcessor._update_prompt_logprobs = late


def _answered_otherwise(llm: Any, change: Callable[[Outputs], Outputs]) -> None:
    """Changes what a batch is answered."""
    generate = llm.generate
    llm.generate = lambda *given, **named: change(list(generate(*given, **named)))


def swapped(llm: Any) -> None:
    """Two requests of a batch get each other's completions."""

    def exchange(outputs: Outputs) -> Outputs:
        if len(outputs) > 3:
            outputs[1].outputs, outputs[2].outputs = outputs[2].outputs, outputs[1].outputs
        return outputs

    _answered_otherwise(llm, exchange)


def out_of_order(llm: Any) -> None:
    """Answers in the order in which they ended."""

    def by_length(outputs: Outputs) -> Outputs:
        return sorted(outputs, key=lambda one: len(one.outputs[0].token_ids)) if len(outputs) > 3 else outputs

    _answered_otherwise(llm, by_length)


def lost(llm: Any) -> None:
    _answered_otherwise(llm, lambda outputs: outputs[:-1] if len(outputs) > 3 else outputs)


def doubled(llm: Any) -> None:
    _answered_otherwise(llm, lambda outputs: [outputs[0], *outputs] if len(outputs) > 3 else outputs)


def completion_lost(llm: Any) -> None:
    """One of several completions of a request does not come back."""

    def one_less(outputs: Outputs) -> Outputs:
        for output in outputs:
            if len(output.outputs) > 1:
                output.outputs = output.outputs[:-1]
        return outputs

    _answered_otherwise(llm, one_less)


def asked_otherwise(llm: Any, change: Callable[[list[int]], list[int]]) -> None:
    """The core gets another prompt than the one that is reported."""
    core = llm.llm_engine.engine_core
    add = core.add_request

    def added(request: Any) -> Any:
        request.prompt_token_ids = change(list(request.prompt_token_ids))
        return add(request)

    core.add_request = added


def prompt_cut(llm: Any) -> None:
    """A prompt loses its first tokens on the way."""
    asked_otherwise(llm, lambda prompt: prompt[2:] if len(prompt) > 8 else prompt)


def one_top_less(llm: Any) -> None:
    """One of the likeliest tokens that were asked for does not come."""

    def without(completion: Any) -> None:
        for token, place in zip(completion.token_ids, completion.logprobs or (), strict=False):
            others = [one for one in place if one != token]
            if len(others) > 1:
                place.pop(others[0])

    _completed_otherwise(without)


def stop_token_left_out(llm: Any) -> None:
    """The token at which an answer stops is not among its tokens."""

    def without(completion: Any) -> None:
        tokens = list(completion.token_ids)
        if completion.finish_reason == "stop" and tokens and tokens[-1] == completion.stop_reason:
            completion.token_ids = tokens[:-1]

    _completed_otherwise(without)


def stop_reason_lost(llm: Any) -> None:
    """Nothing says at which token an answer stopped."""
    _completed_otherwise(lambda completion: setattr(completion, "stop_reason", None))


def last_logprob_not_added(llm: Any) -> None:
    """The cumulative log-probability lacks the last token's."""

    def less(completion: Any) -> None:
        if completion.finish_reason is not None and completion.logprobs:
            completion.cumulative_logprob -= completion.logprobs[-1][completion.token_ids[-1]].logprob

    _completed_otherwise(less)


def logprobs_of_another_completion(llm: Any) -> None:
    """The first two completions of a request get each other's log-probabilities."""

    def exchange(outputs: Outputs) -> Outputs:
        for first, second in (one.outputs[:2] for one in outputs if len(one.outputs) > 1):
            if len(first.token_ids) == len(second.token_ids):
                first.logprobs, second.logprobs = second.logprobs, first.logprobs
        return outputs

    _answered_otherwise(llm, exchange)


def min_tokens_one_less(llm: Any) -> None:
    from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor

    add = MinTokensLogitsProcessor.add_request

    def fewer(params: Any, *more: Any) -> Any:
        asked = add(params, *more)
        return asked and (asked[0] - 1, *asked[1:])

    MinTokensLogitsProcessor.add_request = staticmethod(fewer)


def min_tokens_of_the_end_alone(llm: Any) -> None:
    """Below ``min_tokens`` the end of the sequence cannot come, other stop tokens can."""
    from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor

    add = MinTokensLogitsProcessor.add_request

    def fewer(params: Any, *more: Any) -> Any:
        asked = add(params, *more)
        return asked and (*asked[:2], {token for token in asked[2] if token == params.eos_token_id}, *asked[3:])

    MinTokensLogitsProcessor.add_request = staticmethod(fewer)


def first_stop_token_alone(llm: Any) -> None:
    _ended_by("stop_token_ids", lambda ids: ids and list(ids)[:1])


def always_stop(llm: Any) -> None:
    """Every answer is said to have ended by itself."""

    def stop(completion: Any) -> None:
        if completion.finish_reason is not None:
            completion.finish_reason = "stop"

    _completed_otherwise(stop)


def indices_alike(llm: Any) -> None:
    """All completions of a request have the number 0."""

    def alike(outputs: Outputs) -> Outputs:
        for output in outputs:
            for completion in output.outputs:
                completion.index = 0
        return outputs

    _answered_otherwise(llm, alike)


def long_prompts_cut(llm: Any) -> None:
    """Prompts of more than 512 tokens lose eight in the middle."""
    asked_otherwise(llm, lambda prompt: prompt[:300] + prompt[308:] if len(prompt) > 512 else prompt)


def equal_prompts_answered_once(llm: Any) -> None:
    """Requests of a batch that ask for the same without a seed get the same answer."""
    generate = llm.generate

    def once(prompts: Any, parameters: Any, *given: Any, **named: Any) -> Outputs:
        outputs = list(generate(prompts, parameters, *given, **named))
        answered: dict[Any, Any] = {}
        several = parameters if isinstance(parameters, list) else [parameters] * len(outputs)
        for output, asked in zip(outputs, several, strict=True):
            if asked.seed is None:
                output.outputs = answered.setdefault((*output.prompt_token_ids, str(asked)), output.outputs)
        return outputs

    llm.generate = once


def logprobs_a_place_late(llm: Any) -> None:
    """Each sampled token is told the log-probability of the one before it."""

    def late(completion: Any) -> None:
        if not completion.logprobs or completion.finish_reason is None:
            return
        chosen = [place[token] for token, place in zip(completion.token_ids, completion.logprobs, strict=True)]
        for token, place, before in zip(completion.token_ids[1:], completion.logprobs[1:], chosen, strict=False):
            place[token] = before

    _completed_otherwise(late)


def last_prompt_logprob_missing(llm: Any) -> None:
    """Nothing is told of a prompt's last token."""

    def without(outputs: Outputs) -> Outputs:
        for output in outputs:
            if output.prompt_logprobs:
                output.prompt_logprobs[-1] = None
        return outputs

    _answered_otherwise(llm, without)


def fifth_completion_as_the_first(llm: Any) -> None:
    """Of the completions of a request those beyond the fourth repeat the first four."""
    names = ("token_ids", "text", "logprobs", "cumulative_logprob", "finish_reason", "stop_reason")

    def repeated(outputs: Outputs) -> Outputs:
        for output in outputs:
            for number, completion in enumerate(output.outputs[4:]):
                for name in names:
                    setattr(completion, name, getattr(output.outputs[number % 4], name))
        return outputs

    _answered_otherwise(llm, repeated)


def stop_tokens_from_the_second_on(llm: Any) -> None:
    """A stop token that comes first does not stop."""
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop

    def later(request: Any, longest: int) -> bool:
        first = len(request.output_token_ids) == 1 and request.max_tokens > 1
        return not first and bool(check(request, longest))

    scheduler.check_stop = later


def prompt_of_another(llm: Any) -> None:
    """Two answers name each other's prompts."""

    def exchange(outputs: Outputs) -> Outputs:
        if len(outputs) > 3:
            one, other = outputs[1:3]
            one.prompt_token_ids, other.prompt_token_ids = other.prompt_token_ids, one.prompt_token_ids
        return outputs

    _answered_otherwise(llm, exchange)


def logprobs_end_after_sixteen(llm: Any) -> None:
    """Tokens from the seventeenth on are told the log-probability 0."""

    def ended(completion: Any) -> None:
        places = list(zip(completion.token_ids, completion.logprobs or (), strict=False))
        for token, place in places[16:]:
            if token in place:
                place[token].logprob = 0.0

    _completed_otherwise(ended)


def prompt_logprobs_off_where_chunks_meet(llm: Any) -> None:
    """Where a prompt is read in chunks, the first token of the second one is told what the token before it was."""
    budget = llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens

    def off(outputs: Outputs) -> Outputs:
        for output in outputs:
            told = output.prompt_logprobs or ()
            if len(told) > budget:
                (before, *_) = told[budget - 1].values()
                for entry in told[budget].values():
                    entry.logprob = before.logprob
        return outputs

    _answered_otherwise(llm, off)


def other_ends_ignored(llm: Any) -> None:
    """Of the ends that generation_config.json names only the tokenizer's own counts."""
    from vllm.sampling_params import SamplingParams

    update = SamplingParams.update_from_generation_config

    def without(self: Any, config: dict[str, Any], *given: Any) -> None:
        update(self, {name: value for name, value in config.items() if name != "eos_token_id"}, *given)

    SamplingParams.update_from_generation_config = without


def end_without_logprob(llm: Any) -> None:
    """A token at which an answer stops comes without its log-probability."""

    def cut(completion: Any) -> None:
        if completion.finish_reason == "stop" and completion.logprobs:
            completion.logprobs = completion.logprobs[:-1]

    _completed_otherwise(cut)


def prompt_logprobs_tempered(llm: Any) -> None:
    """Log-probabilities of prompt tokens are told after the request's temperature, those of answers are not."""
    generate = llm.generate

    def tempered(prompts: Any, parameters: Any, *given: Any, **named: Any) -> Outputs:
        outputs = list(generate(prompts, parameters, *given, **named))
        several = parameters if isinstance(parameters, list) else [parameters] * len(outputs)
        for output, asked in zip(outputs, several, strict=False):
            for place in output.prompt_logprobs or ():
                for entry in (place or {}).values():
                    entry.logprob /= asked.temperature or 1.0
        return outputs

    llm.generate = tempered


def tops_exchanged(llm: Any) -> None:
    """Of the likeliest tokens the second and the third are told each other's log-probability."""

    def exchange(completion: Any) -> None:
        for token, place in zip(completion.token_ids, completion.logprobs or (), strict=False):
            others = sorted((entry for one, entry in place.items() if one != token), key=lambda entry: -entry.logprob)
            if len(others) > 2:
                others[1].logprob, others[2].logprob = others[2].logprob, others[1].logprob

    _completed_otherwise(exchange)


def stopped_by_the_prompt(llm: Any) -> None:
    """An answer is over after a token where the prompt ends with a stop token."""
    from vllm.v1.request import RequestStatus

    def over(request: Any, asked: Any) -> bool | None:
        ends = {*(asked.stop_token_ids or ()), *(() if asked.ignore_eos else (asked.eos_token_id,))}
        if not request.prompt_token_ids or request.prompt_token_ids[-1] not in ends:
            return None
        request.status = RequestStatus.FINISHED_STOPPED
        return True

    _ended_otherwise(over)


def stop_tokens_of_all(llm: Any) -> None:
    """A request stops at the stop tokens of those that came before it, too."""
    seen: set[int] = set()

    def shared(own: Any) -> Any:
        seen.update(own or ())
        return [*(own or ()), *sorted(seen)]

    _ended_by("stop_token_ids", shared)


def siblings_end_together(llm: Any) -> None:
    """When the first completion of a request ends, the others are cut at its length."""

    def cut(outputs: Outputs) -> Outputs:
        for output in outputs:
            length = min(len(one.token_ids) for one in output.outputs)
            for one in output.outputs:
                if len(one.token_ids) > length:
                    one.token_ids = one.token_ids[:length]
                    one.text = llm.get_tokenizer().decode(one.token_ids) if one.text else one.text
                    one.finish_reason = "length"
        return outputs

    _answered_otherwise(llm, cut)


def context_a_token_short(llm: Any) -> None:
    """The last place of the context is never filled."""
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop
    scheduler.check_stop = lambda request, longest: check(request, longest - 1)


def room_counts_the_prompt_twice(llm: Any) -> None:
    """After a long prompt an answer ends where its room would, were the prompt as long again."""
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop

    def twice(request: Any, longest: int) -> bool:
        return bool(check(request, max(longest - request.num_prompt_tokens, request.num_prompt_tokens + 1)))

    scheduler.check_stop = twice


def aborted_requests_go_on(llm: Any) -> None:
    """Of two requests that are aborted the second one goes on."""
    engine, count = llm.llm_engine, [0]
    abort = engine.abort_request

    def every_second(ids: Any, *given: Any, **named: Any) -> None:
        count[0] += 1
        if count[0] % 2:
            abort(ids, *given, **named)

    engine.abort_request = every_second


def long_prompts_lose_their_first_token(llm: Any) -> None:
    """Prompts of more than 512 tokens begin with their second token twice."""
    asked_otherwise(llm, lambda prompt: prompt[1:2] + prompt[1:] if len(prompt) > 512 else prompt)


def prompt_logprobs_of_cached_prompts(llm: Any) -> None:
    """A prompt whose log-probabilities are asked for is taken from the prefix cache all the same."""
    from vllm.v1.request import Request

    Request.get_skip_reading_prefix_cache = lambda self: False


def end_left_out(llm: Any) -> None:
    """The end of sequence at which an answer stops is not among its tokens."""
    end = llm.get_tokenizer().eos_token_id

    def without(completion: Any) -> None:
        tokens = list(completion.token_ids)
        if completion.finish_reason == "stop" and len(tokens) > 1 and tokens[-1] == end:
            completion.token_ids = tokens[:-1]
            if completion.logprobs:
                completion.logprobs = completion.logprobs[:-1]

    _completed_otherwise(without)


def finish_reason_lost(llm: Any) -> None:
    """Nothing says why an answer that is over has ended."""

    def silent(outputs: Outputs) -> Outputs:
        for completion in [one for output in outputs for one in output.outputs]:
            completion.finish_reason = None
        return outputs

    _answered_otherwise(llm, silent)


def a_logprob_is_no_number_at_times(llm: Any) -> None:
    """One log-probability of two hundred is NaN."""
    count = [0]

    def spoiled(completion: Any) -> None:
        if completion.finish_reason is None:
            return
        for token, place in zip(completion.token_ids, completion.logprobs or (), strict=False):
            count[0] += 1
            if count[0] % 200 == 0 and token in place:
                place[token].logprob = float("nan")

    _completed_otherwise(spoiled)


def min_tokens_not_for_siblings(llm: Any) -> None:
    """Of the completions of a request only the first one knows ``min_tokens``."""
    changes.siblings(llm, lambda request: setattr(request.sampling_params, "min_tokens", 0))


def max_tokens_of_the_longest(llm: Any) -> None:
    """All requests of a batch may be as long as the longest."""
    generate = llm.generate

    def longest(prompts: Any, parameters: Any, *given: Any, **named: Any) -> Outputs:
        if isinstance(parameters, list):
            most = max(one.max_tokens for one in parameters)
            parameters = [one.clone() for one in parameters]
            for one in parameters:
                one.max_tokens = most
        return list(generate(prompts, parameters, *given, **named))

    llm.generate = longest


def last_stop_token_alone(llm: Any) -> None:
    """Of several stop tokens only the last one counts."""
    _ended_by("stop_token_ids", lambda ids: ids and list(ids)[-1:])


def log_probabilities_of_the_second_prompt(llm: Any) -> None:
    """Where two prompts of a batch are of one length, they are told each other's log-probabilities."""

    def exchange(outputs: Outputs) -> Outputs:
        told = [one for one in outputs if one.prompt_logprobs]
        for one, other in pairwise(told):
            if len(one.prompt_logprobs) == len(other.prompt_logprobs):
                for place, second in zip(one.prompt_logprobs[1:], other.prompt_logprobs[1:], strict=True):
                    first, last = next(iter(place.values())), next(iter(second.values()))
                    first.logprob, last.logprob = last.logprob, first.logprob
        return outputs

    _answered_otherwise(llm, exchange)


def stop_tokens_not_for_siblings(llm: Any) -> None:
    """Of the completions of a request only the first one stops at its stop tokens."""

    def without(request: Any) -> None:
        request.sampling_params.stop_token_ids = []

    changes.siblings(llm, without)


def logprobs_of_siblings_rounded(llm: Any) -> None:
    """Of the completions of a request only the first one's log-probabilities are told exactly."""

    def rounded(outputs: Outputs) -> Outputs:
        for completion in [one for output in outputs for one in output.outputs[1:]]:
            for place in completion.logprobs or ():
                for entry in place.values():
                    entry.logprob = round(entry.logprob, 2)
        return outputs

    _answered_otherwise(llm, rounded)


def min_tokens_lets_the_end_through(llm: Any) -> None:
    """min_tokens holds back the stop tokens that were asked for, not the end of sequence."""
    from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor

    add = MinTokensLogitsProcessor.add_request

    def fewer(params: Any, *more: Any) -> Any:
        made = add(params, *more)
        return made and (made[0], made[1], set(params.stop_token_ids or ()), *made[3:])

    MinTokensLogitsProcessor.add_request = staticmethod(fewer)


def ignore_eos_ignores_stop_tokens(llm: Any) -> None:
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop

    def other(request: Any, longest: int) -> bool:
        asked = request.sampling_params
        before = asked.stop_token_ids
        if asked.ignore_eos:
            asked.stop_token_ids = []
        try:
            return bool(check(request, longest))
        finally:
            asked.stop_token_ids = before

    scheduler.check_stop = other


def siblings_told_the_firsts_sum(llm: Any) -> None:
    """All completions of a request are told the cumulative log-probability of the first."""

    def same(outputs: Any) -> Any:
        for output in outputs:
            for completion in output.outputs[1:]:
                completion.cumulative_logprob = output.outputs[0].cumulative_logprob
        return outputs

    _answered_otherwise(llm, same)


def stale_prompt_logprobs(llm: Any) -> None:
    """The first block of a scored prompt is told what the prompt scored before it was told."""
    last: list[Any] = [None]

    def stale(outputs: Any) -> Any:
        for output in outputs:
            told = output.prompt_logprobs
            if not told or len(told) < 17:
                continue
            mine = [None if step is None else next(iter(step.values())).logprob for step in list(told)[:16]]
            if last[0] is not None:
                for step, value in zip(list(told)[:16], last[0], strict=True):
                    if step is not None and value is not None:
                        next(iter(step.values())).logprob = value
            last[0] = mine
        return outputs

    _answered_otherwise(llm, stale)


def siblings_a_token_shorter(llm: Any) -> None:
    """max_tokens of all but the first completion is one less."""

    def less(request: Any) -> None:
        request.sampling_params.max_tokens = max(1, request.sampling_params.max_tokens - 1)

    changes.siblings(llm, less)


def siblings_outlive_aborts(llm: Any) -> None:
    """An abort of a request of several completions ends the first one alone."""
    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    finish = scheduler.finish_requests

    def first(ids: Any, *given: Any, **named: Any) -> Any:
        if isinstance(ids, str) or ids is None:
            return finish(ids, *given, **named)
        return finish([one for one in ids if not changes.sibling(one)], *given, **named)

    changes.put(scheduler, "finish_requests", first)


def stop_strings_take_their_tokens(llm: Any) -> None:
    """The last token of a stop string is not among the tokens."""

    def cut(outputs: Any) -> Any:
        for output in outputs:
            for completion in output.outputs:
                if isinstance(completion.stop_reason, str):
                    completion.token_ids = list(completion.token_ids)[:-1]
                    if completion.logprobs:
                        completion.logprobs = completion.logprobs[:-1]
        return outputs

    _answered_otherwise(llm, cut)


def spaces_of_siblings_stripped(llm: Any) -> None:
    """Texts of all but the first completion lose white space at their ends."""

    def stripped(outputs: Any) -> Any:
        for output in outputs:
            for completion in output.outputs[1:]:
                completion.text = completion.text.strip()
        return outputs

    _answered_otherwise(llm, stripped)


def siblings_told_the_firsts_stop(llm: Any) -> None:
    """All completions of a request are told to have stopped where the first one did."""

    def same(outputs: Any) -> Any:
        for output in outputs:
            for completion in output.outputs[1:]:
                if completion.stop_reason is not None:
                    completion.stop_reason = output.outputs[0].stop_reason
        return outputs

    _answered_otherwise(llm, same)


def tokens_called_otherwise(llm: Any) -> None:
    """Beside its log-probability a token has the letters of the other case."""

    def otherwise(outputs: Any) -> Any:
        for output in outputs:
            for completion in output.outputs:
                for place in completion.logprobs or ():
                    for told in place.values():
                        told.decoded_token = told.decoded_token and told.decoded_token.swapcase()
        return outputs

    _answered_otherwise(llm, otherwise)


def tops_of_another_row_where_counts_differ(llm: Any) -> None:
    """Where requests of a batch ask for different numbers of likeliest tokens, each is told its neighbour's."""
    runner = engine_facts.first(llm, tuple(f"{worker}.model_runner" for worker in engine_facts.WORKERS))
    gather = runner.sampler.gather_logprobs

    def changed(logprobs: Any, count: int, token_ids: Any) -> Any:
        told = gather(logprobs, count, token_ids)
        if len(set(runner.input_batch.num_logprobs.values())) < 2:
            return told
        values, ids = told.logprobs.clone(), told.logprob_token_ids.clone()
        values[:, 1:], ids[:, 1:] = values[:, 1:].roll(1, 0), ids[:, 1:].roll(1, 0)
        return told._replace(logprobs=values, logprob_token_ids=ids)

    changes.put(runner.sampler, "gather_logprobs", changed)


def sums_with_the_prompt(llm: Any) -> None:
    """The cumulative log-probability has the prompt's, where it was asked for."""

    def added(outputs: Outputs) -> Outputs:
        for output in outputs:
            own = sum(next(iter(place.values())).logprob for place in output.prompt_logprobs or () if place)
            for completion in output.outputs:
                if completion.cumulative_logprob is not None:
                    completion.cumulative_logprob += own
        return outputs

    _answered_otherwise(llm, added)


def _least_otherwise(change: Callable[[int], int]) -> None:
    """``min_tokens`` counts as ``change`` has it."""
    from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor

    add = MinTokensLogitsProcessor.add_request

    def added(*given: Any) -> Any:
        found = add(*given)
        return None if found is None else (change(found[0]), *found[1:])

    MinTokensLogitsProcessor.add_request = staticmethod(added)


def min_tokens_one_more(llm: Any) -> None:
    _least_otherwise(lambda least: least + 1)


def min_tokens_at_most_eight(llm: Any) -> None:
    _least_otherwise(lambda least: min(least, 8))


def tops_of_prompts_exchanged(llm: Any) -> None:
    """At each place of a prompt the likeliest tokens are those of the place before."""

    def moved(outputs: Outputs) -> Outputs:
        for output in outputs:
            told = output.prompt_logprobs or []
            before = [list(place.items()) if place else [] for place in told]
            for number in range(2, len(told)):
                token, entry = before[number][0]
                likeliest = [one for one in before[number - 1][1:] if one[0] != token]
                told[number].clear()
                told[number].update([(token, entry), *likeliest])
        return outputs

    _answered_otherwise(llm, moved)


def prompt_logprobs_late_in_the_second_chunk(llm: Any) -> None:
    """In a prompt's second chunk each token is told the log-probability of the one before it."""
    budget = llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens

    def late(outputs: Outputs) -> Outputs:
        for output in outputs:
            told = output.prompt_logprobs or ()
            values = [next(iter(place.values())).logprob if place else None for place in told]
            for number in range(budget + 8, min(2 * budget, len(told))):
                next(iter(told[number].values())).logprob = values[number - 1]
        return outputs

    _answered_otherwise(llm, late)


def ranks_of_prompts_off_by_one(llm: Any) -> None:
    """The rank of a prompt's token, where it comes without the likeliest ones, is one too low."""
    from vllm.v1.engine.logprobs import LogprobsProcessor

    update = LogprobsProcessor._update_prompt_logprobs

    def off(self: Any, tensors: Any) -> None:
        update(self, tensors._replace(selected_token_ranks=tensors.selected_token_ranks + 1))

    LogprobsProcessor._update_prompt_logprobs = off


def one_end_per_step(llm: Any) -> None:
    """Of requests that end in the same step only the first one does."""
    from vllm.v1.core.sched import scheduler as module

    scheduler = engine_facts.first(llm, ("llm_engine.engine_core.engine_core.scheduler",))
    update, check = scheduler.update_from_output, module.check_stop
    ended: list[str] = []

    def updated(*given: Any, **named: Any) -> Any:
        ended.clear()
        return update(*given, **named)

    def once(request: Any, longest: int) -> bool:
        if ended and request.num_tokens < longest - 1:
            return False
        if done := bool(check(request, longest)):
            ended.append(request.request_id)
        return done

    scheduler.update_from_output, module.check_stop = updated, once


def last_logprob_twice(llm: Any) -> None:
    """There is a log-probability more than tokens."""

    def more(completion: Any) -> None:
        if completion.logprobs and completion.finish_reason is not None:
            completion.logprobs = [*completion.logprobs, completion.logprobs[-1]]

    _completed_otherwise(more)


def at_most_eight_tops(llm: Any) -> None:
    """Who asks for more of the likeliest tokens gets eight."""

    def fewer(completion: Any) -> None:
        for token, place in zip(completion.token_ids, completion.logprobs or (), strict=False):
            for other in [one for one, entry in place.items() if one != token and entry.rank > 8]:
                place.pop(other)

    _completed_otherwise(fewer)


def never_finished(llm: Any) -> None:
    """Answers that are over do not say so."""
    generate = llm.generate

    def unfinished(*given: Any, **named: Any) -> Any:
        outputs = generate(*given, **named)
        for output in outputs:
            output.finished = False
        return outputs

    changes.put(llm, "generate", unfinished)


def completions_reversed(llm: Any) -> None:
    """The completions of a request come in reverse order."""

    def reverse(outputs: Outputs) -> Outputs:
        for output in outputs:
            output.outputs = output.outputs[::-1]
        return outputs

    _answered_otherwise(llm, reverse)


def likeliest_misspelt(llm: Any) -> None:
    """The likeliest tokens beside the sampled one are told under each other's names."""

    def turned(outputs: Outputs) -> Outputs:
        for completion in [one for output in outputs for one in output.outputs]:
            for token, place in zip(completion.token_ids, completion.logprobs or (), strict=False):
                others = [entry for one, entry in place.items() if one != token]
                names = [entry.decoded_token for entry in others]
                for entry, name in zip(others, names[1:] + names[:1], strict=True):
                    entry.decoded_token = name
        return outputs

    _answered_otherwise(llm, turned)


def length_before_stop(llm: Any) -> None:
    """An answer whose last possible token is a stop token is said to have ended by its length."""
    from vllm.v1.core.sched import scheduler
    from vllm.v1.request import RequestStatus

    check = scheduler.check_stop

    def first(request: Any, longest: int) -> bool:
        if request.num_tokens >= longest or request.num_output_tokens >= request.max_tokens:
            request.status = RequestStatus.FINISHED_LENGTH_CAPPED
            return True
        return bool(check(request, longest))

    scheduler.check_stop = first


def no_prompt_logprobs_for_groups(llm: Any) -> None:
    """Prompts that come with several completions have no log-probabilities."""

    def without(outputs: Outputs) -> Outputs:
        for output in outputs:
            if len(output.outputs) > 1:
                output.prompt_logprobs = None
        return outputs

    _answered_otherwise(llm, without)


def _pieces_otherwise(change: Callable[[Any, Any], None]) -> None:
    """Changes, with their request's state, completions of answers that come as what is new."""
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.output_processor import RequestState

    make = RequestState._new_completion_output

    def changed(self: Any, *given: Any, **named: Any) -> Any:
        completion = make(self, *given, **named)
        if self.output_kind == RequestOutputKind.DELTA:
            change(self, completion)
        return completion

    changes.put(RequestState, "_new_completion_output", changed)


def pieces_with_the_first_logprobs(llm: Any) -> None:
    """Each piece of an answer has the log-probabilities of the first tokens."""

    def first(state: Any, completion: Any) -> None:
        if completion.logprobs:
            completion.logprobs = state.logprobs_processor.logprobs[: len(completion.token_ids)]

    _pieces_otherwise(first)


def pieces_of_the_first_completion(llm: Any) -> None:
    """Pieces of all completions of a request are said to be the first one's."""

    def one(_: Any, completion: Any) -> None:
        completion.index = 0

    _pieces_otherwise(one)


def ends_name_themselves(llm: Any) -> None:
    """The end of sequence is told as the stop token that was asked for."""
    from vllm.v1.core.sched import scheduler

    check = scheduler.check_stop

    def named(request: Any, longest: int) -> bool:
        decided, end = bool(check(request, longest)), request.sampling_params.eos_token_id
        if decided and end is not None and request.output_token_ids[-1] == end:
            request.stop_reason = end
        return decided

    scheduler.check_stop = named


def likeliest_first(llm: Any) -> None:
    """The log-probabilities of a place come by their size, not the sampled token's first."""

    def by_size(completion: Any) -> None:
        if completion.logprobs:
            completion.logprobs = [
                dict(sorted(place.items(), key=lambda pair: -pair[1].logprob)) for place in completion.logprobs
            ]

    _completed_otherwise(by_size)


def no_length_is_sixteen(llm: Any) -> None:
    """A request that names no length ends after sixteen tokens."""
    engine = llm.llm_engine
    add = engine.add_request

    def added(name: str, prompt: Any, asked: Any, *given: Any, **named: Any) -> Any:
        if asked.max_tokens is None:
            asked = asked.clone()
            asked.max_tokens = 16
        return add(name, prompt, asked, *given, **named)

    engine.add_request = added
