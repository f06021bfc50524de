"""The curl commands of docs/serving.md, run by a shell against a real server."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.serving.apis import own
from regard.serving.server import APIS
from serving.running_server import running, translation_model
from small_bert import model as small_bert
from small_gpt import small_gpt2

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_every_curl_command_is_answered():
    commands = [line for block in BLOCKS for line in block.splitlines()]
    assert len(commands) == 24
    translator = translation_model()
    models = {"encoder": small_bert("one"), "generator": small_gpt2(), "mt-en-de": translator}
    assert "".join(f" --name {name}" for name in models) + "\n```" in PAGE  # of the page's server
    with running(models) as server:
        address = server.url.removeprefix("http://")
        for command in commands:
            assert command.startswith("curl -s localhost:8080/")
            line = command.replace("localhost:8080", address) + " --fail-with-body"
            done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stdout)
            *_, last = done.stdout.strip().split("\n\n")  # of the events of a stream
            answer = json.loads(last.removeprefix("data: "))
            path = command.split()[2].removeprefix("localhost:8080")
            is_own = path.startswith("/inspect") or path in {route.path for route in own.ROUTES}
            assert answer["results"] if is_own else answer, command


def test_all_paths_are_in_the_table():
    for route in (route for api in APIS for route in api.routes):
        path = route.path.replace("{id}", "ID").replace("{task}", "TASK")
        path = path.replace("/admin/models/{name}", "/admin/models").replace("{name}", "NAME")
        assert f"`{path}`" in PAGE, path
