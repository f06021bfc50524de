"""What holds for every family of encoders: values, folders both ways, conversions and tasks."""

import json

import pytest

from encoder_families import FAMILIES
from encoder_family import FILES
from regard.models.folders import folder as folders

pytest.importorskip("transformers")

KINDS = [(name, kind) for name, family in FAMILIES.items() for kind in family.heads]
VALUES = [(name, kind, settings) for name, kind in KINDS for settings in FAMILIES[name].settings]
STORED = [(name, kind, settings) for name, kind in KINDS for settings in FAMILIES[name].stored]
# Conversions are compared by ids without segments, as every head of these families is.
CONVERTED = [
    *(case for case in KINDS if case[0] in ("albert", "electra", "modernbert", "roberta")),
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
    "modernbert": "classify",
    "roberta": "tag",
    "spanbert": "answer",
    "xlnet": "choose",
}
TASKS = [
    pytest.param(name, task, marks=() if task == FAST[name] else pytest.mark.slow)
    for name in FAMILIES
    for task in FILES
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
    kind, head, *_ = FAMILIES[name].heads
    FAMILIES[name].check_ids(head if name == "modernbert" else kind, tmp_path)


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_every_task_trains_and_predicts(name, task, tmp_path):
    model = FAMILIES[name].check_task(task, tmp_path)
    assert FAMILIES[name].trained(model.facts)
