"""Work on the inside of a model that nobody waits for ends with its batch, on every path."""

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from regard.core.batch import BatchLimits
from regard.core.cancellation import CancelledWork, check_wanted
from regard.inside.attribution import target_function
from regard.inside.heads import head_weights, text_loss
from regard.models.trunk import StackModule
from regard.serving.settings import ServerSettings
from regard.studio.app import studio_apis
from regard.studio.predictions import ABOUT
from serving.running_server import running, translation_model
from small_bert import model as small_bert
from small_gpt import small_gpt2
from small_images import blank_png, small_vit
from small_roles import small_labeller
from studio.test_predictions import SEED, TEXT, small_resolver
from work import ends

SENTENCE = f"{TEXT} {TEXT}"
LABELS = {"model": "labels", "text": SENTENCE}
TRANSLATED = {"model": "mt", "text": "the owl sees the cow"}
MANY = {"model": "labels", "texts": [SENTENCE, TEXT] * 8}
INSIDE = {"inspect": {"alignment": True, "contributions": True}}
REQUESTS = {
    **{f"evidence by {name}": ("/studio/evidence", {**LABELS, "method": name}) for name in ABOUT},
    "evidence of a translation": ("/studio/evidence", TRANSLATED),
    "evidence of an image": ("/studio/evidence", {"model": "images", "image": blank_png(8, 8)}),
    "without a word": ("/studio/what-if", {**LABELS, "words": [1]}),
    "report on heads": ("/studio/heads", MANY),
    "without heads": ("/studio/prune", {**MANY, "heads": [["encoder", 0, 0]]}),
    "attention": ("/studio/look", LABELS),
    "attention of a layer": ("/studio/layer", {**LABELS, "map": 0, "layer": 1}),
    "beam search": ("/studio/tree", TRANSLATED),
    "continuation": ("/studio/tree", {"model": "writer", "text": "the owl"}),
    "frames": ("/studio/roles", {"model": "roles", "text": TEXT}),
    "mentions": ("/studio/resolve", {"model": "mentions", "text": TEXT}),
    "values of labels": ("/v1/classify", {"model": "labels", "inputs": [TEXT] * 4, "inspect": {}}),
    "values of translations": ("/v1/translate", {**TRANSLATED, **INSIDE}),
}
SHORT = {"frames", "mentions", "attention", "attention of a layer", "without a word"}
"""Requests of a single batch, or of two."""


@pytest.fixture(scope="module")
def server():
    models = {"labels": small_bert("one"), "images": small_vit(), "writer": small_gpt2()}
    models |= {"roles": small_labeller(seed=SEED), "mentions": small_resolver()}
    models["mt"] = translation_model()
    with running(models, ServerSettings(allow_edits=True), studio_apis()) as server:
        yield server


@pytest.fixture
def small_batches(monkeypatch):
    one = BatchLimits(1, 1, 1)
    monkeypatch.setattr(target_function, "TOKENS", 1)
    monkeypatch.setattr(head_weights, "BATCH", one)
    monkeypatch.setattr(text_loss, "WITH_GRADIENTS", one)


@contextmanager
def stacks(note=lambda: None):
    """The stacks of layers that run: one in each batch of an encoder, two in that of a translator.

    ``note`` is called before the first.
    """
    run: list[nn.Module] = []

    def count(module, given):
        if isinstance(module, StackModule):
            run.append(module)
            if len(run) == 1:
                note()

    hook = register_module_forward_pre_hook(count)
    try:
        yield run
    finally:
        hook.remove()


def until_nobody_waits():
    while True:
        try:
            check_wanted()
        except CancelledWork:
            return
        time.sleep(0.01)


async def leave(server, path, body, begun):
    """Post a request, and give it up once it has begun."""
    async with server.asynchronous() as client:
        asking = asyncio.ensure_future(client.post(path, json=body))
        while not begun.is_set():
            assert not asking.done()
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])


def test_every_path_of_the_studio_that_runs_a_model_is_tried():
    paths = {route.path for route in studio_apis()[-1].routes if route.method == "POST"}
    assert paths - {"/studio/unknown"} == {p for p, _ in REQUESTS.values() if "/studio/" in p}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_is_given_up_ends_with_its_batch(server, small_batches, name):
    path, body = REQUESTS[name]
    with stacks() as run:
        answer = server.post(path, body)
    assert answer.status_code == 200, answer.text
    assert len(run) > 3 or name in SHORT
    begun = threading.Event()

    def begin():
        begun.set()
        until_nobody_waits()

    with ends(60), stacks(begin) as run:
        asyncio.run(leave(server, path, body, begun))
        asyncio.run(server.engine.call(body["model"], lambda served: None))
    assert 1 <= len(run) <= 2
