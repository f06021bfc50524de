"""How a published translator searches: the generation settings that came with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.ground.errors import BadInput
from regard.search.beam import Beam, Stop
from regard.search.limits import Limits

# transformers' early_stopping, by the name of our rule.
STOPS: dict[Any, Stop] = {
    False: "transformers",
    True: "transformers-early",
    "never": "transformers-never",
}
LONGEST = 20  # max_length where nothing is said


@dataclass(frozen=True)
class Published:
    """The search that ``generate`` makes with these settings, and what it may write.

    ``length_penalty`` A divides log p by n^A, n counting EOS and not what comes first; lengths
    are fixed numbers, not multiples of the source's.
    """

    search: Beam
    longest: int
    shortest: int = 0
    forbidden: tuple[int, ...] = ()
    must_end: bool = False
    renormalise: bool = False

    @classmethod
    def of(cls, settings: Mapping[str, Any], eos: int) -> "Published":
        """Read Hugging Face's generation settings; what cannot be done is an error."""
        try:
            early = settings.get("early_stopping", False)
            stop = STOPS[early]
            longest = settings.get("max_new_tokens") or settings.get("max_length", LONGEST) - 1
            search = Beam(
                size=settings.get("num_beams", 1),
                length="power",
                alpha=float(settings.get("length_penalty", 1.0)),
                no_repeat=settings.get("no_repeat_ngram_size", 0),
                stop=stop,
            )
            words = settings.get("bad_words_ids", [])
            if any(len(word) != 1 for word in words):
                raise BadInput("bad_words_ids of several tokens are not supported")
            ends = settings.get("forced_eos_token_id")
            if ends not in (None, eos, [eos]):
                raise BadInput(f"forced_eos_token_id is {ends}, but the end is {eos}")
            return cls(
                search,
                longest,
                settings.get("min_length", 0),
                tuple(word for (word,) in words),
                must_end=ends is not None,
                renormalise=bool(settings.get("renormalize_logits", False)),
            )
        except (TypeError, ValueError, KeyError) as error:
            raise BadInput(f"generation settings that mean nothing ({error})") from None

    def limits(self, bos: int, eos: int) -> Limits:
        """What may be written."""
        return Limits(
            bos,
            eos,
            self.longest,
            self.shortest,
            self.forbidden,
            must_end=self.must_end,
            renormalise=self.renormalise,
        )
