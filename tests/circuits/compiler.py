"""Compiler of programs: heads and tables that are written by hand become weights of a Transformer.

States are divided into named spaces, as in Tracr (Lindner et al., 2023, arXiv:2301.05062). A head
reads some of them and adds to one, so it is known what a model computes, and by which heads. All
other heads are decoys: they attend by random weights, and write to a space that nothing reads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.core.errors import BadInput
from regard.inference.model_runner import ModelRunner
from regard.layers.attend import causal, full
from regard.layers.attention import SelfAttention
from regard.layers.block import Mlp
from regard.metrics.classification import LabelScore, label_score
from regard.models.embedding import Learned
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.papers import bert, gpt2
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.tasks.components import runner_of
from regard.text.segmentation import LabelledRows
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.word_level import EOS, UNK, WordLevel

START = "^"  # the first token of every row
SHARP = 256.0  # difference of scores at which the lower weight of a softmax is exactly 0 in fp32
NORM_SCALE = 2.0**20  # with ε its square, an RMS norm is the identity in fp32
DECOY_WIDTH, DECOY_STD = 4, 0.5

Reads = Mapping[str, np.ndarray]
"""Linear map of states: the matrix (outputs, size) of each space that it reads."""
Pattern = Callable[[Sequence[str]], np.ndarray]
"""Attention weights (tokens, tokens) of a head on the tokens of a row, ``START`` included."""


@dataclass(frozen=True, eq=False)
class CompiledHead:
    """Head of attention: linear maps to queries, keys and values, and the space it adds to.

    The scores are q·k, without 1/√K; ``pattern`` are the weights that they lead to.
    """

    queries: Reads
    keys: Reads
    values: Reads
    into: str
    pattern: Pattern


@dataclass(frozen=True, eq=False)
class LookupTable:
    """Feed-forward layer: a function of one number, linear between ``points``.

    Outside of the points, it is constant before the first and goes on linearly after the last.
    """

    reads: str
    into: str
    points: Mapping[float, tuple[float, ...]]

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Thresholds of the units max(0, x - threshold), and their outputs (units, size).

        The last unit is constant, and gives the value at the first point.
        """
        x_P = np.array(sorted(self.points))
        y_PS = np.array([self.points[x] for x in x_P])
        slopes_PS = np.diff(y_PS, axis=0) / np.diff(x_P)[:, None]
        bends_PS = np.diff(slopes_PS, axis=0, prepend=np.zeros((1, y_PS.shape[1])))
        return x_P[:-1], np.concatenate([bends_PS, y_PS[:1]])


@dataclass(frozen=True, eq=False)
class CompiledLayer:
    """Layer of a program: heads by number, and a table for the feed-forward layer."""

    heads: Mapping[int, CompiledHead]
    table: LookupTable | None = None


@dataclass(frozen=True, eq=False)
class Circuit:
    """Parts of a model that its output depends on: heads by (layer, head), feed-forward layers."""

    heads: Mapping[tuple[int, int], Pattern]
    tables: frozenset[int]

    def score(self, heads: Iterable[tuple[int, int]]) -> LabelScore:
        """Precision and recall, in percent, of heads (layer, head) that a method has named."""
        named = {*heads}
        right = len(named & self.heads.keys())
        return label_score("heads", (right, len(self.heads), len(named)))


