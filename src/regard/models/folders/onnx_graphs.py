"""Graphs for ONNX: the modules of a model between named tensors, as other libraries name them.

Rows are a rectangle, and a mask says which of its places hold tokens, on whichever side padding
lies. A graph only makes layouts of masks and calls the model: there is no second model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from regard.core.batch import PackedTokens
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.layers.attention import EncoderOutput
from regard.layers.kv_cache import KeyValues
from regard.models.attention_site import AttentionSite
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderModule, ModelFacts
from regard.models.transformer import Stack
from regard.models.trunk_with_heads import NEXT_TOKEN, TrunkWithHeads, TrunkWithHeadsModule

Tensors = dict[str, Tensor]
Axes = dict[int, str]  # names of the dimensions of any size

BATCH, LENGTH, PAST = "batch_size", "sequence_length", "past_sequence_length"
SOURCE_LENGTH, PAST_SOURCE = "encoder_sequence_length", "past_encoder_sequence_length"
ROWS: Axes = {0: BATCH, 1: LENGTH}
SOURCE_ROWS: Axes = {0: BATCH, 1: SOURCE_LENGTH}
ATTENTIONS = {
    ("trunk", "self"): "attentions",
    ("source", "self"): "encoder_attentions",
    ("target", "self"): "decoder_attentions",
    ("target", "cross"): "cross_attentions",
}
"""Names of the outputs with attention weights, by side and kind of attention."""


CHOICES = "choice"
BY_TOKEN = {"span": ("start_logits", "end_logits"), "replaced_token": ("logits",)}
"""Outputs of heads with one number for each token and output."""


def logits_names(facts: ModelFacts) -> dict[str, tuple[str, ...]]:
    """The names of the outputs of each head: logits of the first, {head}_logits of others."""
    heads = [head for head in facts.output_heads if head.logits_order is not None]
    heads.sort(key=lambda head: cast(int, head.logits_order))
    return {
        head.name: BY_TOKEN.get(head.name, (f"{head.name}_logits" if number else "logits",))
        for number, head in enumerate(heads)
    }


@dataclass(frozen=True, eq=False)
class MaskedLayout(Layout):
    """Rectangle whose tokens are the places of a mask; positions count the tokens of a row."""

    mask_BL: Tensor = field(kw_only=True)

    @classmethod
    def of(cls, mask_BL: Tensor, *, padded: bool = False) -> "MaskedLayout":
        """Layout of a mask, of any type, that is 0 at padding."""
        (rows, length), mask_BL = mask_BL.shape, mask_BL != 0
        return cls(
            rows=rows,
            longest=length,
            lengths_B=mask_BL.sum(1).int(),
            offsets=torch.arange(rows + 1, dtype=torch.int32) * length,
            positions_T=(mask_BL.long().cumsum(1) - 1).clamp(min=0).flatten(),
            even=True,
            start=None,
            padded=padded,
            mask_BL=mask_BL,
        )

    @property
    def real_BL(self) -> Tensor:
        return self.mask_BL

    def after(self, places: int) -> Layout:
        """Layout of the tokens from the place ``places`` of each row on."""
        positions_BL = self.positions_T.view(self.rows, self.longest)[:, places:]
        later = MaskedLayout.of(self.mask_BL[:, places:])
        return replace(later, positions_T=positions_BL.flatten())


class GraphCache:
    """KV cache of a graph: keys and values (B, H, S, K) of earlier tokens come in and go out.

    ``keys`` is the layout of earlier and new tokens together, ``source_keys`` a source's.
    """

    def __init__(
        self, past: Sequence[Tensor], keys: Layout, source_keys: Layout | None = None
    ) -> None:
        size = 2 if source_keys is None else 4
        layers = (past[at : at + size] for at in range(0, len(past), size))
        self.layers = [GraphLayerCache(layer, keys, source_keys) for layer in layers]

    def under(self, number: int) -> "GraphLayerCache":
        """Return the cache of one layer."""
        return self.layers[number]

    def advance(self, layout: Layout) -> None:
        """Do nothing: the next run gets ``present``."""

    @property
    def present(self) -> list[Tensor]:
        """Keys and values of all tokens, in the order of ``past``."""
        return [tensor for layer in self.layers for tensor in layer.present]


class GraphLayerCache:
    """Keys and values of one layer: of tokens, then of the source if there is one."""

    source = None  # computed by ``store_source``

    def __init__(self, past: Sequence[Tensor], keys: Layout, source_keys: Layout | None) -> None:
        self.past, self.keys, self.source_keys = past, keys, source_keys
        self.present: list[Tensor] = []

    def extend(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Append the keys and values of new tokens; return the keys and values of all tokens."""
        return self._append(self.past[:2], (k_THK, v_THK), layout, self.keys)

    def store_source(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Append the keys and values of the part of a source that has none yet: all, or nothing."""
        assert self.source_keys is not None
        return self._append(self.past[2:], (k_THK, v_THK), layout, self.source_keys)

    def _append(
        self, past: Sequence[Tensor], new: Sequence[Tensor], layout: Layout, keys: Layout
    ) -> KeyValues:
        pairs = zip(past, (layout.pad(x_THK).transpose(1, 2) for x_THK in new), strict=True)
        present = [torch.cat(pair, 2) for pair in pairs]
        self.present += present
        k_BSHK, v_BSHK = (x_BHSK.transpose(1, 2) for x_BHSK in present)
        return k_BSHK, v_BSHK, keys


class Graph(nn.Module):
    """Base class of graphs; ``file`` is the name of its file.

    ``axes`` has the inputs in their order, with the dimensions that may have any size.
    ``attention`` are the tape paths of the attention weights to output, by their names.
    """

    file: ClassVar[str] = "model"
    axes: dict[str, Axes]

    def __init__(self, attention: Mapping[str, str]) -> None:
        super().__init__()
        self.attention = dict(attention)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Outputs in the order of ``compute``, of inputs in the order of ``axes``."""
        return tuple(self.compute(dict(zip(self.axes, tensors, strict=True))).values())

    def compute(self, inputs: Tensors) -> Tensors:
        """Outputs by name, of inputs by name."""
        raise NotImplementedError

    def example(self) -> Tensors:
        """Inputs by which the graph is traced; no two dimensions of any size are equal."""
        raise NotImplementedError

    def _tape(self) -> Tape:
        return Tape(*self.attention.values())

    def _weights(self, tape: Tape) -> Tensors:
        """Attention weights (B, H, L, S) by name; layers without heads have none."""
        names = {path: name for name, path in self.attention.items()}
        return {names[path]: weights_BHLS for path, weights_BHLS in tape.records.items()}


def example_mask(rows: int, length: int) -> Tensor:
    """Mask of rows of which the second has padding."""
    mask_BL = torch.ones(rows, length, dtype=torch.int64)
    mask_BL[1, -1] = 0
    return mask_BL


class EncoderGraph(Graph):
    """Encoder with its heads: input_ids, attention_mask and perhaps token_type_ids.

    Without heads, its output is last_hidden_state, else it is the logits of ``logits_names``.
    Inputs of a head of choices have a dimension of choices after the first.
    """

    def __init__(
        self, model: TrunkWithHeadsModule, facts: TrunkWithHeads, attention: Mapping[str, str]
    ) -> None:
        super().__init__(attention)
        self.model, self.logits = model, logits_names(facts)
        self.per_row = {head.name for head in facts.output_heads if head.per_row}
        self.choices = CHOICES in self.logits
        names = ["input_ids", "attention_mask"]
        names += ["token_type_ids"] if facts.trunk.segments else []
        choices = {0: BATCH, 1: "num_choices", 2: LENGTH}
        self.axes = dict.fromkeys(names, choices if self.choices else ROWS)

    def example(self) -> Tensors:
        tensors = {name: torch.zeros(3, 7, dtype=torch.int64) for name in self.axes}
        tensors["attention_mask"] = example_mask(3, 7)
        if not self.choices:
            return tensors
        return {name: rows.expand(2, -1, -1).clone() for name, rows in tensors.items()}

    def compute(self, inputs: Tensors) -> Tensors:
        shape = inputs["input_ids"].shape[:-1]
        inputs = {name: tensor.flatten(0, -2) for name, tensor in inputs.items()}
        layout: Layout = MaskedLayout.of(inputs["attention_mask"])
        if (segments := inputs.get("token_type_ids")) is not None:
            layout = replace(layout, segments_T=segments.flatten())
        tape = self._tape()
        outputs = self.model(PackedTokens(inputs["input_ids"].flatten(), layout), tape=tape)
        logits: Tensors = {}
        for head, names in self.logits.items():
            values = self._unpacked(head, outputs.by_head[head], layout, shape)
            logits |= dict(zip(names, values, strict=True))
        states = {} if logits else {"last_hidden_state": layout.pad(outputs.encoded.states_TD)}
        return {**states, **logits, **self._weights(tape)}

    def _unpacked(
        self, head: str, logits: Tensor, layout: Layout, shape: Sequence[int]
    ) -> Sequence[Tensor]:
        """Logits of a head in the shapes of other libraries, an output each."""
        if head in self.per_row:
            return [logits.view(*shape) if head == CHOICES else logits]
        padded_BLV = layout.pad(logits)
        return padded_BLV.unbind(-1) if head in BY_TOKEN else [padded_BLV]


class ImageGraph(Graph):
    """Encoder of images, with its head if it has one: pixel_values of the size of the model."""

    def __init__(
        self, model: TrunkWithHeadsModule, facts: TrunkWithHeads, attention: Mapping[str, str]
    ) -> None:
        super().__init__(attention)
        self.model, self.logits = model, logits_names(facts)
        self.shape = facts.trunk.embed.ids_per_token
        self.axes = {"pixel_values": {0: BATCH}}

    def example(self) -> Tensors:
        return {"pixel_values": torch.zeros(2, *self.shape)}

    def compute(self, inputs: Tensors) -> Tensors:
        pixels_BCHW, tape = inputs["pixel_values"], self._tape()
        layout = Layout.rectangle(pixels_BCHW.shape[0], 1)
        outputs = self.model(PackedTokens(pixels_BCHW, layout), tape=tape)
        states_BLD = outputs.encoded.layout.pad(outputs.encoded.states_TD)
        logits = {name: outputs.by_head[head] for head, (name,) in self.logits.items()}
        return {**(logits or {"last_hidden_state": states_BLD}), **self._weights(tape)}


class CausalGraph(Graph):
    """Language model with a KV cache.

    Inputs are input_ids, attention_mask of earlier and new tokens, and past_key_values of earlier
    ones, which may be none; outputs are logits of new tokens, and present keys and values of all.
    """

    def __init__(
        self, model: TrunkWithHeadsModule, facts: TrunkWithHeads, attention: Mapping[str, str]
    ) -> None:
        super().__init__(attention)
        self.model, self.past = model, _cache_shapes(cast(Stack, facts.trunk.stack), ("",))
        past = {name: {0: BATCH, 2: PAST} for name in self.past}
        total = {0: BATCH, 1: "total_sequence_length"}
        self.axes = {"input_ids": ROWS, "attention_mask": total, **past}

    def example(self) -> Tensors:
        past = {name: torch.zeros(2, heads, 5, size) for name, (heads, size) in self.past.items()}
        ids_BL = torch.zeros(2, 3, dtype=torch.int64)
        return {"input_ids": ids_BL, "attention_mask": example_mask(2, 8).flip(1), **past}

    def compute(self, inputs: Tensors) -> Tensors:
        past, tape = [inputs[name] for name in self.past], self._tape()
        keys = MaskedLayout.of(inputs["attention_mask"], padded=True)
        new, cache = keys.after(past[0].shape[2]), GraphCache(past, keys)
        tokens_T = inputs["input_ids"].flatten()
        logits_TV = self.model.decode(tokens_T, new, cache=cache, tape=tape)
        present = zip(_present(self.past), cache.present, strict=True)
        return {"logits": new.pad(logits_TV), **dict(present), **self._weights(tape)}


class SourceGraph(Graph):
    """Encoder of an encoder-decoder: input_ids and attention_mask to last_hidden_state."""

    file = "encoder_model"

    def __init__(self, model: EncoderDecoderModule, attention: Mapping[str, str]) -> None:
        super().__init__(attention)
        self.model = model
        self.axes = {"input_ids": ROWS, "attention_mask": ROWS}

    def example(self) -> Tensors:
        ids_BL = torch.zeros(3, 7, dtype=torch.int64)
        return {"input_ids": ids_BL, "attention_mask": example_mask(3, 7)}

    def compute(self, inputs: Tensors) -> Tensors:
        layout, tape = MaskedLayout.of(inputs["attention_mask"]), self._tape()
        encoded = self.model.encode(PackedTokens(inputs["input_ids"].flatten(), layout), tape=tape)
        return {"last_hidden_state": layout.pad(encoded.states_TD), **self._weights(tape)}


class DecoderGraph(Graph):
    """Decoder of an encoder-decoder, with a KV cache of its tokens and of the source.

    With an empty cache the graph computes the keys and values of the source, and otherwise reads
    the cache's: one graph, without branches, is the first step and all later ones.
    """

    file = "decoder_model_merged"

    def __init__(
        self, model: EncoderDecoderModule, facts: EncoderDecoder, attention: Mapping[str, str]
    ) -> None:
        super().__init__(attention)
        stack, self.width = cast(Stack, facts.target.stack), facts.source.width
        self.model, self.past = model, _cache_shapes(stack, (".decoder", ".encoder"))
        past = {name: {0: BATCH, 2: _past_axis(name)} for name in self.past}
        source = {"encoder_attention_mask": SOURCE_ROWS}
        states = {"encoder_hidden_states": SOURCE_ROWS}
        self.axes = {**source, "input_ids": ROWS, **states, **past}

    def example(self) -> Tensors:
        past = {
            name: torch.zeros(2, heads, 5 if "decoder" in name else 4, size)
            for name, (heads, size) in self.past.items()
        }
        return {
            "encoder_attention_mask": example_mask(2, 7),
            "input_ids": torch.zeros(2, 3, dtype=torch.int64),
            "encoder_hidden_states": torch.zeros(2, 7, self.width),
            **past,
        }

    def compute(self, inputs: Tensors) -> Tensors:
        past, tape = [inputs[name] for name in self.past], self._tape()
        ids_BL, states_BSD = inputs["input_ids"], inputs["encoder_hidden_states"]
        earlier, stored = past[0].shape[2], past[2].shape[2]
        source_keys = MaskedLayout.of(inputs["encoder_attention_mask"], padded=True)
        rest_BSD = states_BSD[:, stored:]  # without keys and values yet
        source = EncoderOutput(rest_BSD.flatten(0, 1), source_keys.after(stored))
        ones_BS = ids_BL.new_ones(ids_BL.shape[0], earlier + ids_BL.shape[1])
        keys = MaskedLayout.of(ones_BS, padded=True)
        new, cache = keys.after(earlier), GraphCache(past, keys, source_keys)
        logits_TV = self.model.decode(ids_BL.flatten(), new, source, cache=cache, tape=tape)
        present = zip(_present(self.past), cache.present, strict=True)
        return {"logits": new.pad(logits_TV), **dict(present), **self._weights(tape)}


def _cache_shapes(stack: Stack, kinds: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Heads and sizes of the keys and values of each layer, by the names of inputs."""
    heads = stack.cache_heads
    sizes = {"key": heads.key, "value": heads.value}
    return {
        f"past_key_values.{layer}{kind}.{name}": (heads.kv, size)
        for layer in range(stack.depth)
        for kind in kinds
        for name, size in sizes.items()
    }


def _past_axis(name: str) -> str:
    return PAST_SOURCE if ".encoder." in name else PAST


def _present(past: Iterable[str]) -> Iterator[str]:
    """Names of outputs for the names of a cache's inputs."""
    return (name.replace("past_key_values", "present") for name in past)


def graphs_of(
    facts: ModelFacts, module: nn.Module, attention: Sequence[int] | None = ()
) -> list[Graph]:
    """The graphs of a model; they output the attention weights of some layers, or all (None)."""
    by_side = [_weight_paths(facts.attention_sites, side, attention) for side in facts.sides]
    if has_source(facts):
        (source, target), model = by_side, cast(EncoderDecoderModule, module)
        decoder = DecoderGraph(model, cast(EncoderDecoder, facts), target)
        return [SourceGraph(model, source), decoder]
    kind: type[EncoderGraph | ImageGraph | CausalGraph] = EncoderGraph
    if facts.encoder.embed.reads_images:
        kind = ImageGraph
    elif facts.encoder.stack.causal and NEXT_TOKEN in facts.head_names:
        kind = CausalGraph
    return [kind(cast(TrunkWithHeadsModule, module), cast(TrunkWithHeads, facts), *by_side)]


def has_source(facts: ModelFacts) -> bool:
    """Whether a model is an encoder-decoder, of which there are two graphs."""
    return len(facts.sides) == 2


def _weight_paths(
    sites: Sequence[AttentionSite], side: str, layers: Sequence[int] | None
) -> dict[str, str]:
    """Tape paths of the attention weights of layers of a side, by the names of outputs."""
    return {
        f"{ATTENTIONS[site.side, site.kind]}.{layer}": path
        for site in sites
        if (site.side, site.kind) in ATTENTIONS and site.side == side
        for layer, path in enumerate(site.weights)
        if layers is None or layer in layers
    }
