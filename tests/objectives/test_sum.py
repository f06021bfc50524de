"""A sum of objectives is its members, each with a head of its own, over the same rows."""

import pytest
import torch

from regard.core.batch import BatchLimits, TokenRow
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.label_heads import LabelHead, MLMHead, SentencePairHead
from regard.models.papers import bert
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.next_sentence import NextSentence
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum

TINY = change(bert.TINY, vocab=40, depth=1, width=8, heads=2, inner=12, longest=10, dropout=0.0)
SMALL = change(TINY, attention_dropout=0.0, init_std=0.3)
LIMITS = pytest.mark.parametrize("limits", [None, BatchLimits(32, 6, 10)], ids=["free", "fixed"])


def row(tokens, second, positions, originals, follows):
    segments = [int(at >= second) for at in range(len(tokens))]
    targets = {"mlm": originals, "sentence_pair": follows}
    return AnnotatedRow(TokenRow(tokens, segments), {"mlm": positions}, targets)


EXAMPLES = [
    row([1, 3, 9, 3, 2, 7, 2], 5, [1, 3], [8, 9], 0),
    row([1, 5, 2, 3, 2], 3, [3], [4], 1),
    row([1, 30, 31, 2, 3, 33, 3, 2], 4, [2, 4, 6], [31, 6, 7], 1),
]


def tensors(batch):
    return {
        "tokens": batch.inputs.tokens_T,
        **{f"targets of {head}": targets for head, targets in batch.targets.items()},
        **{f"positions of {head}": positions for head, positions in batch.positions.items()},
    }


def gradients(objective, model, batch):
    model.zero_grad()
    loss, likelihood = objective(model, batch)
    loss.sum().backward()
    of_model = {name: one.grad.clone() for name, one in model.named_parameters()}
    return loss.detach(), likelihood.detach(), of_model


@LIMITS
@pytest.mark.parametrize("member", [MaskedLM(smoothing=0.1), NextSentence()], ids=["mlm", "pair"])
def test_a_sum_of_one_is_its_member_bit_for_bit(member, limits):
    alone = Sum(member)
    torch.manual_seed(0)
    model = alone.fit(SMALL).build()
    batches = [one.collate(EXAMPLES, limits) for one in (member, alone)]
    found, wanted = (tensors(batch) for batch in batches)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert batches[0].weight == batches[1].weight
    assert [alone.weight(one) for one in EXAMPLES] == [member.weight(one) for one in EXAMPLES]
    both = [
        gradients(objective, model, batch)
        for objective, batch in zip((member, alone), batches, strict=True)
    ]
    assert torch.equal(both[0][0], both[1][0]) and torch.equal(both[0][1], both[1][1])
    assert all(torch.equal(one, both[1][2][name]) for name, one in both[0][2].items())


@LIMITS
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_a_sum_is_the_losses_of_its_members(limits, turned):
    """Apart, for each is a mean over targets of its own; in one forward pass."""
    members = [MaskedLM(smoothing=0.1), NextSentence()][:: -1 if turned else 1]
    torch.manual_seed(0)
    both = Sum(*members)
    model = both.fit(SMALL).build()
    batch = both.collate(EXAMPLES, limits)
    loss, likelihood, of_model = gradients(both, model, batch)
    assert loss.shape == likelihood.shape == (2,)
    apart = [gradients(one, model_of(model), one.collate(EXAMPLES, limits)) for one in members]
    for number, (alone, alone_likelihood, _) in enumerate(apart):
        assert torch.equal(loss[number], alone) and torch.equal(
            likelihood[number], alone_likelihood
        )
    for name, found in of_model.items():
        torch.testing.assert_close(found, sum(one[2][name] for one in apart))
    assert batch.weight == sum(one.collate(EXAMPLES, limits).weight for one in members)
    for example in EXAMPLES:
        assert both.weight(example).tolist() == [one.weight(example) for one in members]


def model_of(model):
    """The same model; heads that an objective does not teach get gradients of zero."""

    def forward(inputs, *, positions, tape):
        outputs = model(inputs, positions=positions, tape=tape)
        idle = sum(logits.sum() * 0 for logits in outputs.by_head.values())
        by_head = {name: logits + idle for name, logits in outputs.by_head.items()}
        return outputs._replace(by_head=by_head)

    forward.zero_grad, forward.named_parameters = model.zero_grad, model.named_parameters
    return forward


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ((), "objective: list at least one objective"),
        ((NextSentence(), NextSentence()), "as both make the rows; choose one"),
        ((MaskedLM(), NextSentence(), NextSentence()), "as both make the rows; choose one"),
    ],
)
def test_sums_that_make_no_sense_are_refused(members, message):
    with pytest.raises(BadInput, match=message):
        Sum(*members)


def test_a_model_gets_the_heads_of_all_members_and_no_others():
    labelled = SMALL.with_heads(LabelHead(3))
    words, both = Sum(MaskedLM()).fit(labelled), Sum(MaskedLM(), NextSentence()).fit(labelled)
    assert words.output_heads == (MLMHead(),) and words.pool is None
    assert both.output_heads == (MLMHead(), SentencePairHead()) and both.pool == SMALL.pool
    assert words.trunk == both.trunk == SMALL.trunk and both.init_std == SMALL.init_std


def test_a_head_is_taught_by_one_member():
    with pytest.raises(BadInput, match="masked-lm and masked-lm train the same head; choose one"):
        Sum(MaskedLM(), MaskedLM(rate=0.5))


def test_next_sentence_needs_a_pooled_state_and_segments():
    with pytest.raises(BadInput, match="pool: the head sentence_pair reads whole rows"):
        Sum(NextSentence()).fit(change(SMALL, pool=None))
    for segments in (0, 1):
        facts = Sum(NextSentence()).fit(change(SMALL, segments=segments))
        with pytest.raises(BadInput, match="segment"):
            Sum(NextSentence()).check(facts)
