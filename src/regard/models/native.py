"""A decoder's step as compiled code: for CPUs, where calling many small kernels takes longer than
what they do. The same arithmetic as the module's, row by row; see parts/cpp/decoder.cpp.
"""

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, byref, c_float, c_int32, c_int64, c_void_p
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.parts.attention import EncoderOutput
from regard.parts.block import Block
from regard.parts.cpp.build import failure, library
from regard.parts.kv_cache import shared_rectangle
from regard.parts.linear.int8 import quantised
from regard.parts.mask import causal
from regard.parts.score import Dot

BLOCK = 16  # outputs that lie together
DEPTH = 64  # a multiple to which 8-bit inputs are padded
ACTIVATIONS = (F.relu, F.gelu, F.silu)  # in the order the code knows them


class _Linear(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weight", "scale", "totals", "bias")),
        *((name, c_int64) for name in ("inputs", "outputs")),
    ]


class _Norm(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("eps", c_float)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Linear) for name in ("qkv", "o", "cross_q", "cross_o", "up", "down")),
        *((name, _Norm) for name in ("attention_norm", "cross_norm", "mlp_norm")),
        *((name, c_void_p) for name in ("keys", "values", "source_keys", "source_values")),
    ]


class _Decoder(ctypes.Structure):
    _fields_ = [
        ("layers", POINTER(_Layer)),
        ("head", _Linear),
        ("norm", _Norm),
        *((name, c_int64) for name in ("depth", "width", "heads", "key", "value", "inner")),
        *((name, c_int32) for name in ("pre_norm", "activation")),
        ("scale", c_float),
    ]


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("x", "logits", "scratch", "owners")),
        *((name, c_void_p) for name in ("sentence", "source_lengths")),
        *((name, c_int64) for name in ("rows", "at", "capacity", "places")),
    ]


def can_run(model: Any) -> bool:
    """Whether compiled steps can run this model here."""
    return obstacle(model) is None


def obstacle(model: Any) -> str | None:
    """Why compiled steps cannot run this model here; None if they can."""
    takes = getattr(model, "takes_native_steps", False)
    blocks = list(model.target.blocks) if takes else []
    plain = blocks and all(isinstance(one, Block) and one.decodes for one in blocks)
    if not plain or not all(map(_known, blocks)):
        return "compiled steps do not know this kind of model"
    return failure()


def _known(block: Block) -> bool:
    scores = (block.attention.score, block.cross.score)
    return (
        all(isinstance(score, Dot) for score in scores)
        and type(scores[0]) is type(scores[1])
        and block.attention.mask == causal
        and block.mlp.activation in ACTIVATIONS
    )


class Native:
    """The weights of a decoder as the code wants them: "fp32", or "int8" with a scale per output.

    Activations of int8 products have a scale for each row.
    """

    def __init__(self, model: Any, kind: str):
        self.kind = kind
        self.taken: set[nn.Module] = set()  # the layers whose work the code does
        self.held: list[Tensor] = []  # what the structures point to
        blocks = list(model.target.blocks)
        first, heads = blocks[0], blocks[0].attention.heads
        self.layers = (_Layer * len(blocks))(*map(self._layer, blocks))
        self.vocab = model.head.out_features
        self.decoder = _Decoder(
            layers=self.layers,
            head=self._linear(model.head),
            norm=self._norm(model.target.norm),
            depth=len(blocks),
            width=first.mlp.up.in_features,
            heads=heads.count,
            key=heads.key,
            value=heads.value,
            inner=first.mlp.up.out_features,
            pre_norm=not first.attention_residual.post,
            activation=ACTIVATIONS.index(first.mlp.activation),
            scale=first.attention.score.scale(heads.key),
        )

    def open(self, model: Any, source: EncoderOutput, capacity: int) -> "NativeDecoding":
        """A state for search; ``model`` does what the code does not: embed, map the source."""
        return NativeDecoding(self, model, source, capacity)

    def _layer(self, block: Block) -> _Layer:
        return _Layer(
            qkv=self._linear(block.attention.qkv),
            o=self._linear(block.attention.o),
            cross_q=self._linear(block.cross.q),
            cross_o=self._linear(block.cross.o),
            up=self._linear(block.mlp.up),
            down=self._linear(block.mlp.down),
            attention_norm=self._norm(block.attention_residual.norm),
            cross_norm=self._norm(block.cross_residual.norm),
            mlp_norm=self._norm(block.mlp_residual.norm),
        )

    def _linear(self, linear: nn.Linear) -> _Linear:
        self.taken.add(linear)
        weight_FD = linear.weight.detach().float()
        bias_F = None if linear.bias is None else self._pointer(_rounded(linear.bias.detach()))
        if self.kind == "fp32":
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
        if not isinstance(norm, nn.LayerNorm):
            return _Norm(None, None, 0.0)
        return _Norm(*(self._pointer(one.detach()) for one in (norm.weight, norm.bias)), norm.eps)

    def _pointer(self, tensor: Tensor) -> int:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        self.held.append(tensor)
        return tensor.data_ptr()


