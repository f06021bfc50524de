"""The public face."""

import pytest
import torch

import regard
from regard import Model
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.inference.inputs import VERBS
from regard.inside.align import AlignmentMethod
from small_bert import model as small_encoder
from small_mistakes import TRANSLATORS, small_translator
from small_positions import placed


@pytest.fixture(scope="module")
def model(small_run):
    return regard.load(small_run / "run" / "model", "cpu")


def test_names_to_begin_with():
    for name in regard.__all__:
        assert hasattr(regard, name)


def test_what_it_is(model):
    assert model.paper.name == "Transformer"
    assert model.facts.source.stack.width == 16
    assert "Transformer" in repr(model)


@torch.inference_mode()
def run_by_hand(encoder, ids):
    """States of a row alone before each block, after the last one and after the last norm."""
    layout, states = Layout.rectangle(1, len(ids)), []
    x_TD = encoder.embed(torch.tensor(ids), layout)
    for block in encoder.blocks:
        states.append(x_TD)
        x_TD = block(x_TD, layout)
    return [*states, x_TD, encoder.norm(x_TD)]


def test_states_of_every_layer(model):
    texts = ["dog cow owl", "pig"]
    ids = [[*model.tokenizer.source.encode(text), model.tokenizer.source.eos] for text in texts]
    for layer in (-1, 0, 1, 2):
        by_text, by_ids = model.encode(texts, layer), model.encode(ids, layer)
        assert [len(one) for one in by_text] == [len(one) for one in ids]
        assert all(torch.equal(a, b) for a, b in zip(by_text, by_ids, strict=True))
    *by_layer, last = run_by_hand(model.module.source, ids[0])
    for layer, states_TD in zip((0, 1, 2, -1), (*by_layer, last), strict=True):
        torch.testing.assert_close(model.encode(texts, layer)[0], states_TD)
    with pytest.raises(BadInput, match="layer must be from 0"):
        model.encode(texts, 3)


def test_one_vector_per_text(model):
    texts = ["dog cow owl", "pig"]
    states = model.encode(texts)
    torch.testing.assert_close(model.embed(texts), torch.stack([one.mean(0) for one in states]))
    torch.testing.assert_close(
        model.embed(texts, "max"), torch.stack([one.amax(0) for one in states])
    )
    assert model.embed([]).shape == (0, 16)
    with pytest.raises(BadInput, match="pool"):
        model.embed(texts, "median")


@pytest.mark.parametrize(
    "dtype", [torch.float64, pytest.param(torch.bfloat16, marks=pytest.mark.native("bf16"))]
)
def test_vectors_are_float32_in_any_precision(dtype):
    for one in (placed(), small_encoder("states")):
        plain = one.embed(["ada cow", "dog"])
        one.module.to(dtype)
        assert one.embed(["ada cow", "dog"]).dtype == one.embed([]).dtype == torch.float32
        torch.testing.assert_close(one.embed(["ada cow", "dog"]), plain, atol=0.1, rtol=0.05)
        states = one.encode(["ada cow"])[0].float()
        torch.testing.assert_close(one.embed(["ada cow"])[0], states.mean(0))
    elsewhere = placed()
    elsewhere.module.to("meta")
    assert elsewhere.embed([]).device.type == "meta"


def test_logits_agree_with_scores(model):
    pairs = [("dog cow", "cow dog"), ("pig", "pig")]
    for (_, target), logits, scores in zip(
        pairs, model.logits(pairs), model.score(pairs), strict=True
    ):
        goals = [*model.tokenizer.target.encode(target), model.tokenizer.target.eos]
        found = logits.log_softmax(-1)[torch.arange(len(goals)), goals]
        assert found.tolist() == pytest.approx(scores, abs=1e-5)


@pytest.mark.gpu
def test_captured_steps_of_one_precision_do_not_answer_for_another(small_run):
    folder, texts = small_run / "run" / "model", ["dog cow owl", "pig"]
    full, halved = (regard.load(folder, "cuda", precision=kind) for kind in (None, "bf16"))
    fresh = full.translate(texts)
    for _ in range(4):  # more often than it takes to capture
        in_half, in_full = halved.translate(texts), full.translate(texts)
    scores = [[one.score for one in found] for (*found,) in (*in_full, *in_half)]
    assert scores[:2] == [[one.score for one in found] for found in fresh]
    assert scores[:2] != scores[2:]


def test_a_look_has_all_maps_and_words(model):
    seen = model.look("dog cow owl", "owl cow dog")
    assert [one.name for one in seen.maps] == ["cross", "encoder", "decoder"]
    cross = seen.map("cross")
    assert cross.keys == ("dog", "cow", "owl", "⟨end⟩")
    assert cross.queries == ("owl", "cow", "dog", "⟨end⟩")
    assert len(cross.layers) == 2
    for one in seen.maps:
        for layer in one.layers:
            torch.testing.assert_close(
                torch.from_numpy(layer.sum(-1)), torch.ones(layer.shape[:2]), atol=1e-5, rtol=0
            )
    pieces = model.look("dog cow owl", "owl cow dog", subwords=True)
    assert len(pieces.map("cross").keys) == len(model.tokenizer.source.encode("dog cow owl")) + 1
    assert "dog" in str(seen)


