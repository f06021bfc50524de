"""A notebook that runs in a kernel: every result shows itself, and a widget works both ways."""

import json
import sys
from pathlib import Path

import pytest

from .widget_page import widget_page

pytest.importorskip("anywidget")
pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytestmark = pytest.mark.filterwarnings("default")

WIDGET = "application/vnd.jupyter.widget-view+json"
FIRST = """
import regard
from regard.api import Model
from small_bert import model as small_bert
from small_mistakes import small_translator
model, translator = small_bert("words"), Model(small_translator("translator"))
"""
RESULTS = {
    "look": "model.look('the old sailor')",
    "record": "model.record(['the old sailor'])[0]",
    "heads": "model.heads(['the old sailor', 'nobody believed'])",
    "tree": "translator.tree('the owl', regard.Beam(2))",
}
LIVE = "import regard.notebook as n; shown = n.widget(model.look('the old sailor'), layer=1); shown"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client whose kernel has run a notebook, and still runs."""
    folder = tmp_path_factory.mktemp("jupyter")
    (folder / "kernels" / "own").mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "own", "language": "python"}
    (folder / "kernels" / "own" / "kernel.json").write_text(json.dumps(spec))
    source = str(Path(__file__).parents[2] / "src")
    cells = [FIRST, *RESULTS.values(), LIVE]
    book = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("PYTHONPATH", ":".join([source, *sys.path]))
        client = nbclient.NotebookClient(book, timeout=300, kernel_name="own")
        with client.setup_kernel():
            for number, cell in enumerate(book.cells):
                client.execute_cell(cell, number)
            client.set_widgets_metadata()
            yield client


def bundle_of(client, number):
    (output,) = client.nb.cells[number].outputs
    return output.data


def run(client, source):
    """Run a further cell; return the text of its result."""
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    client.execute_cell(cell, len(client.nb.cells) - 1)
    client.nb.cells.pop()
    return cell.outputs[0].data["text/plain"] if cell.outputs else ""


@pytest.mark.parametrize("number", range(1, 1 + len(RESULTS)), ids=RESULTS)
def test_a_result_holds_a_page_a_drawing_and_text(client, number):
    bundle = bundle_of(client, number)
    assert {*bundle} == {"text/html", "image/svg+xml", "text/plain"}
    assert "<iframe srcdoc=" in bundle["text/html"]
    assert bundle["image/svg+xml"].startswith("<svg") and len(bundle["text/plain"]) < 4_000


def test_a_widget_holds_a_live_view_and_a_drawing(client):
    bundle = bundle_of(client, -1)
    assert bundle["image/svg+xml"].startswith("<svg")
    saved = client.nb.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    assert bundle[WIDGET]["model_id"] in saved


@pytest.fixture
def exported(client, monkeypatch):
    """The notebook as nbconvert writes it, without the scripts that its template asks for."""
    nbconvert = pytest.importorskip("nbconvert")
    beside = Path(nbconvert.__file__).parents[1] / "share" / "jupyter"
    monkeypatch.setenv("JUPYTER_PATH", str(beside))  # of pip install --target
    urls = dict.fromkeys(("require_js_url", "mathjax_url"), "data:text/javascript,")
    clear = nbconvert.preprocessors.ClearMetadataPreprocessor(enabled=True)
    exporter = nbconvert.HTMLExporter(preprocessors=[clear], **urls)
    return exporter.from_notebook_node(client.nb)[0]


def test_an_exported_notebook_shows_every_picture_without_a_kernel(open_page, exported):
    page = open_page(exported, ready="iframe")
    frames = page.locator("iframe")
    assert frames.count() == len(RESULTS)
    for number in range(len(RESULTS)):
        view = page.frame_locator("iframe").nth(number).locator(".regard .body")
        view.wait_for(timeout=20_000)
        assert view.bounding_box()["height"] > 20
    drawing = page.locator(".jp-OutputArea-output.jp-RenderedSVG svg, .jp-RenderedSVG img")
    assert drawing.count() == 1 and drawing.bounding_box()["height"] > 50


def test_choices_of_a_reader_come_back_to_python(client, open_page):
    name = bundle_of(client, -1)[WIDGET]["model_id"]
    state = client.widget_state[name]
    (record,) = client.widget_buffers[name].values()
    page = open_page(widget_page(state["_esm"], state["_css"], record["data"], state["options"]))
    page.locator('[data-focus="picture 0 1"]').click()
    page.locator('[data-focus="matrix"]').focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    for changes in page.evaluate("sent"):
        data = {"method": "update", "state": changes, "buffer_paths": []}
        message = client.kc.session.msg("comm_msg", {"comm_id": name, "data": data})
        client.kc.shell_channel.send(message)
    assert run(client, "shown.layer, shown.head, shown.token") == "(0, 1, 2)"
    assert run(client, "shown.options['layer'], shown.options['head']") == "(0, 1)"


def test_choices_of_python_reach_the_view(client, open_page):
    name = bundle_of(client, -1)[WIDGET]["model_id"]
    run(client, "shown.options = {'layer': 1, 'head': 0, 'hide': ['special']}")
    state = client.widget_state[name]
    (record,) = client.widget_buffers[name].values()
    page = open_page(widget_page(state["_esm"], state["_css"], record["data"], {"layer": 0}))
    page.evaluate("options => model.set('options', options)", state["options"])
    for choice in ("layer=1", "head=0", "hide=special"):
        assert page.locator(f'[data-focus="{choice}"]').is_checked()
