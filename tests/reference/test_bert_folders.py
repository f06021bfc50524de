"""F9: BERT folders of every kind are read, go back bit for bit, and ours are read by others."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import regard
from bert_folders import (
    HEADS,
    agree,
    our_values,
    quietly,
    read_by_reference,
    reference,
    save,
    their_values,
    vocabulary,
    write_bert,
)
from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.papers import bert
from regard.models.pools import FirstToken, MeanPool
from regard.models.positions import Sinusoid
from regard.text.label_sets import LABEL_SETS, SingleLabelSet
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights.files import read_folder, write_tensors

transformers = pytest.importorskip("transformers")

ROWS = [
    TokenRow([2, 7, 30, 3], [0, 0, 0, 0]),
    TokenRow([2, 9, 3, 11, 12, 3], [0, 0, 0, 1, 1, 1]),
    TokenRow([2, *range(5, 18), 3], [0] * 15),
]
WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"


def pickled(folder, tensors):
    torch.save(tensors, folder / PICKLE)


def in_parts(folder, tensors):
    names = sorted(tensors)
    places = {name: f"model-{1 + i % 3}-of-3.safetensors" for i, name in enumerate(names)}
    for part in set(places.values()):
        write_tensors(folder / part, {n: tensors[n] for n in names if places[n] == part})
    index = {"metadata": {}, "weight_map": places}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))


def in_pickled_parts(folder, tensors):
    names = sorted(tensors)
    places = {name: f"pytorch_model-{1 + i % 2}-of-2.bin" for i, name in enumerate(names)}
    for part in set(places.values()):
        torch.save({n: tensors[n] for n in names if places[n] == part}, folder / part)
    index = {"metadata": {}, "weight_map": places}
    (folder / f"{PICKLE}.index.json").write_text(json.dumps(index))


def as_of_2018(folder, tensors):
    """Norms had Greek names, positions their numbers, and tied tensors all of their names."""
    words = tensors["bert.embeddings.word_embeddings.weight"]
    tensors = {**tensors, "bert.embeddings.position_ids": torch.arange(16)[None]}
    if "cls.predictions.bias" in tensors:
        tensors["cls.predictions.decoder.weight"] = words
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for new, before in old.items():
        tensors = {name.replace(new, before): one for name, one in tensors.items()}
    pickled(folder, tensors)


def bare(folder, tensors):
    write_tensors(folder / WEIGHTS, {n.removeprefix("bert."): one for n, one in tensors.items()})


def bare_as_of_2018(folder, tensors):
    as_of_2018(folder, tensors)
    tensors = torch.load(folder / PICKLE)
    pickled(folder, {n.removeprefix("bert."): one for n, one in tensors.items()})


def half(folder, tensors):
    write_tensors(folder / WEIGHTS, {name: one.half() for name, one in tensors.items()})


def bfloat16(folder, tensors):
    write_tensors(folder / WEIGHTS, {name: one.bfloat16() for name, one in tensors.items()})


def mixed_precision(folder, tensors):
    written = {
        name: one.half() if "LayerNorm" not in name else one for name, one in tensors.items()
    }
    write_tensors(folder / WEIGHTS, written)


WRITERS = (
    *(pickled, in_parts, in_pickled_parts, as_of_2018, bare, bare_as_of_2018),
    *(half, bfloat16, mixed_precision),
)


@pytest.fixture(scope="module")
def values(plain) -> dict[str, torch.Tensor]:
    """What the folder gives as it was written."""
    with torch.no_grad():
        return our_values(folders.read(plain), ROWS)


def prefixed(tensors):
    """The names of a model with a head, also for one that has none."""
    heads = ("bert.", "cls.", "classifier.", "qa_outputs.")
    return {n if n.startswith(heads) else "bert." + n: one for n, one in tensors.items()}


@pytest.fixture(scope="module", params=["states", "words and pairs", "one label", "answers"])
def plain(request, tmp_path_factory) -> Path:
    torch.manual_seed(0)
    return write_bert(tmp_path_factory.mktemp("hf") / "plain", request.param, text=True)


def rewritten(plain: Path, folder: Path, write) -> Path:
    """The same folder with its weights written otherwise."""
    shutil.copytree(plain, folder)
    (folder / WEIGHTS).unlink()
    write(folder, prefixed(read_folder(plain)))
    return folder


def assert_same_bits(one: Path, other: Path):
    here, there = read_folder(one), read_folder(other)
    assert here.keys() == there.keys()
    for name in here:
        assert here[name].dtype == there[name].dtype
        assert torch.equal(here[name].view(torch.uint8), there[name].view(torch.uint8)), name


def assert_same_folder(one: Path, other: Path):
    """In tensors to the bit, in settings to the word, in texts to the byte."""
    assert_same_bits(one, other)
    here, there = (json.loads((f / "config.json").read_text()) for f in (one, other))
    assert here == there
    texts = {path.name for path in one.iterdir() if path.name in EncoderTokenizer.FILES}
    assert {path.name for path in other.iterdir()} == {"config.json", WEIGHTS, *texts}
    assert texts
    for name in texts:
        assert (one / name).read_bytes() == (other / name).read_bytes()


def content(stored):
    """What tells the tokenizers and labels of two folders apart."""
    tokenizer = stored.tokenizer
    return stored.labels, tokenizer.names, tokenizer.longest, tokenizer.files


def there_and_back(folder: Path, tmp_path: Path):
    stored = folders.read(folder)
    folders.write(tmp_path / "direct", stored, "hf")
    folders.write(tmp_path / "ours", stored)
    again = folders.read(tmp_path / "ours")
    assert again.facts == stored.facts and content(again) == content(stored)
    folders.write(tmp_path / "back", again, "hf")
    for copy in ("direct", "back"):
        assert_same_folder(folder, tmp_path / copy)
    return stored


@pytest.mark.thinned
@pytest.mark.parametrize("head", HEADS)
def test_a_folder_as_it_is_written_today(head, tmp_path):
    there_and_back(write_bert(tmp_path / "folder", head, text=True), tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@torch.no_grad()
def test_a_folder_written_otherwise(plain, values, tmp_path, write):
    folder = rewritten(plain, tmp_path / "folder", write)
    stored = there_and_back(folder, tmp_path)
    found = our_values(stored, ROWS)
    near = 0.15 if write in (half, bfloat16, mixed_precision) else 0.0
    for name, value in values.items():
        torch.testing.assert_close(found[name], value, rtol=near, atol=near, msg=name)
    if write is not mixed_precision:  # of which the reference makes one
        agree(found, their_values(read_by_reference(folder), ROWS))


def test_parts_as_the_reference_writes_them(tmp_path):
    folder = write_bert(tmp_path / "folder", "words and pairs", text=True, shard="3KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 3
    there_and_back(folder, tmp_path)


def test_without_pooler(tmp_path):
    model = reference("states", pooler=False)
    stored = folders.read(save(model, tmp_path / "hf"))
    assert stored.facts.pool is None
    folders.write(tmp_path / "again", stored, "hf")
    assert_same_bits(tmp_path / "hf", tmp_path / "again")


@torch.no_grad()
def test_untied_words_have_two_biases(tmp_path):
    """Nothing reads the first, unless it is alone as in files of 2023."""
    folder = write_bert(tmp_path / "hf", "words", text=True, tie_word_embeddings=False)
    tensors = read_folder(folder)
    assert not torch.equal(tensors["cls.predictions.bias"], tensors["cls.predictions.decoder.bias"])
    stored = there_and_back(folder, tmp_path)
    agree(our_values(stored, ROWS), their_values(read_by_reference(folder), ROWS))
    tensors["cls.predictions.bias"] = tensors.pop("cls.predictions.decoder.bias")
    write_tensors(folder / WEIGHTS, tensors)
    alone = there_and_back(folder, tmp_path / "alone")
    logits = "heads.mlm.logits"
    assert torch.equal(our_values(alone, ROWS)[logits], our_values(stored, ROWS)[logits])


def test_what_a_folder_says_of_its_labels(tmp_path):
    names = {0: "bad", 1: "good", 2: "ugly"}
    said = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    several = {**said, "problem_type": "multi_label_classification"}
    for head, given, kind in (
        ("one label", said, "one"),
        ("one label", several, "several"),
        ("tags", said, "one"),
    ):
        changes = {"num_labels": 3, "classifier_dropout": 0.25, **given}
        folder = tmp_path / head / kind
        stored = there_and_back(write_bert(folder, head, text=True, **changes), folder / "copies")
        assert stored.labels == LABEL_SETS[kind](("bad", "good", "ugly"))
        (head,) = stored.facts.output_heads
        assert head.dropout == 0.25 and head.outputs == 3
    stored = folders.read(write_bert(tmp_path / "number", "a number", text=True))
    assert stored.labels.kind == "number" and stored.facts.head("label").dropout == 0.1


def test_settings_that_are_not_ours_survive(tmp_path):
    folder = write_bert(tmp_path / "hf", "words", text=True)
    config = json.loads((folder / "config.json").read_text())
    config |= {"gradient_checkpointing": False, "task": {"x": [1, None]}, "_name": "ä"}
    del config["tie_word_embeddings"], config["hidden_act"]
    (folder / "config.json").write_text(json.dumps(config))
    there_and_back(folder, tmp_path)


def test_only_what_changed_is_rewritten(tmp_path):
    folder = write_bert(tmp_path / "hf", "tags", text=True, classifier_dropout=0.1)
    stored = folders.read(folder)
    changed = replace(stored, facts=change(stored.facts, attention_dropout=0.3))
    folders.write(tmp_path / "again", changed, "hf")
    config = json.loads((folder / "config.json").read_text())
    again = json.loads((tmp_path / "again" / "config.json").read_text())
    assert again == {**config, "attention_probs_dropout_prob": 0.3}


FRESH = {
    "AutoModel": {},
    "AutoModelForMaskedLM": {"output_heads": (MLMHead(),), "pool": None},
    "AutoModelForPreTraining": {"output_heads": (MLMHead(), SentencePairHead())},
    "AutoModelForNextSentencePrediction": {"output_heads": (SentencePairHead(),)},
    "AutoModelForSequenceClassification": {"output_heads": (LabelHead(3, dropout=0.1),)},
    "AutoModelForTokenClassification": {"output_heads": (TokenLabelHead(5),), "pool": None},
    "AutoModelForQuestionAnswering": {"output_heads": (SpanHead(),), "pool": None},
    "AutoModelForMultipleChoice": {"output_heads": (ChoiceHead(dropout=0.1),)},
}


def fresh(*, labelled=True, kind=SingleLabelSet.kind, **changes) -> LoadedModel:
    """A model that never was a folder, wide awake."""
    vocab = len(vocabulary().words)
    small = {"width": 12, "depth": 2, "heads": 2, "inner": 20, "longest": 16, "vocab": vocab}
    facts = change(change(bert.BASE, **small), **changes)
    module = facts.build().eval()
    with torch.no_grad():
        for one in module.parameters():
            one.normal_(0.5, std=0.4)
    labels = None
    if labelled and (count := facts.sizes["labels"]):
        labels = LABEL_SETS[kind](tuple(f"label {i}" for i in range(count)))
    return LoadedModel(bert.PAPER, facts, module, vocabulary(), labels)


def read_whole(kind: str, folder: Path):
    """By ``transformers``, to which nothing may be missing or left over."""
    model, said = quietly(
        lambda: getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    )
    assert not any(said.values()), said
    return model.eval()


@pytest.mark.thinned
@pytest.mark.parametrize("kind", FRESH)
@torch.no_grad()
def test_a_model_that_never_was_a_folder(kind, tmp_path):
    stored = fresh(**FRESH[kind])
    folders.write(tmp_path / "hf", stored, "hf")
    model = read_whole(kind, tmp_path / "hf")
    assert type(model).__name__ in {name for name, _ in HEADS.values()}
    agree(our_values(stored, ROWS), their_values(model, ROWS))
    again = folders.read(tmp_path / "hf")
    assert again.facts == stored.facts and content(again) == content(stored)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = vocabulary()
    for pair in (("The old man reads.", "A dog."), ("His neighbour",)):
        row, said = text.row(*map(text.words.encode, pair)), tokenizer(*pair)
        assert (list(row.tokens), list(row.segments)) == (said.input_ids, said.token_type_ids)


def test_every_architecture_is_written_afresh():
    mapped = {kind.replace("AutoModel", "Bert") for kind in FRESH} - {"Bert"} | {"BertModel"}
    assert mapped == {name for name, _ in HEADS.values()}


@pytest.mark.parametrize("kind", LABEL_SETS)
def test_labels_of_a_fresh_model_reach_the_reference(kind, tmp_path):
    stored = fresh(output_heads=(LabelHead(4),), kind=kind)
    folders.write(tmp_path / "hf", stored, "hf")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "hf")
    assert config.num_labels == 4 and config.id2label[3] == "label 3"
    assert config.label2id["label 1"] == 1
    problem = {"one": "single_label", "several": "multi_label", "number": "regression"}[kind]
    assert config.problem_type.startswith(problem)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("judged", "head", "pool"),
    [("Sequence", LabelHead, FirstToken()), ("Token", TokenLabelHead, None)],
)
@pytest.mark.parametrize("outputs", [1, 2, 7])
def test_labels_without_names_are_counted(judged, head, pool, outputs, tmp_path):
    stored = fresh(output_heads=(head(outputs),), pool=pool, labelled=False)
    for number, one in enumerate((stored, replace(stored, tokenizer=None))):
        folders.write(tmp_path / str(number), one, "hf")
        again = folders.read(tmp_path / str(number))
        assert again.facts == stored.facts
        model = read_whole(f"AutoModelFor{judged}Classification", tmp_path / str(number))
        assert model.config.num_labels == outputs


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"norm": "pre"}, "stack.norm is 'pre', not 'post'"),
        ({"scaled": True}, "embed.scaled is True, not False"),
        ({"activation": "tanh"}, "stack.activation is 'tanh', not 'gelu'"),
        ({"position": Sinusoid()}, "embed.position.longest is None, not 512"),
        ({"offset": 2}, "embed.position.offset is 2, not 0"),
        ({"pool": FirstToken(dense=False)}, "pool.dense is False, not None"),
        ({"pool": MeanPool()}, "pool is MeanPool(), not None"),
        (
            {"output_heads": (LabelHead(2), ChoiceHead())},
            "output_heads.label.outputs is 2, not None",
        ),
        ({"output_heads": (NextTokenHead(),)}, "output_heads.next_token.tied is True, not None"),
        ({"output_heads": (LabelHead(2, dense="tanh"),)}, "label.dense is 'tanh', not None"),
        ({"output_heads": (MLMHead(), LabelHead(2))}, None),
        ({"output_heads": (MLMHead(), SpanHead(), LabelHead(2))}, None),
        (
            {"output_heads": (LabelHead(2), TokenLabelHead(3))},
            "output_heads.label.outputs is 2, not None",
        ),
    ],
)
def test_what_bert_cannot_express_is_refused(changes, said, tmp_path):
    stored = fresh(**changes)
    if said is None:  # a head beside another is expressed by its tensors
        folders.write(tmp_path / "hf", stored, "hf")
        assert folders.read(tmp_path / "hf").facts == stored.facts
        return
    with pytest.raises(BadInput, match="cannot express this model: ") as caught:
        folders.write(tmp_path / "hf", stored, "hf")
    assert said in str(caught.value) and not (tmp_path / "hf").exists()


def test_without_tokenizer_files(tmp_path):
    folder = write_bert(tmp_path / "hf", "one label")
    model = regard.load(folder, "cpu")
    assert model.tokenizer is None
    model.save(tmp_path / "again", format="hf")
    assert_same_bits(folder, tmp_path / "again")
