"""Floor 3: from logits of the next token to hypotheses: searches, their state and its engines."""

from regard.generation.beam import Beam as Beam
from regard.generation.beam_rules import rescore as rescore
from regard.generation.constraints import Constraints as Constraints
from regard.generation.diverse import Diverse as Diverse
from regard.generation.engines import build_engine as build_engine
from regard.generation.engines import choose_engine as choose_engine
from regard.generation.engines import default_engine as default_engine
from regard.generation.engines import open_state as open_state
from regard.generation.exact import Exact as Exact
from regard.generation.greedy import Greedy as Greedy
from regard.generation.hypothesis import Hypothesis as Hypothesis
from regard.generation.mbr import MinimumRisk as MinimumRisk
from regard.generation.sample import Sample as Sample
from regard.generation.state import EAGER as EAGER
from regard.generation.state import DecodingState as DecodingState
from regard.generation.state import EditingEngine as EditingEngine
from regard.generation.state import Engine as Engine
from regard.generation.state import Prompts as Prompts
from regard.generation.step import Ensemble as Ensemble
from regard.generation.step import Search as Search
from regard.generation.step import SearchState as SearchState
from regard.generation.step import score as score
