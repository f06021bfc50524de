"""Continuous batching by CUDA graphs: rows enter and leave fixed slots of a static KV cache.

A step computes the first slots of the cache, as many as its bucket (1, 2, 4, …) has, up to the
highest slot in use. No keys are moved: a new row takes the lowest free slot, and copies of a prompt
share its keys by the table of owners. All graphs are captured by ``warm_up``; a batch whose shape
was not warmed runs eagerly, so that no request waits for a capture.

Every slot has its settings, its random numbers and the number of its tokens. So rows of many
requests share one selection, and a row gets the tokens that it would get alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import BatchLimits, Ids, PackedTokens, pack
from regard.core.layout import Layout
from regard.core.pytree import move_tensor
from regard.generation.candidates import topk
from regard.generation.constraints import Constraints
from regard.generation.cuda_graph import (
    LEAST_CAPACITY,
    LEAST_PROMPTS,
    WARM_UP,
    GraphedCall,
    GraphedPrompts,
    at_least,
    for_few_rows,
)
from regard.generation.sample import draw, weights_of
from regard.generation.state import Decodable, Engine
from regard.generation.token_loop import TokenChoice, TokenSearch
from regard.layers.kv_cache import PromptCache

MOST_POSITIONS = 4_096  # of a slot, for models without a limit
MOST_GRAPHED_PROMPTS = 1_024  # prompt tokens of a step that a graph reads: more take their time
MEMORY = 0.4  # share of the free memory of a GPU that the cache may take
MOST_CANDIDATES = 64  # of a row with top_k, without sorting the vocabulary
MOST_ENDS = 4  # tokens that end a text
GREEDY, PLAIN, TOP_K, SORTED = LEVELS = range(4)  # each level also selects for the lower ones
COLUMNS = ("level", "temperature", "top_k", "top_p", "shortest", "active")
LEVEL, TEMPERATURE, TOP_K_OF, TOP_P, SHORTEST, ACTIVE = range(len(COLUMNS))


@dataclass(frozen=True)
class SlotSettings:
    """Settings of one row: the search, and the constraints on its tokens."""

    search: TokenSearch
    constraints: Constraints
    shortest: int

    @property
    def fits(self) -> bool:
        """Whether the device can select the tokens; other rules need the host."""
        search, limits = self.search, self.constraints
        free = not (search.no_repeat or search.repetition.penalises or search.logit_bias)
        allowed = not (limits.forbidden or limits.must_end or limits.renormalise)
        known = search.choice is not None and len(limits.ends) <= MOST_ENDS
        return known and free and allowed

    @cached_property
    def level(self) -> int:
        """The least level of selection that the row needs."""
        choice = self.search.choice
        if choice is None or not choice.is_drawn:
            return GREEDY
        if not choice.top_k:
            return PLAIN if choice.top_p == 1 else SORTED
        return TOP_K if choice.top_k <= MOST_CANDIDATES else SORTED

    @property
    def columns(self) -> list[float]:
        """Row of the table of settings."""
        _, temperature, top_k, top_p = self.search.choice or TokenChoice()
        top_p = top_p if top_p < 1 else np.inf
        numbers = [self.level, temperature, top_k or np.inf, top_p, self.shortest, 1]
        ends = [*self.constraints.ends, *[-1] * MOST_ENDS][:MOST_ENDS]
        return [float(number) for number in (*numbers, *ends)]


class SlotTokens:
    """Token selector with tables for ``slots`` rows of at most ``capacity`` tokens."""

    def __init__(self, slots: int, capacity: int, device: torch.device):
        def table(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self.settings_RF = table(slots, len(COLUMNS) + MOST_ENDS)
        self.settings_RF[:, TEMPERATURE] = 1.0
        self.draws_RL = table(slots, capacity)
        self.count_R = torch.zeros(slots, dtype=torch.long, device=device)
        self.chosen_R2 = table(slots, 2)  # token and log-probability of the last step

    def start(self, slot_N: Tensor, settings: Sequence[SlotSettings], draws_NL: np.ndarray) -> None:
        """Give slots to new rows, with their random numbers."""
        device = self.count_R.device
        rows = torch.tensor([each.columns for each in settings], dtype=torch.float64)
        self.settings_RF.index_copy_(0, slot_N, move_tensor(rows, device))
        self.count_R.index_fill_(0, slot_N, 0)
        if any(each.level for each in settings):
            draws = move_tensor(torch.from_numpy(draws_NL), device)
            self.draws_RL[slot_N, : draws.shape[1]] = draws

    def free(self, slot_N: Tensor) -> None:
        """Take slots from rows that have ended."""
        self.settings_RF[:, ACTIVE].index_fill_(0, slot_N, 0)
        self.settings_RF[:, LEVEL].index_fill_(0, slot_N, GREEDY)

    def active(self, rows: int) -> Tensor:
        """1 for each of the first slots that has a row, else 0."""
        return self.settings_RF[:rows, ACTIVE].long()

    def select(self, logits_RV: Tensor, level: int) -> Tensor:
        """Next token of each of the first slots, by a selection for all rows up to ``level``."""
        rows = len(logits_RV)
        settings_RF, count_R = self.settings_RF[:rows], self.count_R[:rows]
        logprobs_RV = torch.log_softmax(logits_RV.float(), dim=-1)
        self._forbid_early_ends(logprobs_RV, settings_RF, count_R)
        token_R = topk(logprobs_RV, 1)[1][:, 0]
        if level > GREEDY:
            draws_R = self.draws_RL[:rows].gather(1, count_R[:, None])[:, 0]
            for number, select in zip(range(PLAIN, level + 1), DRAWN, strict=False):
                drawn_R = select(logprobs_RV, settings_RF, draws_R)
                token_R = torch.where(settings_RF[:, LEVEL] == number, drawn_R, token_R)
        self.chosen_R2[:rows, 0] = token_R.double()
        self.chosen_R2[:rows, 1] = logprobs_RV.gather(1, token_R[:, None])[:, 0].double()
        limit = self.draws_RL.shape[1] - 1
        count_R.add_(self.active(rows)).clamp_(max=limit)
        return token_R

    def _forbid_early_ends(self, logprobs_RV: Tensor, settings_RF: Tensor, count_R: Tensor) -> None:
        ends_RC = settings_RF[:, len(COLUMNS) :].long()
        early_R1 = (count_R + 1 < settings_RF[:, SHORTEST])[:, None]
        index_RC = torch.where(ends_RC < 0, ends_RC[:, :1], ends_RC).clamp(min=0)
        now_RC = logprobs_RV.gather(1, index_RC)
        forbidden_RC = early_R1 & (ends_RC[:, :1] >= 0)
        logprobs_RV.scatter_(1, index_RC, now_RC.masked_fill(forbidden_RC, -torch.inf))


# Sampled token of each row, in the order of candidates that ``Sample`` has; a function a level.


def _draw_of_all(logprobs_RV: Tensor, settings_RF: Tensor, draws_R: Tensor) -> Tensor:
    weights_RV = weights_of(logprobs_RV, settings_RF[:, TEMPERATURE, None], None)
    index_V = torch.arange(logprobs_RV.shape[1], device=draws_R.device)
    return draw(weights_RV, index_V.expand_as(weights_RV), draws_R)


def _draw_of_few(logprobs_RV: Tensor, settings_RF: Tensor, draws_R: Tensor) -> Tensor:
    return _draw_of_best(*topk(logprobs_RV, MOST_CANDIDATES), settings_RF, draws_R)


def _draw_of_sorted(logprobs_RV: Tensor, settings_RF: Tensor, draws_R: Tensor) -> Tensor:
    values_RV, index_RV = logprobs_RV.sort(dim=1, descending=True, stable=True)
    return _draw_of_best(values_RV, index_RV, settings_RF, draws_R)


def _draw_of_best(
    values_RC: Tensor, index_RC: Tensor, settings_RF: Tensor, draws_R: Tensor
) -> Tensor:
    place_C = torch.arange(values_RC.shape[1], device=draws_R.device)
    beyond_RC = place_C >= settings_RF[:, TOP_K_OF, None]
    values_RC = values_RC.masked_fill(beyond_RC, -torch.inf)
    temperature_R1, top_p_R1 = settings_RF[:, TEMPERATURE, None], settings_RF[:, TOP_P, None]
    return draw(weights_of(values_RC, temperature_R1, top_p_R1), index_RC, draws_R)


DRAWN = (_draw_of_all, _draw_of_few, _draw_of_sorted)  # by level, from PLAIN on


@dataclass(frozen=True)
class SlotRow:
    """A prompt, and the slots of its copies."""

    prompt: Ids
    slots: Sequence[int]


class SlotDecoder:
    """Decoder of ``slots`` rows of at most ``capacity`` tokens; one more slot takes padding.

    ``selector`` selects tokens, at a level below ``levels``.
    """

    def __init__(
        self,
        model: Decodable,
        selector: SlotTokens,
        slots: int,
        capacity: int,
        levels: int,
        device: torch.device,
    ):
        self.model, self.selector, self.slots, self.capacity = model, selector, slots, capacity
        self.levels, self.device = levels, device
        self.cache = model.decoder.new_static_cache(slots + 1, 1, capacity, 0, device)
        self.cache.start()
        self.stepped = for_few_rows(model, self.cache)
        vocab = cast(nn.Linear, model.output).out_features
        self.tokens_R = torch.zeros(slots, dtype=torch.long, device=device)
        self.logits_RV = torch.zeros(slots, vocab, dtype=_dtype(model), device=device)
        self.buckets = [1 << n for n in range((slots - 1).bit_length())] + [slots]
        self.parts = {rows: self.cache.first_rows(rows) for rows in self.buckets}
        padding = -(-MOST_GRAPHED_PROMPTS // min(capacity, MOST_GRAPHED_PROMPTS))
        self.slot_of_row_B = torch.full((slots + padding,), slots, device=device)
        self.steps: dict[int, GraphedCall] = {}
        self.selections: dict[tuple[int, int], GraphedCall] = {}
        self.readers: dict[BatchLimits, GraphedPrompts] = {}

    @property
    def graphs(self) -> int:
        """The number of calls that replay a graph, or will."""
        return len(self.steps) + len(self.selections) + len(self.readers)

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Capture the steps of all buckets, the selections, and the readers of short prompts."""
        pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        graphed = partial(GraphedCall, device=self.device, pool=pool)
        for rows in reversed(self.buckets):
            self.steps[rows] = graphed(partial(self._step, rows), name="a step of slots")
            _warm(self.steps[rows])
            for level in range(self.levels):
                select = partial(self._select, rows, level)
                self.selections[rows, level] = graphed(select, name="a selection")
                _warm(self.selections[rows, level])
        for limits in self._reader_limits():
            self.readers[limits] = GraphedPrompts(self, limits, pool)
            for _ in range(WARM_UP + 1):
                self.readers[limits](pack([[0]]).to(self.device))
        self.cache.start()

    def _reader_limits(self) -> list[BatchLimits]:
        sizes, tokens = list[BatchLimits](), LEAST_PROMPTS
        while tokens <= MOST_GRAPHED_PROMPTS:
            longest = min(tokens, self.capacity)
            sizes += [BatchLimits(tokens, rows, longest) for rows in sorted({1, self.slots})]
            tokens *= 2
        return sizes

    @torch.inference_mode()
    def start(self, rows: Sequence[SlotRow]) -> Tensor:
        """Read the prompts of new rows; return the slots of all copies."""
        self._read(rows)
        table = [
            (slot, len(row.prompt) - 1, row.slots[0], int(row.prompt[-1]))
            for row in rows
            for slot in row.slots
        ]
        slot_N, position_N, first_N, token_N = move_tensor(torch.tensor(table).T, self.device)
        cache = self.cache
        self.tokens_R.index_copy_(0, slot_N, token_N)
        cache.positions_R.index_copy_(0, slot_N, position_N)
        cache.lengths_R.index_copy_(0, slot_N, position_N.int() + 1)
        of_prompt_NS = cache.positions_S < position_N[:, None]
        owners_NS = torch.where(of_prompt_NS, first_N[:, None], slot_N[:, None])
        cache.owners_RS.index_copy_(0, slot_N, owners_NS.int())
        return slot_N

    def _read(self, rows: Sequence[SlotRow]) -> None:
        prompts = [row.prompt[:-1] for row in rows]
        lengths = [len(prompt) for prompt in prompts]
        tokens = sum(lengths)
        if not tokens:
            return
        self.slot_of_row_B.fill_(self.slots)
        first_B = torch.tensor([row.slots[0] for row in rows])
        self.slot_of_row_B[: len(rows)] = move_tensor(first_B, self.device)
        size = at_least(tokens, LEAST_PROMPTS)
        some = 1 if len(rows) == 1 else self.slots
        reader = self.readers.get(BatchLimits(size, some, min(size, self.capacity)))
        packed = pack(prompts).to(self.device)
        if reader is None or len(rows) > some:
            self.read_prompts(packed)
        else:
            reader(packed)

    def read_prompts(self, prompts: PackedTokens) -> None:
        """Run the decoder on prompts; keys of the rows beyond them go to the slot for padding."""
        row_T = self.slot_of_row_B[prompts.layout.rows_T]

        def write(number: int, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> None:
            self.cache.layers[number].write_tokens(k_THK, v_THK, row_T, layout.positions_T)

        self.model.decoder(prompts.tokens_T, prompts.layout, cache=PromptCache(write))

    @torch.inference_mode()
    def step(self, rows: int, level: int) -> None:
        """Feed the last tokens of the first ``rows`` slots, and select the next ones."""
        bucket = next(size for size in self.buckets if size >= rows)
        step, select = self.steps.get(bucket), self.selections.get((bucket, level))
        self._step(bucket) if step is None else step()
        self._select(bucket, level) if select is None else select()

    def _step(self, rows: int) -> None:
        part = self.parts[rows]
        part.forget()  # a capture that failed has cached tensors that were never computed
        tokens_R = self.tokens_R[:rows]
        logits_RV = self.stepped.decode(tokens_R, part.queries, None, cache=part)
        self.logits_RV[:rows].copy_(logits_RV)
        part.positions_R.mul_(self.selector.active(rows))  # slots without a row stay empty
        torch.add(part.positions_R, 1, out=part.lengths_R)

    def _select(self, rows: int, level: int) -> None:
        self.tokens_R[:rows].copy_(self.selector.select(self.logits_RV[:rows], level))


def slot_capacity(model: Decodable, engine: Engine, slots: int, device: torch.device) -> int:
    """Positions of a slot, by the model and the memory of the GPU; 0: the model has no slots."""
    decoder = model.decoder
    if not (engine.captures and decoder.attends):
        return 0
    capacity = decoder.embed.position_limit or MOST_POSITIONS
    if device.type == "cuda":
        heads = [block.attention.heads for block in decoder.layers]
        numbers = sum(each.keys + each.values for each in heads)
        free, _ = torch.cuda.mem_get_info(device)
        room = int(MEMORY * free) // ((slots + 1) * numbers * _dtype(model).itemsize)
        capacity = min(capacity, room)
    return capacity if capacity >= min(LEAST_CAPACITY, decoder.embed.position_limit or 64) else 0


def _warm(call: GraphedCall) -> None:
    for _ in range(WARM_UP + 1):
        call()


def _dtype(model: Decodable) -> torch.dtype:
    return next(model.parameters()).dtype
