"""GPT (Radford et al., 2018): the decoder of the Transformer without a source, pre-trained to
predict the next token of books; its token vectors are the output layer too.

Fine-tuned as here and in ``transformers``, a text is classified, and choices are compared, by the
state of the last token.
"""

from functools import partial

from regard.layers.attend import causal
from regard.models.embedding import Learned
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key, LabelCount
from regard.models.formats.config_map import Config, ConfigRow, Names, OverridingKey
from regard.models.heads import NextTokenHead
from regard.models.label_heads import ChoiceHead, LabelHead
from regard.models.paper import Paper
from regard.models.pools import LastToken
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.bpe import GPTBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights import Alias, Passthrough, Rule, Transpose, WeightLine, WeightMap

DROPOUT = 0.1
BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=40_478, position=Learned(512)),
        Stack(
            width=768,
            depth=12,
            heads=12,
            inner=3_072,
            mask=causal,
            activation="gelu-tanh",
            eps=1e-5,
            dropout=DROPOUT,
            attention_dropout=DROPOUT,
        ),
    ),
    init_std=0.02,
)


class FourfoldInner(ConfigRow):
    """Inner size of feed-forward layers: four times the width; GPT has no key for it."""

    key = "n_embd"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        width = config.get(self.key)
        return {"inner": 4 * width} if isinstance(width, int) else {}


# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours.
CONFIG = (
    Key("vocab_size", "vocab"),
    Key("n_embd", "width"),
    Key("n_layer", "depth"),
    Key("n_head", "heads"),
    FourfoldInner(),
    Key("n_positions", "longest"),
    Key("resid_pdrop", "stack.dropout"),
    OverridingKey("embd_pdrop", "embedding_dropout", "resid_pdrop", "stack.dropout", DROPOUT),
    Key("attn_pdrop", "attention_dropout"),
    Key("layer_norm_epsilon", "eps"),
    Key("initializer_range", "init_std"),
    Constant("is_encoder_decoder", False),
    Constant("add_cross_attention", False),
    Constant("pruned_heads", {}),
    Constant("quantization_config", None),
)
# Its "gelu" is the approximation by tanh, which other configurations call "gelu_new".
ACTIVATIONS = {"gelu": "gelu-tanh", "relu": "relu", "swish": "swish", "silu": "swish"}
NEXT_TOKEN = HFHead(NextTokenHead(), "lm_head.", (Key("tie_word_embeddings", "tied"),), tied=True)
LABEL = HFHead(LabelHead(2, bias=False), "score.", (LabelCount("outputs"),), pool=LastToken())
CHOICE = HFHead(
    ChoiceHead(dropout=DROPOUT),
    "multiple_choice_head.",
    (
        Key("summary_first_dropout", "dropout"),
        Constant("summary_type", "cls_index"),
        Constant("summary_use_proj", True),
        Constant("summary_proj_to_labels", True),
        Constant("summary_activation", None),
    ),
    pool=LastToken(),
)
ARCHITECTURES = Architectures(
    {
        "OpenAIGPTModel": (),
        "OpenAIGPTLMHeadModel": (NEXT_TOKEN,),
        "OpenAIGPTDoubleHeadsModel": (NEXT_TOKEN, CHOICE),
        "OpenAIGPTForSequenceClassification": (LABEL,),
    }
)
LAYER, OURS = "h.{i}.", "trunk.blocks.{i}."
BLOCK = (
    Rule(LAYER + "attn.c_attn.*", OURS + "attention.qkv.*", (Transpose(),)),
    Rule(LAYER + "attn.c_proj.*", OURS + "attention.o.*", (Transpose(),)),
    Rule(LAYER + "ln_1.*", OURS + "attention_residual.norm.*"),
    Rule(LAYER + "mlp.c_fc.*", OURS + "mlp.up.*", (Transpose(),)),
    Rule(LAYER + "mlp.c_proj.*", OURS + "mlp.down.*", (Transpose(),)),
    Rule(LAYER + "ln_2.*", OURS + "mlp_residual.norm.*"),
    Passthrough(LAYER + "attn.bias"),  # masks, in older files
    Passthrough(LAYER + "attn.masked_bias"),
)
TRUNK = (
    Rule("tokens_embed.weight", "trunk.embed.token.weight"),
    Rule("positions_embed.weight", "trunk.embed.position.weight"),
    Passthrough("position_ids"),
    *BLOCK,
)
HEADS: tuple[WeightLine, ...] = (
    Rule("lm_head.weight", "heads.next_token.weight"),  # if not tied
    Alias("lm_head.weight", "trunk.embed.token.weight"),
    Rule("score.*", "heads.label.out.*"),
    Rule("multiple_choice_head.summary.*", "heads.choice.out.*"),
)
HF = HFFormat(
    name="GPT",
    model_type="openai-gpt",
    defaults=BASE,
    config_map=(*CONFIG, Key("afn", "activation", ACTIVATIONS), ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="transformer.", unprefixed=HEADS),
    tokenizer=partial(EncoderTokenizer.load, family=GPTBPE()),
)

PAPER = Paper(
    name="GPT",
    year=2018,
    title="Improving Language Understanding by Generative Pre-Training",
    authors="Alec Radford, Karthik Narasimhan, Tim Salimans, Ilya Sutskever",
    arxiv=None,
    report="OpenAI, 2018",
    after="Transformer",
    tokenizer=GPTBPE.name,
    pretraining={"causal-lm": {}},
    sizes={"base": BASE},
    published={"base": 117_000_000},
    heads=(NEXT_TOKEN, CHOICE, LABEL),
    formats={"hf": HF},
)