@dataclass(frozen=True, eq=False)
class Program:
    """A program over tokens, and how a Transformer computes it.

    ``run`` is the program itself: the outputs for the tokens of a row without ``START``. ``draw``
    draws such tokens at random. The model reads at most ``longest`` tokens, ``START`` included;
    ``spaces`` are the sizes of further spaces beside "one", "token" and "position", and
    ``output_space`` is the one that the head reads.
    """

    name: str
    run: Callable[[Sequence[str]], Sequence[Any]]
    draw: Callable[[np.random.Generator], list[str]]
    words: tuple[str, ...]
    longest: int
    causal: bool
    head: AnyHead
    layers: tuple[CompiledLayer, ...]
    spaces: Mapping[str, int] = field(default_factory=dict)
    output_space: str = "output"
    heads_per_layer: int = 4

    @property
    def circuit(self) -> Circuit:
        """Heads and feed-forward layers that the program uses."""
        heads = {
            (number, head): compiled.pattern
            for number, layer in enumerate(self.layers)
            for head, compiled in layer.heads.items()
        }
        tables = (number for number, layer in enumerate(self.layers) if layer.table is not None)
        return Circuit(heads, frozenset(tables))

    @property
    def predicts_numbers(self) -> bool:
        """Whether outputs are numbers, else words."""
        return isinstance(self.run(self.words[:1])[0], float)

    def words_read(self, tokens: Sequence[str], position: int) -> set[int]:
        """Positions of the words that the circuit reads for its output at a position of the row.

        A head reads its query and, where it attends, keys and values. A word is not read by a
        linear map that is the same for all words: the weight of ``START`` alone gives a length.
        """
        return self._words_in(self.output_space, [START, *tokens], position, len(self.layers))

    def _words_in(self, space: str, row: Sequence[str], position: int, layers: int) -> set[int]:
        """Positions of the words on which a space depends, after the first layers."""
        if space == "token":
            return {position} - {0}
        words: set[int] = set()
        for number, layer in enumerate(self.layers[:layers]):
            if layer.table is not None and layer.table.into == space:
                words |= self._words_in(layer.table.reads, row, position, number + 1)
            for head in (head for head in layer.heads.values() if head.into == space):
                keys = np.flatnonzero(head.pattern(row)[position]).tolist()
                for at, reads in product(keys, (head.keys, head.values)):
                    words |= self._words_by(reads, row, at, number)
                words |= self._words_by(head.queries, row, position, number)
        return words

    def _words_by(self, reads: Reads, row: Sequence[str], position: int, layers: int) -> set[int]:
        """Positions of the words on which a linear map of the state at a position depends."""
        first = len(self.vocabulary) - len(self.words)
        known = {
            space
            for space, matrix in reads.items()
            if space != "token" or np.ptp(matrix[:, first:], axis=1).any()
        }
        return set().union(*(self._words_in(space, row, position, layers) for space in known))

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """All words by id."""
        return (UNK, EOS, START, *self.words)

    @property
    def places(self) -> dict[str, slice]:
        """Where each space lies in a state."""
        sizes = {"one": 1, "token": len(self.vocabulary), "position": self.longest}
        sizes |= {**self.spaces, "decoy": DECOY_WIDTH}
        ends = accumulate(sizes.values())
        return {
            name: slice(end - size, end)
            for (name, size), end in zip(sizes.items(), ends, strict=True)
        }

    @property
    def stack(self) -> Stack:
        """Layers of the model: pre-norm, with unscaled scores and without biases."""
        compiled = [head for layer in self.layers for head in layer.heads.values()]
        keys = [len(matrix) for head in compiled for matrix in head.keys.values()]
        values = [len(matrix) for head in compiled for matrix in head.values.values()]
        tables = [len(layer.table.points) for layer in self.layers if layer.table is not None]
        return Stack(
            width=self.places["decoy"].stop,
            depth=len(self.layers),
            heads=self.heads_per_layer,
            inner=max(tables, default=1),
            key=max(keys),
            value=max(*values, DECOY_WIDTH),
            qkv_bias=False,
            output_bias=False,
            mlp_bias=False,
            scaled_scores=False,
            norm="pre",
            norm_kind="rms",
            eps=NORM_SCALE**2,
            dropout=0.0,
            mask=causal if self.causal else full,
        )

    @property
    def facts(self) -> TrunkWithHeads:
        """The model as a value."""
        embed = Tokens(vocab=len(self.vocabulary), position=Learned(self.longest))
        return TrunkWithHeads(Trunk(embed, self.stack), output_heads=(self.head,))

    @property
    def tokenizer(self) -> EncoderTokenizer:
        """Tokenizer that splits a text at spaces."""
        ids = {word: number for number, word in enumerate(self.vocabulary)}
        own = {"do_lower_case": False}
        return EncoderTokenizer.create(WordLevel(), {"vocab": ids}, own)

    def build(self, seed: int = 0) -> LoadedModel:
        """Model with the weights of the program; ``seed`` draws the decoys' weights."""
        module = self.facts.build().eval()
        with torch.no_grad():
            self._write(module, np.random.default_rng(seed))
        paper = gpt2.PAPER if self.causal else bert.PAPER
        return LoadedModel(paper, self.facts, module, self.tokenizer)

    def inspected(self, seed: int = 0) -> ModelRunner:
        """The built model, for methods that study its inside."""
        return runner_of(self.build(seed))

    def text(self, tokens: Sequence[str]) -> str:
        """Text of the tokens after ``START``, as the model reads it."""
        for token in tokens:
            if token not in self.words:
                raise BadInput(f"{self.name}: {token!r} is not one of {', '.join(self.words)}")
        if len(tokens) >= self.longest:
            raise BadInput(
                f"{self.name}: {len(tokens)} tokens, but at most {self.longest - 1} are read"
            )
        return " ".join([START, *tokens])

    def read(self, model: ModelRunner, tokens: Sequence[str]) -> LabelledRows:
        """Row of the tokens after ``START``, for ``model.run``."""
        return model.read(self.text(tokens))

    def decode(self, logits_TV: np.ndarray) -> list[Any]:
        """Outputs from the logits of all tokens of a row: words, or numbers."""
        if logits_TV.shape[1] == 1:
            return [float(number) for number in logits_TV[1:, 0]]
        return [self.vocabulary[number] for number in logits_TV[1:].argmax(1)]

    def _write(self, module: Any, rng: np.random.Generator) -> None:
        """Write the weights of the program into a new module."""
        at, embed = self.places, module.trunk.embed
        for name, parameter in module.named_parameters():
            parameter.fill_(NORM_SCALE if name.endswith("norm.weight") else 0.0)
        embed.token.weight[:, at["token"]] = torch.eye(len(self.vocabulary))
        embed.position.weight[:, at["position"]] = torch.eye(self.longest)
        embed.position.weight[:, at["one"]] = 1.0
        for block, layer in zip(module.trunk.blocks, self.layers, strict=True):
            for number in range(self.heads_per_layer):
                head = layer.heads.get(number) or self._decoy(rng)
                self._write_head(block.attention, number, head)
            if layer.table is not None:
                self._write_table(block.mlp, layer.table)
        output: nn.Parameter = next(module.heads[self.head.name].parameters())
        output[:, at[self.output_space]] = torch.eye(len(output))

    def _write_head(self, attention: SelfAttention, number: int, head: CompiledHead) -> None:
        at, into = self.places, self.places[head.into]
        qkv = attention.heads.split(attention.qkv.weight.T)
        for weight_DHK, reads in zip(qkv, (head.queries, head.keys, head.values), strict=True):
            for space, matrix in reads.items():
                weight_DHK[at[space], number, : len(matrix)] = torch.from_numpy(matrix.T).float()
        size = into.stop - into.start
        o_DHV = attention.o.weight.unflatten(1, (attention.heads.count, -1))
        o_DHV[into, number, :size] = torch.eye(size)

    def _write_table(self, mlp: Mlp, table: LookupTable) -> None:
        at, (thresholds, outputs) = self.places, map(torch.from_numpy, table.weights())
        units, up, down = len(thresholds), mlp.up.weight, mlp.down.weight
        up[:units, at[table.reads]] = 1.0
        up[:units, at["one"]] = -thresholds.float()[:, None]
        up[units, at["one"]] = 1.0
        down[at[table.into], : units + 1] = outputs.float().T

    def _decoy(self, rng: np.random.Generator) -> CompiledHead:
        """Head that attends by random weights, and writes to a space that nothing reads."""
        sizes = {name: place.stop - place.start for name, place in self.places.items()}

        def drawn(outputs: int) -> Reads:
            return {name: rng.normal(0, DECOY_STD, (outputs, size)) for name, size in sizes.items()}

        keys = self.stack.key or 1
        return CompiledHead(drawn(keys), drawn(keys), drawn(DECOY_WIDTH), "decoy", _unknown)


def _unknown(tokens: Sequence[str]) -> np.ndarray:
    """Pattern of a decoy, which no program states."""
    return np.full((len(tokens), len(tokens)), np.nan)
