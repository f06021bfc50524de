"""The public face of encoders that see both ways."""

import pytest
import torch

from regard.api import Model, load
from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.edits import without_head
from small_bert import LONGEST, SENTENCES, model, small_bert, vocabulary

LONG = " ".join(SENTENCES)


@pytest.fixture(scope="module")
def states():
    return model("states")


def test_states_of_every_layer(states):
    texts = [*SENTENCES, LONG]
    ids = [[vocabulary().cls, *vocabulary().words.encode(one)] for one in texts]
    ids = [[*one[: LONGEST - 1], vocabulary().sep] for one in ids]
    for layer in (-1, 0, 1, 2):
        by_text, by_ids = states.encode(texts, layer), states.encode(ids, layer)
        assert [len(one) for one in by_text] == [len(one) for one in ids]
        assert all(torch.equal(a, b) for a, b in zip(by_text, by_ids, strict=True))
    assert torch.equal(states.encode(texts, 2)[0], states.encode(texts)[0])
    with pytest.raises(BadInput, match=r"layer must be from 0 .* to 2, or -1 .*, not 3"):
        states.encode(texts, 3)


def test_pairs_of_texts(states):
    pair = ("The storm", "came in")
    row = vocabulary().row(*map(vocabulary().words.encode, pair))
    (both,) = states.encode([pair])
    assert torch.equal(both, states.encode([row])[0])
    flat = states.encode([row.tokens.tolist()])[0]
    assert both.shape == flat.shape and not torch.equal(both, flat)


def test_logits_by_what_the_model_says():
    texts = ["The storm came in.", "cat"]
    lengths = [len(vocabulary().words.encode(one)) + 2 for one in texts]
    vocab = len(vocabulary().words)
    shapes = {
        "words": [(length, vocab) for length in lengths],
        "tags": [(length, 5) for length in lengths],
        "answer": [(length, 2) for length in lengths],
        "one": [(3,), (3,)],
        "choose": [(1,), (1,)],
    }
    for kind, wanted in shapes.items():
        assert [tuple(one.shape) for one in model(kind).logits(texts)] == wanted
    with pytest.raises(BadInput, match=r"this model has no output head; use encode\(\)"):
        model("states").logits(texts)


def test_masks_are_masks_to_those_who_fill_them():
    (masked,) = model("words").logits(["The [MASK] came in."])
    ids = [vocabulary().cls, *vocabulary().masked("The [MASK] came in."), vocabulary().sep]
    assert torch.equal(masked, model("words").logits([ids])[0])


def test_a_tape_changes_what_the_model_says():
    one = model("one")
    headless = Tape(edits={"trunk.blocks.*.attention.weights": without_head(0)})
    assert not torch.equal(one.logits(["cat"])[0], one.logits(["cat"], tape=headless)[0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "input 2: has no tokens"),
        ([5] * (LONGEST + 1), "49 tokens, but the model has 48 positions"),
        ([999], "999 is not in the vocabulary"),
        ([-1], "-1 is not in the vocabulary"),
        (TokenRow([5, 6], [0, 2]), "one text at a time"),
    ],
)
def test_what_cannot_be_read_is_reported(states, given, message):
    with pytest.raises(BadInput, match=message):
        states.encode(["cat", given])


def test_one_text_is_not_a_list_of_letters(states):
    for do in (states.encode, states.embed, states.predict, states.fill, states.logits):
        with pytest.raises(BadInput, match="give a list of texts, not one text"):
            do("cat")


def test_what_an_encoder_does_not_do(states):
    with pytest.raises(BadInput, match="BERT reads no source: it cannot translate"):
        states.translate(["cat"])


def test_others_are_no_encoders(small_run):
    translator = load(small_run / "run" / "model", "cpu")
    with pytest.raises(
        BadInput, match="Transformer is an encoder-decoder: this needs a model with one trunk"
    ):
        translator.fill(["[MASK]"])
    unit = translator.embed(["dog cow"], normalise=True)
    assert unit.norm().item() == pytest.approx(1, abs=1e-5)


def test_without_a_tokenizer_only_ids_are_served(states):
    stored = small_bert()
    bare = Model(type(stored)(stored.paper, stored.facts, stored.module, None, {}))
    ids = [[2, 7, 3]]
    assert torch.equal(bare.encode(ids)[0], states.encode(ids)[0])
    assert torch.equal(bare.embed(ids), states.embed(ids))
    for do in (bare.encode, bare.embed):
        with pytest.raises(BadInput, match="no tokenizer files"):
            do(["cat"])


@pytest.mark.parametrize("kind", ["one", "several", "number", "tags", "answer", "choose", "words"])
@pytest.mark.parametrize("format", ["regard", "hf"])
def test_a_folder_says_the_same(tmp_path, kind, format):
    before = model(kind)
    before.save(tmp_path / "copy", format)
    after = load(tmp_path / "copy", "cpu")
    asked = {
        "answer": [("Who?", SENTENCES[0])],
        "choose": [("The storm", ["came", "sings"])],
        "words": ["The [MASK] came."],
    }.get(kind, SENTENCES)
    do = "fill" if kind == "words" else "predict"
    assert getattr(after, do)(asked) == getattr(before, do)(asked)


def test_notes_that_make_no_sense_are_reported():
    answering, embedding = model("answer"), model("states")
    answering.notes["threshold"] = 2.5
    assert answering.predictor.threshold == 2.5
    answering.notes["threshold"] = "high"
    with pytest.raises(BadInput, match=r"notes\.threshold"):
        answering.predict([("Who?", "cat")])
    for wrong in ("mean", {"longest": "12"}):
        embedding.notes["embedding"] = wrong
        with pytest.raises(BadInput, match=r"notes\.embedding"):
            embedding.embed(["cat"])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("one", lambda said: f"{said.label} {said.probability:.3f}"),
        (
            "several",
            lambda said: ", ".join(f"{n} {said.probabilities[n]:.3f}" for n in said.labels),
        ),
        ("number", lambda said: f"likeness {said.value:.3f}"),
    ],
)
def test_a_look_at_a_classifier_shows_what_it_predicts(kind, says):
    one = model(kind)
    for texts in (("The old sailor",), ("The old sailor", "a cat")):
        (said,) = one.predict([texts[0] if len(texts) == 1 else texts])
        line, seen = says(said) or "no label", one.look(*texts)
        assert seen.prediction == said
        assert line in seen.text(100).splitlines()
        assert line in seen.svg() and line in seen.html()
    assert model("tags").look("cat").prediction is None
    assert model("states").look("cat").prediction is None
