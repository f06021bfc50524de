"""Floor 3: the decoding state, with or without a source, and the engines that step it."""

from regard.decoding.engines import build_engine, choose_engine, default_engine
from regard.decoding.engines import open_state as open
from regard.decoding.state import EAGER, DecodingState, EditingEngine, Engine, Prompts

__all__ = [
    "EAGER",
    "DecodingState",
    "EditingEngine",
    "Engine",
    "Prompts",
    "build_engine",
    "choose_engine",
    "default_engine",
    "open",
]
