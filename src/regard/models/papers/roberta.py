"""RoBERTa (Liu et al., 2019, arXiv:1907.11692): BERT with byte-level BPE, one segment, masks drawn
anew in each epoch, rows full of sentences and no next-sentence prediction. Its first two vectors of
positions are not used; a dense layer over the first state classifies rows.
"""

from regard.models.facts import FirstToken, LabelHead, MLMHead, change
from regard.models.facts.positions import Learned
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.weights import Alias, Passthrough, Rule, WeightMap

OFFSET = 2  # the id of the padding token, and one
BASE = change(bert.BASE, vocab=50_265, segments=1, eps=1e-5, position=Learned(512, offset=OFFSET))
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)

EMPTY = change(BASE, longest=510, segments=2, eps=1e-12)  # what an empty config.json means
POSITIONS = Key("max_position_embeddings", "longest", more=OFFSET)  # instead of BERT's row
CONFIG = (*bert.CONFIG, POSITIONS, Constant("pad_token_id", OFFSET - 1))
MLM = HFHead(MLMHead(dense_activation="gelu"), "lm_head.", (Key("tie_word_embeddings", "tied"),))
DENSE = LabelHead(2, dropout=0.1, dense="tanh")
LABEL = HFHead(DENSE, "classifier.dense.", bert.LABEL.rows, pool=FirstToken(dense=False))
TOKEN_LABEL = HFHead(bert.TOKEN_LABEL.head, "classifier.weight", bert.TOKEN_LABEL.rows)
CHOICE = HFHead(bert.CHOICE.head, "classifier.weight", (Key("hidden_dropout_prob", "dropout"),))
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
TRUNK = (*bert.TRUNK, Passthrough("embeddings.token_type_ids"))
HEADS = (
    Rule("lm_head.dense.*", "heads.mlm.dense.*"),
    Rule("lm_head.layer_norm.*", "heads.mlm.norm.*"),
    Rule("lm_head.decoder.{weight,bias}", "heads.mlm.out.{weight,bias}"),  # if not tied
    Rule("lm_head.bias", "heads.mlm.out.bias"),
    Alias("lm_head.decoder.weight", "trunk.embed.token.weight"),
    Alias("lm_head.decoder.bias", "heads.mlm.out.bias"),
    Alias("lm_head.bias", "heads.mlm.out.bias", loose=True),  # not read if not tied
    Rule("classifier.dense.*", "heads.label.dense.*"),
    Rule("classifier.out_proj.*", "heads.label.out.*"),
    Rule("classifier.*", "heads.token_label.out.*"),
    Rule("classifier.*", "heads.choice.out.*"),
    Rule("qa_outputs.*", "heads.span.out.*"),
)
WEIGHTS = WeightMap(TRUNK, prefix="roberta.", outside=HEADS)
HF = HFFormat("RoBERTa", "roberta", EMPTY, (*CONFIG, ARCHITECTURES), WEIGHTS, EncoderTokenizer)

PAPER = Paper(
    name="RoBERTa",
    year=2019,
    title="RoBERTa: A Robustly Optimized BERT Pretraining Approach",
    arxiv="1907.11692",
    after="BERT",
    tokenizer="byte-bpe",
    heads={"label.dense": "tanh", "mlm.dense_activation": "gelu"},
    pools={"label": FirstToken(dense=False)},
    sizes={"base": BASE, "large": LARGE},
    published={"base": 125_000_000, "large": 355_000_000},
    formats={"hf": HF},
)
