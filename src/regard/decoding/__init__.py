"""Floor 3: one decoding state with or without a source, and the engines that step it."""

from regard.decoding.eager import EAGER
from regard.decoding.engines import Engine, build_engine, choose_engine, default_engine
from regard.decoding.engines import open_state as open
from regard.decoding.prompt import Prompts
from regard.decoding.state import DecodingState

__all__ = [
    "EAGER",
    "DecodingState",
    "Engine",
    "Prompts",
    "build_engine",
    "choose_engine",
    "default_engine",
    "open",
]
