"""Blocks of lines that the actors of a Ray share, on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from regard.ground.workers import RayActors
from small import environment
from small_bert import model as small_bert
from verb import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.filterwarnings("ignore"),  # of Ray
]
COUNT = 5_000


@pytest.fixture(scope="session")
def local_ray():
    """One Ray for all tests, which workers find running."""
    ray = pytest.importorskip("ray")
    options = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    ray.init(address="local", num_cpus=2, object_store_memory=200_000_000, **options)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "model"
    small_bert("one").save(folder)
    return folder


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("".join(f"the cat sat on {'the boat ' * (n % 5)}\n" for n in range(COUNT)))
    return path


@pytest.mark.usefixtures("local_ray")
def test_actors_print_what_processes_print(classifier, texts):
    command = ("predict", classifier, texts, "--json", "--device", "cpu", "--workers", 2)
    alone, shared = run(*command), run(*command, "--ray", "local")
    assert shared.stdout == alone.stdout and shared.stdout.count("\n") == COUNT
    assert f"{COUNT:,} results of {COUNT:,} inputs, 0 bad" in shared.stderr


@pytest.mark.usefixtures("local_ray")
def test_more_actors_than_cores_are_refused(classifier, texts):
    command = ("predict", classifier, texts, "--device", "cpu", "--workers", 9, "--ray", "local")
    assert "9 workers: Ray has 2 CPUs; use at most 2" in run(*command, code=2).stderr


def test_the_jobs_of_a_killed_actor_are_done_again(local_ray):
    def begin():
        return lambda number: (number, os.getpid())

    results = []
    with RayActors("local", begin, 2, use_gpu=False) as actors:
        for number, process in actors.map((number,) for number in range(30)):
            results.append(number)
            if number == 5:
                os.kill(process, signal.SIGKILL)
    assert results == [*range(30)] and local_ray.is_initialized()


def test_kill_9_of_the_driver_loses_and_repeats_nothing(classifier, texts, tmp_path):
    out, written = tmp_path / "out.jsonl", tmp_path / "out.jsonl.partial"
    words = ("predict", classifier, texts, "--json", "--device", "cpu", "--workers", 2)
    command = [sys.executable, "-m", "regard", *map(str, words), "--ray", "local"]
    command += ["--out", str(out), "--resume"]
    variables = {**environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=variables)
    while not (written.exists() and written.stat().st_size):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not out.exists()
    subprocess.run(command, env=variables, check=True)
    lines = [json.loads(line)["line"] for line in Path(out).read_text().splitlines()]
    assert lines == [*range(1, COUNT + 1)]
