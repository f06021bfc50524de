"""What holds for all families: values, folders both ways, conversions, KV cache and tasks."""

import json

import pytest
import torch

from encoder_families import FAMILIES
from encoder_family import CLOSE, FILES
from regard.core.batch import pack_texts
from regard.models.folders import folder as folders

pytest.importorskip("transformers")

KINDS = [(name, kind) for name, family in FAMILIES.items() for kind in family.heads]
VALUES = [(name, kind, settings) for name, kind in KINDS for settings in FAMILIES[name].settings]
STORED = [(name, kind, settings) for name, kind in KINDS for settings in FAMILIES[name].stored]
# Conversions are compared by ids without segments, as every head of these families is.
CONVERTED = [
    *(case for case in KINDS if case[0] in ("albert", "electra", "modernbert", "roberta")),
    *((name, [*FAMILIES[name].heads][1]) for name in ("llama", "mistral", "qwen2")),
    *(("ernie", kind) for kind in ("ErnieModel", "ErnieForPreTraining", "ErnieForCausalLM")),
]
# Heads that tensors alone tell.
TOLD = [
    *(
        ("distilbert", kind)
        for kind, head in FAMILIES["distilbert"].heads.items()
        if head != "choice"
    ),
    *(("electra", kind) for kind in FAMILIES["electra"].heads),
    *(("modernbert", f"ModernBertFor{kind}") for kind in ("MaskedLM", "SequenceClassification")),
]
# The slow tests train every family on all tasks.
FAST = {
    "albert": "tag",
    "distilbert": "classify",
    "electra": "choose",
    "ernie": "answer",
    "gpt-2": "answer",
    "llama": "tag",
    "modernbert": "classify",
    "roberta": "tag",
    "spanbert": "answer",
    "xlnet": "choose",
}
TASKS = [
    pytest.param(name, task, marks=() if task == FAST[name] else pytest.mark.slow)
    for name in FAST
    for task in FILES
    if (name, task) != ("llama", "choose")  # it has no head for it
]


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "kind", "settings"), VALUES)
def test_every_head_agrees_on_ragged_rows(name, kind, settings, tmp_path):
    FAMILIES[name].check_values(kind, settings, tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "kind"), CONVERTED)
def test_a_conversion_is_checked_head_by_head(name, kind, tmp_path):
    FAMILIES[name].check_conversion(kind, tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "kind", "settings"), STORED)
def test_a_folder_comes_back_bit_for_bit(name, kind, settings, tmp_path):
    FAMILIES[name].check_folder(kind, tmp_path, **settings)


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_new_folder_is_read_by_the_reference(name, kind, tmp_path):
    FAMILIES[name].check_new_folder(kind, tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "kind"), TOLD)
def test_tensors_tell_the_head_where_no_architecture_does(name, kind, tmp_path):
    FAMILIES[name].reference(kind).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    for change in ({}, {"architectures": None}):
        config = json.loads(path.read_text())
        config.pop("architectures", None)
        path.write_text(json.dumps(config | change))
        (head,) = folders.read(tmp_path).facts.head_names or (None,)
        assert head == FAMILIES[name].heads[kind]


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.heads])
def test_a_folder_without_tokenizer_files_serves_ids(name, tmp_path):
    _, kind, *_ = FAMILIES[name].heads
    FAMILIES[name].check_ids(kind, tmp_path)


@pytest.mark.parametrize("name", ["gpt", "gpt-2", "llama", "mistral", "qwen2"])
@torch.no_grad()
def test_decoding_with_a_cache_gives_the_same_logits(name, tmp_path):
    """Prompts of different lengths, then one token more in every row."""
    _, kind, *_ = FAMILIES[name].heads
    theirs = FAMILIES[name].reference(kind)
    theirs.save_pretrained(tmp_path)
    module, rows = folders.read(tmp_path).module, [[5, 6, 7], [8], [9, 10]]
    cache = module.trunk.new_cache(rows=3, capacity=6)
    prompts = pack_texts(rows)
    module.decode(prompts.tokens_T, prompts.layout, cache=cache)
    for token in (20, 21):
        layout = cache.next_layout(torch.device("cpu"))
        logits_RV = module.decode(torch.full((3,), token), layout, cache=cache)
        rows = [[*row, token] for row in rows]
        whole = pack_texts(rows)
        logits = whole.layout.split(module(whole).by_head["next_token"])
        torch.testing.assert_close(logits_RV, torch.stack([one[-1] for one in logits]), **CLOSE)
    assert module.trunk.new_cache(3, 6).layers[0].past is None
    key_heads = getattr(theirs.config, "num_key_value_heads", 3)
    assert cache.layers[0].past[0].shape[2] == key_heads  # queries have three


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_every_task_trains_and_predicts(name, task, tmp_path):
    model = FAMILIES[name].check_task(task, tmp_path)
    assert FAMILIES[name].trained(model.facts)
