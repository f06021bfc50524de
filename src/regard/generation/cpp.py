"""Decoding in C++ on a CPU, which avoids the overhead of calling many small kernels.

layers/cpp/decoder.cpp computes what the module computes, row by row.
"""

import ctypes
from collections.abc import Set
from ctypes import POINTER, byref, c_float, c_int32, c_int64, c_void_p
from dataclasses import replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.batch import PackedTokens
from regard.core.layout import Layout
from regard.generation.state import Decodable, DecodingState, Engine, Prompts
from regard.layers.attend import Dot, ScaledDot, Score, WindowMask, is_dot_product
from regard.layers.attention import EncoderOutput
from regard.layers.block import Block, unsupported
from regard.layers.cpp.build import failure, library
from regard.layers.kv_cache import shared_rectangle
from regard.layers.linear.int8 import quantised
from regard.layers.relative_bias import BiasedDot
from regard.layers.rotary import RotaryDot, Rotation

PRECISIONS = ("fp32", "int8")
BLOCK = 16  # outputs that lie together
AT_ONCE = 256  # tokens of prompts that are read together
NO_LIMIT = 1 << 62  # window of layers without one
DEPTH = 64  # 8-bit inputs are padded to a multiple of it
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "swish", "gelu-sigmoid")  # numbered as in the C++ code
TRAITS: dict[str, Set[str | type[nn.Module]]] = {  # traits of blocks that the C++ code computes
    "norm": {"layer", "layer-no-bias", "rms"},
    "norm placement": {"post", "pre"},
    "score": {Dot, ScaledDot, RotaryDot, BiasedDot},
    "mask": {"causal", "window"},
    "cross-attention": {"yes", "no"},
    "heads": {"some"},
    "keys": {"one for each head", "one for several heads"},
    "feed-forward": {"plain", "gated"},
    "activation": {*ACTIVATIONS},
    "biases": {"yes", "no"},
    "layer scale": {"no"},
}


class _Linear(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weight", "scale", "totals", "bias")),
        *((name, c_int64) for name in ("inputs", "outputs")),
    ]


class _Norm(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("eps", c_float), ("rms", c_int32)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Linear) for name in ("qkv", "o", "cross_q", "cross_o", "up", "down")),
        *((name, _Norm) for name in ("attention_norm", "cross_norm", "mlp_norm")),
        *((name, c_void_p) for name in ("keys", "values", "source_keys", "source_values")),
        *((name, c_void_p) for name in ("bias", "cosines", "sines")),
        *((name, c_int64) for name in ("turned", "window")),
        *((name, c_float) for name in ("scale", "cross_scale")),
    ]


class _Decoder(ctypes.Structure):
    _fields_ = [
        ("layers", POINTER(_Layer)),
        ("head", _Linear),
        ("norm", _Norm),
        *((name, c_int64) for name in ("depth", "width", "heads", "kv_heads", "key", "value")),
        ("inner", c_int64),
        *((name, c_int32) for name in ("pre_norm", "gated", "activation")),
    ]


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "logits", "scratch", "owners", "buffer", "position")),
        *((name, c_void_p) for name in ("first", "sentence", "source_lengths")),
        *((name, c_int64) for name in ("rows", "capacity", "source_longest")),
    ]


def obstacle(model: Decodable) -> str | None:
    """Reason why the C++ code cannot run this model on this machine; None if it can."""
    if model.decoder.edited:
        return "the C++ decoder does not support edits"
    if not model.attends:
        return "the C++ decoder does not support layers other than blocks of attention"
    if not model.reads_last_layer:
        return "the C++ decoder does not support a head on other states than the last (mix, layer)"
    for block in model.decoder.blocks:
        for trait in unsupported(block, TRAITS):
            return f"the C++ decoder does not support {trait}"
        if vars(block.attention.mask).get("right") != 0:
            return "the C++ decoder does not support a window with keys after the query"
        if block.decodes and not is_dot_product(block.cross.score):
            return "the C++ decoder does not support a position bias of cross-attention"
        cross = {block.cross.heads} if block.decodes else set()
        if {block.attention.heads, *cross} != {model.decoder.blocks[0].attention.heads}:
            return "the C++ decoder does not support layers with different numbers of heads"
    return failure()


