"""Models of the Hugging Face hub, from a small server of our own that speaks its protocol."""

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import regard
from closeness import SCALARS
from regard import BadInput
from regard.models.folders.hub import is_hub_id
from small_bert import SENTENCES, model
from small_labels import write_owls
from warm import WarmProcess

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOADED = """
import json, regard, warnings
warnings.simplefilter("error")
model = regard.load({name!r}, "cpu")
print(json.dumps(model.embed([{text!r}]).tolist()))
"""


FETCHED = """
import warnings
warnings.simplefilter("error")
from regard.core.errors import BadInput
from regard.models.folders.hub import fetch
try:
    print(fetch({name!r}))
except BadInput as error:
    print(error)
"""


class Hub(ThreadingHTTPServer):
    """Folders by their ids; ``served`` are the files that were asked for."""

    daemon_threads = True

    def __init__(self, repositories: dict[str, Path]):
        super().__init__(("127.0.0.1", 0), Answer)
        self.repositories, self.served = repositories, list[str]()


class Answer(BaseHTTPRequestHandler):
    """What a repository is, which files it has, and one of them."""

    server: Hub

    def do_GET(self) -> None:
        name, _, rest = self.path.removeprefix("/api/models/").partition("/resolve/")
        if rest:
            self._file(name.strip("/"), rest.partition("/")[2])
        else:
            self._listing(self.path.removeprefix("/api/models/").partition("?")[0])

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""

    def _listing(self, path: str) -> None:
        name = next((one for one in self.server.repositories if path.startswith(one)), None)
        if name is None:
            self._reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return
        folder = self.server.repositories[name]
        paths = sorted(one for one in folder.rglob("*") if one.is_file())
        names = [one.relative_to(folder).as_posix() for one in paths]
        if "/tree/" in path:
            content: object = [
                {"type": "file", "path": of, "size": one.stat().st_size, "oid": tag(one)}
                for of, one in zip(names, paths, strict=True)
            ]
        else:
            siblings = [{"rfilename": of} for of in names]
            content = {"id": name, "sha": COMMIT, "siblings": siblings}
        self._reply(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str, file: str) -> None:
        path = self.server.repositories[name] / file
        self.server.served.append(file)
        self._reply(200, path.read_bytes(), {"ETag": f'"{tag(path)}"', "X-Repo-Commit": COMMIT})

    def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def tag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published encoder, and beside it what is not to be fetched."""
    folder = tmp_path_factory.mktemp("hub") / "published"
    model("states").save(folder, "hf")
    for name in ("pytorch_model.bin", "README.md", "run.py"):
        (folder / name).write_text("not to be fetched")
    return folder


@pytest.fixture(scope="module")
def hub(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    pickled = tmp_path_factory.mktemp("hub") / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_bytes((folder / "config.json").read_bytes())
    (pickled / "pytorch_model.bin").write_text("pickled")
    unknown = tmp_path_factory.mktemp("hub") / "unknown"
    unknown.mkdir()
    (unknown / "config.json").write_text('{"model_type": "huge"}')
    (unknown / "model.safetensors").write_text("not to be fetched")
    empty = tmp_path_factory.mktemp("hub") / "empty"
    empty.mkdir()
    (empty / "README.md").write_text("no model")
    folders = {"bert": folder, "pickled": pickled, "unknown": unknown, "empty": empty}
    server = Hub({f"tiny/{name}": one for name, one in folders.items()} | {"tiny-bert": folder})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def settings(endpoint: str, cache: Path, **more: str) -> dict[str, str]:
    own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "0"}
    return {**own, "no_proxy": "127.0.0.1", **more}


def run(*words: object, env: dict[str, str], cwd: Path) -> str:
    """A process of its own: where the hub is, its library reads when it is imported."""
    process = WarmProcess(*words, cwd=cwd, **env)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output


def address(server: Hub) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.mark.slow
def test_an_id_is_fetched_once_and_then_read_from_the_cache(hub, folder, tmp_path):
    env = settings(address(hub), tmp_path / "cache")
    (expected,) = regard.load(folder, "cpu").embed([SENTENCES[0]]).tolist()
    hub.served.clear()
    code = LOADED.format(name="tiny/bert", text=SENTENCES[0])
    (found,) = json.loads(run("-c", code, env=env, cwd=tmp_path))  # with all threads, not one
    assert found == pytest.approx(expected, **SCALARS)
    assert "model.safetensors" in hub.served and "tokenizer.json" in hub.served
    assert not {"pytorch_model.bin", "README.md", "run.py"} & set(hub.served)
    code = FETCHED.format(name="tiny/bert")
    for offline in ({"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}):
        again = run("-c", code, env={**env, **offline}, cwd=tmp_path)
        assert (Path(again.strip()) / "model.safetensors").is_file(), again


def test_verbs_take_ids(hub, tmp_path):
    (tmp_path / "texts").write_text("a cat\n")
    words = ("-m", "regard", "embed", "tiny-bert", "texts", "--json", "--device", "cpu")
    output = run(*words, env=settings(address(hub), tmp_path / "cache"), cwd=tmp_path)
    assert len(json.loads(output)["vector"]) == 16


TRAINED = """
import json, regard
from regard import BadInput
settings = {{"model.start": {start!r}, "model.paper": None, "model.size": None, "text": False}}
settings |= {{"model.change": None, "train.steps": 2}}
try:
    *_, ended = regard.train("owls.toml", "data", "run", settings=settings, device="cpu")
    print(ended)
