"""Engines whose text is not that of their tokens, or ends in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import changes


def _decoded_otherwise(change: Callable[[Any, int, str], str]) -> None:
    """Changes the piece of text of each token as it comes: ``change(detokenizer, token, text)``."""
    from vllm.v1.engine import detokenizer

    for kind in (detokenizer.FastIncrementalDetokenizer, detokenizer.SlowIncrementalDetokenizer):
        decode = kind.decode_next
        kind.decode_next = lambda self, token, decode=decode: change(self, token, str(decode(self, token)))


def garbled(llm: Any) -> None:
    """Letters of the other case."""
    _decoded_otherwise(lambda _, __, text: text.swapcase())


def first_character_dropped(llm: Any) -> None:
    """As the space that begins a word is by tokenizers that strip."""
    _decoded_otherwise(lambda self, _, text: text if self.output_text else text[1:])


def characters_of_several_bytes_doubled(llm: Any) -> None:
    _decoded_otherwise(lambda _, __, text: text if text.isascii() else text * 2)


def incremental_alone(llm: Any) -> None:
    """Each token is decoded for itself: characters of several tokens fall apart."""
    _decoded_otherwise(
        lambda self, token, _: str(self.tokenizer.decode([token], skip_special_tokens=self.skip_special_tokens))
    )


def special_tokens_shown(llm: Any) -> None:
    """Special tokens stay in the text although they are to be left out."""
    _decoded_otherwise(lambda self, token, text: text or str(self.tokenizer.decode([token], skip_special_tokens=False)))


def prompt_echoed(llm: Any) -> None:
    """The text begins with the prompt's."""
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    begin = FastIncrementalDetokenizer.__init__

    def echoing(self: Any, tokenizer: Any, request: Any) -> None:
        begin(self, tokenizer, request)
        self.output_text = self.tokenizer.decode(list(request.prompt_token_ids))

    FastIncrementalDetokenizer.__init__ = echoing


def _stopped_otherwise(change: Callable[..., Any]) -> None:
    """Puts ``change(find, text, **more)`` in the place of the search for stop strings."""
    from vllm.v1.engine import detokenizer

    find = detokenizer.check_stop_strings
    detokenizer.check_stop_strings = lambda output_text, **more: change(find, output_text, **more)


def stop_strings_ignored(llm: Any) -> None:
    _stopped_otherwise(lambda find, text, **more: None)


def stop_strings_left_in(llm: Any) -> None:
    """The stop string stays in the text although it was to be cut."""
    _stopped_otherwise(lambda find, text, **more: find(text, **{**more, "include_in_output": True}))


def stop_strings_cut_short(llm: Any) -> None:
    """Text is cut a character before the stop string."""

    def early(find: Any, text: str, **more: Any) -> Any:
        found = find(text, **more)
        return found if found is None or found[1] < 1 else (found[0], found[1] - 1)

    _stopped_otherwise(early)


def stripped(llm: Any) -> None:
    """White space at the ends of a text is lost."""
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    give = BaseIncrementalDetokenizer.get_next_output_text
    BaseIncrementalDetokenizer.get_next_output_text = lambda self, *given: give(self, *given).strip()


def tabs_become_spaces(llm: Any) -> None:
    _decoded_otherwise(lambda _, __, text: text.replace("\t", " "))


def double_spaces_collapse(llm: Any) -> None:
    _decoded_otherwise(lambda self, _, text: "" if text == " " and self.output_text.endswith(" ") else text)


def special_tokens_never_shown(llm: Any) -> None:
    """Special tokens are left out although they are asked for."""
    special = set(llm.get_tokenizer().all_special_ids)
    _decoded_otherwise(lambda _, token, text: "" if token in special else text)


def stop_strings_of_any_case(llm: Any) -> None:
    def lower(find: Any, text: str, **more: Any) -> Any:
        return find(text.lower(), **{**more, "stop": [one.lower() for one in more["stop"]]})

    _stopped_otherwise(lower)


