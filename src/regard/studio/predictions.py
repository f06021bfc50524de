"""The page Understand: frames, clusters, the evidence of a prediction, and what-ifs."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, cast

from msgspec import Meta

from regard.core.errors import BadInput, did_you_mean, shown
from regard.inference.model_runner import ModelRunner
from regard.inference.resolver import ResolvedText
from regard.inference.role_labeller import SentenceFrames
from regard.serving.apis.request import APIRequest, Routes
from regard.serving.served_model import ServedModel
from regard.studio.text_records import StudioInput, StudioRequest, Text, run, run_on_input
from regard.text.label_sets import RegressionSet
from regard.text.segmentation import LabelledRow
from regard.text.words import word_spans
from regard.views.clusters import cluster_hue
from regard.views.markup import escape_controls, escape_line
from regard.views.palette import PAGE
from regard.views.role_arcs import draw_frames
from regard.views.word_marks import shares

ROUTES = Routes()
MOST_STEPS = 64  # of integrated gradients: evidence is to be there soon
MOST_LEFT_OUT = 64  # words of a text of which each is left out in turn, unless a method is named
SIGNS = "Orange words raise it, blue words lower it."
ABOUT = {
    "leave-one-out": f"Difference of {{scores}}: with the word, minus without it. {SIGNS}",
    "integrated": f"Integrated gradients, in units of the logit: the words sum to its difference "
    f"between the text and one of which every word is replaced. {SIGNS}",
    "gradient": f"Gradient × input, in units of the logit: it holds for small changes only, and "
    f"may contradict the prediction without the word. {SIGNS}",
    "rollout": "Attention rollout: the share of attention that the word gets through all layers. "
    "It is the same for every target, and says nothing about whether a word raises or lowers it.",
    "attention-gradient": "Attention × gradient, without a unit: only what raises the target is "
    "followed through all layers, so that no word lowers it.",
}
"""What the evidence of each method is, and its unit."""
PREDICTIONS = ("roles", "resolve")
"""Names of predictors whose results the studio draws, and of their paths."""


def prediction_paths(served: ServedModel) -> list[str]:
    """Paths of the studio that draw what the predictor of a model predicts."""
    if "predict" not in served.components:
        return []
    return [name for name in PREDICTIONS if served.component("predict").name == name]


async def _predicted(request: APIRequest, body: StudioRequest, name: str) -> object:
    """The prediction for the text of a request, by a model with this predictor."""
    body.check_words()

    def predict(served: ServedModel) -> object:
        if name not in prediction_paths(served):
            raise BadInput(f"model {served.name} was not trained for this task")
        return served.model.predict([body.text])[0]

    return await run(request, body, predict)


@ROUTES.post("/studio/roles", StudioRequest)
async def roles(request: APIRequest, body: StudioRequest) -> object:
    """Frames of a sentence."""
    sentence = cast(SentenceFrames, await _predicted(request, body, "roles"))
    frames = [
        {
            "brackets": escape_controls(sentence.brackets(frame)),
            "arguments": [
                {
                    "label": each.label,
                    "text": escape_controls(each.text),
                    "probability": each.probability,
                }
                for each in frame.arguments
            ],
        }
        for frame in sentence.frames
    ]
    return {"frames": frames, "svg": draw_frames(sentence, " ".join(sentence.words), PAGE)}


@ROUTES.post("/studio/resolve", StudioRequest)
async def resolve(request: APIRequest, body: StudioRequest) -> object:
    """Clusters of mentions."""
    resolved = cast(ResolvedText, await _predicted(request, body, "resolve"))
    parts = [
        {"text": escape_controls(each.text), "cluster": each.cluster, "is_mark": each.is_mark}
        for each in resolved.parts
    ]
    clusters = [
        {
            "hue": cluster_hue(number),
            "mentions": [
                {"text": escape_line(each.text), "head": escape_line(each.head)} for each in cluster
            ],
        }
        for number, cluster in enumerate(resolved.clusters, start=1)
    ]
    return {"parts": parts, "clusters": clusters}


class EvidenceRequest(StudioRequest, kw_only=True):
    """``target`` is a label, a token or a translation, predicted at the position ``token``.

    Instead of a token, ``character`` names a word by one of its characters, in the second text if
    there are two: the target is predicted at its first token, or at its ``last``. The default
    ``method`` is "leave-one-out"; of long texts and of images, "integrated".
    """

    target: Text | None = None
    token: Annotated[int, Meta(ge=0)] | None = None
    character: Annotated[int, Meta(ge=0)] | None = None
    last: bool = False
    method: str | None = None

    @property
    def chosen_method(self) -> str:
        """The method, or the default of the input."""
        if self.method is not None:
            return self.method
        words = len(word_spans(self.text)) + len(word_spans(self.second or ""))
        return "leave-one-out" if self.image is None and words <= MOST_LEFT_OUT else "integrated"

    def position(self, served: ServedModel) -> int | None:
        """The position at which the target is predicted; None: the model's own."""
        if self.character is None:
            return self.token
        model = served.model.runner
        if model.reads_images:
            raise BadInput("character: an image has no words")
        return token_at(model, self.text, self.second, self.character, last=self.last)


def token_at(
    model: ModelRunner, text: str, second: str | None, character: int, *, last: bool = False
) -> int:
    """Position of the first or last token of the word at a character of the last text."""
    row = cast(LabelledRow, model.read(text, second)[model.facts.sides[-1]])
    labels, whole = row.queries, text if second is None else second
    begin, place = labels.second if second is not None and labels.second is not None else 0, 0
    for word, group in zip(labels.words, labels.groups, strict=True):
        if not group or min(group) < begin or {*group} <= {*labels.specials}:
            continue
        place = whole.find(word, place)
        if place < 0:
            break
        place += len(word)
        if character < place:
            return max(group) if last else min(group)
    raise BadInput(f"character: no word of the text that the model reads is at {character}")


@ROUTES.post("/studio/evidence", EvidenceRequest)
async def evidence(request: APIRequest, body: EvidenceRequest) -> object:
    """Evidence of a prediction."""
    method = body.chosen_method
    if method not in ABOUT:
        raise BadInput(f"method: no method is called {shown(method)}{did_you_mean(method, ABOUT)}")

    def attributed(served: ServedModel, item: StudioInput) -> dict[str, object]:
        body.check_words()
        attribute = partial(served.model.attribute, method=method, deletion=False)
        explained = attribute(item, body.target, token=body.position(served), most_steps=MOST_STEPS)
        is_number = isinstance(served.labels, RegressionSet)
        about = ABOUT[method].format(scores="predictions" if is_number else "log-probabilities")
        if explained.completeness is not None and not explained.completeness.complete:
            about = f"{about} Here they do not sum to it ({explained.completeness.summary})."
        (values_MW,) = explained.weights.values()
        tints = shares(values_MW[0]).tolist()
        return {**explained.to_json(), "shares": tints, "method": method, "about": about}

    return await run_on_input(request, body, attributed)


class WhatIfRequest(EvidenceRequest, kw_only=True):
    """Heads as (attention, layer, head) and words by their numbers, which are switched off."""

    heads: Sequence[tuple[str, int, int]] = ()
    words: Sequence[int] = ()


@ROUTES.post("/studio/what-if", WhatIfRequest)
async def what_if(request: APIRequest, body: WhatIfRequest) -> object:
    """A prediction without parts."""

    def compared(served: ServedModel, item: StudioInput) -> dict[str, object]:
        body.check_words()
        without = partial(served.model.what_if, item, heads=body.heads, words=body.words)
        return without(target=body.target, token=body.position(served)).to_json()

    return await run_on_input(request, body, compared)
