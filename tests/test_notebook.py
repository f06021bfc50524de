"""Widgets: classes, traits, and what is left without scripts; tests/browser has a kernel."""

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView
from regard.views.pages import MODULES
from regard.views.view_record import ViewRecord

pytest.importorskip("anywidget")
WORDS = ("a", "b", "c")


@pytest.fixture(scope="module")
def view():
    weights = np.random.default_rng(0).random((2, 3, 3, 3))
    weights /= weights.sum(-1, keepdims=True)
    return AttentionView("a b c", (AttentionMap("encoder", WORDS, WORDS, weights),))


def test_every_view_has_a_widget_class():
    from regard.notebook import WIDGETS, ViewWidget

    assert {*WIDGETS} == {*MODULES}
    assert WIDGETS["beam_tree"].__name__ == "BeamTreeWidget"
    for kind, own in WIDGETS.items():
        assert issubclass(own, ViewWidget) and f"{MODULES[kind]}.render(el" in own._esm


def test_a_widget_has_the_record_and_takes_choices(view):
    from regard.notebook import widget

    made = widget(view, layer=1)
    read = ViewRecord.from_bytes(made.record)
    assert read.kind == "attention" and read.json["maps"][0]["queries"] == list(WORDS)
    assert made.options == {"layer": 1} and (made.layer, made.head, made.token) == (1, None, None)
    made.set_state({"selection": {"layer": 0, "head": 2, "query": 1, "kept": True}})
    assert (made.layer, made.head, made.token) == (0, 2, 1)
    seen = []
    made.observe(lambda change: seen.append(change["new"]), "options")
    made.set_state({"options": {"layer": 0, "hide": ["special"]}})
    assert seen == [{"layer": 0, "hide": ["special"]}]


def test_another_view_of_the_same_record(view):
    from regard.notebook import widget

    assert type(widget(view, "matrix")).__name__ == "MatrixWidget"
    assert type(widget(view.view_record())).__name__ == "AttentionWidget"
    with pytest.raises(BadInput, match="no view is called 'nonsense'; there are: attention"):
        widget(view, "nonsense")


def test_a_saved_widget_leaves_its_drawing(view):
    from regard.notebook import widget

    data, _ = widget(view)._repr_mimebundle_()
    assert data["image/svg+xml"] == view.svg()
    assert "application/vnd.jupyter.widget-view+json" in data