def first_stop_string_alone(llm: Any) -> None:
    """Of several stop strings only the first one stops."""
    _stopped_otherwise(lambda find, text, **more: find(text, **{**more, "stop": more["stop"][:1]}))


def stop_strings_at_ends_of_tokens(llm: Any) -> None:
    """A stop string stops only where a token ends with it."""

    def at_the_end(find: Any, text: str, **more: Any) -> Any:
        return find(text, **more) if any(text.endswith(one) for one in more["stop"]) else None

    _stopped_otherwise(at_the_end)


def stop_strings_cannot_be_kept(llm: Any) -> None:
    """``include_stop_str_in_output`` has no effect."""
    _stopped_otherwise(lambda find, text, **more: find(text, **{**more, "include_in_output": False}))


def stop_strings_despite_min_tokens(llm: Any) -> None:
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    update = BaseIncrementalDetokenizer.update

    def early(self: Any, *given: Any) -> Any:
        self.min_tokens = 0
        return update(self, *given)

    BaseIncrementalDetokenizer.update = early


def end_held_back(llm: Any) -> None:
    """Where stop strings are asked for, what might begin one is missing from a text that has ended."""
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    give = BaseIncrementalDetokenizer.get_next_output_text
    BaseIncrementalDetokenizer.get_next_output_text = lambda self, finished, delta: give(self, False, delta)


def newlines_of_another_system(llm: Any) -> None:
    _decoded_otherwise(lambda _, __, text: text.replace("\n", "\r\n"))


def accents_lost(llm: Any) -> None:
    """Characters beyond ASCII become question marks."""
    _decoded_otherwise(lambda _, __, text: text.encode("ascii", "replace").decode())


def long_texts_cut(llm: Any) -> None:
    """Texts end after a hundred characters."""
    from vllm.v1.engine.output_processor import RequestState

    make = RequestState._new_completion_output

    def cut(self: Any, *given: Any, **named: Any) -> Any:
        completion = make(self, *given, **named)
        completion.text = completion.text[:100]
        return completion

    RequestState._new_completion_output = cut


def stop_strings_of_several_tokens_missed(llm: Any) -> None:
    """A stop string that began before the last token does not stop."""
    from vllm.v1.engine import detokenizer

    check = detokenizer.check_stop_strings

    def last(**given: Any) -> Any:
        found = check(**given)
        return found if found is None or len(found[0]) <= given["new_char_count"] else None

    detokenizer.check_stop_strings = last


def a_piece_lost_at_128(llm: Any) -> None:
    """Of long texts the piece of the 128th token is lost."""

    def without(self: Any, _: int, text: str) -> str:
        return "" if len(self.token_ids) - getattr(self, "prompt_len", 0) == 128 else text

    _decoded_otherwise(without)


def stop_string_unnamed(llm: Any) -> None:
    """Nothing says which stop string ended an answer."""
    from vllm.v1.engine.output_processor import RequestState

    make = RequestState._new_completion_output

    def unnamed(self: Any, *given: Any, **named: Any) -> Any:
        completion = make(self, *given, **named)
        if isinstance(completion.stop_reason, str):
            completion.stop_reason = None
        return completion

    RequestState._new_completion_output = unnamed


def stop_strings_begin_in_the_prompt(llm: Any) -> None:
    """A stop string that the prompt begins and the answer completes stops it."""
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    begin, update = FastIncrementalDetokenizer.__init__, FastIncrementalDetokenizer.update

    def with_prompt(self: Any, tokenizer: Any, request: Any) -> None:
        begin(self, tokenizer, request)
        self.before = self.tokenizer.decode(list(request.prompt_token_ids)[-8:])

    def stopped(self: Any, tokens: Any, *given: Any) -> Any:
        found = update(self, tokens, *given)
        across = next((one for one in self.stop if one in self.before + self.output_text), None)
        return found or across

    FastIncrementalDetokenizer.__init__ = with_prompt
    FastIncrementalDetokenizer.update = stopped


