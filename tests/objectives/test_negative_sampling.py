"""Words in context against words drawn at random: samples, loss, and the words that fit a gap."""

import tomllib

import numpy as np
import pytest
import torch

import regard
from closeness import PROBABILITIES, VALUES
from regard.core.batch import BatchLimits, TokenRow
from regard.core.errors import BadInput
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import sentence_rows
from regard.models.facts import change
from regard.models.papers import bert, context2vec, ma
from regard.models.papers.context2vec import ContextHead
from regard.objectives.negative_sampling import NegativeSampling
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.text.tokenizers.word_level import WordTokenizer, WordVocabulary
from regard.text.vocabulary import Lexicon
from regard.training.recipe import read
from regard.training.recipe_files import find
from small_documents import KINDS, RECIPE, write_animals

TOKENIZER = WordTokenizer(WordVocabulary(Lexicon(("<UNK>", "<S>", "</S>", *"abcd"))))
COUNTS = np.array([9, 0, 0, 8, 4, 2, 0])  # of <UNK> <S> </S> a b c d
SMALL = change(context2vec.LAPTOP, vocab=7, width=4, embedding=3)


def objective(**settings):
    return NegativeSampling(counts_V=COUNTS, **settings)


def annotated(texts, key=(1, 0), **settings):
    rows = [TOKENIZER.row(TOKENIZER.words.encode(text)) for text in texts]
    given = [AnnotatedRow(row, {}, {}) for row in rows]
    return objective(**settings).annotator(TOKENIZER)(given, np.arange(len(rows)), key)


def test_each_word_has_its_neighbours_and_words_that_were_drawn():
    first, second = annotated(["a c x b", "x"], negatives=2)
    before, after, at, word, *drawn = first.positions["context"]
    assert at.tolist() == [1, 2, 4] and word.tolist() == [3, 5, 4]  # the unknown word has none
    assert before.tolist() == [0, 1, 3] and after.tolist() == [2, 3, 5]
    assert {*np.concatenate(drawn).tolist()} <= {3, 4, 5}
    assert second.positions["context"].shape == (6, 0)
    again, other = (annotated(["a c x b"], key, negatives=2)[0] for key in ((1, 0), (1, 1)))
    assert np.array_equal(again.positions["context"], first.positions["context"])
    assert not np.array_equal(other.positions["context"], first.positions["context"])


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_words_are_drawn_by_their_frequency_to_a_power(power):
    rows = annotated(["a b c"] * 200, negatives=20, power=power)
    drawn = np.concatenate([row.positions["context"][4:].ravel() for row in rows])
    shares = np.bincount(drawn, minlength=7) / len(drawn)
    expected = np.array([0, 0, 0, 8, 4, 2, 0]) ** power * (COUNTS > 0)
    expected[0] = 0
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.02)


def test_words_are_counted_in_all_documents():
    documents = Documents.of([[[3, 3], [4]], [[5, 3]]])
    assert NegativeSampling().count_words([documents], 7).counts_V.tolist() == [0, 0, 0, 3, 1, 1, 0]
    plan = sentence_rows(documents, TOKENIZER.template.frame(1), 3)
    rows = [row.tokens.tolist() for row, _ in plan.read(np.arange(len(plan)))]
    assert rows == [[1, 3, 2], [1, 3, 2], [1, 4, 2], [1, 5, 2], [1, 3, 2]]


def model_of(facts=SMALL):
    torch.manual_seed(0)
    model = facts.with_heads(ContextHead()).build().eval()
    torch.nn.init.normal_(model.heads["context"].words.weight)
    return model


def test_the_loss_is_that_of_word2vec():
    """-log σ(c·w) - Σ log σ(-c·w_i), word by word."""
    examples, model = annotated(["a b", "c a b b"], negatives=3), model_of()
    taught, head = objective(negatives=3), model.heads["context"]
    expected = 0.0
    for example in examples:
        row = torch.tensor(np.asarray(example.row.tokens, np.int64))
        embedded = model.trunk.embed.token(row)
        states, _ = model.trunk.layers.layers[0].kernel(embedded)
        ahead, behind = states.split(4, dim=-1)
        for before, after, _, word, *drawn in example.positions["context"].T.tolist():
            around = torch.cat([ahead[before], behind[after]])
            context = head.out(torch.relu(head.dense(around)))
            scores = [torch.sigmoid(context @ head.words.weight[word])]
            scores += [torch.sigmoid(-(context @ head.words.weight[one])) for one in drawn]
            expected -= sum(map(torch.log, scores))
    for limits in (None, BatchLimits(16, 4, 8)):
        batch = taught.collate(examples, limits)
        loss, likelihood = taught(model, batch)
        torch.testing.assert_close(loss, expected, **VALUES)
        assert likelihood == loss and batch.weight == 6
        correct = taught.dev_sums(model(batch.inputs, positions=batch.positions), batch)[2]
        assert 0 <= correct <= 6


