"""ERNIE: values of every head with and without task vectors, sizes, and phrases that are masked."""

import random

import pytest
import torch

from encoder_families import FAMILIES
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.papers import ernie
from verb import run

transformers = pytest.importorskip("transformers")

FAMILY = FAMILIES["ernie"]


def shape(number: int) -> dict[str, object]:
    """Drawn sizes and settings; every other shape has task vectors."""
    draw = random.Random(number)
    heads, tasks = draw.randint(1, 4), {"task_type_vocab_size": draw.randint(1, 16)}
    return {
        "num_attention_heads": heads,
        "hidden_size": heads * draw.randint(1, 5),
        "num_hidden_layers": draw.randint(1, 3),
        "intermediate_size": draw.randint(1, 30),
        "type_vocab_size": draw.choice([2, 4]),
        "hidden_act": draw.choice(["gelu", "relu", "gelu_new"]),
        "layer_norm_eps": draw.choice([1e-12, 1e-5]),
        "tie_word_embeddings": draw.random() < 0.7,
        "use_task_id": number % 2 == 0,
        **(tasks if draw.random() < 0.5 else {}),
    }


@pytest.mark.thinned
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", FAMILY.heads)
def test_every_head_agrees_on_ragged_rows_of_random_shapes(kind, number, tmp_path):
    FAMILY.check_values(kind, shape(4 * [*FAMILY.heads].index(kind) + number), tmp_path)


def test_no_architecture_is_left_out():
    known = {name for name in dir(transformers) if name.startswith("ErnieFor")}
    assert {"ErnieModel"} | known == {*FAMILY.heads} == {*ernie.ARCHITECTURES.heads}


def test_the_vector_of_the_task_is_read(tmp_path):
    """Without it every value is another."""
    theirs = FAMILY.reference("ErnieModel")
    theirs.save_pretrained(tmp_path)
    loaded = folders.read(tmp_path)
    table = loaded.module.trunk.embed.norm.task.weight
    assert torch.equal(table, theirs.embeddings.task_type_embeddings.weight) and len(table) == 3
    assert loaded.facts.trunk.embed.task_types == 3


def test_a_decoder_is_refused(tmp_path):
    FAMILY.reference("ErnieForCausalLM", is_decoder=True).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match="is_decoder is True, and only False is supported"):
        folders.read(tmp_path)


@pytest.mark.parametrize("wrong", [{"use_task_id": 1}, {"task_type_vocab_size": 0}])
def test_keys_of_tasks_that_say_nothing(wrong):
    with pytest.raises(BadInput, match=r"^use_task_id must be true or false, and task_type_vocab_"):
        ernie.HF.facts_of({"use_task_id": True, **wrong}, ())


@pytest.mark.parametrize("wrong", [{"normed": False}, {"task_types": -1}])
def test_an_embedding_that_cannot_have_tasks(wrong):
    with pytest.raises(BadInput, match=r"task_types (needs normed|must be at least 0)"):
        change(ernie.LARGE, **wrong)


COUNTS = {"base": 99_866_112, "large": 335_147_008}


@pytest.mark.parametrize("size", COUNTS)
def test_sizes_are_those_of_the_reference(size):
    facts = ernie.PAPER.sizes[size]
    config = transformers.ErnieConfig(**ernie.HF.config_of(facts))
    with torch.device("meta"):
        expected = transformers.ErnieModel(config).num_parameters()
    assert ernie.PAPER.parameters(facts) == expected == COUNTS[size]
    assert config.use_task_id == (size == "large")


def test_an_empty_config_is_the_default_of_the_reference():
    facts = ernie.HF.facts_of({}, ("pooler.dense.weight",))
    with torch.device("meta"):
        expected = transformers.ErnieModel(transformers.ErnieConfig()).num_parameters()
    assert ernie.PAPER.parameters(facts) == expected
    assert change(facts, task_types=3) != facts == ernie.HF_DEFAULTS


def test_phrases_are_masked_in_training(tmp_path):
    (tmp_path / "phrases.txt").write_text("old sailor\nlighthouse keeper\nCharles Babbage\n")
    objective = 'masked-lm = { lexicon = "phrases.txt" }\nnext-sentence = false'
    model = FAMILY.pretrain(tmp_path, objective)
    (filled,) = model.fill(["The [MASK] [MASK] mended his nets."])
    assert len(filled.blanks) == 2
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    assert type(theirs) is transformers.ErnieForMaskedLM
    (tmp_path / "phrases.txt").write_text("old sailor\n")
    order = ("train", tmp_path / "r.toml", "--data", tmp_path, "--out", tmp_path / "run")
    assert "not bit-exact with the interrupted run: data was" in run(*order, "--resume").stderr
