"""Training cost, held against a count of the products that really happen."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.ground.tape import Tape
from regard.models.cost import training_flops
from regard.models.facts import change
from regard.models.transformer import BASE, Transformer
from regard.objectives.translated import Translated

FACTS = change(BASE, vocab=40, width=16, inner=48, heads=2, depth=3, dropout=0.0)


@pytest.mark.parametrize("changes", [{}, {"key": 4, "value": 12}, {"source.depth": 1}])
def test_it_is_three_times_what_torch_counts_forward(changes):
    facts = change(FACTS, **changes)
    objective = Translated(1, 2)
    pairs = [([5] * 9, [6] * 7), ([5] * 9, [6] * 7)]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        # torch cannot see into its own fused kernel, so the definition is counted
        objective(Transformer(facts), objective.collate(pairs), Tape("*.weights"))
    lengths = [objective.length(pair) for pair in pairs]
    full_causal = 2 * sum(t * t for _, t in lengths) / 2 * facts.target.stack.depth * _both(facts)
    forward = training_flops(facts, lengths) / 3 + full_causal  # torch counts the masked half too
    assert forward == pytest.approx(counter.get_total_flops(), rel=1e-6)


def _both(facts):
    stack = facts.target.stack
    key = stack.width // stack.heads if stack.key is None else stack.key
    return stack.heads * (key + (key if stack.value is None else stack.value))