def test_a_context_does_not_know_its_word():
    model, around = model_of(), torch.tensor([[1], [3], [2]])
    rows = [TokenRow([1, 3, word, 5, 2], [0] * 5) for word in (3, 4, 6)]
    inputs = [objective().read([row]) for row in rows]
    logits = [model(one, positions={"context": around}).by_head["context"] for one in inputs]
    assert logits[0].shape == (1, 7)
    assert torch.equal(logits[0], logits[1]) and torch.equal(logits[0], logits[2])


@pytest.mark.parametrize(
    "facts", [change(SMALL, depth=2), change(SMALL, direction="forward"), bert.TINY]
)
def test_a_model_whose_context_knows_the_word_is_refused(facts):
    with pytest.raises(BadInput, match="one bidirectional recurrent layer"):
        Sum(NegativeSampling()).check(facts)


def test_a_model_that_reads_characters_beside_words_is_refused():
    with pytest.raises(BadInput, match="this model reads characters"):
        Sum(NegativeSampling()).check(ma.BASE)


def test_label_smoothing_is_refused():
    with pytest.raises(BadInput, match=r"train.smoothing cannot be used with task 'pretrain'"):
        read(find("context2vec-tour"), ["train.smoothing=0.1"])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = write_animals(tmp_path_factory.mktemp("animals"), documents=60)
    content = tomllib.loads(RECIPE)
    content["text"] = {"vocab": 60, "lower": True}
    content["model"] = {"paper": "context2vec", "change": {"width": 16, "embedding": 16}}
    content["train"] |= {"steps": 150, "evaluate_every": 150, "checkpoint_every": 150}
    content["optimiser"] = {"rate": 0.03, "schedule": "constant", "warmup": 5}
    events = list(regard.train(content, data=folder, out=folder / "run"))
    return events, regard.load(folder / "run" / "model", "cpu")


@pytest.mark.slow
def test_the_words_that_fit_a_gap_are_found(run):
    _, model = run
    seal, eagle = model.fill(["Seal [MASK].", "Lizard sunbathing ibex [MASK]."], top=3)
    assert seal.text == "Seal otter." and seal.blanks[0][0].word == KINDS["water"][1]
    assert eagle.blanks[0][0].word == KINDS["stone"][1]
    assert 0 < seal.blanks[0][0].probability < 1 and len(seal.blanks[0]) == 3
    both = model.fill(["Seal [MASK] seal [MASK]."])[0]
    assert len(both.blanks) == 2 and both.text.count("otter") == 2
    (known,) = model.fill(["Seal otter xyz [MASK]."])
    (gap,) = model.fill(["Seal otter [MASK] [MASK]."])
    for one, other in zip(gap.blanks[1], known.blanks[0], strict=True):  # a gap is unknown
        assert one.word == other.word
        assert one.probability == pytest.approx(other.probability, **PROBABILITIES)
    special = {"<UNK>", "<S>", "</S>"}
    assert special.isdisjoint(one.word for one in model.fill(["[MASK]"], top=19)[0].blanks[0])
    with pytest.raises(BadInput, match=r"the text has no mask token \[MASK\]"):
        model.fill(["seal"])


@pytest.mark.gpu
def test_gaps_are_filled_on_a_gpu(run):
    _, model = run
    texts = ["Seal [MASK].", "Lizard sunbathing ibex [MASK]."]
    expected = [filled.text for filled in model.fill(texts)]
    try:
        assert [filled.text for filled in model.to("cuda").fill(texts)] == expected
    finally:
        model.to("cpu")


def test_the_development_set_is_measured_by_its_accuracy(run):
    events, model = run
    figures = [event.verdict.figures for event in events if hasattr(event, "verdict")]
    assert figures[-1]["accuracy"] > 80 and "perplexity" not in figures[-1]
    assert model.encode(["seal otter"])[0].shape[1] == 32
