"""Beam search: at every step the k best hypotheses stay active, and those that end are stored."""

from dataclasses import dataclass

from regard.core.errors import BadInput, shown
from regard.generation.beam_loop import BeamLoop
from regard.generation.beam_rules import BeamRules
from regard.generation.device_beam import search_on_device
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import Search, SearchBatch


@dataclass(frozen=True)
class Beam(BeamRules, Search):
    """Beam search with ``size`` active hypotheses per sentence, which returns the ``best``.

    At each step all continuations of a sentence are ranked by log p. Those among the first ``size``
    that end are stored as finished; the first ``size`` that do not end stay active. The search for
    a sentence ends when

    - ``finished`` hypotheses are finished (default: ``size``, or ``best`` if that is more);
    - or no active hypothesis can still be among the best (``early``): no log p is above the
      ``logprob_to_beat`` of the last of them, and the coverage term is at most 0;
    - or its limit is reached. Then active hypotheses, which are unfinished, fill the places among
      the best that finished ones leave. One that cannot be continued is unfinished as well.

    With another ``stop`` it ends when ``generate`` of transformers 5 does, with ``size`` as
    num_beams (1: greedy search), ``best`` as num_return_sequences, ``length="power"``, ``alpha`` as
    length_penalty and ``no_repeat`` as no_repeat_ngram_size; ``formula`` gives the condition. Then
    the first ``size`` continuations at the limit count as finished, whether they end or not. In
    ``Constraints`` max_length is ``longest + 1`` (it counts BOS), max_new_tokens ``longest``,
    min_length ``shortest``, forced_eos_token_id ``must_end``, single tokens of bad_words_ids
    ``forbidden``. Where transformers fills its list with copies of score -1e9, fewer are returned.

    Scores follow ``formula``, where n counts the tokens with EOS and without BOS. The length
    penalty and the coverage penalty rank finished hypotheses; active ones are ranked by log p. With
    a ``coverage``, even 0, hypotheses have a coverage term. With ``no_repeat`` no n-gram of that
    many tokens occurs twice in a hypothesis and its prompt; with a ``repetition_penalty`` the log p
    of a token that has occurred is multiplied by it, in scores as well.
    """

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        captured = search_on_device(self, batch) if batch.state.captures else None
        return BeamLoop(self, batch).run() if captured is None else captured


def check_beam(search: object, what: str) -> Beam:
    """Return a search that must be a ``Beam``; ``what`` needs it."""
    if not isinstance(search, Beam):
        raise BadInput(f"{what} needs a Beam, not {shown(search)}")
    return search
