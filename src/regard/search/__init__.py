"""Floor 3: decoding algorithms, from next-token distributions to hypotheses."""

from regard.search.beam import Beam as Beam
from regard.search.beam_rules import rescore as rescore
from regard.search.constraints import Constraints as Constraints
from regard.search.diverse import Diverse as Diverse
from regard.search.exact import Exact as Exact
from regard.search.greedy import Greedy as Greedy
from regard.search.hypothesis import Hypothesis as Hypothesis
from regard.search.mbr import MinimumRisk as MinimumRisk
from regard.search.sample import Sample as Sample
from regard.search.step import Ensemble as Ensemble
from regard.search.step import Search as Search
from regard.search.step import SearchState as SearchState
from regard.search.step import score as score
