"""The curl commands of docs/serving.md, run by a shell against a real server."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.serving.doors import operations, own
from serving.running_server import running
from small_bert import model as small_bert
from small_gpt import small_gpt2

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_every_curl_command_is_answered():
    commands = [line for block in BLOCKS for line in block.splitlines()]
    assert len(commands) == 8
    with running({"encoder": small_bert("one"), "generator": small_gpt2()}) as server:
        address = server.url.removeprefix("http://")
        for command in commands:
            assert command.startswith("curl -s localhost:8080/")
            line = command.replace("localhost:8080", address) + " --fail-with-body"
            done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stdout)
            assert json.loads(done.stdout)["results"]


def test_all_paths_are_in_the_table():
    for route in (*own.ROUTES, *operations.ROUTES):
        assert route.path.replace("{id}", "ID").replace("/{name}", "") in PAGE, route.path
