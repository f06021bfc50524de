"""As many dropouts in a training step as in that of ``transformers``: of states and of attention.

``tests/models/test_dropout_places.py`` says where they fall.
"""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from dropout_graph import find_places, marked_dropout
from regard.core.batch import PackedTokens, TokenRow, pack_rows
from regard.core.layout import Layout
from regard.models.folders import folder as folders

transformers = pytest.importorskip("transformers")

BERT = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 12,
}
DISTILBERT = {"vocab_size": 30, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 20}
GPT = {"vocab_size": 30, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 12}
XLNET = {"vocab_size": 30, "d_model": 12, "n_layer": 2, "n_head": 3, "d_inner": 20}
MODERNBERT = {**BERT, "attention_dropout": 0.1, "embedding_dropout": 0.2, "mlp_dropout": 0.3}
LABEL, TOKEN, CHOICE = (
    f"For{what}" for what in ("SequenceClassification", "TokenClassification", "MultipleChoice")
)
SPAN, MLM = "ForQuestionAnswering", "ForMaskedLM"
FAMILIES = {
    "Bert": (BERT, ["Model", MLM, "ForPreTraining", LABEL, TOKEN, CHOICE, SPAN]),
    "Roberta": (BERT, ["Model", MLM, LABEL, TOKEN, CHOICE, SPAN]),
    "Electra": ({**BERT, "embedding_size": 6}, [MLM, "ForPreTraining", LABEL, TOKEN, CHOICE, SPAN]),
    "DistilBert": (DISTILBERT, ["Model", MLM, LABEL, TOKEN, CHOICE, SPAN]),
    "OpenAIGPT": (GPT, ["Model", "LMHeadModel", LABEL]),
    "GPT2": (GPT, ["Model", "LMHeadModel", LABEL, TOKEN, SPAN]),
    "XLNet": (XLNET, ["Model", "LMHeadModel", LABEL, TOKEN, CHOICE, SPAN + "Simple"]),
    "ModernBert": (MODERNBERT, ["Model", MLM, LABEL, TOKEN, CHOICE, SPAN]),
}
CASES = [(family, kind) for family, (_, kinds) in FAMILIES.items() for kind in kinds]


def reference(family, kind, sizes, folder):
    """A random model of ``transformers`` in training, saved in that folder."""
    heads = ("Bert", "Roberta", "Electra", "ModernBert")
    rates = {"classifier_dropout": 0.25} if family in heads else {}
    config = getattr(transformers, f"{family}Config")(**sizes, **rates, pad_token_id=1)
    model = getattr(transformers, f"{family}{kind}")(config)
    model.save_pretrained(folder)
    return model.train()


def count_theirs(model, inputs):
    """How many dropouts of each rate fall on states, and on attention weights (four axes)."""
    counts = Counter()

    def drop(x, p=0.5, training=True, inplace=False):
        if training and p:
            counts["attention" if x.ndim == 4 else "states", p] += 1
        return x

    def attend(q, k, v, dropout_p=0.0, **settings):
        drop(q.new_empty(1, 1, 1, 1), dropout_p)
        return v

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "dropout", drop)
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
        model(**inputs)
    return counts


def count_ours(folder, inputs):
    with marked_dropout():
        model = folders.read(folder).module.train()
        outputs = model(inputs)
        ends = dict(outputs.by_head) or {"states": outputs.encoded.states_TD}
        if outputs.pooled_BD is not None:
            ends["pooled"] = outputs.pooled_BD
        places = find_places(model, {name: end for name, end in ends.items() if end.requires_grad})
    pairs = (place.dropout.split() for place in places)
    return Counter((kind, float(rate)) for kind, rate in pairs)


@pytest.mark.thinned
@pytest.mark.parametrize(("family", "kind"), CASES)
def test_of_texts(family, kind, tmp_path):
    sizes, ids = FAMILIES[family][0], torch.arange(2, 9)[None]
    theirs = reference(family, kind, sizes, tmp_path)
    given = {"input_ids": ids[:, None] if kind == CHOICE else ids}
    expected = count_theirs(theirs, given)
    assert expected
    assert count_ours(tmp_path, pack_rows([TokenRow(ids[0].tolist(), [0] * 7)])) == expected


def test_albert_drops_the_output_of_both_sublayers(tmp_path):
    """As the authors' code does; ``transformers`` leaves out that of the second."""
    sizes = {**BERT, "embedding_size": 6, "hidden_dropout_prob": 0.1}
    sizes |= {"attention_probs_dropout_prob": 0.2}
    expected = count_theirs(
        reference("Albert", MLM, sizes, tmp_path), {"input_ids": torch.arange(2, 9)[None]}
    )
    expected["states", 0.1] += sizes["num_hidden_layers"]
    row = pack_rows([TokenRow([*range(2, 9)], [0] * 7)])
    assert count_ours(tmp_path, row) == expected


def test_of_images(tmp_path):
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2}
    sizes = {name: size for name, size in BERT.items() if name[:3] not in ("voc", "max")}
    config = transformers.ViTConfig(**sizes, **rates, image_size=8, patch_size=4)
    theirs = transformers.ViTForImageClassification(config).train()
    theirs.save_pretrained(tmp_path)
    pixels = torch.randn(1, 3, 8, 8)
    expected = count_theirs(theirs, {"pixel_values": pixels})
    assert count_ours(tmp_path, PackedTokens(pixels, Layout.rectangle(1, 1))) == expected
