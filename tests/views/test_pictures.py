"""PNG and PDF of every drawing, by CairoSVG; without it, one line says what to install."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard import BadInput
from regard.views.markup import NO_CONVERTER
from small_bert import model as small_encoder
from verb import run

TEXT = "the old cat"
DRAWINGS = sorted((Path(__file__).parents[2] / "docs").glob("*.svg"))
MAGIC = {".png": b"\x89PNG", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def views():
    """Views of every kind that a text has."""
    model = small_encoder("one")
    look = model.look(TEXT)
    return {"look": look, "map": look.map("encoder"), "attributions": model.attribute(TEXT)}


@pytest.fixture(params=["look", "map", "attributions"])
def view(request, views):
    return views[request.param]


@pytest.fixture
def converter(monkeypatch):
    """A stand-in of the library that notes the drawings that it converts."""
    calls = []

    def convert(kind):
        return lambda bytestring, **options: (
            calls.append((kind, options)) or MAGIC[kind] + bytestring
        )

    module = SimpleNamespace(svg2png=convert(".png"), svg2pdf=convert(".pdf"))
    monkeypatch.setitem(sys.modules, "cairosvg", module)
    return calls


@pytest.mark.parametrize("kind", MAGIC)
def test_a_view_is_saved_by_the_suffix(view, kind, converter, tmp_path):
    for name in (f"view{kind}", f"view{kind.upper()}"):
        view.save(tmp_path / "new" / name)
        assert (tmp_path / "new" / name).read_bytes() == MAGIC[kind] + view.svg().encode()
    assert converter == [(kind, {"scale": 2} if kind == ".png" else {})] * 2


@pytest.mark.parametrize("kind", MAGIC)
def test_without_the_library_one_line_says_so(view, kind, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(BadInput, match="pip install 'regard") as raised:
        view.save(tmp_path / f"view{kind}")
    assert str(raised.value) == NO_CONVERTER and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("arguments", [("--svg", "a.pdf"), ("--png", "a.png"), ("--svg", "a.svg")])
def test_the_command_line_draws_by_the_suffix(arguments, converter, tmp_path, monkeypatch):
    small_encoder("one").save(tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    run("look", "one", TEXT, *arguments)
    content = Path(arguments[1]).read_bytes()
    assert content.startswith(MAGIC.get(Path(arguments[1]).suffix, b"<svg"))
    run("attribute", "one", TEXT, "--method", "gradient", *arguments)
    assert Path(arguments[1]).read_bytes() != content


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: path.stem)
def test_the_library_draws_what_is_drawn_here(drawing, tmp_path):
    cairosvg = pytest.importorskip("cairosvg")
    image = pytest.importorskip("PIL.Image")
    cairosvg.svg2png(bytestring=drawing.read_bytes(), write_to=str(tmp_path / "a.png"))
    assert len(image.open(tmp_path / "a.png").convert("L").getcolors()) > 20