def stop_strings_of_all(llm: Any) -> None:
    """An answer stops at the stop strings of the requests before it, too."""
    seen: list[str] = []

    def shared(find: Any, text: str, **more: Any) -> Any:
        seen.extend(one for one in more["stop"] if one not in seen)
        return find(text, **{**more, "stop": [*more["stop"], *seen]})

    _stopped_otherwise(shared)


# Prompts that come as text.


def _read_otherwise(llm: Any, change: Callable[[list[int], str], list[int]]) -> None:
    """Changes the ids that a text becomes: ``change(ids, text)``."""
    renderer = llm.llm_engine.renderer
    read = renderer._tokenize_prompt

    def other(prompt: Any, parameters: Any) -> Any:
        told = read(prompt, parameters)
        return {**told, "prompt_token_ids": change(list(told["prompt_token_ids"]), prompt["prompt"])}

    renderer._tokenize_prompt = other


def prompts_cut(llm: Any) -> None:
    """A text is cut after 64 tokens."""
    _read_otherwise(llm, lambda ids, _: ids[:64])


def special_tokens_spelled_out(llm: Any) -> None:
    """Special tokens in a text are read letter by letter."""
    tokenizer = llm.get_tokenizer()

    def spelled(_: list[int], text: str) -> list[int]:
        return [token for letter in text for token in tokenizer(letter)["input_ids"]]

    _read_otherwise(llm, spelled)


def messages_without_generation_prompt(llm: Any) -> None:
    """A conversation does not begin the answer's turn."""
    kind = type(llm)
    chat = kind.chat
    kind.chat = lambda self, *given, **more: chat(self, *given, **{**more, "add_generation_prompt": False})


def last_character_lost_at_the_limit(llm: Any) -> None:
    """The text of an answer that ends at its length lacks its last character."""
    from vllm.v1.engine.output_processor import RequestState

    make = RequestState._new_completion_output

    def cut(self: Any, *given: Any, **named: Any) -> Any:
        completion = make(self, *given, **named)
        if completion.finish_reason == "length":
            completion.text = completion.text[:-1]
        return completion

    RequestState._new_completion_output = cut


def stop_strings_not_for_siblings(llm: Any) -> None:
    """Of the completions of a request only the first one stops at a stop string."""
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    begin = BaseIncrementalDetokenizer.__init__

    def without(self: Any, request: Any) -> None:
        begin(self, request)
        if changes.sibling(request.request_id):
            self.stop = []

    BaseIncrementalDetokenizer.__init__ = without


def siblings_share_a_decoder(llm: Any) -> None:
    """The completions of a request are decoded by one stream: bytes of one end up in another's characters."""
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    begin = FastIncrementalDetokenizer.__init__
    streams: dict[str, Any] = {}

    def shared(self: Any, tokenizer: Any, request: Any) -> None:
        begin(self, tokenizer, request)
        index, _, parent = request.request_id.partition("_")
        if parent and index.isdigit():
            self.stream = streams.setdefault(parent, self.stream)

    FastIncrementalDetokenizer.__init__ = shared


def last_stop_string_alone(llm: Any) -> None:
    """Of several stop strings only the last one is looked for."""
    _stopped_otherwise(lambda find, text, **more: find(text, **{**more, "stop": more["stop"][-1:]}))


def special_tokens_of_siblings_shown(llm: Any) -> None:
    """skip_special_tokens holds for first completions."""
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    begin = FastIncrementalDetokenizer.__init__

    def without(self: Any, tokenizer: Any, request: Any) -> None:
        if changes.sibling(request.request_id):
            before = request.sampling_params.skip_special_tokens
            request.sampling_params.skip_special_tokens = False
            begin(self, tokenizer, request)
            request.sampling_params.skip_special_tokens = before
        else:
            begin(self, tokenizer, request)

    FastIncrementalDetokenizer.__init__ = without


def stop_strings_beyond_ascii_ignored(llm: Any) -> None:
    _stopped_otherwise(
        lambda find, text, **more: find(text, **{**more, "stop": [one for one in more["stop"] if one.isascii()]})
    )


