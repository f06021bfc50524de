"""Completions as OpenAI's clients ask for them: several choices, log-probabilities, streams.

Log-probabilities are the model's own, of one pass over a prompt and its continuation, so that a
token and the most probable tokens in its place are compared by the same numbers.
"""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from regard.core.errors import BadInput, shown
from regard.generation.greedy import Greedy
from regard.generation.logit_bias import LogitBias
from regard.generation.sample import NumberedSample
from regard.generation.step import Search
from regard.inference.component import AnyResult
from regard.inference.decoder_model import Method
from regard.inference.generator import Ending, Generation, Generator
from regard.serving.apis.json_body import StopStrings, TextsOrIds, event, texts_or_ids
from regard.serving.apis.request import APIRequest, stream_events
from regard.serving.served_model import Options, ServedModel
from regard.text.continuation import BROKEN, CONTEXT, Continuation
from regard.text.vocabulary import Vocabulary

Value = TypeVar("Value")
MOST_BIASES = 1_024  # tokens of a logit_bias
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Bias = Annotated[dict[str, Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=MOST_BIASES)]
PARAMETER = re.compile(r"^([a-z_]+): |at `\$\.([a-z_]+)|field `([a-z_]+)`$")  # in a message
TOO_LONG = re.compile(r"\d tokens, (more than|but the model has) \d")  # in a message
TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,17}")  # one name for each id
TYPES = {401: "authentication_error", 429: "rate_limit_error"}  # of errors, by status
LONGEST_CHARACTER = 4  # bytes of UTF-8
CODES = {  # code and parameter, by kind
    "unknown_model": ("model_not_found", "model"),
    "not_found": ("unknown_url", None),
}
REASONS = {"eos": "stop", "stop": "stop", "length": "length", "positions": "length"}


def error(status: int, kind: str, message: str) -> dict[str, object]:
    """The body of an error, with the parameter that the message names."""
    match = PARAMETER.search(message)
    fallback = "server_error" if status >= 500 else "invalid_request_error"
    code, parameter = CODES.get(kind, (kind, match and match[match.lastindex or 0]))
    if status == 400 and TOO_LONG.search(message):
        code, parameter = "context_length_exceeded", "prompt"
    return {
        "error": {
            "message": message,
            "type": TYPES.get(status, fallback),
            "param": parameter,
            "code": code,
        }
    }


class StreamOptions(Struct, forbid_unknown_fields=True):
    """``include_usage``: the last event has the numbers of tokens."""

    include_usage: bool = False


class CompletionRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Prompts, as texts or token ids, and how they are continued.

    ``top_k`` is not OpenAI's: -1 and 0 are all tokens, as in vLLM.
    """

    model: str
    prompt: TextsOrIds
    max_tokens: Annotated[int, Meta(ge=0, le=65_536)] | None = 16
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = 1.0
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    n: Annotated[int, Meta(ge=1, le=64)] | None = 1
    best_of: Annotated[int, Meta(ge=1, le=64)] | None = None
    echo: bool | None = False
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    stop: Annotated[str, Meta(max_length=256)] | StopStrings | None = None
    logit_bias: Bias | None = None
    seed: int | None = None
    presence_penalty: Penalty | None = 0.0
    frequency_penalty: Penalty | None = 0.0
    suffix: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None

    @property
    def tokens(self) -> int:
        """The maximum number of new tokens."""
        return 16 if self.max_tokens is None else self.max_tokens

    @property
    def choices(self) -> int:
        """The number of continuations of a prompt in the answer."""
        return self.n or 1

    @property
    def samples(self) -> int:
        """The number of continuations that are generated for a prompt."""
        return self.choices if self.best_of is None else self.best_of

    @property
    def bias(self) -> LogitBias:
        """Changes of the logits."""
        return LogitBias(
            _by_token(self.logit_bias or {}),
            self.presence_penalty or 0.0,
            self.frequency_penalty or 0.0,
        )

    @property
    def ranks_anew(self) -> bool:
        """Whether the search has other log-probabilities than the model, by which texts rank."""
        return self.samples > 1 and bool(self.bias)

    @property
    def stops(self) -> list[str]:
        """Strings at which a continuation ends."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def search(self) -> Search:
        """Greedy search at temperature 0, else sampling."""
        return Greedy(logit_bias=self.bias) if self.temperature == 0 else self._sampling

    @property
    def _sampling(self) -> NumberedSample:
        """Sampling, by default with a random seed."""
        seed = secrets.randbits(63) if self.seed is None else self.seed % 2**64
        temperature = 1.0 if self.temperature is None else self.temperature
        top_p = 1.0 if self.top_p is None else self.top_p
        settings = (temperature, max(0, self.top_k or 0), top_p, self.samples, seed)
        return NumberedSample(*settings, logit_bias=self.bias)

    @property
    def options(self) -> Options:
        """Options of the component."""
        ending = Ending.of(max(1, self.tokens), 0, self.stops)
        return {"method": Method(self.search), "best": self.samples, "ending": ending}

    @property
    def apart(self) -> list[Options]:
        """Options of the component for each continuation alone, which are those of all together."""
        if self.temperature == 0:
            return [self.options]
        drawn = replace(self._sampling, count=1)
        numbered = (replace(drawn, number=number) for number in range(self.choices))
        return [{**self.options, "method": Method(each), "best": 1} for each in numbered]

    def check(self) -> None:
        """Refuse what cannot be combined."""
        if self.suffix is not None:
            raise BadInput("suffix: this server only continues prompts")
        if self.samples < self.choices:
            raise BadInput(f"best_of: {self.samples} is less than n, {self.choices}")
        if self.temperature == 0 and self.samples > 1:
            name = "n" if self.best_of is None else "best_of"
            raise BadInput(f"{name}: at temperature 0 all continuations are the same")
        if len(self.stops) > 4:
            raise BadInput("stop: at most 4 strings")
        if self.stream_options is not None and not self.stream:
            raise BadInput("stream_options: only with stream")
        if self.tokens == 0 and not self.echo:
            raise BadInput("max_tokens: 0 needs echo, for otherwise there is no text")
        if self.stream:
            self._check_stream()

    def check_tokens(self, words: int) -> None:
        """Refuse tokens that the vocabulary does not have."""
        for token, _ in _by_token(self.logit_bias or {}):
            if token >= words:
                raise BadInput(f"logit_bias: {token} is no token id; the last one is {words - 1}")

    def _check_stream(self) -> None:
        if self.samples > self.choices:
            raise BadInput(f"best_of: a stream has all {self.samples} texts; ask for as many by n")
        if self.tokens == 0:
            raise BadInput("max_tokens: a stream needs at least 1")


def _by_token(bias: dict[str, float]) -> tuple[tuple[int, float], ...]:
    for token in bias:
        if not TOKEN_ID.fullmatch(token):
            raise BadInput(f"logit_bias: {shown(token)} is not a token id")
    return tuple(sorted((int(token), number) for token, number in bias.items()))


class TokenLogprobs(Struct):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class Choice(Struct):
    """A continuation; in a stream, a piece of it."""

    text: str
    index: int = 0
    logprobs: TokenLogprobs | None = None
    finish_reason: str | None = None


class Usage(Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, prompt: int, written: int) -> "Usage":
        """The numbers of tokens that were read and written."""
        return cls(prompt, written, prompt + written)


class CompletionAnswer(Struct):
    """The answer to a request, or one event of its stream."""

    id: str
    created: int
    model: str
    object: str = "text_completion"
    choices: list[Choice] = []
    usage: Usage | UnsetType = UNSET

    def event(self, *choices: Choice) -> bytes:
        """An event of a stream with these choices."""
        return event(msgspec.structs.replace(self, choices=[*choices]))


@dataclass(frozen=True)
class Completion:
    """Continuation of a prompt.

    ``written`` are its new tokens, with EOS and the tokens of a stop string, which ``ids`` lack.
    """

    prompt: list[int]
    text: str
    ids: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    logprobs: tuple[float, ...] = ()
    ended: str = "length"
    score: AnyResult | None = None  # of prompt and continuation

    @classmethod
    def of(cls, prompt: list[int], text: Generation, generator: Generator) -> "Completion":
        """The completion of a generated text."""
        hypothesis = text.hypothesis
        written = [*hypothesis.tokens, *[generator.ends[0]] * hypothesis.finished]
        ids = [*written]
        if text.ended == "stop":
            continuation = Continuation(generator.vocabulary.decode, prompt)
            while ids and len(continuation.text(ids[:-1])) >= len(text.text):
                ids.pop()
        return cls(prompt, text.text, ids, written, hypothesis.logprobs, text.ended)

    def with_score(self, score: AnyResult) -> "Completion":
        """The completion with log-probabilities of the model, not of the search."""
        own = score.value.logprobs[len(self.prompt) - 1 :]
        return replace(self, logprobs=(*own, *self.logprobs[len(own) :]), score=score)

    @property
    def mean_logprob(self) -> float:
        """The mean log-probability of a new token."""
        return sum(self.logprobs) / max(1, len(self.logprobs))