def test_a_look_without_a_target_translates_first(model):
    assert model.look("dog cow").summary == model.translate(["dog cow"])[0][0].text


def test_the_reading_is_kept_with_the_model(model, tmp_path):
    assert model.alignment_method == AlignmentMethod(layer=1)
    model.alignment_method = AlignmentMethod(layer=0, shifted=True)
    model.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy", "cpu")
    assert again.alignment_method == AlignmentMethod(layer=0, shifted=True)
    (links,) = again.align([("dog cow", "cow dog")])
    assert links <= {(s, t) for s in range(2) for t in range(2)}


def test_without_a_tokenizer_only_ids_are_served(model, tmp_path):
    model.save(tmp_path / "copy")
    (tmp_path / "copy" / "tokenizer.json").unlink()
    bare = regard.load(tmp_path / "copy", "cpu")
    assert bare.tokenizer is None
    ids = [[5, 6, 2]]
    assert torch.equal(bare.encode(ids)[0], model.encode(ids)[0])
    with pytest.raises(BadInput, match="no tokenizer files"):
        bare.translate(["dog"])


def test_a_tape_changes_what_the_model_says(model):
    pairs = [("dog cow", "cow dog")]
    headless = regard.Tape(edits={"target.blocks.*.cross.weights": regard.without_head(0)})
    assert not torch.equal(model.logits(pairs)[0], model.logits(pairs, tape=headless)[0])


@pytest.mark.parametrize("text", ["dog cow...", "dog?! cow", "?!", 'dog "cow."'])
def test_marks_that_share_a_token_can_be_looked_at(model, text):
    seen = model.look(text, text)
    for one in seen.maps:
        torch.testing.assert_close(
            torch.from_numpy(one.select().sum(-1)), torch.ones(len(one.queries)), atol=1e-5, rtol=0
        )
    assert list(model.align([(text, text)]))


def test_one_text_is_not_a_list_of_letters(model):
    with pytest.raises(BadInput, match="give a list of texts, not one text"):
        model.translate("dog cow")


def test_a_tokenizer_larger_than_the_model_is_refused(model, tmp_path):
    from regard.text.tokenizers.plain_tokenizer import train_subwords

    model.save(tmp_path / "copy")
    larger = train_subwords(["".join(map(chr, range(0x4E00, 0x4E00 + 400)))], "bpe", 900)
    larger.save(tmp_path / "copy" / "tokenizer.json")
    with pytest.raises(BadInput, match="but the model has 320"):
        regard.load(tmp_path / "copy", "cpu")


@pytest.mark.parametrize("device", ["foo", "cuda:99"])
def test_a_device_that_is_not_there(model, tmp_path, device):
    model.save(tmp_path / "copy")
    with pytest.raises(BadInput, match=f"device {device}"):
        regard.load(tmp_path / "copy", device)


def test_saving_replaces_another_model_only_with_the_option(small_run, owl_run, tmp_path):
    model, other = (
        regard.load(small_run / "run" / "model", "cpu"),
        regard.load(owl_run / "run" / "model", "cpu"),
    )
    model.save(tmp_path / "mine")
    before = (tmp_path / "mine" / "model.safetensors").read_bytes()
    with pytest.raises(BadInput, match=r"mine: already exists; save\(\.\.\., overwrite=True\)"):
        other.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "model.safetensors").read_bytes() == before
    model.save(tmp_path / "mine")  # where it was saved to
    regard.load(tmp_path / "mine", "cpu").save(tmp_path / "mine")  # and where it came from
    other.save(tmp_path / "mine", overwrite=True)
    assert regard.load(tmp_path / "mine", "cpu").paper is other.paper
    with pytest.raises(BadInput, match="mine: holds a model in another format"):
        other.save(tmp_path / "mine", "hf", overwrite=True)
    assert regard.load(tmp_path / "mine", "cpu").paper is other.paper


def test_the_folder_of_a_run_names_the_folder_of_its_model(small_run):
    run = small_run / "run"
    with pytest.raises(BadInput, match=f"it has no config.json; its model is in {run / 'model'}$"):
        regard.load(run, "cpu")


def test_a_wrong_method_names_the_right_one():
    model = Model(small_translator(next(iter(TRANSLATORS))))
    message = r"use regard translate \(in Python, translate\(\)\)"
    for wrong in (model.predict, model.fill):
        with pytest.raises(BadInput, match=message):
            wrong(["the owl"])
    for verb in {*VERBS.values(), "embed", "translate"}:
        assert callable(getattr(Model, verb))
