"""ALBERT (Lan et al., 2019, arXiv:1909.11942): BERT with token vectors smaller than its states, one
block for all layers, sentence order in place of next sentences, and SentencePiece unigrams.

The sizes "-v2" were published later, without dropout. Dropout is applied to the output of both
sublayers, as in the authors' code; ``transformers`` has none after the second.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, cast

from regard.core.errors import BadInput
from regard.models.encoder_decoder import ModelFacts
from regard.models.facts import change, values_named
from regard.models.formats import Architectures, HFHead, Key
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.formats.hf_format import HFFormat
from regard.models.label_heads import ChoiceHead, LabelHead, SentencePairHead, TokenLabelHead
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.transformer import Stack
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.unigram import Unigram
from regard.weights import Join, Passthrough, Rule, WeightMap


@dataclass(frozen=True)
class SentenceOrderHead(SentencePairHead):
    """Linear head that predicts whether two texts are in order or swapped; with dropout."""

    classes: ClassVar[tuple[str, str]] = ("InOrder", "Swapped")
    dropout: float = 0.0


BASE = change(bert.BASE, vocab=30_000, embedding_size=128, shared_groups=1, activation="gelu-tanh")
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)
XLARGE = change(LARGE, width=2_048, inner=8_192)
NO_DROPOUT = {"stack.dropout": 0.0, "attention_dropout": 0.0}
XXLARGE = change(BASE, width=4_096, heads=64, inner=16_384, **NO_DROPOUT)
SIZES = {"base": BASE, "large": LARGE, "xlarge": XLARGE, "xxlarge": XXLARGE}
SIZES_V2 = {f"{name}-v2": change(facts, **NO_DROPOUT) for name, facts in SIZES.items()}
PARAMETERS = {"base": 12_000_000, "large": 18_000_000, "xlarge": 60_000_000, "xxlarge": 235_000_000}
HEAD_DROPOUT = 0.1
JOIN = (Join((1, 1, 1)),)


class LayersOfGroups(ConfigRow):
    """Number of layers of a group; all groups together run ``num_hidden_layers`` times."""

    key = "inner_group_num"
    times = "num_hidden_layers"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        size, times = config.get(self.key, 1), config.get(self.times, 12)
        if not all(isinstance(number, int) and number > 0 for number in (size, times)):
            raise BadInput(
                f"{self.key} and {self.times} must be integers above 0, not {size!r} and {times!r}"
            )
        return {"group_depth": size, "depth": size * times}

    def write(self, facts: object) -> dict[str, object]:
        (size,), (depth,) = (values_named(facts, name) for name in ("group_depth", "depth"))
        return {self.key: size, self.times: depth // size}


def layer(theirs: str, ours: str) -> tuple[Rule, ...]:
    """Rules for the tensors of a layer."""
    return (
        Rule(theirs + "attention.{query,key,value}.*", ours + "attention.qkv.*", JOIN),
        Rule(theirs + "attention.dense.*", ours + "attention.o.*"),
        Rule(theirs + "attention.LayerNorm.*", ours + "attention_residual.norm.*"),
        Rule(theirs + "ffn.*", ours + "mlp.up.*"),
        Rule(theirs + "ffn_output.*", ours + "mlp.down.*"),
        Rule(theirs + "full_layer_layer_norm.*", ours + "mlp_residual.norm.*"),
    )


class AlbertFormat(HFFormat):
    """The format of ALBERT, whose layers are named by their group and their index in it."""

    def weight_map(self, facts: ModelFacts) -> WeightMap:
        stack = cast(Stack, facts.encoder.stack)
        layers = (
            layer(
                "encoder.albert_layer_groups.{}.albert_layers.{}.".format(
                    *divmod(number, stack.group_depth)
                ),
                f"trunk.blocks.{number}.",
            )
            for number in range(stack.blocks)
        )
        whole = self.weights
        return replace(whole, lines=(*whole.lines, *sum(layers, ())))


# The format of Hugging Face: config.json ↔ facts. An empty config.json is "xxlarge-v2".
CONFIG = (
    *bert.CONFIG,
    Key("embedding_size", "embedding_size"),
    Key("num_hidden_groups", "shared_groups"),
    LayersOfGroups(),
)
DROPOUT = Key("classifier_dropout_prob", "dropout")
MLM = HFHead(bert.MLM.head, "predictions.", bert.MLM.config_map)
SENTENCE_ORDER = HFHead(SentenceOrderHead(dropout=HEAD_DROPOUT), "sop_classifier.", (DROPOUT,))
LABEL = HFHead(LabelHead(2, dropout=HEAD_DROPOUT), "classifier.", (DROPOUT, bert.LABELS))
TOKEN_LABEL = HFHead(TokenLabelHead(2, dropout=HEAD_DROPOUT), "classifier.", (DROPOUT, bert.LABELS))
CHOICE = HFHead(ChoiceHead(dropout=HEAD_DROPOUT), "classifier.", (DROPOUT,))
ARCHITECTURES = Architectures(
    {
        "AlbertModel": (),
        "AlbertForMaskedLM": (MLM,),
        "AlbertForPreTraining": (MLM, SENTENCE_ORDER),
        "AlbertForQuestionAnswering": (bert.SPAN,),
        "AlbertForSequenceClassification": (LABEL,),
        "AlbertForTokenClassification": (TOKEN_LABEL,),
        "AlbertForMultipleChoice": (CHOICE,),
    }
)

# Names of tensors but for layers: those of Hugging Face ↔ ours. A rule applies if the model has the
# tensor.
TRUNK = (
    *bert.EMBEDDINGS,
    Passthrough("embeddings.token_type_ids"),
    Rule("encoder.embedding_hidden_mapping_in.*", "trunk.embed.projection.*"),
    Rule("pooler.*", "pool.dense.*"),
)
HEADS = (
    Rule("predictions.dense.*", "heads.mlm.dense.*"),
    Rule("predictions.LayerNorm.*", "heads.mlm.norm.*"),
    *bert.mlm_output("predictions."),
    Rule("sop_classifier.classifier.*", "heads.sentence_pair.out.*"),
    *bert.LABEL_RULES,
)
HF = AlbertFormat(
    name="ALBERT",
    model_type="albert",
    defaults=XXLARGE,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="albert.", unprefixed=HEADS, old=bert.OLD),
    tokenizer=partial(EncoderTokenizer.load, family=Unigram()),
)

PAPER = Paper(
    name="ALBERT",
    year=2019,
    title="ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
    authors=(
        "Zhenzhong Lan, Mingda Chen, Sebastian Goodman, Kevin Gimpel, Piyush Sharma, Radu Soricut"
    ),
    arxiv="1909.11942",
    after="BERT",
    tokenizer=Unigram.name,
    pretraining={"masked-lm": {"ngrams": 3}, "sentence-order": {}},
    sizes={**SIZES, **SIZES_V2},
    published={**PARAMETERS, **{f"{name}-v2": count for name, count in PARAMETERS.items()}},
    heads=(MLM, SENTENCE_ORDER, bert.SPAN, LABEL, TOKEN_LABEL, CHOICE),
    formats={"hf": HF},
)