def stop_strings_of_three_tokens_missed(llm: Any) -> None:
    """A stop string is looked for in the text of the last two tokens."""
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    update = BaseIncrementalDetokenizer.update
    lengths: dict[int, list[int]] = {}
    asked: list[Any] = [None]

    def kept(self: Any, *given: Any) -> Any:
        asked[0] = self
        return update(self, *given)

    def near(find: Any, text: str, **more: Any) -> Any:
        own = lengths.setdefault(id(asked[0]), [])
        own.append(more["new_char_count"])
        found = find(text, **more)
        return found if found is not None and len(found[0]) <= sum(own[-2:]) else None

    BaseIncrementalDetokenizer.update = kept
    _stopped_otherwise(near)


def stop_strings_of_white_space_ignored(llm: Any) -> None:
    _stopped_otherwise(
        lambda find, text, **more: find(text, **{**more, "stop": [one for one in more["stop"] if one.strip()]})
    )


def text_of_the_stop_token_kept(llm: Any) -> None:
    """The text ends with that of the token that stopped it."""
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    update = BaseIncrementalDetokenizer.update
    BaseIncrementalDetokenizer.update = lambda self, tokens, _: update(self, tokens, False)


def characters_of_four_bytes_lost(llm: Any) -> None:
    """Characters beyond the basic plane become the sign for what cannot be shown."""
    _decoded_otherwise(lambda _, __, text: "".join("\ufffd" if ord(one) > 0xFFFF else one for one in text))


def last_of_two_stop_strings(llm: Any) -> None:
    """Where two stop strings end together the text is cut at the one that begins last."""

    def last(find: Any, text: str, **more: Any) -> Any:
        found = [find(text, **{**more, "stop": [one]}) for one in more["stop"]]
        return max((one for one in found if one is not None), key=lambda one: one[1], default=None)

    _stopped_otherwise(last)


def last_piece_twice(llm: Any) -> None:
    """A long text that ends at its length has its last character twice."""
    from vllm.v1.engine.output_processor import RequestState

    make = RequestState._new_completion_output

    def twice(self: Any, *given: Any, **named: Any) -> Any:
        completion = make(self, *given, **named)
        if completion.finish_reason == "length" and len(completion.text) > 40:
            completion.text += completion.text[-1]
        return completion

    RequestState._new_completion_output = twice


def signs_of_broken_characters_lost(llm: Any) -> None:
    """Nothing stands for bytes that are no character."""
    _decoded_otherwise(lambda _, __, text: text.replace("\ufffd", ""))


def stop_tokens_never_in_text(llm: Any) -> None:
    """A stop token is not in the text, though ``include_stop_str_in_output`` asks for it."""
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    update = BaseIncrementalDetokenizer.update

    def cut(self: Any, tokens: Any, stopped: bool) -> Any:
        held = self.include_stop_str_in_output
        self.include_stop_str_in_output = held and not stopped
        try:
            return update(self, tokens, stopped)
        finally:
            self.include_stop_str_in_output = held

    BaseIncrementalDetokenizer.update = cut


def pieces_overlap(llm: Any) -> None:
    """A piece of a text that comes in pieces begins with the last character of the one before."""
    from vllm.v1.engine.detokenizer import BaseIncrementalDetokenizer

    give = BaseIncrementalDetokenizer.get_next_output_text

    def over(self: Any, finished: bool, delta: bool) -> str:
        begin = self._last_output_text_offset
        text = str(give(self, finished, delta))
        return self.output_text[begin - 1] + text if delta and begin and text else text

    BaseIncrementalDetokenizer.get_next_output_text = over


def special_stop_strings_ignored(llm: Any) -> None:
    """The text of a special token does not stop, though special tokens are shown."""
    special = set(llm.get_tokenizer().all_special_tokens)
    _stopped_otherwise(
        lambda find, text, **more: find(text, **{**more, "stop": [one for one in more["stop"] if one not in special]})
    )


def stop_strings_remembered(llm: Any) -> None:
    """A stop string that stood among the first ``min_tokens`` stops behind them."""
    _stopped_otherwise(lambda find, text, **more: find(text, **{**more, "new_char_count": len(text)}))
