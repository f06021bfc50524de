"""Options of views of one input: attention, contributions, patches, attributions and heads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from regard.core.errors import BadInput
from regard.core.flags import Flag, Options, parse_pair, refuse
from regard.experiments.options import AGAINST, EDITS, HEAD, LAYER, SECOND, SUBWORDS, TARGET, TOKEN

Places = Literal["states", "attention_outputs", "cross_outputs", "mlp_outputs", "head_outputs"]
Method = Literal["all", "gradient", "integrated", "rollout", "attention-gradient", "leave-one-out"]


@dataclass(frozen=True)
class LookOptions(Options):
    """The attention map that is shown, and the edits of the model."""

    target: Annotated[
        str | None,
        Flag(
            metavar="TEXT",
            help="Translation to show, not the model's own; second text of an encoder.",
        ),
    ] = None
    kind: Annotated[
        str | None,
        Flag("--map", help="Attention map: cross, encoder, alignment, …", default="the first"),
    ] = None
    layer: LAYER = None
    head: HEAD = None
    subwords: SUBWORDS = False
    repeat: Annotated[bool, Flag("--repeat", help="Read all tokens twice (causal models).")] = False
    induction: Annotated[
        bool, Flag("--induction", help="Score each head of a causal model as an induction head.")
    ] = False
    rollout: Annotated[
        bool, Flag("--rollout", help="Attention rollout through all layers, or up to --layer.")
    ] = False
    patch: Annotated[
        str | None,
        Flag(
            metavar="ROW,COLUMN", help="Patch of an image whose attention is shown, counted from 0."
        ),
    ] = None
    edits: EDITS = None

    def check(self) -> None:
        """Refuse options that scores of induction heads do not have."""
        if self.induction:
            values = {name: getattr(self, name) for name in ("subwords", "rollout", "patch")}
            values["target"] = self.target is not None
            refuse(values, "cannot be used with --induction")

    @property
    def place(self) -> tuple[int, int] | None:
        """Row and column of the patch."""
        if self.patch is None:
            return None
        return parse_pair("patch", self.patch, "ROW,COLUMN, such as 0,3")


@dataclass(frozen=True)
class LogitOptions(Options):
    """The logit that is explained."""

    second: SECOND = None
    target: TARGET = None
    against: AGAINST = None
    token: TOKEN = None


@dataclass(frozen=True)
class ContributionOptions(LogitOptions):
    """The logit that is explained, or the logit lens."""

    lens: Annotated[
        bool, Flag("--lens", help="Show what each layer would predict (logit lens) instead.")
    ] = False

    def check(self) -> None:
        """Refuse options of a logit with the lens, which shows all."""
        if self.lens:
            values = {"target": self.target, "against": self.against}
            refuse({**values, "token": self.token is not None}, "cannot be used with --lens")


@dataclass(frozen=True)
class PatchOptions(LogitOptions):
    """The logit that is restored, and the places that are patched."""

    at: Annotated[Places, Flag(help="Values to patch.")] = "states"
    layer: LAYER = None
    into: Annotated[
        str | None,
        Flag(
            metavar="LAYER,HEAD", help="Patch the paths from earlier heads into this head instead."
        ),
    ] = None

    @property
    def receiver(self) -> tuple[int, int] | None:
        """Layer and number of the head that paths lead into."""
        return (
            None if self.into is None else parse_pair("into", self.into, "LAYER,HEAD, such as 5,1")
        )


@dataclass(frozen=True)
class AttributionOptions(Options):
    """The prediction that is explained, how, or without what it is made again."""

    target: Annotated[
        str | None,
        Flag(
            metavar="NAME",
            help="Label, token, or translation to explain.",
            default="the model's own",
        ),
    ] = None
    token: TOKEN = None
    method: Annotated[Method, Flag(help="Method of attribution.")] = "all"
    steps: Annotated[
        int, Flag(least=1, help="First number of steps of integrated gradients; doubled if needed.")
    ] = 16
    without: Annotated[
        list[str] | None,
        Flag(
            metavar="PART",
            help='Show the prediction without "head LAYER.HEAD", "layer NUMBER" or "word WORD" '
            "instead; repeatable.",
        ),
    ] = None
    subwords: SUBWORDS = False

    def check(self, **drawings: Path | None) -> None:
        """Refuse options of attributions, and their drawings, with ``without``."""
        if self.without:
            values = {name: name in self.used for name in ("method", "steps", "subwords")}
            refuse({**values, **drawings}, "cannot be used with --without")


@dataclass(frozen=True)
class HeadOptions(Options):
    """Texts, images or a treebank on which heads are measured."""

    text: Annotated[
        str | None,
        Flag(
            metavar="FILE",
            help="Texts, one per line (a tab between two); or an image, a folder, a file of paths.",
        ),
    ] = None
    treebank: Annotated[
        Path | None,
        Flag(metavar="FILE", help="CoNLL-U file, or a folder with files for dev and test."),
    ] = None
    test: Annotated[
        Path | None,
        Flag(
            metavar="FILE",
            help="CoNLL-U file to score on; default: the second half of the treebank.",
        ),
    ] = None
    labels: Annotated[
        str | None,
        Flag(metavar="FILE", help="Gold label of each text, for the importance of heads."),
    ] = None
    least: Annotated[int, Flag(least=1, help="Fewest words of a relation, in dev and in test.")] = (
        100
    )

    def check(self) -> None:
        """Refuse options without the texts, or the treebank, that they need."""
        if self.text is None and self.treebank is None:
            raise BadInput("give --text FILE, --treebank FILE, or both")
        if self.treebank is None:
            refuse({"test": self.test}, "needs --treebank")
        if self.text is None:
            refuse({"labels": self.labels}, "needs --text")
