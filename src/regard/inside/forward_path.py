"""Functions that run in one forward pass of a paper's model, in order of their first call.

Counted are Python frames of this package in the calling thread: from the facts of a size through
its heads, ``build`` and one forward pass on a CPU in fp32, in eval mode, without cache, with the
attention weights on a tape, so that the definition of ``attend`` runs; or one step of beam search,
with a cache and the kernels of a CPU. Bodies of modules and classes do not count.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType, FunctionType
from typing import NamedTuple, cast

import torch
from torch import nn

from regard.core.batch import pack_texts
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.generation import EAGER, Beam, Constraints, open_state
from regard.inside.parity import random_examples
from regard.models.encoder_decoder import ModelFacts
from regard.models.facts import change, paths
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.label_heads import LabelHead
from regard.models.paper import Paper
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.by_name import OBJECTIVES
from regard.views.code_path import draw_path
from regard.views.view_record import ViewRecord

PACKAGE = Path(__file__).parents[1]
FUNCTION = 1  # CO_OPTIMIZED: the code of a function, not of a module or class
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
SMALL = {"vocab": 64, "depth": 2}  # sizes that change the time, but not the path


class PathStep(NamedTuple):
    """Function of the package: its file under ``regard``, and its first line."""

    file: str
    line: int
    function: str


def small_facts(paper: Paper, size: str) -> ModelFacts:
    """Facts of a size of a paper, with few layers and a small vocabulary."""
    facts = paper.sizes[size]
    known = {path.split(".")[-1] for path, value in paths(facts) if isinstance(value, int)}
    return change(facts, **{name: value for name, value in SMALL.items() if name in known})


def forward_path(paper: Paper, size: str) -> list[PathStep]:
    """Functions that fit heads to a trunk, build the model and run one forward pass."""
    facts = small_facts(paper, size)
    fit, forward = fit_heads(paper, size, facts), _forward(facts)
    return trace(lambda: forward(fit().build().eval()))


def load_path(paper: Paper, size: str) -> list[PathStep]:
    """Functions that read a folder, if possible of Hugging Face, and run one forward pass."""
    facts = fit_heads(paper, size, small_facts(paper, size))()
    forward, loaded = _forward(facts), LoadedModel(paper, facts, facts.build())
    with TemporaryDirectory() as place:
        folder = Path(place) / "model"
        try:
            folders.write(folder, loaded, "hf" if paper.formats else "regard")
        except BadInput:  # it needs a tokenizer, or facts of another paper
            folders.write(folder, loaded)
        return trace(lambda: forward(folders.read(folder).module))


def beam_path(paper: Paper, size: str) -> list[PathStep]:
    """Functions that run in one step of a beam search, after the source was encoded."""
    facts = small_facts(paper, size)
    if "target" not in facts.sides:
        raise BadInput(f"{paper.name}: is no encoder-decoder; a beam search translates")
    _, example, *_ = random_examples(facts)
    module, source = facts.build().eval(), pack_texts([example["source"]])
    search, limits = Beam(4), Constraints(bos=1, eos=2, longest=1)
    with torch.inference_mode():
        state = open_state(module, source, capacity=2, engine=EAGER)
        assert state.source is not None  # encoded here
        return trace(lambda: search(state, limits))


def fit_heads(paper: Paper, size: str, facts: ModelFacts) -> Callable[[], ModelFacts]:
    """Return a function that gives a trunk the heads of its objectives, or a label head."""
    if facts.head_names:  # of an encoder-decoder
        return lambda: facts
    trunk = cast(TrunkWithHeads, facts)
    heads: list[AnyHead] = []
    for name, keys in paper.pretraining_of(size).items():
        objective = OBJECTIVES[name]
        fields = objective.config.model_fields.items()
        required = {key for key, field in fields if field.is_required()}
        config = objective.config.model_construct(None, **dict.fromkeys(required), **keys)
        heads += objective.from_config(config, 0.0).make_heads()
    if not heads and (trunk.pool or any(form.pool for form in paper.heads)):
        heads = [LabelHead(2)]
    return lambda: paper.fit_heads(trunk.with_heads(*heads))


def _forward(facts: ModelFacts) -> Callable[[nn.Module], object]:
    """Forward pass over one random example, with all attention weights on a tape."""
    _, example, *_ = random_examples(facts)
    inputs = facts.inputs(*(pack_texts([example[side]]) for side in facts.sides))

    @torch.inference_mode()
    def forward(module: nn.Module) -> object:
        return module(inputs, tape=Tape("*weights"))

    return forward


def trace(run: Callable[[], object], within: FunctionType | None = None) -> list[PathStep]:
    """Functions of the package that a call runs, each once; or those of the last call of
    ``within``, a function that it calls.
    """
    steps: dict[PathStep, None] = {}
    bodies: list[FrameType] = []  # modules that are being imported
    inner: list[FrameType] = []  # calls of ``within``
    root = f"{PACKAGE}/"

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and within is not None and code is within.__code__:
            inner.append(frame)
            steps.clear()
        elif event == "return" and inner and frame is inner[-1]:
            inner.pop()
        if event == "call" and code.co_name == "<module>":
            bodies.append(frame)
        elif event == "return" and bodies and frame is bodies[-1]:
            bodies.pop()
        elif within is not None and not inner:
            return
        elif event == "call" and not bodies and code.co_filename.startswith(root):
            is_function = code.co_flags & FUNCTION and code.co_name not in COMPREHENSIONS
            if is_function and code.co_filename != __file__:
                file = code.co_filename.removeprefix(root)
                steps[PathStep(file, code.co_firstlineno, code.co_qualname)] = None

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(steps)


def count_lines(files: Iterable[str]) -> dict[str, int]:
    """Number of lines of each file of a path, by its name, in order."""
    names = dict.fromkeys(files)
    return {name: len((PACKAGE / name).read_text("utf-8").splitlines()) for name in names}


def visits_of(steps: Sequence[PathStep]) -> list[list[PathStep]]:
    """Functions that run one after the other in one file, visit by visit."""
    return [[*visit] for _, visit in groupby(steps, lambda step: step.file)]


def forward_path_record(title: str, steps: Sequence[PathStep]) -> ViewRecord:
    """Functions that run in one forward pass, in order of their first call."""
    lines = count_lines(step.file for step in steps)
    shown = {"files": visits_of(steps), "functions": [[step] for step in steps]}
    return ViewRecord.of(
        "forward_path",
        title=title,
        steps=[step._asdict() for step in steps],
        visits={
            name: [steps.index(visit[0]) for visit in visits] for name, visits in shown.items()
        },
        drawings={name: draw_path(title, visits, lines).encode() for name, visits in shown.items()},
        about=f"{len(steps)} functions of {len(lines)} files run, in this order.",
    )
