"""Records of one input of a model: attention and searches, as views read them.

Attention of long inputs travels a layer at a time.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from starlette.responses import Response

from regard.core.errors import BadInput
from regard.generation.greedy import Greedy
from regard.generation.step import Search
from regard.inference.generator import Ending, Generator
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_record import layer_record
from regard.inside.attention.attention_view import AttentionView
from regard.inside.record import record
from regard.inside.trees.recording_beam import record_tree
from regard.inside.trees.token_tree import TokenTree, record_tokens
from regard.models.edits import list_edits
from regard.models.label_heads import SpanHead
from regard.serving.apis.request import APIRequest, Routes
from regard.serving.apis.request_images import EncodedImage
from regard.serving.request_errors import UnknownModel
from regard.serving.served_model import ServedModel
from regard.text.continuation import Continuation
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.views.view_record import ViewRecord

ROUTES = Routes()
AT_ONCE = 400_000  # weights that travel together; of more, a layer at a time
LONGEST = 20_000  # characters of an input
CHECKPOINT = re.compile(r"(.+)\.step-(\d+)")  # name of an open checkpoint
MOST_NEW = 64  # tokens of a search tree

Text = Annotated[str, Meta(max_length=LONGEST)]
StudioInput = str | tuple[str, str] | np.ndarray
"""A text, two texts, or an image, as the methods of a model read it."""


class StudioRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """An input of a model: a text, two texts, or an image in base64; with edits of the model."""

    model: str
    text: Text = ""
    second: Text | None = None
    image: str | None = None
    edits: list[dict[str, Any]] = []

    def chosen_model(self, request: APIRequest) -> ServedModel:
        """The model of this name, if it reads the input of the request."""
        closed = CHECKPOINT.fullmatch(self.model)
        if closed is not None and self.model not in request.engine.models:
            closing = "is closed, as others were opened since: reload the page to open it again"
            raise UnknownModel(f"checkpoint {closed[1]}, step {closed[2]}, {closing}")
        served = request.choose_model(self.model, lambda _: True, "the studio")
        self.check_input(served)
        return served

    def served(self, request: APIRequest) -> ServedModel:
        """The model of this name, with the edits of the request."""
        served = self.chosen_model(request)
        return served.with_edits(list_edits(self.edits, "edits")) if self.edits else served

    def check_input(self, served: ServedModel) -> None:
        """Refuse a text for a model of images, which would take it as a path, and an image else."""
        reads_images = served.model.runner.reads_images
        if reads_images and (self.image is None or self.text or self.second is not None):
            raise BadInput(f"model {served.name} reads images: give an image, and no text")
        if self.image is not None and not reads_images:
            raise BadInput(f"model {served.name} reads texts: give a text, and no image")

    def check_words(self) -> None:
        """Refuse a blank text, unless there is an image."""
        if self.image is None and not self.text.strip():
            raise BadInput("the text is empty")

    @asynccontextmanager
    async def given(self, request: APIRequest) -> AsyncIterator[StudioInput]:
        """The input as the methods of a model read it; the pixels of images are bounded."""
        self.chosen_model(request)
        if self.image is None:
            yield self.text if self.second is None else (self.text, self.second)
            return
        image = EncodedImage.of_text(self.image, request.limits.pixels)
        async with request.services.images.decoded_one(image) as pixels:
            yield pixels

    @property
    def tokens(self) -> int:
        """About as many tokens as the input has."""
        return 1 + (len(self.text) + len(self.second or "")) // 4


async def run(
    request: APIRequest, body: StudioRequest, function: Callable[[ServedModel], Any]
) -> Any:
    """The value of a function of the model, with its edits, in the model's thread."""
    served = body.served(request)
    request.log |= {"model": served.name, "texts": body.text}
    return await request.engine.call(served.name, lambda _: function(served), body.tokens)


async def run_on_input(
    request: APIRequest, body: StudioRequest, function: Callable[[ServedModel, StudioInput], Any]
) -> Any:
    """The value of a function of the model and of the input of a request."""
    async with body.given(request) as item:
        return await run(request, body, lambda served: function(served, item))


def binary(view: ViewRecord, served_name: str) -> Response:
    """A record as it travels, with the name of its model."""
    named = view.with_source(model=served_name)
    return Response(named.to_bytes(), media_type="application/octet-stream")


@ROUTES.post("/studio/unknown", StudioRequest)
async def unknown(request: APIRequest, body: StudioRequest) -> object:
    """Unknown words."""

    def words(served: ServedModel) -> list[str]:
        vocabulary = require_tokenizer(served.model.runner.tokenizer).vocabularies[0]
        spans = vocabulary.unknown(body.text)
        return [*dict.fromkeys(body.text[start:end] for start, end in spans)]

    return {"words": await run(request, body, words)}


