"""ELECTRA (Clark et al., 2020, arXiv:2003.10555): BERT's trunk without pooler, pre-trained to tell
which tokens a small generator has replaced. The generator is a masked LM of the same depth and ¼ of
the width (⅓ for base; appendix A, table 6) that shares the embeddings of the discriminator. It may
replace 15% of the tokens (25% for large).

The small size has factorised embeddings; so has every generator. Heads of rows read the first state
through a dense layer with GELU.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.models.facts import change, values_named
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key
from regard.models.formats.config_map import ACTIVATIONS, Config, ConfigRow, Names
from regard.models.heads import ChoiceHead, LabelHead, MLMHead, ReplacedTokenHead
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.pools import FirstToken
from regard.text.families.wordpiece import WordPiece
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights import Alias, Rule, WeightMap

BASE = change(bert.BASE, pool=None)
SMALL = change(BASE, width=256, heads=4, inner=1_024, embedding_size=128)
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)
SMALL_GENERATOR = change(SMALL, width=64, heads=1, inner=256)
BASE_GENERATOR = change(BASE, width=256, heads=4, inner=1_024, embedding_size=768)
LARGE_GENERATOR = change(LARGE, width=256, heads=4, inner=1_024, embedding_size=1_024)
FIRST = FirstToken(dense=False)


@dataclass(frozen=True)
class EmbeddingSize(ConfigRow):
    """The size of token vectors; there is a projection if it is not the width of the stack."""

    key: str = "embedding_size"

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        size, width = config.get(self.key, 128), config.get("hidden_size", SMALL.trunk.width)
        return {"embedding_size": None if size == width else size}

    def write(self, facts: Any) -> dict[str, Any]:
        (size,), (width,) = (values_named(facts, name) for name in ("embedding_size", "width"))
        return {self.key: size or width}


# The format of Hugging Face: config.json ↔ facts.
CONFIG = (*bert.CONFIG, EmbeddingSize())
MLM = HFHead(
    MLMHead(dense_activation="gelu"),
    tensors="generator_predictions.",
    config_map=bert.MLM.config_map,
)
REPLACED_TOKEN = HFHead(
    ReplacedTokenHead(),
    tensors="discriminator_predictions.",
    config_map=(Key("hidden_act", "dense", ACTIVATIONS),),
)
LABEL = HFHead(
    LabelHead(2, dropout=0.1, dense="gelu"),
    tensors="classifier.dense.",
    config_map=bert.LABEL.config_map,
    pool=FIRST,
)
TOKEN_LABEL = HFHead(
    bert.TOKEN_LABEL.head,
    tensors="classifier.weight",
    config_map=bert.TOKEN_LABEL.config_map,
    unless="sequence_summary.",
)
CHOICE = HFHead(
    ChoiceHead(dropout=0.1, dense="gelu", last_only=True),
    tensors="sequence_summary.",
    config_map=(
        Key("summary_last_dropout", "dropout"),
        Key("summary_activation", "dense", ACTIVATIONS),
        Constant("summary_type", "first"),
        Constant("summary_use_proj", True),
    ),
    pool=FIRST,
)
ARCHITECTURES = Architectures(
    {
        "ElectraModel": (),
        "ElectraForMaskedLM": (MLM,),
        "ElectraForPreTraining": (REPLACED_TOKEN,),
        "ElectraForQuestionAnswering": (bert.SPAN,),
        "ElectraForSequenceClassification": (LABEL,),
        "ElectraForTokenClassification": (TOKEN_LABEL,),
        "ElectraForMultipleChoice": (CHOICE,),
    }
)

# Names of tensors: those of Hugging Face ↔ ours. A rule applies if the model has the tensor.
TRUNK = (*bert.TRUNK, Rule("embeddings_project.*", "trunk.embed.projection.*"))
HEADS = (
    Rule("generator_predictions.dense.*", "heads.mlm.dense.*"),
    Rule("generator_predictions.LayerNorm.*", "heads.mlm.norm.*"),
    Rule("generator_lm_head.*", "heads.mlm.out.*"),
    Alias("generator_lm_head.weight", "trunk.embed.token.weight"),
    Rule("discriminator_predictions.dense.*", "heads.replaced_token.dense.*"),
    Rule("discriminator_predictions.dense_prediction.*", "heads.replaced_token.out.*"),
    Rule("classifier.dense.*", "heads.label.dense.*"),
    Rule("classifier.out_proj.*", "heads.label.out.*"),
    Rule("classifier.*", "heads.token_label.out.*"),
    Rule("sequence_summary.summary.*", "heads.choice.dense.*"),
    Rule("classifier.*", "heads.choice.out.*"),
    Rule("qa_outputs.*", "heads.span.out.*"),
)
HF = HFFormat(
    name="ELECTRA",
    model_type="electra",
    defaults=SMALL,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="electra.", unprefixed=HEADS, old=bert.OLD),
    tokenizer=partial(EncoderTokenizer.load, family=WordPiece()),
)

PAPER = Paper(
    name="ELECTRA",
    year=2020,
    title="ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators",
    arxiv="2003.10555",
    after="BERT",
    tokenizer=WordPiece.name,
    pretraining={"replaced-tokens": {"rate": 0.15, "generator": 1 / 4}},
    pretraining_by_size={
        "base": {"replaced-tokens": {"generator": 1 / 3}},
        "large": {"replaced-tokens": {"rate": 0.25}},
    },
    sizes={
        "small": SMALL,
        "base": BASE,
        "large": LARGE,
        "small-generator": SMALL_GENERATOR,
        "base-generator": BASE_GENERATOR,
        "large-generator": LARGE_GENERATOR,
    },
    published={"small": 14_000_000, "base": 110_000_000, "large": 335_000_000},
    formats={"hf": HF},
    kinds=(ReplacedTokenHead,),
)
