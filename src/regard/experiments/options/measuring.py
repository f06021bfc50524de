"""Options of measurements: scores of translations, alignment, neighbours, probes and pruning."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from regard.core.errors import BadInput
from regard.core.flags import Flag, Options, refuse
from regard.experiments.options import (
    COLUMN,
    HEAD,
    INTERVAL,
    LAYER,
    LIMIT,
    LOWERCASE,
    MAX_LENGTH,
    POOL,
    PRETOKENISED,
    SEED,
    SKIP_BAD,
    SUBWORDS,
    TOKENIZE,
    WORKERS,
)
from regard.metrics.links import Symmetrisation

DEFAULT_COVERAGE = "0:1:0.1"
Method = Literal["importance", "gates", "random"]


@dataclass(frozen=True)
class BleuOptions(Options):
    """Metrics of translations: BLEU, perhaps chrF and TER, with intervals, with its tables."""

    with_tables: Annotated[bool, Flag("--explain", help="Print the n-gram tables behind BLEU.")] = (
        False
    )
    tokenize: TOKENIZE = "13a"
    lowercase: LOWERCASE = False
    with_chrf: Annotated[bool, Flag("--chrf", help="Print chrF too.")] = False
    with_ter: Annotated[bool, Flag("--ter", help="Print TER too; lower is better.")] = False
    with_interval: INTERVAL = False


@dataclass(frozen=True)
class SweepOptions(Options):
    """Length rules and coverage weights, and what is done with the best."""

    alpha: Annotated[str, Flag(help="Exponents of gnmt and power: from:to:step, or a,b,c.")] = (
        "0:2:0.1"
    )
    coverage: Annotated[
        str | None,
        Flag(help=f"Weights of the coverage penalty; default: {DEFAULT_COVERAGE} if stored."),
    ] = None
    top: Annotated[int, Flag(least=0, help="Number of settings printed; 0: all.")] = 10
    save: Annotated[
        str | None, Flag(metavar="MODEL", help="Store the best length rule in this model's folder.")
    ] = None
    with_interval: INTERVAL = False
    tokenize: TOKENIZE = "13a"
    lowercase: LOWERCASE = False


@dataclass(frozen=True)
class AlignmentOptions(Options):
    """How words are aligned, and what the alignment is compared with."""

    reverse_model: Annotated[
        str | None, Flag(metavar="MODEL", help="Model of the opposite direction.")
    ] = None
    symmetrise: Annotated[
        Symmetrisation | None,
        Flag(help="Symmetrisation of both directions.", default="grow-diag-final"),
    ] = None
    multiply: Annotated[
        bool, Flag("--multiply", help="Multiply the attention of both directions.")
    ] = False
    choose: Annotated[
        Literal["agreement"] | None,
        Flag(help="Choose the methods on which both directions agree most."),
    ] = None
    gold: Annotated[
        str | None,
        Flag(metavar="FILE", help="Gold links (i-j sure, ipj possible); prints the AER."),
    ] = None
    base: Annotated[int | None, Flag(help="First index of gold links, 0 or 1.", default="0")] = None
    count_kinds: Annotated[
        bool, Flag("--kinds", help="Count the types of links: 1-1, 1-n, spurious words ...")
    ] = False
    pretokenised: PRETOKENISED = False
    subwords: SUBWORDS = False
    layer: LAYER = None
    head: HEAD = None
    shifted: Annotated[
        bool | None,
        Flag(
            "--shifted/--plain",
            help="Align a word by the decoder step that reads it (--shifted) or predicts it.",
        ),
    ] = None
    max_length: MAX_LENGTH = None

    @property
    def changes(self) -> dict[str, object]:
        """Fields of the method that the user sets."""
        return {"layer": self.layer, "head": self.head, "shifted": self.shifted}

    def check(self) -> None:
        """Refuse options that cannot be used together."""
        if self.reverse_model is None:
            names = ("symmetrise", "multiply", "choose")
            refuse({name: getattr(self, name) for name in names}, "needs --reverse-model")
        if self.choose and any(value is not None for value in self.changes.values()):
            fault = "cannot be used with --layer, --head or --shifted"
            raise BadInput(f"--choose agreement: {fault}")
        if self.base not in (None, 0, 1):
            raise BadInput(f"--base: gold links count from 0 or 1, not {self.base}")
        if self.base is not None and self.gold is None:
            raise BadInput("--base: needs --gold")
        if self.subwords and (self.pretokenised or self.gold is not None):
            raise BadInput("--subwords: cannot be used with --pretokenised or --gold")


@dataclass(frozen=True)
class NeighbourOptions(Options):
    """Texts in which a word is found, or images, and numbers of neighbours."""

    texts: Annotated[
        list[str] | None,
        Flag("--text", metavar="TEXT", help="Text with the word, instead of FILE; repeatable."),
    ] = None
    vectors: Annotated[
        Path | None,
        Flag(metavar="FILE", help="Word vectors (GloVe); default: the embedding layer."),
    ] = None
    top: Annotated[int, Flag(least=1, help="Number of neighbours.")] = 5
    occurrences: Annotated[int, Flag(least=1, help="Number of occurrences of the word.")] = 5
    layer: LAYER = None
    pool: POOL = None
    max_length: MAX_LENGTH = None
    workers: WORKERS = None
    skip_bad: SKIP_BAD = False


@dataclass(frozen=True)
class AblationOptions(Options):
    """What is turned off, and the examples that are scored."""

    heads: Annotated[
        bool, Flag("--heads", help="Turn off each attention head; this is the default.")
    ] = False
    layers: Annotated[bool, Flag("--layers", help="Turn off each layer.")] = False
    edits: Annotated[
        list[Path] | None,
        Flag("--edits", metavar="FILE", help="Apply the edits of a TOML file; repeatable."),
    ] = None
    on_test: Annotated[
        bool, Flag("--test", help="Score the test set of the recipe, not its dev set.")
    ] = False
    limit: LIMIT = None

    @property
    def kind(self) -> str:
        """heads, layers or edits: the only one that is chosen."""
        names = ("heads", "layers", "edits")
        kind, *others = [name for name in names if getattr(self, name)] or names[:1]
        if others:
            raise BadInput(f"--{kind} and --{others[0]}: choose one of them")
        return kind


@dataclass(frozen=True)
class RetrievalOptions(Options):
    """Documents that are ranked, and the judgements that score the ranking."""

    qrels: Annotated[
        Path | None, Flag("--qrels", "Judgements: score the ranking by them.", "FILE")
    ] = None
    rerank: Annotated[
        Path | None, Flag("--rerank", "Rank only the documents listed for each query.", "FILE")
    ] = None
    top: Annotated[int, Flag(least=1, help="Number of documents for each query.")] = 100
    keep_own: Annotated[
        bool, Flag("--keep-own", help="Score documents that have the id of their query as well.")
    ] = False
    pool: POOL = None
    interval: INTERVAL = False

    def check(self) -> None:
        """Refuse options of scores without judgements."""
        if self.qrels is None:
            reason = "needs --qrels, by which the ranking is scored"
            self.refuse("interval", "keep_own", reason=reason)


@dataclass(frozen=True)
class MiningOptions(Options):
    """Texts, and which of their pairs are found."""

    score: Annotated[
        Literal["cosine", "margin"] | None,
        Flag(help="Score of pairs; default: cosine in one file, margin between two."),
    ] = None
    neighbours: Annotated[
        int, Flag(least=1, help="Number of nearest texts that are candidates for each text.")
    ] = 4
    least: Annotated[float | None, Flag("--least", help="Lowest score that is printed.")] = None
    top: Annotated[int | None, Flag(least=1, help="Number of pairs; default: all.")] = None
    column: COLUMN = None
    pool: POOL = None


@dataclass(frozen=True)
class ProbeOptions(Options):
    """Examples, their labels, and the states that are probed."""

    train: Annotated[Path, Flag("--train", metavar="FILE", help="Examples to train probes on.")]
    dev: Annotated[
        Path, Flag("--dev", "Examples to choose the strength of L2 and layers on.", "FILE")
    ]
    test: Annotated[Path, Flag("--test", metavar="FILE", help="Examples to score probes on.")]
    task: Annotated[
        Literal["tags", "arcs", "arc-labels", "pairs"],
        Flag(help="Labels of words; head and dependent, or not; labels of arcs; WiC pairs."),
    ] = "tags"
    column: Annotated[
        str | None,
        Flag(
            metavar="NAME|N",
            help="Column of tags: upos, xpos, deprel, … of .conllu files, or a number from 0.",
            default="upos of .conllu files, else the last",
        ),
    ] = None
    layers: Annotated[
        str | None, Flag(metavar="N,N", help="Layers to probe; 0 is the embedding.", default="all")
    ] = None
    pieces: Annotated[
        Literal["mean", "first", "last"], Flag(help="State of a word of several tokens.")
    ] = "mean"
    limit: Annotated[
        int | None,
        Flag(
            least=1,
            help="Most examples of each file, from sentences drawn at random.",
            default="all",
        ),
    ] = None
    seed: SEED = 0

    @property
    def files(self) -> tuple[Path, Path, Path]:
        """Files for training, dev and test."""
        return self.train, self.dev, self.test


@dataclass(frozen=True)
class PruningOptions(Options):
    """Heads to remove, their order, and what the smaller model is compared with."""

    share: Annotated[
        float | None,
        Flag(help="Share of heads to remove, at least 0 and below 1.", default="the curve"),
    ] = None
    sites: Annotated[
        str | None,
        Flag(
            metavar="NAMES",
            help="Attention to prune: encoder, decoder, cross, separated by commas.",
            default="all",
        ),
    ] = None
    method: Annotated[
        Method, Flag(help="Order of removal: by importance, by learned gates, or random.")
    ] = "importance"
    seeds: Annotated[int, Flag(least=0, help="Number of random orders to compare with.")] = 3
    seed: SEED = 0
    inputs: Annotated[
        int, Flag(least=1, help="Training examples for importance, gates and times.")
    ] = 256
    limit: LIMIT = None
    by_layer: Annotated[
        bool, Flag("--by-layer", help="Divide importance by its norm in each layer.")
    ] = False
    rounds: Annotated[
        int, Flag(least=1, help="Rounds of removal; each measures importance again.")
    ] = 1
    penalty: Annotated[float, Flag(help="Penalty of an open gate.")] = 0.01
    epochs: Annotated[int, Flag(least=1, help="Passes over the inputs to learn gates.")] = 5
    train_weights: Annotated[
        float | None,
        Flag(
            metavar="RATE",
            help="Train the weights together with the gates, at this learning rate.",
            default="weights stay",
        ),
    ] = None
    compare_training: Annotated[
        Path | None,
        Flag(
            metavar="DIR",
            help="Also train the recipe from random weights with the heads that stay, to this "
            "run folder, and score it.",
        ),
    ] = None

    def check(self, out: Path | None) -> None:
        """Refuse options that another method has, and a folder for the model of the curve."""
        if self.share is None and self.train_weights is None:
            smaller = {"out": out, "compare_training": self.compare_training}
            refuse(smaller, "needs --share, or --train-weights")
        if self.method != "importance":
            self.refuse("by_layer", "rounds", reason="needs --method importance")
        if self.method != "gates":
            unused = ("penalty", "epochs", "train_weights")
            self.refuse(*unused, reason="needs --method gates")
