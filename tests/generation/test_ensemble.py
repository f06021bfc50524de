import numpy as np
import pytest
import torch

from closeness import SCALARS
from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, Ensemble
from regard.generation.step import MEANS

from .toy import BOS, EOS, Toy

LIMITS = Constraints(BOS, EOS, 6)


@pytest.mark.parametrize("how", MEANS)
def test_identical_models_agree_with_one(how):
    toy, beam = Toy(1, vocabulary=5), Beam(4, best=3)
    together = beam(Ensemble([toy.open(range(5)) for _ in range(3)], how), LIMITS)
    for found, alone in zip(together, beam(toy.open(range(5)), LIMITS), strict=True):
        assert [one.tokens for one in found] == [one.tokens for one in alone]
        scores = [one.score for one in alone]
        assert [one.score for one in found] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("how", MEANS)
def test_the_mean_is_a_distribution_over_what_the_models_say(how):
    first, second = Toy(1), Toy(2)
    ensemble = Ensemble([first.open([0, 1]), second.open([0, 1])], how)
    found = ensemble.step(torch.full((2,), BOS)).exp().numpy()
    for sentence in range(2):
        p, q = np.exp(first.logprobs(sentence, ())), np.exp(second.logprobs(sentence, ()))
        expected = (p + q) / 2 if how == MEANS[0] else np.sqrt(p * q) / np.sqrt(p * q).sum()
        assert found[sentence] == pytest.approx(expected, **SCALARS)


def test_every_state_is_picked():
    states = [Toy(1).open([0, 1, 2]), Toy(2).open([0, 1, 2])]
    ensemble = Ensemble(states)
    ensemble.select_rows(torch.tensor([2, 0]))
    assert ensemble.rows == 2
    assert [state.pairs for state in states] == [[(2, ()), (0, ())]] * 2


def test_what_all_models_are_certain_of_stays_certain():
    class Certain(Toy):
        def logprobs(self, sentence, prefix):
            return np.array([0.0, -np.inf, -np.inf], dtype=np.float32)

    ensemble = Ensemble([Certain(0).open([0]) for _ in range(3)])
    assert ensemble.step(torch.tensor([BOS]))[0].tolist() == [0.0, -torch.inf, -torch.inf]


def test_ensembles_that_make_no_sense():
    with pytest.raises(BadInput):
        Ensemble([])
    with pytest.raises(BadInput):
        Ensemble([Toy(0).open([0])], how="median")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        Ensemble([Toy(0).open([0]), Toy(0).open([0, 1])])
