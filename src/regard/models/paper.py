"""A paper as a value: its place in the lineage, the model sizes it published, its file formats."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain

from torch import nn

from regard.core.device import uninitialised
from regard.models.encoder_decoder import ModelFacts
from regard.models.formats.hf_format import HFFormat
from regard.models.heads import AnyHead, PaperHead
from regard.models.trunk_with_heads import TrunkWithHeads

Pretraining = Mapping[str, Mapping[str, object]]
PAPER_KEY = "regard_paper"  # names the paper in a config.json, where several share a model_type


@dataclass(frozen=True)
class Paper:
    """A paper of the lineage, which builds on the paper ``after``.

    ``sizes`` are models without heads, ``published`` their parameter counts in the paper.
    ``tokenizer`` is the family of tokenizer that is trained, ``pretraining`` the objectives with
    the keys of their tables in recipes, and ``pretraining_by_size`` the keys in which a size
    differs. ``heads`` are the paper's forms of heads, ``formats`` the file formats of other
    libraries ("hf"). A paper without arXiv number has a ``report``: who published it. ``authors``
    are separated by commas; of long lists the first five and "others".
    """

    name: str
    year: int
    title: str
    arxiv: str | None
    after: str | None
    sizes: Mapping[str, ModelFacts]
    published: Mapping[str, int] = field(default_factory=dict)
    tokenizer: str = "plain"
    pretraining: Pretraining = field(default_factory=dict)
    pretraining_by_size: Mapping[str, Pretraining] = field(default_factory=dict)
    heads: tuple[PaperHead, ...] = ()
    formats: Mapping[str, HFFormat] = field(default_factory=dict)
    report: str = ""
    authors: str = ""

    @property
    def key(self) -> str:
        """The name in recipes and configuration files."""
        return self.name.lower()

    @property
    def default_size(self) -> str:
        """The size "base", or the first if there is none."""
        return "base" if "base" in self.sizes else next(iter(self.sizes))

    @property
    def reference(self) -> str:
        """Citation of the paper: its arXiv number or report."""
        return f"arXiv:{self.arxiv}" if self.arxiv else self.report

    def pretraining_of(self, size: str) -> dict[str, dict[str, object]]:
        """The objectives of a size, each with the keys of its table in recipes."""
        own = self.pretraining_by_size.get(size, {})
        return {name: {**keys, **own.get(name, {})} for name, keys in self.pretraining.items()}

    def training_of(self, size: str) -> dict[str, object]:
        """Facts of a size that are not part of its model: the tokenizer and the objectives."""
        options = {
            f"{name}.{key}": value
            for name, keys in self.pretraining_of(size).items()
            for key, value in keys.items()
        }
        return {"tokenizer": self.tokenizer, "objectives": " + ".join(self.pretraining), **options}

    def fit_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """The model with its heads, and the pool under them, in the form of the paper."""
        forms = [(self._form_of(head), head) for head in facts.output_heads]
        heads = tuple(form.fit(head, facts.trunk.stack) for form, head in forms)
        pool = next((form.pool for form, _ in reversed(forms) if form.pool), facts.pool)
        return replace(facts, pool=pool, output_heads=heads)

    def _form_of(self, head: AnyHead) -> PaperHead:
        """The paper's head of that class, else the head of that name, else the head unchanged."""
        classes = (form for form in self.heads if form.head.__class__ is head.__class__)
        names = (form for form in self.heads if form.head.name == head.name)
        return next(chain(classes, names, (PaperHead(head),)))

    def parameters(self, facts: ModelFacts) -> int:
        """The number of parameters of a model of these facts, tied ones counted once."""
        return _parameters_of(facts)


@cache
def _parameters_of(facts: ModelFacts) -> int:
    with uninitialised("meta"):
        return count_parameters(facts.build())


def count_parameters(model: nn.Module) -> int:
    """Parameters of a model, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
