"""Papers: one file each, which is imported when its paper is looked up in ``PAPERS``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from regard.core.catalogue import Catalogue, Entry, entries, submodule
from regard.core.errors import BadInput, did_you_mean, shown
from regard.models.encoder_decoder import ModelFacts
from regard.models.paper import PAPER_KEY, Paper

PAPERS = Catalogue[Paper](
    {
        "cho": Entry("regard.models.papers.cho:PAPER"),
        "sutskever": Entry("regard.models.papers.sutskever:PAPER"),
        "zaremba": Entry("regard.models.papers.zaremba:PAPER"),
        "bahdanau": Entry("regard.models.papers.bahdanau:PAPER"),
        "luong": Entry("regard.models.papers.luong:PAPER"),
        "dai": Entry("regard.models.papers.dai:PAPER"),
        "ma": Entry("regard.models.papers.ma:PAPER"),
        "context2vec": Entry("regard.models.papers.context2vec:PAPER"),
        "esim": Entry("regard.models.papers.esim:PAPER"),
        "bidaf": Entry("regard.models.papers.bidaf:PAPER"),
        "gehring": Entry("regard.models.papers.gehring:PAPER"),
        "lin": Entry("regard.models.papers.lin:PAPER"),
        "taglm": Entry("regard.models.papers.taglm:PAPER"),
        "transformer": Entry("regard.models.papers.transformer:PAPER", "marian"),
        "he": Entry("regard.models.papers.he:PAPER"),
        "lee": Entry("regard.models.papers.lee:PAPER"),
        "cove": Entry("regard.models.papers.cove:PAPER"),
        "awd-lstm": Entry("regard.models.papers.awd_lstm:PAPER"),
        "clark": Entry("regard.models.papers.clark:PAPER"),
        "marian": Entry("regard.models.papers.marian:PAPER", "marian"),
        "ulmfit": Entry("regard.models.papers.ulmfit:PAPER"),
        "elmo": Entry("regard.models.papers.elmo:PAPER"),
        "gpt": Entry("regard.models.papers.gpt:PAPER", "openai-gpt"),
        "bert": Entry("regard.models.papers.bert:PAPER", "bert"),
        "gpt-2": Entry("regard.models.papers.gpt2:PAPER", "gpt2"),
        "ernie": Entry("regard.models.papers.ernie:PAPER", "ernie"),
        "grover": Entry("regard.models.papers.grover:PAPER", "gpt2"),
        "xlnet": Entry("regard.models.papers.xlnet:PAPER", "xlnet"),
        "roberta": Entry("regard.models.papers.roberta:PAPER", "roberta"),
        "spanbert": Entry("regard.models.papers.spanbert:PAPER", "bert"),
        "albert": Entry("regard.models.papers.albert:PAPER", "albert"),
        "distilbert": Entry("regard.models.papers.distilbert:PAPER", "distilbert"),
        "t5": Entry("regard.models.papers.t5:PAPER", "t5"),
        "electra": Entry("regard.models.papers.electra:PAPER", "electra"),
        "mt5": Entry("regard.models.papers.mt5:PAPER", "mt5"),
        "vit": Entry("regard.models.papers.vit:PAPER", "vit"),
        "deit": Entry("regard.models.papers.deit:PAPER", "deit"),
        "llama": Entry("regard.models.papers.llama:PAPER", "llama"),
        "mistral": Entry("regard.models.papers.mistral:PAPER", "mistral"),
        "qwen2": Entry("regard.models.papers.qwen2:PAPER", "qwen2"),
        "modernbert": Entry("regard.models.papers.modernbert:PAPER", "modernbert"),
    }
)
"""All papers in order of time, by key, each with its ``model_type`` in config.json."""
LINEAGE: tuple[Paper, ...]
"""All papers, from the first to the last."""
KINDS = Catalogue[type](
    entries(
        {
            "regard.models.characters": ("Characters",),
            "regard.models.conv": ("ConvEncoderFacts",),
            "regard.models.coreference_head": ("CoreferenceHead",),
            "regard.models.embedding": ("Learned",),
            "regard.models.encoder_decoder": ("EncoderDecoder",),
            "regard.models.features": ("Features",),
            "regard.models.heads": ("NextTokenHead",),
            "regard.models.label_heads": (
                *("ChoiceHead", "DenseLayer", "DropoutSpanHead"),
                *("LabelHead", "MLMHead", "SentencePairHead", "SpanHead", "TokenLabelHead"),
                "TransitionHead",
            ),
            "regard.models.papers.albert": ("SentenceOrderHead",),
            "regard.models.papers.bidaf": ("AttentionFlow",),
            "regard.models.papers.clark": ("SelfAttentiveFlow",),
            "regard.models.papers.context2vec": ("ContextHead",),
            "regard.models.papers.deit": ("DistilledLabelHead",),
            "regard.models.papers.electra": ("ReplacedTokenHead",),
            "regard.models.papers.elmo": ("BiLMHead", "BiLMStack"),
            "regard.models.papers.ernie": ("TaskTokens",),
            "regard.models.papers.he": ("HighwayStack", "PredicateTokens"),
            "regard.models.papers.spanbert": ("SpanBoundaryHead",),
            "regard.models.papers.t5": ("RelativeBias",),
            "regard.models.papers.ulmfit": ("NormedLabelHead",),
            "regard.models.papers.xlnet.two_stream": ("PermutationLMHead", "TwoStreamStack"),
            "regard.models.patches": ("Patches",),
            "regard.models.pools": (
                *("AttentionPool", "ConcatPool", "FirstToken", "FirstTokens", "LastToken"),
                "MeanPool",
            ),
            "regard.models.positions": ("Relative", "Rotary", "Sinusoid"),
            "regard.models.rnn": ("CausalRNNFacts", "RNNEncoderFacts"),
            "regard.models.rnn_decoder": ("CrossAttentionFacts", "RNNDecoderFacts"),
            "regard.models.text_pairs": ("TextPairStack", "TextsPool"),
            "regard.models.tokens": ("Tokens",),
            "regard.models.transformer": ("Stack",),
            "regard.models.trunk": ("Trunk",),
            "regard.models.trunk_with_heads": ("TrunkWithHeads",),
            "regard.layers.attend": ("PermutationMask", "WindowMask"),
            "regard.layers.rotary": ("LinearScaling", "Llama3Scaling"),
        }
    )
)
"""The classes that facts are made of, by name."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """``LINEAGE``, and papers by the name of their module, imported on first use."""
        if name == "LINEAGE":
            return (*PAPERS.values(),)
        return submodule(__name__, name)


def paper(name: str) -> Paper:
    """The paper of that name."""
    if (key := name.lower()) not in PAPERS:
        raise BadInput(f"no paper is called {name!r}{did_you_mean(key, PAPERS)}")
    return PAPERS[key]


def paper_of_folder(config: Mapping[str, object], where: str) -> Paper:
    """Return the paper of a Hugging Face config.json, by its ``model_type``.

    If several papers share the type, the file may name one; the default is the paper with the name
    of the type.
    """
    types = {key: about for key in PAPERS if (about := PAPERS.entry(key).about)}
    name = config.get("model_type")
    keys = [key for key, model_type in types.items() if model_type == str(name)]
    if not keys:
        supported = f"is not supported, only {', '.join(dict.fromkeys(types.values()))}"
        raise BadInput(f"{where}: model_type {shown(name)} {supported}")
    order = (str(config.get(PAPER_KEY)), str(name), *keys)
    return PAPERS[next(key for key in order if key in keys)]


def sized(name: str) -> ModelFacts:
    """The facts of "PAPER:SIZE", or of the default size of "PAPER"."""
    key, colon, size = name.partition(":")
    entry = paper(key)
    size = size if colon else entry.default_size
    if size not in entry.sizes:
        raise BadInput(f"{entry.name} has no size {size!r}{did_you_mean(size, list(entry.sizes))}")
    return entry.sizes[size]
