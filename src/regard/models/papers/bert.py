"""BERT (Devlin et al., 2018, arXiv:1810.04805): an encoder that sees both ways, pre-trained by
filling blanks. The small sizes are those of Turc et al. (2019, arXiv:1908.08962).
"""

from regard.models.facts import FirstToken, Stack, Tokens, Trunk, TrunkWithHeads, change
from regard.models.facts.positions import Learned
from regard.models.paper import Paper
from regard.weights.weight_map import Alias, Line, Passthrough, Rule, WeightMap

BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=30_522, position=Learned(512), segments=2, normed=True),
        Stack(
            width=768,
            depth=12,
            heads=12,
            inner=3_072,
            activation="gelu",
            eps=1e-12,
            dropout=0.1,
            attention_dropout=0.1,
        ),
    ),
    pool=FirstToken(dense=True),
    init_std=0.02,
)
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)
MEDIUM = change(BASE, width=512, depth=8, heads=8, inner=2_048)
SMALL = change(MEDIUM, depth=4)
MINI = change(SMALL, width=256, heads=4, inner=1_024)
TINY = change(MINI, width=128, depth=2, heads=2, inner=512)

PAPER = Paper(
    name="BERT",
    year=2018,
    title="BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    arxiv="1810.04805",
    after="Transformer",
    tokenizer="wordpiece",
    sizes={
        "base": BASE,
        "large": LARGE,
        "medium": MEDIUM,
        "small": SMALL,
        "mini": MINI,
        "tiny": TINY,
    },
    published={
        "base": 110_000_000,
        "large": 340_000_000,
        "medium": 41_700_000,
        "small": 29_100_000,
        "mini": 11_300_000,
        "tiny": 4_400_000,
    },
)

LAYER, OURS = "bert.encoder.layer.{i}.", "trunk.blocks.{i}."
TRUNK = (
    Rule("bert.embeddings.word_embeddings.weight", "trunk.embed.token.weight"),
    Rule("bert.embeddings.position_embeddings.weight", "trunk.embed.position.weight"),
    Rule("bert.embeddings.token_type_embeddings.weight", "trunk.embed.segment.weight"),
    Rule("bert.embeddings.LayerNorm.*", "trunk.embed.norm.*"),
    Passthrough("bert.embeddings.position_ids"),
    Rule(LAYER + "attention.self.{query,key,value}.*", OURS + "attention.qkv.*"),
    Rule(LAYER + "attention.output.dense.*", OURS + "attention.o.*"),
    Rule(LAYER + "attention.output.LayerNorm.*", OURS + "attention_residual.norm.*"),
    Rule(LAYER + "intermediate.dense.*", OURS + "mlp.up.*"),
    Rule(LAYER + "output.dense.*", OURS + "mlp.down.*"),
    Rule(LAYER + "output.LayerNorm.*", OURS + "mlp_residual.norm.*"),
    Rule("bert.pooler.dense.*", "pool.dense.*"),
)
WORDS = (
    Rule("cls.predictions.transform.dense.*", "heads.mlm.dense.*"),
    Rule("cls.predictions.transform.LayerNorm.*", "heads.mlm.norm.*"),
)
TIED: tuple[Line, ...] = (
    Alias("cls.predictions.decoder.weight", of="bert.embeddings.word_embeddings.weight"),
    Rule("cls.predictions.bias", "heads.mlm.out.bias"),
    Alias("cls.predictions.decoder.bias", of="cls.predictions.bias"),
)
APART: tuple[Line, ...] = (  # then nothing ties the two biases either, and nothing reads the first
    Rule("cls.predictions.decoder.*", "heads.mlm.out.*"),
    Alias("cls.predictions.bias", of="cls.predictions.decoder.bias", loose=True),
)
FOLLOWS = Rule("cls.seq_relationship.*", "heads.sentence_pair.out.*")
HEADS = {
    "label": "classifier",
    "token_label": "classifier",
    "span": "qa_outputs",
    "choice": "classifier",
}
OLD = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


def names(facts: TrunkWithHeads) -> WeightMap:
    """The weight map of a model of these facts."""
    mlm = facts.head("mlm")
    lines: tuple[Line, ...] = (*TRUNK, *WORDS, *(TIED if mlm is None or mlm.tied else APART))
    task_heads = [
        Rule(f"{HEADS[head.name]}.*", f"heads.{head.name}.out.*")
        for head in facts.output_heads
        if head.name in HEADS
    ]
    return WeightMap((*lines, FOLLOWS, *task_heads), prefix="bert.", old=OLD)