except BadInput as error:
    print(error)
"""


@pytest.fixture
def cached(folder, tmp_path) -> dict[str, str]:
    """The settings of a process without a network, with a cache that has the model."""
    repository = tmp_path / "cache" / "hub" / "models--tiny--bert"
    shutil.copytree(folder, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    (tmp_path / "data").mkdir()
    write_owls(tmp_path / "data").rename(tmp_path / "owls.toml")
    return settings("http://127.0.0.1:9", tmp_path / "cache", HF_HUB_OFFLINE="1")


@pytest.mark.parametrize("start", ["tiny/bert", {"folder": "tiny/bert"}], ids=["name", "table"])
def test_a_recipe_starts_from_an_id_in_the_cache(folder, cached, tmp_path, start):
    output = run("-c", TRAINED.format(start=start), env=cached, cwd=tmp_path)
    assert output == "ended after step 2: all steps done\n"
    trained, published = regard.load(tmp_path / "run" / "model", "cpu"), regard.load(folder, "cpu")
    assert trained.paper == published.paper and trained.facts.trunk == published.facts.trunk
    assert trained.tokenizer.words.fingerprint == published.tokenizer.words.fingerprint
    (before, after) = (one.module.trunk.embed.token.weight.detach() for one in (published, trained))
    assert (before != after).any() and (before - after).abs().max() < 0.1  # two steps away


def test_a_start_that_the_cache_does_not_have_is_named(cached, tmp_path):
    (line,) = run("-c", TRAINED.format(start="tiny/gpt"), env=cached, cwd=tmp_path).splitlines()
    reason = "no such folder, and not in the cache of the hub (HF_HUB_OFFLINE is set)"
    assert line == f"model.start: tiny/gpt: {reason}"
    assert not (tmp_path / "run").exists()


def test_a_folder_under_the_data_root_comes_before_the_hub(folder, cached, tmp_path):
    shutil.copytree(folder, tmp_path / "data" / "tiny" / "gpt")
    output = run("-c", TRAINED.format(start="tiny/gpt"), env=cached, cwd=tmp_path)
    assert output == "ended after step 2: all steps done\n"


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("tiny/none", {}, "tiny/none: no such folder, and no public model of the Hugging Face hub"),
        ("tiny/pickled", {}, "tiny/pickled: its repository on the hub has no safetensors"),
        ("tiny/unknown", {}, "tiny/unknown: model_type 'huge' is not supported, only "),
        ("tiny/empty", {}, "tiny/empty: no model: its repository on the hub has no config.json"),
        ("tiny--bert", {}, "tiny--bert: no such folder, and no id of the Hugging Face hub"),
        ("tiny/bert", {"HF_HUB_OFFLINE": "1"}, "in the cache of the hub (HF_HUB_OFFLINE is set)"),
        ("tiny/bert", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "the hub cannot be reached: "),
    ],
)
def test_what_cannot_be_fetched_is_one_line(hub, tmp_path, name, more, message):
    env = settings(address(hub), tmp_path / "cache", **more)
    hub.served.clear()
    (line,) = run("-c", FETCHED.format(name=name), env=env, cwd=tmp_path).splitlines()
    assert line.startswith(f"{name}: ") and message in line
    assert set(hub.served) <= {"config.json"}


def test_ids_and_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "bert").mkdir(parents=True)
    for name in ("bert", "org/name", "org/name-1.5_x", "runs-of/bert"):
        assert is_hub_id(name), name
    local = ("runs/bert", "runs/none", "runs", ".", "./bert", "../bert", "/none/bert", "a/b/c", "")
    for name in (*local, "~/bert", "ein/ä", "org/na me", Path("org/name")):
        assert not is_hub_id(name), name


def test_a_path_is_never_fetched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("runs/none", Path("org/name"), "a/b/c"):
        with pytest.raises(BadInput, match=f"^{name}: no such folder$"):
            regard.load(name)
