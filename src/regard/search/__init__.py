"""Floor 3: from next-token distributions to sequences."""

from regard.search.beam import Beam
from regard.search.diverse import Diverse
from regard.search.ensemble import Ensemble
from regard.search.exact import Exact
from regard.search.greedy import Greedy
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits
from regard.search.mbr import MinimumRisk
from regard.search.rules import rescored
from regard.search.sample import Sample
from regard.search.score import score
from regard.search.step import CoverageState, Search, State

__all__ = [
    "Beam",
    "CoverageState",
    "Diverse",
    "Ensemble",
    "Exact",
    "Greedy",
    "Hypothesis",
    "Limits",
    "MinimumRisk",
    "Sample",
    "Search",
    "State",
    "rescored",
    "score",
]