class CppEngine(Engine):
    """Engine with weights packed for C++ code, in "fp32" or "int8".

    In int8, weights have a scale per output and activations a scale per row.
    """

    name = "cpp"

    def __init__(self, model: Decodable, precision: str):
        self.precision, self.description = precision, f"{precision}, C++"
        self.packed_layers: set[nn.Module] = set()
        self.tensors: list[Tensor] = []  # that the structures point to
        blocks = model.decoder.layers
        first, heads = blocks[0], blocks[0].attention.heads
        self.layers = (_Layer * len(blocks))(*map(self._layer, blocks))
        self.vocab, down = model.output.out_features, first.mlp.down
        self.decoder = _Decoder(
            self.layers,
            self._linear(cast(nn.Linear, model.output), model.output_scale),
            self._norm(model.decoder.norm),
            *(len(blocks), down.out_features, heads.count, heads.kv, heads.key, heads.value),
            *(down.in_features, not first.attention_residual.post, first.mlp.gated),
            ACTIVATIONS.index(str(*first.traits["activation"])),
        )

    def open(
        self, model: Decodable, source: PackedTokens | None, prompts: Prompts | None, capacity: int
    ) -> "CppDecodingState":
        return CppDecodingState(self, model, source, prompts, capacity)

    def _layer(self, block: Block) -> _Layer:
        attention, mlp = block.attention, block.mlp
        first, last = block.attention_residual.norm, block.mlp_residual.norm
        linears = {"qkv": attention.qkv, "o": attention.o, "up": mlp.up, "down": mlp.down}
        norms = {"attention_norm": first, "mlp_norm": last}
        scores = {"scale": attention.score}
        if block.decodes:
            linears |= {"cross_q": block.cross.q, "cross_o": block.cross.o}
            norms["cross_norm"] = block.cross_residual.norm
            scores["cross_scale"] = block.cross.score
        left, rotation = cast(WindowMask, attention.mask).left, _rotation(block)
        return _Layer(
            **{name: self._linear(linear) for name, linear in linears.items()},
            **{name: self._norm(norm) for name, norm in norms.items()},
            **{name: cast(Dot, s).scale(attention.heads.key) for name, s in scores.items()},
            turned=0 if rotation is None else rotation.size,
            window=NO_LIMIT if left is None else left + 1,
        )

    def _linear(self, linear: nn.Linear, scale_of_inputs: float = 1.0) -> _Linear:
        self.packed_layers.add(linear)
        weight_FD = linear.weight.detach().float() * scale_of_inputs
        bias_F = None if linear.bias is None else self._pointer(_rounded(linear.bias.detach()))
        if self.precision == "fp32":
            packed = _rounded(weight_FD).unflatten(0, (-1, BLOCK)).transpose(1, 2)
            scale = totals = None
        else:
            bytes_FD, scale_F = quantised(weight_FD)
            parts = _rounded(bytes_FD, inputs=DEPTH).unflatten(0, (-1, BLOCK)).unflatten(2, (-1, 4))
            packed = parts.transpose(1, 2)
            scale = self._pointer(_rounded(scale_F))
            totals = self._pointer(_rounded(bytes_FD.sum(1, dtype=torch.int32)))
        outputs = packed.shape[0] * BLOCK
        inputs = packed.numel() // outputs
        return _Linear(self._pointer(packed), scale, totals, bias_F, inputs, outputs)

    def _norm(self, norm: nn.Module) -> _Norm:
        vectors = {name: self._pointer(vector.detach()) for name, vector in norm.named_parameters()}
        if not vectors:
            return _Norm()
        return _Norm(**vectors, eps=norm.eps, rms=not isinstance(norm, nn.LayerNorm))

    def _pointer(self, tensor: Tensor) -> int:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        self.tensors.append(tensor)
        return tensor.data_ptr()


