"""Beam search: at every step the k best hypotheses go on, and those that end are set aside."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.search.beam_rules import BeamRules
from regard.search.constraints import Constraints
from regard.search.device_beam import search_on_device
from regard.search.host_beam import HostBeam
from regard.search.hypothesis import Hypothesis
from regard.search.step import Search, SearchState


@dataclass(frozen=True)
class Beam(BeamRules, Search):
    """``size`` hypotheses go on per sentence; the ``best`` come back.

    At each step all continuations of a sentence are ranked by log p. Those among the first ``size``
    that end are set aside; the first ``size`` that do not end go on. A sentence is over when

    - ``finished`` hypotheses have been set aside (by default ``size``, or ``best`` if more);
    - or nothing alive can still be among the best (``early``): no log p is above what is needed
      ``logprob_to_beat`` the last of them, and the coverage term is at most 0;
    - or its limit is reached. Then the hypotheses alive, unfinished, fill the places that finished
      ones leave among the best. One that nothing can be added to is unfinished as well.

    With another ``stop`` it is over when ``generate`` of transformers 5 says so, given ``size`` as
    num_beams (of 1: greedy search), ``best`` as num_return_sequences, ``length="power"``, ``alpha``
    as length_penalty and ``no_repeat`` as no_repeat_ngram_size; ``formula`` says when. Then at the
    limit the first ``size`` continuations count as found, whether they end or not. In
    ``Constraints`` max_length is ``longest + 1`` (it counts BOS), max_new_tokens ``longest``,
    min_length ``shortest``, forced_eos_token_id ``must_end``, single tokens of bad_words_ids
    ``forbidden``.
    Where it would fill its list up with copies of score -1e9, fewer come back.

    Scores follow ``formula``, where n counts the tokens, EOS included and BOS not. The length rule
    and the coverage penalty rank what was set aside; they do not steer the beam. With a
    ``coverage``, be it 0, hypotheses keep their coverage term. With ``no_repeat`` no run of that
    many tokens occurs twice in a hypothesis.
    """

    @property
    def needs_attention(self) -> bool:
        """For the coverage penalty."""
        return self.coverage is not None

    @torch.inference_mode()
    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See ``Search``; on the device where the state and the rules allow it."""
        found = search_on_device(self, state, constraints, prefixes)
        return HostBeam(self)(state, constraints, prefixes) if found is None else found
