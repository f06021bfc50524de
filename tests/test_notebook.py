"""Widgets and results in notebooks: traits, a kernel, and what is left without scripts."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from regard.ground.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView
from regard.inside.views.pages import MODULES
from regard.inside.views.view_record import ViewRecord

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


SOURCE = """
import numpy as np
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView
shown = AttentionMap("encoder", ("a", "b"), ("a", "b"), np.full((2, 2, 2, 2), 0.5))
AttentionView("a b", (shown,))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_notebook_that_ran_holds_page_drawing_and_text(tmp_path, monkeypatch):
    client = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    folder = tmp_path / "kernels" / "own"
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "own", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    source = str(Path(__file__).parents[1] / "src")
    monkeypatch.setenv("PYTHONPATH", ":".join([source, *sys.path]))
    cells = [SOURCE, "import regard.notebook as n; n.widget(_, layer=1)"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client.NotebookClient(book, timeout=120, kernel_name="own").execute()
    (page,), (live,) = (cell.outputs for cell in book.cells)
    assert "<iframe srcdoc=" in page.data["text/html"]
    assert page.data["image/svg+xml"].startswith("<svg") and "a b" in page.data["text/plain"]
    assert live.data["image/svg+xml"].startswith("<svg")
    assert "application/vnd.jupyter.widget-view+json" in live.data