class CppDecodingState(DecodingState):
    """State that is stepped by C++ code, with its buffers.

    All rows write at one ``position`` of their buffers; row r begins at ``first_R[r]``, so that the
    last tokens of all prompts lie side by side. ``longest`` is the most tokens of a row.
    """

    def __init__(
        self,
        engine: CppEngine,
        model: Decodable,
        source: PackedTokens | None,
        prompts: Prompts | None,
        capacity: int,
    ):
        super().__init__(model, source, prompts, capacity)
        self.engine = engine
        self.layers = type(engine.layers)(*engine.layers)  # a copy, which points to own buffers
        self.decoder = _Decoder.from_buffer_copy(engine.decoder)
        self.decoder.layers = self.layers
        self.longest, self.position, self.source_longest = capacity, 0, 0
        self.first_R = torch.zeros(self.cache.rows, dtype=torch.int32)
        if prompts is not None:
            lengths_R = prompts.read.layout.lengths_B.int()
            self.first_R = prompts.read.layout.longest - lengths_R
        self.capacity = capacity + max(self.first_R.tolist(), default=0)
        self.sentence_R = torch.arange(self.cache.rows, dtype=torch.int32)
        self.source_lengths_B = torch.zeros(0, dtype=torch.int32)
        self.past: list[list[Tensor]] = []
        self.scratch = torch.empty(0)
        self.buffers: list[Tensor] = []  # that the layers point to
        self.owners_RS = torch.zeros(0, self.capacity, dtype=torch.int32)
        self._write_positions()
        if self.source is not None:
            self._write_source(self.source)
        self._grow(self.rows)
        if prompts is not None:
            self._read(prompts.read)

    @property
    def rows(self) -> int:
        return len(self.sentence_R)

    def step(self, tokens_R: Tensor) -> Tensor:
        self._check_room(self.position + 1)
        logits_RV = torch.empty(self.rows, self.decoder.head.outputs)
        every_R = torch.arange(self.rows, dtype=torch.int32)
        position_R = torch.full_like(every_R, self.position)
        x_RD = self.model.decoder.embed(tokens_R, self._layout())
        self._feed(x_RD, every_R, position_R, logits_RV)
        self.position += 1
        return self._logprobs(logits_RV[:, : self.engine.vocab])

    def select_rows(self, index_R: Tensor) -> None:
        self._grow(len(index_R))
        self.owners_RS[: len(index_R), : self.position] = self.owners_RS[index_R, : self.position]
        self.sentence_R = self.sentence_R[index_R]
        self.first_R = self.first_R[index_R]

    def _feed(
        self, x_TD: Tensor, row_T: Tensor, position_T: Tensor, logits_TV: Tensor | None = None
    ) -> None:
        """Run one C++ step of these tokens, each at its position; tokens of a row in order."""
        x_TD = x_TD.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        first_T, sentence_T = self.first_R[row_T], self.sentence_R[row_T]
        tables = (self._scratch(len(x_TD)), self.owners_RS, row_T, position_T, first_T, sentence_T)
        step = _Step(
            x_TD.data_ptr(),
            None if logits_TV is None else logits_TV.data_ptr(),
            *(tensor.data_ptr() for tensor in (*tables, self.source_lengths_B)),
            *(len(x_TD), self.capacity, self.source_longest),
        )
        library().regard_step(byref(self.decoder), byref(step))

    def _check_room(self, end: int) -> None:
        """Raise ValueError if rows up to ``end`` have more tokens than there is room for."""
        length = end - min(self.first_R.tolist(), default=end)
        if length > self.longest:
            raise ValueError(f"a cache for {self.longest} positions cannot hold {length}")

    def _layout(self) -> Layout:
        """Layout of one more token in every row."""
        positions_R = (self.position - self.first_R).long()
        starts = set(positions_R.tolist())
        if len(starts) == 1:
            return shared_rectangle(self.rows, 1, "cpu", start=starts.pop())
        return replace(shared_rectangle(self.rows, 1, "cpu"), positions_T=positions_R, start=None)

    def _read(self, prompts: PackedTokens) -> None:
        """Read all tokens of the prompts, in steps of many tokens without logits."""
        layout = prompts.layout
        self._check_room(layout.longest)
        self.position = layout.longest
        row_T = layout.rows_T.int()
        position_T = (self.first_R[row_T] + layout.positions_T).int()
        x_TD = self.model.decoder.embed(prompts.tokens_T, layout)
        parts = (tensor.split(AT_ONCE) for tensor in (x_TD, row_T, position_T))
        for part in zip(*parts, strict=True):
            self._feed(*part)

    def _write_positions(self) -> None:
        """Compute the terms of scores that depend on positions, for each layer."""
        tables: dict[Score, list[Tensor | None]] = {}
        for layer, block in zip(self.layers, self.model.decoder.layers, strict=True):
            score = block.attention.score
            if score not in tables:
                tables[score] = self._tables(block)
            self.buffers += [table for table in tables[score] if table is not None]
            layer.bias, layer.cosines, layer.sines = (
                None if table is None else table.data_ptr() for table in tables[score]
            )

    def _tables(self, block: Block) -> list[Tensor | None]:
        """Bias of distances, (H, S), the longest first; cosines and sines of angles, (S, F)."""
        last = shared_rectangle(1, 1, "cpu", start=self.capacity - 1)
        every = shared_rectangle(1, self.capacity, "cpu")
        bias, rotation = block.attention.score.position_bias(last, every), _rotation(block)
        angles = (None, None) if rotation is None else rotation.angles(every.positions_T)
        tables = (bias, *angles)
        return [None if table is None else table.detach().float().contiguous() for table in tables]

    def _write_source(self, source: EncoderOutput) -> None:
        """Compute the source's keys and values for each layer, (B, S, H·K) with H heads of keys."""
        layout = source.layout
        self.source_lengths_B = layout.lengths_B.to(torch.int32)
        self.source_longest = max(layout.longest, 1)
        for number, block in enumerate(self.model.decoder.layers):
            k_THK, v_THK, _ = block.cross.source_key_values(source, None)
            padded = [layout.pad(x).flatten(2).float().contiguous() for x in (k_THK, v_THK)]
            self.buffers += padded
            layer = self.layers[number]
            layer.source_keys, layer.source_values = (x.data_ptr() for x in padded)

    def _grow(self, rows: int) -> None:
        """Enlarge the buffers to this number of rows, with their contents."""
        old_rows = len(self.owners_RS)
        if rows <= old_rows and self.past:
            return
        heads, *sizes = (getattr(self.decoder, name) for name in ("kv_heads", "key", "value"))
        shape = (rows, heads, self.capacity)
        grown = [[torch.empty(*shape, size) for size in sizes] for _ in self.layers]
        for layer_past, layer_grown in zip(self.past, grown, strict=bool(old_rows)):
            for buffer, new_buffer in zip(layer_past, layer_grown, strict=True):
                new_buffer[:old_rows, :, : self.position] = buffer[:, :, : self.position]
        self.past = grown
        self.owners_RS = F.pad(self.owners_RS, (0, 0, 0, rows - old_rows))
        for layer, layer_past in zip(self.layers, self.past, strict=True):
            layer.keys, layer.values = (buffer.data_ptr() for buffer in layer_past)

    def _scratch(self, tokens: int) -> Tensor:
        """Memory for the intermediate results of this number of tokens."""
        count = library().regard_scratch_floats
        count.restype = c_int64
        sizes = (c_int64(tokens), c_int64(self.capacity), c_int64(self.source_longest))
        floats = count(byref(self.decoder), *sizes)
        if len(self.scratch) < floats:
            self.scratch = torch.empty(floats)
        return self.scratch


def _rotation(block: Block) -> Rotation | None:
    """Rotation of queries and keys of self-attention, if its score has one."""
    rotary = RotaryDot in block.traits["score"]
    return cast(RotaryDot, block.attention.score).rotation if rotary else None


def _rounded(tensor: Tensor, inputs: int = 1) -> Tensor:
    """Tensor padded with zeros: outputs to a whole number of blocks, inputs to a multiple."""
    missing = -len(tensor) % BLOCK
    if tensor.dim() == 1:
        return F.pad(tensor, (0, missing))
    return F.pad(tensor, (0, -tensor.shape[1] % inputs, 0, missing))
