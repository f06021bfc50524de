"""ELECTRA (Clark et al., 2020, arXiv:2003.10555): BERT's trunk without pooler, pre-trained to
detect the tokens that a small generator has replaced.

The generator is a masked LM of the same depth and ¼ of the width (⅓ for base; appendix A, table 6)
that shares the embeddings of the discriminator. It may replace 15% of the tokens (25% for large).
The small size and all generators have factorised embeddings. Heads of rows read the first state
through a dense layer with GELU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.batch import PackedTokens
from regard.core.errors import BadFact
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.models.facts import change, values_named
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key
from regard.models.formats.config_map import ACTIVATIONS, Config, ConfigRow, Names
from regard.models.label_heads import ChoiceHead, LabelHead, LinearHead, MLMHead
from regard.models.macs import RowLengths
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.pools import FirstToken
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import NO_POSITIONS, TrunkWithHeads, TrunkWithHeadsModule
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.wordpiece import WordPiece
from regard.weights import Alias, Rule, WeightMap


@dataclass(frozen=True)
class ReplacedTokenHead(LinearHead):
    """Linear head with one logit for each token: whether it was replaced (Clark et al., 2020)."""

    name: ClassVar[str] = "replaced_token"
    outputs: ClassVar[int] = 1  # type: ignore[misc]
    dense: str | None = "gelu"


GENERATOR_HEAD, DISCRIMINATOR_HEAD = "mlm", "replaced_token"


@dataclass(frozen=True)
class Joint:
    """A generator that replaces tokens and a discriminator that detects them.

    They share the vectors of tokens, positions and segments; the generator samples with a softmax
    of this ``temperature``.
    """

    in_rectangles: ClassVar[bool] = False
    sides: ClassVar[tuple[str, ...]] = TrunkWithHeads.sides
    discriminator: TrunkWithHeads
    generator: TrunkWithHeads
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.discriminator.trunk.token_width != self.generator.trunk.token_width:
            raise BadFact("embedding_size", "must be the same in generator and discriminator")

    @property
    def encoder(self) -> Trunk:
        """The trunk of the discriminator."""
        return self.discriminator.trunk

    @property
    def eager(self) -> bool:
        """Whether the models are neither compiled nor captured."""
        return self.discriminator.eager or self.generator.eager

    def build(self) -> "JointModule":
        """The module with new weights."""
        return JointModule(
            discriminator=self.discriminator.build(),
            generator=self.generator.build(),
            temperature=self.temperature,
            tied=self.generator.head(GENERATOR_HEAD).tied,
        )

    def models(self, module: "JointModule") -> dict[str, tuple[TrunkWithHeads, nn.Module]]:
        """The models to save, by folder."""
        return {
            "model": (self.discriminator, module.discriminator),
            "generator": (self.generator, module.generator),
        }

    def training_flops(
        self, lengths: RowLengths, positions: Mapping[str, int] = NO_POSITIONS
    ) -> float:
        """Floating-point operations of one training step of both models."""
        both = (self.generator, self.discriminator)
        return sum(model.training_flops(lengths, positions) for model in both)


class JointOutputs(NamedTuple):
    """Outputs of the discriminator, logits of the generator, and the tokens that were read."""

    encoded: EncoderOutput
    pooled_BD: Tensor | None
    by_head: dict[str, Tensor]
    tokens_T: Tensor


class JointModule(nn.Module):
    """Module of a ``Joint``: the generator fills masked tokens; the discriminator reads the result.

    Both share the vectors of tokens, positions and segments and the norm of their sum.
    """

    def __init__(
        self,
        generator: TrunkWithHeadsModule,
        discriminator: TrunkWithHeadsModule,
        temperature: float,
        *,
        tied: bool,
    ):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.temperature = temperature
        for name in ("token", "position", "segment", "norm"):
            setattr(generator.trunk.embed, name, getattr(discriminator.trunk.embed, name))
        if tied:
            head: nn.Module = generator.heads[GENERATOR_HEAD]
            head.out.weight = discriminator.trunk.embed.token.weight  # type: ignore[union-attr]

    def forward(
        self, inputs: PackedTokens, *, positions: Mapping[str, Tensor], tape: NullTape = NULL_TAPE
    ) -> JointOutputs:
        """Return the outputs of the discriminator, the logits of the generator, and its samples.

        ``positions`` of the discriminator's head have, for each token, the index of the sample that
        replaces it; -1: none.
        """
        masked = {GENERATOR_HEAD: positions[GENERATOR_HEAD]}
        generated = self.generator(inputs, positions=masked, tape=tape.under("generator"))
        sampled_N = sample(generated.by_head[GENERATOR_HEAD], self.temperature)
        number_T = positions[DISCRIMINATOR_HEAD]
        tokens_T = torch.where(
            number_T < 0, inputs.tokens_T, F.pad(sampled_N, (1, 0))[number_T + 1]
        )
        own = {GENERATOR_HEAD, DISCRIMINATOR_HEAD}
        rest = {head: at for head, at in positions.items() if head not in own}
        replaced, tape = replace(inputs, tokens_T=tokens_T), tape.under("discriminator")
        outputs = self.discriminator(replaced, positions=rest, tape=tape)
        by_head = {**outputs.by_head, **generated.by_head}
        return JointOutputs(outputs.encoded, outputs.pooled_BD, by_head, tokens_T)


@torch.no_grad()
def sample(logits_NV: Tensor, temperature: float = 1.0) -> Tensor:
    """Sample a token from each softmax, as the largest logit after Gumbel noise; no gradient."""
    scaled_NV = logits_NV.float() / temperature
    return (scaled_NV - (-torch.rand_like(scaled_NV).log()).log()).argmax(-1)


BASE = change(bert.BASE, pool=None)
SMALL = change(BASE, width=256, heads=4, inner=1_024, embedding_size=128)
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)
SMALL_GENERATOR = change(SMALL, width=64, heads=1, inner=256)
BASE_GENERATOR = change(BASE, width=256, heads=4, inner=1_024, embedding_size=768)
LARGE_GENERATOR = change(LARGE, width=256, heads=4, inner=1_024, embedding_size=1_024)
FIRST = FirstToken(dense=False)


class EmbeddingSize(ConfigRow):
    """The size of token vectors; if it is not the width, there is a projection."""

    key = "embedding_size"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        size, width = config.get(self.key, 128), config.get("hidden_size", SMALL.trunk.width)
        return {"embedding_size": None if size == width else size}

    def write(self, facts: object) -> dict[str, object]:
        (size,), (width,) = (values_named(facts, name) for name in ("embedding_size", "width"))
        return {self.key: size or width}


# The format of Hugging Face: config.json ↔ facts.
CONFIG = (*bert.CONFIG, EmbeddingSize())
MLM = HFHead(MLMHead(dense_activation="gelu"), "generator_predictions.", bert.MLM.config_map)
REPLACED_TOKEN = HFHead(
    ReplacedTokenHead(),
    "discriminator_predictions.",
    (Key("hidden_act", "dense", ACTIVATIONS),),
    from_stack={"dense": "activation"},
)
LABEL = HFHead(
    LabelHead(2, dropout=0.1, dense="gelu"),
    "classifier.dense.",
    bert.LABEL.config_map,
    from_stack=bert.STACK_DROPOUT,
    pool=FIRST,
)
TOKEN_LABEL = HFHead(
    bert.TOKEN_LABEL.head,
    "classifier.weight",
    bert.TOKEN_LABEL.config_map,
    from_stack=bert.STACK_DROPOUT,
    unless="sequence_summary.",
)
CHOICE = HFHead(
    ChoiceHead(dropout=0.1, dense="gelu", last_only=True),
    "sequence_summary.",
    (
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
    authors="Kevin Clark, Minh-Thang Luong, Quoc V. Le, Christopher D. Manning",
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
    heads=(MLM, REPLACED_TOKEN, bert.SPAN, LABEL, TOKEN_LABEL, CHOICE),
    formats={"hf": HF},
)
