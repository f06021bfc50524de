"""Floor 3: search, from next-token distributions to hypotheses."""

from regard.search.beam import Beam
from regard.search.beam_rules import rescore
from regard.search.constraints import Constraints
from regard.search.diverse import Diverse
from regard.search.exact import Exact
from regard.search.greedy import Greedy
from regard.search.hypothesis import Hypothesis
from regard.search.mbr import MinimumRisk
from regard.search.sample import Sample
from regard.search.step import Ensemble, Search, SearchState, score

__all__ = [
    "Beam",
    "Constraints",
    "Diverse",
    "Ensemble",
    "Exact",
    "Greedy",
    "Hypothesis",
    "MinimumRisk",
    "Sample",
    "Search",
    "SearchState",
    "rescore",
    "score",
]