class NativeDecoding:
    """A decoder that has read a source, one compiled step after another."""

    device = torch.device("cpu")

    def __init__(self, native: Native, model: Any, source: EncoderOutput, capacity: int):
        layout = source.layout
        self.native, self.model = native, model
        self.layers = type(native.layers)(*native.layers)  # its own: it points to its own buffers
        self.decoder = _Decoder.from_buffer_copy(native.decoder)
        self.decoder.layers = self.layers
        self.rows, self.capacity, self.at = layout.rows, capacity, 0
        self.sentence_R = torch.arange(layout.rows, dtype=torch.int32)
        self.lengths_B = layout.lengths_B.to(torch.int32)
        self.places = max(layout.longest, 1)
        self.source = list(_sources(model, source))
        self.past: list[list[Tensor]] = []
        self.owners_RS = torch.zeros(0, capacity, dtype=torch.int32)
        self._make_room(layout.rows)

    def step(self, tokens_R: Tensor) -> Tensor:
        """Log-probabilities of the next token, after one more token in each row."""
        if self.at >= self.capacity:
            raise ValueError(
                f"a memory of {self.capacity} positions was asked to hold {self.at + 1}"
            )
        native, rows = self.native, self.rows
        layout = shared_rectangle(rows, 1, "cpu", start=self.at)
        x_RD = self.model.target.embed(tokens_R, layout).float().contiguous()
        logits_RV = torch.empty(rows, native.decoder.head.outputs)
        step = _Step(
            x=x_RD.data_ptr(),
            logits=logits_RV.data_ptr(),
            scratch=self.scratch.data_ptr(),
            owners=self.owners_RS.data_ptr(),
            sentence=self.sentence_R.data_ptr(),
            source_lengths=self.lengths_B.data_ptr(),
            rows=rows,
            at=self.at,
            capacity=self.capacity,
            places=self.places,
        )
        code = library()
        assert code is not None
        code.regard_step(byref(self.decoder), byref(step))
        self.at += 1
        return torch.log_softmax(logits_RV[:, : native.vocab], dim=-1)

    def pick(self, index_R: Tensor) -> None:
        """Keep, repeat, reorder or drop rows: tables change, keys stay where they are."""
        self._make_room(len(index_R))
        self.owners_RS[: len(index_R), : self.at] = self.owners_RS[index_R, : self.at]
        self.sentence_R = self.sentence_R[index_R]
        self.rows = len(index_R)

    def _make_room(self, rows: int) -> None:
        """Buffers for so many rows; what is in them stays."""
        have = len(self.past[0][0]) if self.past else 0
        if rows <= have:
            return
        decoder = self.native.decoder
        sizes = (decoder.heads * decoder.key, decoder.heads * decoder.value)
        grown = [[torch.empty(rows, self.capacity, size) for size in sizes] for _ in self.source]
        for old, new in zip(self.past, grown, strict=bool(have)):
            for one, other in zip(old, new, strict=True):
                other[:have, : self.at] = one[:, : self.at]
        self.past = grown
        self.owners_RS = F.pad(self.owners_RS, (0, 0, 0, rows - have))
        for layer, past, source in zip(self.layers, self.past, self.source, strict=True):
            layer.keys, layer.values = (one.data_ptr() for one in past)
            layer.source_keys, layer.source_values = (one.data_ptr() for one in source)
        code = library()
        assert code is not None
        code.regard_scratch_floats.restype = c_int64
        sized = (c_int64(rows), c_int64(self.capacity), c_int64(self.places))
        self.scratch = torch.empty(code.regard_scratch_floats(byref(self.native.decoder), *sized))


def _sources(model: Any, source: EncoderOutput) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values of the source for each layer, (B, S, H·K), as the code reads them."""
    layout = source.layout
    for block in model.target.blocks:
        k_THK, v_THK, _ = block.cross.source_key_values(source, None)
        k, v = (layout.pad(x).flatten(2).float().contiguous() for x in (k_THK, v_THK))
        yield k, v


def _rounded(tensor: Tensor, inputs: int = 1) -> Tensor:
    """Zeros added: outputs to a whole number of blocks, inputs to a multiple."""
    missing = -len(tensor) % BLOCK
    if tensor.dim() == 1:
        return F.pad(tensor, (0, missing))
    return F.pad(tensor, (0, -tensor.shape[1] % inputs, 0, missing))
