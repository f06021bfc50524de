"""A family of Hugging Face whose tables are BERT's with a few rows of its own.

The rows are those of RoBERTa: another prefix, positions that begin after the pad's, heads with a
dense layer. The reference is ``transformers``.
"""

from dataclasses import replace

import pytest
import torch

from regard.ground.batch import TokenRow, pack_rows
from regard.ground.errors import BadInput
from regard.models.facts import FirstToken, LabelHead, change
from regard.models.facts.positions import Learned
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key
from regard.models.papers import bert
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.weights import Alias, Passthrough, Rule, WeightMap
from regard.weights.files import load_weights, weights_of

transformers = pytest.importorskip("transformers")

BASE = change(bert.BASE, vocab=50_265, position=Learned(510, offset=2))
MLM = replace(bert.MLM, tensors="lm_head.")
TOKEN_LABEL = replace(bert.TOKEN_LABEL, tensors="classifier.weight")
CHOICE = replace(bert.CHOICE, tensors="classifier.weight")
LABEL = HFHead(
    LabelHead(2, dropout=0.1, dense="tanh"),
    "classifier.dense.",
    bert.LABEL.config_map,
    pool=FirstToken(dense=False),
)
FORMAT = HFFormat(
    name="RoBERTa",
    model_type="roberta",
    defaults=BASE,
    config_map=(
        *bert.CONFIG,
        Key("max_position_embeddings", "longest", offset=2),
        Constant("pad_token_id", 1),
        Architectures(
            {
                "RobertaModel": (),
                "RobertaForMaskedLM": (MLM,),
                "RobertaForQuestionAnswering": (bert.SPAN,),
                "RobertaForSequenceClassification": (LABEL,),
                "RobertaForTokenClassification": (TOKEN_LABEL,),
                "RobertaForMultipleChoice": (CHOICE,),
            }
        ),
    ),
    weights=WeightMap(
        bert.TRUNK,
        prefix="roberta.",
        unprefixed=(
            Rule("lm_head.dense.*", "heads.mlm.dense.*"),
            Rule("lm_head.layer_norm.*", "heads.mlm.norm.*"),
            Rule("lm_head.decoder.{weight,bias}", "heads.mlm.out.{weight,bias}"),
            Rule("lm_head.bias", "heads.mlm.out.bias"),
            Alias("lm_head.decoder.weight", "trunk.embed.token.weight"),
            Alias("lm_head.decoder.bias", "heads.mlm.out.bias"),
            Alias("lm_head.bias", "heads.mlm.out.bias"),
            Passthrough("lm_head.bias"),
            Rule("qa_outputs.*", "heads.span.out.*"),
            Rule("classifier.{dense,out_proj}.*", "heads.label.{dense,out}.*"),
            Rule("classifier.*", "heads.token_label.out.*"),
            Rule("classifier.*", "heads.choice.out.*"),
        ),
    ),
    tokenizer=EncoderTokenizer,
)
SMALL = {
    "vocab_size": 40,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 18,
    "type_vocab_size": 1,
}
ROWS = [[0, 7, 30, 2], [0, 9, 2, 2, 11, 12, 2], [0, *range(5, 19), 2]]
CELLS = [
    ("RobertaModel", {}),
    ("RobertaForMaskedLM", {}),
    ("RobertaForMaskedLM", {"tie_word_embeddings": False}),
    ("RobertaForQuestionAnswering", {}),
    ("RobertaForSequenceClassification", {"num_labels": 3, "classifier_dropout": 0.3}),
    ("RobertaForTokenClassification", {"num_labels": 5}),
    ("RobertaForMultipleChoice", {}),
]


def reference(name: str, **settings):
    torch.manual_seed(0)
    model = getattr(transformers, name)(transformers.RobertaConfig(**SMALL, **settings))
    with torch.no_grad():
        for place, one in model.named_parameters():
            one.normal_(float(place.endswith("orm.weight")), std=0.3)
    return model.eval()


def logits_of(model, row: list[int]) -> torch.Tensor:
    """Of one row, as ours are."""
    inputs = {"input_ids": torch.tensor([row])}
    if isinstance(model, transformers.RobertaForMultipleChoice):
        return model(input_ids=inputs["input_ids"][None]).logits
    output = model(**inputs)
    if "start_logits" in output:
        return torch.stack([output.start_logits, output.end_logits], -1)[0]
    return output.logits.reshape(-1, output.logits.shape[-1])


@pytest.mark.parametrize(("name", "settings"), CELLS)
@torch.no_grad()
def test_every_architecture_is_read_computed_and_written(name, settings):
    theirs = reference(name, **settings)
    config = {**theirs.config.to_dict(), "architectures": [name]}
    tied = {"lm_head.decoder.weight", "lm_head.decoder.bias"} if not settings else set()
    file = {k: v.clone() for k, v in theirs.state_dict().items() if k not in tied}
    facts = FORMAT.facts_of(config, file)
    assert facts.trunk.embed.position == Learned(16, offset=2) and facts.trunk.embed.segments == 1
    module = facts.build().eval()
    ours, extras = FORMAT.weights.read(file, weights_of(module), "a file")
    load_weights(module, ours, "a file")
    for row in ROWS:
        outputs = module(pack_rows([TokenRow(row, [0] * len(row))]))
        expected = theirs.base_model(torch.tensor([row])).last_hidden_state[0]
        torch.testing.assert_close(outputs.states_TD, expected, rtol=1e-5, atol=1e-5)
        for logits in outputs.by_head.values():
            torch.testing.assert_close(logits, logits_of(theirs, row), rtol=1e-5, atol=1e-5)
    assert FORMAT.architecture(facts) == name
    written = FORMAT.weights.write(weights_of(module), extras)
    assert written.keys() == file.keys()
    assert all(torch.equal(written[one], file[one]) for one in file)
    again = FORMAT.config_of(facts)
    assert again["max_position_embeddings"] == 18 and again["model_type"] == "roberta"
    assert {key: config.get(key) for key in SMALL} == {key: again[key] for key in SMALL}


def test_positions_of_another_pad_are_refused():
    with pytest.raises(BadInput, match="pad_token_id is 0, and only 1 is supported"):
        FORMAT.facts_of({"pad_token_id": 0}, ())
    with pytest.raises(BadInput, match=r"a RoBERTa folder cannot express .*offset is 3, not 2"):
        FORMAT.config_of(change(BASE, offset=3))
