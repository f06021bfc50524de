"""Files of the page: modules are named before they are needed, and large files are gzipped."""

import gzip
import re

import pytest

from regard.studio.app import studio_apis
from regard.studio.page_files import FOLDERS, IMPORT, TYPES, VIEWS, modules_of_page
from serving.running_server import running
from small_bert import model as small_bert

PAGES = [each.name.removesuffix(".js") for each in FOLDERS["pages"].iterdir()]
SCRIPTS = {
    f"{folder}/{each.name}": each.read_text(encoding="utf-8")
    for folder, files in FOLDERS.items()
    for each in files.iterdir()
    if each.name.endswith(".js")
}


@pytest.fixture(scope="module")
def server():
    with running({"labels": small_bert("one")}, apis=studio_apis()) as server:
        yield server


def test_every_import_is_read():
    for name, text in SCRIPTS.items():
        lines = re.findall(r"^import\b.*", text, re.MULTILINE)
        assert len(IMPORT.findall(text)) == len(lines), name


@pytest.mark.parametrize("name", ["", "nothing", "../app", *PAGES])
def test_a_page_names_all_modules_that_it_waits_for(server, name):
    html = server.client.get("/studio", params={"page": name}).text
    named = re.findall(r'<link rel="modulepreload" href="/studio/(\S+)">', html)
    assert named == modules_of_page(name) and len({*named}) == len(named)
    assert html.index("modulepreload") < html.index('<script type="module"')
    for module in named:
        assert server.client.get(f"/studio/{module}").status_code == 200
        for path in IMPORT.findall(SCRIPTS[module]):
            assert any(path.endswith(each.rpartition("/")[2]) for each in named), (module, path)
    assert (f"pages/{name}.js" in named) == (name in PAGES)
    assert name not in VIEWS or f"views/{VIEWS[name]}.js" in named


def test_large_files_are_gzipped_for_those_who_read_gzip(server):
    for folder, files in FOLDERS.items():
        for each in files.iterdir():
            if not each.name.endswith(tuple(TYPES)):
                continue
            content, path = each.read_bytes(), f"/studio/{folder}/{each.name}"
            whole = server.client.get(path, headers={"accept-encoding": "identity"})
            assert whole.content == content and "content-encoding" not in whole.headers
            request = server.client.build_request("GET", path, headers={"accept-encoding": "gzip"})
            small = server.client.send(request, stream=True)
            raw = b"".join(small.iter_raw())
            assert small.headers["vary"] == whole.headers["vary"] == "accept-encoding"
            assert (small.headers.get("content-encoding") == "gzip") == (len(content) >= 1_000)
            assert (gzip.decompress(raw) if len(content) >= 1_000 else raw) == content
            assert len(content) < 1_000 or len(raw) < 0.7 * len(content)
