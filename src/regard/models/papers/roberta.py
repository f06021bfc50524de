"""RoBERTa (Liu et al., 2019, arXiv:1907.11692): BERT with byte-level BPE, one segment and no
next-sentence prediction; masks are drawn anew in each epoch and rows are filled with sentences.

Two details differ from BERT as well. Position ids start after the id of the padding token, usually
1, so the first two position embeddings are never used. Labels are predicted from the first state by
a head with a dense layer of its own, without BERT's pooler.
"""

from functools import partial

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.models.embedding import Learned
from regard.models.facts import change, values_named
from regard.models.formats import Architectures, HFFormat, HFHead, Key
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.label_heads import LabelHead, MLMHead
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.pools import FirstToken
from regard.text.tokenizers.bpe import ByteBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights import Passthrough, Rule, WeightMap

PAD_ID = 1
OFFSET = PAD_ID + 1  # of position ids
BASE = change(bert.BASE, vocab=50_265, segments=1, eps=1e-5, position=Learned(512, offset=OFFSET))
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)


class PositionsAfterPad(ConfigRow):
    """Learned positions, from two keys; vectors up to the id of the padding token are not used."""

    key = "pad_token_id"
    size = "max_position_embeddings"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        pad, size = config.get(self.key, PAD_ID), config.get(self.size, 512)
        if not (is_whole(pad, 0) and is_whole(size) and pad + 1 < size):
            raise BadInput(
                f"{self.key} must be an id below {self.size} ({size!r}) - 1, not {pad!r}"
            )
        return {"offset": pad + 1, "longest": size - pad - 1}

    def write(self, facts: object) -> dict[str, object]:
        places = zip(values_named(facts, "offset"), values_named(facts, "longest"), strict=False)
        keys = ({self.key: offset - 1, self.size: offset + n} for offset, n in places)
        return next(keys, {})


# The format of Hugging Face: config.json ↔ facts. Later rows replace those of BERT.
HF_DEFAULTS = change(BASE, longest=510, segments=2, eps=1e-12)  # facts of an empty config.json
CONFIG = (*bert.CONFIG, PositionsAfterPad())
MLM = HFHead(MLMHead(dense_activation="gelu"), "lm_head.", bert.MLM.config_map)
LABEL = HFHead(
    LabelHead(2, dropout=0.1, dense="tanh"),
    "classifier.dense.",
    bert.LABEL.config_map,
    from_stack=bert.STACK_DROPOUT,
    pool=FirstToken(dense=False),
)
TOKEN_LABEL = HFHead(
    bert.TOKEN_LABEL.head,
    "classifier.weight",
    bert.TOKEN_LABEL.config_map,
    from_stack=bert.STACK_DROPOUT,
)
CHOICE = HFHead(
    bert.CHOICE.head,
    "classifier.weight",
    (Key("hidden_dropout_prob", "dropout"),),
    from_stack=bert.STACK_DROPOUT,
)
ARCHITECTURES = Architectures(
    {
        "RobertaModel": (),
        "RobertaForMaskedLM": (MLM,),
        "RobertaForQuestionAnswering": (bert.SPAN,),
        "RobertaForSequenceClassification": (LABEL,),
        "RobertaForTokenClassification": (TOKEN_LABEL,),
        "RobertaForMultipleChoice": (CHOICE,),
    }
)

# Names of tensors: those of Hugging Face ↔ ours. A rule applies if the model has the tensor.
TRUNK = (*bert.TRUNK, Passthrough("embeddings.token_type_ids"))
HEADS = (
    Rule("lm_head.dense.*", "heads.mlm.dense.*"),
    Rule("lm_head.layer_norm.*", "heads.mlm.norm.*"),
    *bert.mlm_output("lm_head."),
    Rule("classifier.dense.*", "heads.label.dense.*"),
    Rule("classifier.out_proj.*", "heads.label.out.*"),
    Rule("classifier.*", "heads.token_label.out.*"),
    Rule("classifier.*", "heads.choice.out.*"),
    Rule("qa_outputs.*", "heads.span.out.*"),
)
HF = HFFormat(
    name="RoBERTa",
    model_type="roberta",
    defaults=HF_DEFAULTS,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="roberta.", unprefixed=HEADS, old=bert.OLD),
    tokenizer=partial(EncoderTokenizer.load, family=ByteBPE()),
)

PAPER = Paper(
    name="RoBERTa",
    year=2019,
    title="RoBERTa: A Robustly Optimized BERT Pretraining Approach",
    authors=(
        "Yinhan Liu, Myle Ott, Naman Goyal, Jingfei Du, Mandar Joshi, Danqi Chen, Omer "
        "Levy, Mike Lewis, Luke Zettlemoyer, Veselin Stoyanov"
    ),
    arxiv="1907.11692",
    after="BERT",
    tokenizer=ByteBPE.name,
    pretraining={"masked-lm": {}},
    sizes={"base": BASE, "large": LARGE},
    published={"base": 125_000_000, "large": 355_000_000},
    heads=(MLM, bert.SPAN, LABEL, TOKEN_LABEL, CHOICE),
    formats={"hf": HF},
)