async def complete(request: APIRequest, body: CompletionRequest) -> object:
    """Continue prompts."""
    body.check()
    served = request.choose_model(
        body.model, lambda model: "generate" in model.components, "completions"
    )
    body.check_tokens(len(served.model.generator.vocabulary))
    request.note_user(body.user)
    prompts_or_ids, options = texts_or_ids(body.prompt, "prompt"), body.options
    rows = await request.rows(served, "generate", prompts_or_ids, options)
    prompts = [row.data.ids[0] for row in rows]
    head = CompletionAnswer(f"cmpl-{request.id}", int(time.time()), served.name)
    if body.stream:
        if len(prompts) > 1:
            raise BadInput("prompt: a stream has one")
        return await _stream(request, body, served, prompts[0], head)
    generator = served.model.generator
    completions = [Completion(prompt, "") for prompt in prompts]
    written = 0
    if body.tokens:
        results = await request.results(served, "generate", prompts, options)
        written = sum(len(t.hypothesis.logprobs) for each in results for t in each.value.texts)
        samples = [
            [Completion.of(prompt, text, generator) for text in result.value.texts]
            for prompt, result in zip(prompts, results, strict=True)
        ]
        if body.ranks_anew:
            scored = iter(await _scored(request, body, served, [*chain(*samples)]))
            samples = [[*islice(scored, len(texts))] for texts in samples]
        completions = [text for texts in samples for text in _best(texts, body.choices)]
    if body.logprobs is not None and any(text.score is None for text in completions):
        completions = await _scored(request, body, served, completions)
    texts = [text if isinstance(text, str) else None for text in prompts_or_ids]
    repeated = [text for text in texts for _ in range(len(completions) // len(texts))]
    made = partial(_choices, body, generator, completions, repeated)
    choices = await request.services.threads.run(made)
    usage = Usage.of(sum(map(len, prompts)), written)
    return msgspec.structs.replace(head, choices=choices, usage=usage)


def _best(texts: Sequence[Completion], count: int) -> list[Completion]:
    """The continuations with the highest mean log-probability of a token."""
    return sorted(texts, key=lambda text: -text.mean_logprob)[:count]


async def _scored(
    request: APIRequest, body: CompletionRequest, served: ServedModel, texts: Sequence[Completion]
) -> list[Completion]:
    """Completions with the scores of prompt and continuation, computed in parts if many."""
    most = served.model.generator.scorer().own_limit
    rows = [[*text.prompt, *text.written][:most] for text in texts]
    options = {"top": max(1, body.logprobs or 0)}
    scores, size = list[AnyResult](), request.engine.limits.max_inputs
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        scores += await request.results(served, "score", part, options)
    return [text.with_score(score) for text, score in zip(texts, scores, strict=True)]


def _choices(
    body: CompletionRequest,
    generator: Generator,
    completions: Sequence[Completion],
    prompts: Sequence[str | None],
) -> list[Choice]:
    """The choices of an answer; with echo, each begins with its prompt."""
    decode, choices = generator.vocabulary.decode, list[Choice]()
    for index, (text, prompt) in enumerate(zip(completions, prompts, strict=True)):
        echoed = (decode(text.prompt) if prompt is None else prompt) if body.echo else ""
        choice = Choice(echoed + text.text, index, None, REASONS[text.ended])
        if body.logprobs is not None and text.score is not None:
            listed = TokenList(generator.vocabulary, text, text.score, body.logprobs)
            choice.logprobs = listed.logprobs(whole=bool(body.echo))
        choices.append(choice)
    return choices


class TokenList:
    """Tokens of a prompt and its continuation, with their log-probabilities.

    A token that was generated beyond the last position of the model has the log-probability of the
    search, without other tokens.
    """

    def __init__(self, words: Vocabulary, text: Completion, score: AnyResult, top: int):
        self.words, self.text, self.top = words, text, top
        self.ids = [*text.prompt, *text.ids]
        count = len(self.ids)
        self.scores: list[float | None] = [None, *score.value.logprobs][:count]
        self.best: list[dict[int, float] | None] = [None, *score.value.top][:count]
        if len(self.scores) < count:
            self.scores.append(text.logprobs[-1])
            self.best.append({})

    def _text(self, at: int, tokens: list[int]) -> str:
        """The text of tokens after those before ``at``."""
        return Continuation(self.words.decode, self.ids[max(0, at - CONTEXT) : at]).text(tokens)

    def _piece(self, at: int, token: int) -> str:
        """The text of a token; the name of a special token, or of a part of a character."""
        text = self._text(at, [token])
        return text if text and BROKEN not in text else self.words.pieces([token])[0]

    def logprobs(self, *, whole: bool) -> "TokenLogprobs":
        """The lists of an answer; of the continuation alone unless ``whole``."""
        first = 0 if whole else len(self.text.prompt)
        tokens = [self._piece(at, self.ids[at]) for at in range(first, len(self.ids))]
        top = [self._top(at, token) for at, token in enumerate(tokens, first)]
        return TokenLogprobs(tokens, self.scores[first:], top, self._offsets(first))

    def _offsets(self, first: int) -> list[int]:
        """Where each token begins in the text; a character of several tokens counts at its end."""
        offsets, offset, begin = list[int](), 0, first
        for at in range(first, len(self.ids)):
            offsets.append(offset)
            text = self._text(begin, self.ids[begin : at + 1])
            if BROKEN not in text or at - begin == LONGEST_CHARACTER - 1:
                offset, begin = offset + len(text), at + 1
        return offsets

    def _top(self, at: int, piece: str) -> dict[str, float] | None:
        """The most probable tokens, and the token itself."""
        best, score = self.best[at], self.scores[at]
        if best is None or score is None:
            return None
        named = {piece: score}
        for token, logprob in [*best.items()][: self.top]:
            name = self._piece(at, token)
            named[name] = max(logprob, named.get(name, logprob))
        return named


async def _stream(
    request: APIRequest,
    body: CompletionRequest,
    served: ServedModel,
    prompt: list[int],
    head: CompletionAnswer,
) -> Response:
    """Events with pieces of the texts; an error before the first piece is an error response.

    The last event of a text has all its log-probabilities, which need one pass over the whole.
    """
    streams = [request.stream(served, "generate", prompt, options) for options in body.apart]
    generator = served.model.generator
    text = body.prompt if isinstance(body.prompt, str) else generator.vocabulary.decode(prompt)

    async def last_choice(index: int, generation: Generation) -> Choice:
        ended = Choice("", index, None, REASONS[generation.ended])
        if body.logprobs is None:
            return ended
        completion = Completion.of(prompt, generation, generator)
        completions = await _scored(request, body, served, [completion])
        made = partial(_choices, body, generator, completions, [text])
        (whole,) = await request.services.threads.run(made)
        return msgspec.structs.replace(ended, logprobs=whole.logprobs)

    async def events(pieces: AsyncIterator[tuple[int, str | AnyResult]]) -> AsyncIterator[bytes]:
        if body.echo and text:
            for index in range(len(streams)):
                yield head.event(Choice(text, index))
        written = 0
        async for index, piece in pieces:
            if isinstance(piece, str):
                yield head.event(Choice(piece, index))
            else:
                (generation,) = piece.value.texts
                written += len(generation.hypothesis.logprobs)
                yield head.event(await last_choice(index, generation))
        if body.stream_options is not None and body.stream_options.include_usage:
            usage = Usage.of(len(prompt), written)
            yield msgspec.structs.replace(head, usage=usage).event()
        yield b"data: [DONE]\n\n"

    return await stream_events(_merged(streams), events, error)


async def _merged(streams: Sequence[AsyncIterator[Value]]) -> AsyncIterator[tuple[int, Value]]:
    """Values of several streams as they come, each with the number of its stream."""
    values: asyncio.Queue[tuple[int, Value] | None] = asyncio.Queue()

    async def read(number: int, stream: AsyncIterator[Value]) -> None:
        async for value in stream:
            values.put_nowait((number, value))

    tasks = [asyncio.ensure_future(read(*numbered)) for numbered in enumerate(streams)]
    for task in tasks:
        task.add_done_callback(lambda _: values.put_nowait(None))
    try:
        running = len(tasks)
        while running:
            if (value := await values.get()) is not None:
                yield value
                continue
            running -= 1
            for task in tasks:
                if task.done():
                    task.result()
    finally:
        for task in tasks:
            task.cancel()
