"""GPT-2 (Radford et al., 2019): GPT with norms before the sublayers and one after the last,
byte-level BPE, twice the context, and up to 1.5 billion parameters.
"""

from functools import partial

from regard.models.facts import change, values_named
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key
from regard.models.formats.config_map import ACTIVATIONS, Config, ConfigRow, Names
from regard.models.label_heads import SpanHead, TokenLabelHead
from regard.models.paper import Paper
from regard.models.papers import gpt
from regard.text.tokenizers.bpe import GPT2BPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights import Rule, WeightMap

SMALL = change(gpt.BASE, vocab=50_257, longest=1_024, norm="pre", final_norm=True, scaled_init=True)
MEDIUM = change(SMALL, width=1_024, depth=24, heads=16, inner=4_096)
LARGE = change(SMALL, width=1_280, depth=36, heads=20, inner=5_120)
XL = change(SMALL, width=1_600, depth=48, heads=25, inner=6_400)


class OptionalInner(ConfigRow):
    """Inner size of feed-forward layers: ``n_inner``, or four times the width."""

    key = "n_inner"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        inner = config.get(self.key)
        return gpt.FourfoldInner().read(config, tensors) if inner is None else {"inner": inner}

    def write(self, facts: object) -> dict[str, object]:
        (width,), (inner,) = values_named(facts, "width"), values_named(facts, "inner")
        return {self.key: None if inner == 4 * width else inner}


# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours. The key
# reorder_and_upcast_attn is kept and not read: it concerns the rounding of scores alone.
CONFIG = (
    *gpt.CONFIG,
    OptionalInner(),
    Key("activation_function", "activation", ACTIVATIONS),
    Constant("scale_attn_weights", True),
    Constant("scale_attn_by_inverse_layer_idx", False),
)
TOKEN_LABEL = HFHead(
    TokenLabelHead(2, dropout=0.1),
    "classifier.",
    (Key("classifier_dropout", "dropout", fallback="hidden_dropout"), *gpt.LABEL.config_map),
)
SPAN = HFHead(SpanHead(), "qa_outputs.")
ARCHITECTURES = Architectures(
    {
        "GPT2Model": (),
        "GPT2LMHeadModel": (gpt.NEXT_TOKEN,),
        "GPT2DoubleHeadsModel": (gpt.NEXT_TOKEN, gpt.CHOICE),
        "GPT2ForSequenceClassification": (gpt.LABEL,),
        "GPT2ForTokenClassification": (TOKEN_LABEL,),
        "GPT2ForQuestionAnswering": (SPAN,),
    }
)
TRUNK = (
    Rule("wte.weight", "trunk.embed.token.weight"),
    Rule("wpe.weight", "trunk.embed.position.weight"),
    *gpt.BLOCK,
    Rule("ln_f.*", "trunk.norm.*"),
)
HEADS = (
    *gpt.HEADS,
    Rule("classifier.*", "heads.token_label.out.*"),
    Rule("qa_outputs.*", "heads.span.out.*"),
)
HF = HFFormat(
    name="GPT-2",
    model_type="gpt2",
    defaults=SMALL,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="transformer.", unprefixed=HEADS),
    tokenizer=partial(EncoderTokenizer.load, family=GPT2BPE()),
)

PAPER = Paper(
    name="GPT-2",
    year=2019,
    title="Language Models are Unsupervised Multitask Learners",
    authors="Alec Radford, Jeffrey Wu, Rewon Child, David Luan, Dario Amodei, Ilya Sutskever",
    arxiv=None,
    report="OpenAI, 2019",
    after="GPT",
    tokenizer=GPT2BPE.name,
    pretraining={"causal-lm": {"rows": "blocks"}},
    sizes={"small": SMALL, "medium": MEDIUM, "large": LARGE, "xl": XL},
    # As the authors corrected them: table 2 of the paper says 117M, 345M, 762M and 1,542M.
    published={
        "small": 124_000_000,
        "medium": 355_000_000,
        "large": 774_000_000,
        "xl": 1_558_000_000,
    },
    heads=(gpt.NEXT_TOKEN, gpt.CHOICE, gpt.LABEL, TOKEN_LABEL, SPAN),
    formats={"hf": HF},
)
