"""Search settings of a model: generation_config.json, or the table [decode] of its recipe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, ParamSpec, TypedDict, TypeVar, cast

from pydantic import Field, ValidationError, model_validator

from regard.core.checks import check_number, check_whole, is_whole
from regard.core.config import Config
from regard.core.errors import BadInput, shown
from regard.generation.beam import Beam
from regard.generation.beam_rules import STEEPEST, Stop
from regard.generation.constraints import Constraints
from regard.generation.sample import Sample
from regard.models.folders.hf import GENERATION, GENERATION_KEYS

T = TypeVar("T")
P = ParamSpec("P")
# The early_stopping of transformers → our stopping rule.
STOPS: dict[object, Stop] = {
    False: "transformers",
    True: "transformers-early",
    "never": "transformers-never",
}
LARGEST = 1e30  # the largest number that is accepted
# Unsupported settings with their neutral values; of settings not listed, null is neutral.
NEUTRAL: dict[str, object] = {
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "penalty_alpha": 0.0,
    "guidance_scale": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
}
UNDERSTOOD = (*GENERATION_KEYS, "eos_token_id", "do_sample")
SAMPLING = ("temperature", "top_k", "top_p")
# Unsupported settings of sampling, each with its neutral values.
OTHER_SAMPLING: dict[str, tuple[object, ...]] = {"top_h": (), "min_p": (0,), "typical_p": (1,)}
# Settings that do not change the result of beam search.
IDLE = (
    *("bos_token_id", "pad_token_id", "decoder_start_token_id", "num_return_sequences"),
    *(*SAMPLING, *OTHER_SAMPLING),
    *("use_cache", "cache_implementation", "cache_config", "return_dict_in_generate"),
    *("output_scores", "output_logits", "output_attentions", "output_hidden_states"),
    *("transformers_version", "_from_model_config", "remove_invalid_values"),
)


class DecodeConfig(Config):
    """The default beam search of the model, also for test sets."""

    free_keys = ("beam", "length", "alpha")
    beam: int = Field(5, ge=1)
    """The size of the beam."""
    length: Literal["none", "mean", "gnmt", "power"] = "gnmt"
    """The length penalty: log-probabilities are divided by a function of the length."""
    alpha: float = Field(0.6, ge=0)
    """The exponent of the length penalty."""

    @classmethod
    def of(cls, beam: Beam) -> "DecodeConfig":
        """The table of a beam search."""
        return cls(beam=beam.size, length=beam.length, alpha=beam.alpha)

    @property
    def search(self) -> Beam:
        """The beam search of the table."""
        return Beam(self.beam, length=self.length, alpha=self.alpha)

    @model_validator(mode="after")
    def _can_be_searched(self) -> "DecodeConfig":
        _ = self.search
        return self


@dataclass(frozen=True)
class GenerationSettings:
    """Search and constraints of ``generate`` of transformers, by a generation_config.json.

    ``length_penalty`` A divides log p by n^A, where n counts EOS but not BOS. ``min_length``, and
    with ``counts_prompt`` also ``longest``, include the tokens of the prompt (for a translation:
    BOS). ``longest`` None: the file sets no limit. (``generate`` then stops after 20 tokens, which
    ends most texts in the middle; a model has a limit of its own here.)
    """

    search: Beam
    longest: int | None
    counts_prompt: bool
    shortest: int = 0
    min_length: int = 0
    forbidden: tuple[int, ...] = ()
    must_end: bool = False
    renormalise: bool = False
    do_sample: bool = False  # if true, ``generate`` samples instead of using ``search``

    @classmethod
    def of(
        cls, settings: Mapping[str, object], ends: tuple[int, ...], vocab: int
    ) -> "GenerationSettings":
        """Read generation settings of Hugging Face; unsupported ones are errors.

        ``ends`` are the tokens that end a text.
        """
        for name, value in settings.items():
            known = name in UNDERSTOOD or name in IDLE
            if not known and value not in (None, NEUTRAL.get(name)):
                raise refused(f"{name} {shown(value)} is not supported; choose a search")
        early = settings.get("early_stopping", False)
        if early not in [*STOPS]:
            raise refused(f'early_stopping must be true, false or "never", not {shown(early)}')
        forced = settings.get("forced_eos_token_id")
        if forced is not None and (len(ends) > 1 or forced not in (ends[0], [ends[0]])):
            raise refused(
                f"forced_eos_token_id is {shown(forced)}, and here {_end(ends)}; choose a search"
            )
        longest, counts_prompt = _longest(settings)
        least_new = _whole(settings, "min_new_tokens", 0)
        min_length = _whole(settings, "min_length", 0)
        return cls(
            _build(
                Beam,
                size=_whole(settings, "num_beams", 1, least=1),
                length="power",
                alpha=_number(settings, "length_penalty", 1.0, largest=STEEPEST),
                stop=STOPS[early],
                **repetition_of(settings),
            ),
            longest,
            counts_prompt,
            least_new + (least_new > 0),
            min_length if settings.get("min_new_tokens") is None else 0,
            _forbidden(settings.get("bad_words_ids"), vocab),
            must_end=forced not in (None, -1),
            renormalise=_truth(settings, "renormalize_logits"),
            do_sample=_truth(settings, "do_sample"),
        )

    def longest_after(self, prompt: int, default: int) -> int:
        """The maximum number of tokens after a prompt of ``prompt`` tokens, at least 1."""
        if self.longest is None:
            return default
        return max(self.longest - prompt, 1) if self.counts_prompt else self.longest

    def shortest_after(self, prompt: int) -> int:
        """The number of the first token that may be EOS, after ``prompt`` tokens."""
        return max(self.shortest, self.min_length - prompt + 1, 0)

    def limits(self, bos: int, ends: tuple[int, ...], longest: Sequence[int]) -> Constraints:
        """Constraints on at most ``longest`` tokens after BOS, by sentence."""
        return Constraints(
            bos,
            ends[0],
            longest,
            self.shortest_after(1),
            self.forbidden,
            must_end=self.must_end,
            renormalise=self.renormalise,
            other_eos=ends[1:],
        )


class RepetitionRules(TypedDict):
    """Rules against repetition, as arguments of a search."""

    no_repeat: int
    repetition_penalty: float


def repetition_of(settings: Mapping[str, object]) -> RepetitionRules:
    """The rules against repetition of generation settings."""
    return {
        "no_repeat": _whole(settings, "no_repeat_ngram_size"),
        "repetition_penalty": _number(settings, "repetition_penalty", 1.0),
    }


def sampling_of(settings: Mapping[str, object]) -> Sample:
    """Sampling by generation settings: temperature, top_k, top_p, samples, repetition rules."""
    for name, neutral in OTHER_SAMPLING.items():
        if (value := settings.get(name)) not in (None, *neutral):
            raise refused(f"{name} {shown(value)} is not supported; choose a search")
    return _build(
        Sample,
        temperature=_number(settings, "temperature", 1.0),
        top_k=_whole(settings, "top_k"),
        top_p=_number(settings, "top_p", 1.0),
        count=_whole(settings, "num_return_sequences", 1, least=1),
        **repetition_of(settings),
    )


def refused(why: str) -> BadInput:
    """Error about a setting, which names generation_config.json."""
    return BadInput(f"{GENERATION}: {why}")


def as_trained(decode: object) -> Beam:
    """Beam search of the table ``[decode]`` that config.json stores (``notes.decode``)."""
    try:
        return DecodeConfig.model_validate(decode, strict=True).search
    except ValidationError as error:
        fault = error.errors()[0]
        why = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".removeprefix(": ")
        raise BadInput(
            f"config.json: notes.decode does not describe a search: {shown(decode)} ({why})"
        ) from None


def _build(search: Callable[P, T], *args: P.args, **rules: P.kwargs) -> T:
    """Build a search with these rules; errors name generation_config.json."""
    try:
        return search(*args, **rules)
    except BadInput as error:
        raise refused(str(error)) from None


def _whole(settings: Mapping[str, object], name: str, default: int = 0, least: int = 0) -> int:
    value = settings.get(name)
    return check_whole(f"{GENERATION}: {name}", default if value is None else value, least)


def _number(
    settings: Mapping[str, object], name: str, default: float, largest: float = LARGEST
) -> float:
    value = settings.get(name)
    check_number(f"{GENERATION}: {name}", default if value is None else value)
    number = default if value is None else cast(float, value)
    if not -largest <= number <= largest:
        raise refused(f"{name} must be from {-largest:g} to {largest:g}, not {number}")
    return float(number)


def _truth(settings: Mapping[str, object], name: str) -> bool:
    value = settings.get(name)
    if value not in (None, True, False):
        raise refused(f"{name} must be true or false, not {shown(value)}")
    return bool(value)


def ends_of(settings: Mapping[str, object] | None, vocab: int, eos: int) -> tuple[int, ...]:
    """The tokens that end a text: ``eos_token_id``, an id or a list of ids; else ``eos``.

    An id of -1 stands for no token.
    """
    if settings is None or (given := settings.get("eos_token_id")) is None:
        return (eos,)
    ends = given if isinstance(given, list) and given else [given]
    for end in ends:
        if not is_whole(end, -1, vocab - 1):
            raise refused(f"eos_token_id has {shown(end)}, no id of {vocab}")
    return tuple(dict.fromkeys(ends))


def _end(ends: tuple[int, ...]) -> str:
    if ends == (-1,):
        return "no token ends a text"
    only = ends[0] if len(ends) == 1 else f"each of {', '.join(map(str, ends))}"
    return f"{only} ends a text"


def _longest(settings: Mapping[str, object]) -> tuple[int | None, bool]:
    """The maximum number of tokens, if any, and whether it counts the tokens of the prompt."""
    if settings.get("max_new_tokens") is not None:
        return _whole(settings, "max_new_tokens", least=1), False
    if settings.get("max_length") is not None:
        return _whole(settings, "max_length", least=2), True
    return None, False


def _forbidden(words: object, vocab: int) -> tuple[int, ...]:
    words = [] if words is None else words
    if not isinstance(words, list) or not all(isinstance(word, list) for word in words):
        raise refused(f"bad_words_ids must be lists of ids, not {shown(words)}")
    if any(len(word) != 1 for word in words):
        raise refused("bad_words_ids of several tokens are not supported")
    tokens = tuple(token for (token,) in words)
    for token in tokens:
        if not is_whole(token, 0, vocab - 1):
            raise refused(f"bad_words_ids has {shown(token)}, no id of {vocab}")
    return tokens
