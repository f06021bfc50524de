"""A beam with transformers' rules gives what ``generate`` gives: tokens, scores, order."""

from dataclasses import dataclass, replace
from functools import lru_cache

import pytest
import torch
from torch import Tensor

from closeness import SCALARS
from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, SearchState

transformers = pytest.importorskip("transformers")

VOCABULARY, EOS, PAD = 24, 0, 23
STOPS = {"transformers": False, "transformers-early": True, "transformers-never": "never"}


@lru_cache(maxsize=32)
def marian(seed: int, scale: float):
    """Random weights; ``scale`` makes the distributions flat or peaked."""
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=32,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        tie_word_embeddings=False,
        init_std=0.3,
    )
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        model.lm_head.weight.copy_(torch.randn(VOCABULARY, 16) * 0.4 * scale)
        model.final_logits_bias[0, EOS] = 1.5  # often among the first, seldom the first
    return model


def ragged(seed: int) -> tuple[Tensor, Tensor]:
    """Sources of different lengths, padded, and where they are."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, PAD, (3, 6), generator=generator)
    lengths = torch.tensor([6, 2, 4])
    there = torch.arange(6)[None] < lengths[:, None]
    return ids.masked_fill(~there, PAD), there.long()


@dataclass
class Stepped(SearchState):
    """The model run over all that each row has read and written, at every step anew."""

    model: object
    source: Tensor
    there: Tensor
    written: Tensor | None = None
    device = torch.device("cpu")

    @property
    def rows(self) -> int:
        return len(self.source)

    def step(self, tokens_R: Tensor) -> Tensor:
        fed = tokens_R[:, None]
        self.written = fed if self.written is None else torch.cat([self.written, fed], dim=1)
        logits = self.model(
            input_ids=self.source, attention_mask=self.there, decoder_input_ids=self.written
        ).logits
        return logits[:, -1].float().log_softmax(-1)

    def select_rows(self, index_R: Tensor) -> None:
        self.source, self.there = self.source[index_R], self.there[index_R]
        if self.written is not None:
            self.written = self.written[index_R]


def theirs(model, seed: int, beam: Beam, constraints: Constraints) -> list[list[tuple]]:
    """(tokens written, EOS included, and score) from ``generate``."""
    source, there = ragged(seed)
    out = model.generate(
        input_ids=source,
        attention_mask=there,
        num_beams=beam.size,
        num_return_sequences=beam.best,
        do_sample=False,
        early_stopping=STOPS[beam.stop] if beam.size > 1 else False,
        length_penalty=beam.alpha if beam.size > 1 else 1.0,
        max_length=constraints.longest + 1,
        min_length=constraints.shortest,
        forced_eos_token_id=EOS if constraints.must_end else None,
        bad_words_ids=[[token] for token in constraints.forbidden],
        no_repeat_ngram_size=beam.no_repeat,
        return_dict_in_generate=True,
        output_scores=True,
    )
    # A greedy search of theirs has no scores, and its steps are logits, not log-probabilities.
    scores = [None] * len(out.sequences) if beam.size == 1 else out.sequences_scores.tolist()
    rows = [[t for t in row[1:] if t != PAD] for row in out.sequences.tolist()]
    pairs = list(zip(rows, scores, strict=True))
    return [pairs[i : i + beam.best] for i in range(0, len(pairs), beam.best)]


def same(model, seed: int, beam: Beam, constraints: Constraints) -> int:
    """Hold ours against theirs; how many of them did not end."""
    found = beam(Stepped(model, *ragged(seed)), constraints)
    expected = theirs(model, seed, beam, constraints)
    ours = [[[*one.tokens, EOS] if one.finished else [*one.tokens] for one in n] for n in found]
    assert ours == [[tokens for tokens, _ in n] for n in expected]
    for n, best in zip(found, expected, strict=True):
        scores = [score for _, score in best if score is not None]
        assert [one.score for one in n[: len(scores)]] == pytest.approx(scores, **SCALARS)
    return sum(not one.finished for n in found for one in n)


@pytest.mark.thinned
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_it_is_what_generate_gives(stop, size):
    constraints = Constraints(PAD, EOS, 9, forbidden=(PAD,))
    settings = [(0.3, 1.0), (1.0, 0.0), (1.0, 1.0), (1.0, 0.6), (4.0, 2.0)]
    for seed, (scale, alpha) in enumerate(settings, start=size):
        beam = Beam(size, max(1, size - 1), "power", alpha, stop=stop)
        same(marian(seed, scale), seed, beam, constraints)


@pytest.mark.thinned
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("must_end", [False, True])
@pytest.mark.parametrize(("size", "shortest", "no_repeat"), [(1, 4, 2), (3, 0, 2), (5, 5, 3)])
def test_with_limits_of_all_kinds(stop, must_end, size, shortest, no_repeat):
    constraints = Constraints(PAD, EOS, 7, shortest, forbidden=(PAD, 5), must_end=must_end)
    beam = Beam(size, size, "power", 1.0, no_repeat=no_repeat, stop=stop)
    unfinished = [same(marian(seed, 0.5), seed, beam, constraints) for seed in range(2)]
    assert not must_end or not any(unfinished)


@pytest.mark.parametrize("stop", STOPS)
def test_a_penalty_below_zero_is_a_reward_for_short_ones(stop):
    constraints = Constraints(PAD, EOS, 8, forbidden=(PAD,))
    for seed in range(2):
        same(marian(seed, 1.0), seed, Beam(4, 4, "power", -0.7, stop=stop), constraints)


def test_the_limit_cuts_hypotheses_that_then_count():
    """Without a forced end the unfinished compete: the case must occur for the test to mean it."""
    constraints = Constraints(PAD, EOS, 4, forbidden=(PAD,))
    beam = Beam(4, 4, "power", 1.0, stop="transformers")
    unfinished = [same(marian(seed, 1.0), seed, beam, constraints) for seed in range(5)]
    assert 0 < sum(unfinished) < 60


@pytest.mark.slow
def test_the_rules_do_differ():
    """Each stop somewhere answers what no other does, or the names would be idle."""
    constraints, answers = Constraints(PAD, EOS, 12, forbidden=(PAD,)), {}
    for stop in ("default", *STOPS):
        beam = Beam(3, 3, "power", 1.0, stop=stop)
        answers[stop] = [
            [one.tokens for one in found]
            for seed in range(6)
            for found in beam(Stepped(marian(seed, 1.0), *ragged(seed)), constraints)
        ]
    assert len({str(one) for one in answers.values()}) >= 3


def test_the_batch_size_changes_nothing():
    constraints, beam = (
        Constraints(PAD, EOS, 9, forbidden=(PAD,)),
        Beam(4, 3, "power", stop="transformers"),
    )
    source, there = ragged(1)
    together = beam(Stepped(marian(1, 1.0), source, there), constraints)
    for i, found in enumerate(together):
        (alone,) = beam(Stepped(marian(1, 1.0), source[i : i + 1], there[i : i + 1]), constraints)
        assert [one.tokens for one in alone] == [one.tokens for one in found]


@pytest.mark.parametrize(
    ("stop", "over"),
    [
        (
            "transformers",
            "4 are finished and no active log p / n^1 (at its current n) beats the last",
        ),
        ("transformers-early", "4 are finished"),
        (
            "transformers-never",
            "4 are finished and no active log p / n^1 (at longest n) beats the last",
        ),
    ],
)
def test_the_formula_says_when_a_sentence_is_over(stop, over):
    beam = Beam(4, length="power", alpha=1, stop=stop)
    assert beam.formula == f"log p / n^1, ends when {over}"


@pytest.mark.parametrize(
    "wrong", [{"finished": 3}, {"early": False}, {"best": 6}, {"stop": "huggingface"}]
)
def test_options_of_other_rules_are_refused(wrong):
    with pytest.raises(BadInput):
        replace(Beam(5, stop="transformers"), **wrong)