class LookRequest(StudioRequest, kw_only=True):
    """``second`` is the second text of an encoder, or the translation to look at."""

    subwords: bool = False
    rollout: bool = False


@ROUTES.post("/studio/look", LookRequest)
async def look(request: APIRequest, body: LookRequest) -> object:
    """Attention on an input."""
    subwords = body.subwords and body.image is None

    def looked(served: ServedModel, item: StudioInput) -> ViewRecord:
        if not subwords:
            body.check_words()
        first, second = item if isinstance(item, tuple) else (item, None)
        facts = served.model.facts
        aligns = any(site.between_texts for site in facts.attention_sites)
        if second is None and aligns and SpanHead.name in facts.head_names:
            reads = "reads a question and a text with the answer: ask it on the page Understand"
            raise BadInput(f"model {served.name} {reads}")
        view = served.model.look(first, second, rollout=body.rollout, subwords=subwords)
        if not isinstance(view, AttentionView):
            return view.view_record()
        size = sum(layer.size for each in view.maps for layer in each.layers)
        return view.view_record(lazy=size > AT_ONCE)

    return binary(await run_on_input(request, body, looked), body.model)


class LayerRequest(LookRequest, kw_only=True):
    """``map`` is the index of an attention map of the input, ``layer`` the number of its layer."""

    map: Annotated[int, Meta(ge=0)]
    layer: Annotated[int, Meta(ge=0)]


@ROUTES.post("/studio/layer", LayerRequest)
async def look_at_layer(request: APIRequest, body: LayerRequest) -> object:
    """Attention of one layer."""

    def looked(served: ServedModel, item: StudioInput) -> ViewRecord:
        model = served.model.runner
        first, second = item if isinstance(item, tuple) else (item, None)
        rows = model.read(first, second)
        recorded, _ = record(model, rows, layers=[body.layer])
        maps: list[AttentionMap] = []
        for site in recorded.by_site:
            maps += site.maps(subwords=body.subwords and body.image is None)
        if body.map >= len(maps):
            raise BadInput(f"map: there are {len(maps)}, not {body.map + 1}")
        return layer_record(maps[body.map], body.layer)

    return binary(await run_on_input(request, body, looked), body.model)


class TreeRequest(StudioRequest, kw_only=True):
    """A beam search of a translator, or the tokens of a generator with their alternatives.

    ``prefix``: what the translation begins with; empty: the model's own words.
    """

    prefix: Text = ""
    beam: Annotated[int, Meta(ge=1, le=16)] = 4
    alternatives: Annotated[int, Meta(ge=1, le=20)] = 5
    steps: Annotated[int, Meta(ge=1, le=MOST_NEW)] = 12
    temperature: Annotated[float, Meta(ge=0, le=10)] = 0.0
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0


@ROUTES.post("/studio/tree", TreeRequest)
async def tree(request: APIRequest, body: TreeRequest) -> object:
    """A search as a tree."""

    def searched(served: ServedModel) -> ViewRecord:
        model = served.model
        if "translate" in served.components:
            beam = replace(model.translator.base_beam, size=body.beam, best=1)
            searched = record_tree(model.translator, body.text, beam, body.prefix or None)
            return searched.view_record()
        if body.prefix:
            raise BadInput("prefix: only of translations; a generator continues the text itself")
        generator = replace(model.generator, ending=Ending.of(body.steps, 0, ()))
        search: Search = Greedy()
        if body.temperature:
            chosen = replace(generator.sampling, temperature=body.temperature, seed=body.seed)
            search = replace(chosen, top_p=body.top_p or chosen.top_p, count=1)
        tokens = record_tokens(generator, body.text, search, body.alternatives)
        return with_continuations(tokens, generator, body.text)

    return binary(await run(request, body, searched), body.model)


def with_continuations(tree: TokenTree, generator: Generator, prompt: str) -> ViewRecord:
    """Record of a tree, in which each node also has the text that follows the prompt up to it."""
    (ids,) = generator.read_prompts([prompt])
    continuation = Continuation(generator.vocabulary.decode, ids)
    texts = [
        continuation.text([tree.nodes[each].token for each in tree.path(number)[1:]])
        for number in range(len(tree.nodes))
    ]
    chances = {"probability": [*map(tree.probability, range(len(tree.nodes)))]}
    ends = [node.token in generator.ends for node in tree.nodes]
    view = tree.view_record()
    return replace(view, json={**view.json, "continuations": texts, "ends": ends, **chances})
