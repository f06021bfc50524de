"""Workers: results in order, few jobs at once, and the jobs of a dead worker done again."""

import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from local_ray import RAY, SYSTEMS
from regard.core import workers
from regard.core.errors import BadInput
from regard.core.workers import AHEAD, ATTEMPTS, RayActors, WorkerProcesses, Workers


class Inline(Workers):
    """Workers in this process, which do a job when its result is needed."""

    def __init__(self, count, begin):
        super().__init__(count)
        self.work, self.begun = begin(), 0

    def close(self):
        self.work = None

    def submit(self, job):
        self.begun += 1
        return partial(self.work, *job)


def square(number):
    return number * number, os.getpid()


def die(number):
    """Kill the process of the worker at one number, once: the file says that it has been."""
    path = Path(os.environ["DIED"])
    if number == 5 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)


def die_at_3(number):
    if number == 3:
        with Path(os.environ["DIED"]).open("a") as log:
            log.write("died\n")
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)


def priority(number):
    return os.nice(0), os.environ["RAY_USAGE_STATS_ENABLED"]


def refuse(number):
    raise BadInput(f"number {number} is bad")


def begin(work):
    return work


def test_results_come_in_order_and_few_jobs_are_begun():
    taken = []

    def jobs():
        for number in range(20):
            taken.append(number)
            yield (number,)

    with Inline(2, lambda: lambda number: number) as inline:
        for result in inline.map(jobs()):
            assert len(taken) <= result + 2 * AHEAD
        assert taken == [*range(20)] and inline.begun == 20


def test_results_that_are_due_do_not_wait_for_jobs():
    arrived = []

    def jobs():
        for number in range(3):
            arrived.append(number)
            yield (number,)

    with Inline(4, lambda: lambda number: number) as inline:
        results = inline.map(jobs(), ready=lambda: False)
        assert [(next(results), len(arrived)) for _ in range(3)] == [(0, 1), (1, 2), (2, 3)]


def test_no_worker_is_refused():
    with pytest.raises(BadInput, match="at least 1, not 0"):
        WorkerProcesses(0, lambda: square)


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(workers, "import_module", absent)
    with pytest.raises(BadInput, match=r"Ray is not installed; .*regard\[ray\]"):
        RayActors("local", lambda: square, 1, use_gpu=False)


def test_a_ray_of_this_machine_has_no_more_actors_than_cores(monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: False, init=lambda **_: pytest.fail("it starts"))
    monkeypatch.setattr(workers, "import_module", lambda _: ray)
    monkeypatch.setattr(workers.os, "cpu_count", lambda: 4)
    message = r"^5 workers: this machine has 4 cores; use at most 4$"
    with pytest.raises(BadInput, match=message):
        RayActors("local", lambda: square, 5, use_gpu=False)


def test_an_address_of_ray_where_nothing_answers_is_refused(monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: False, init=lambda **_: pytest.fail("it waits"))
    monkeypatch.setattr(workers, "import_module", lambda _: ray)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for name in (address, f"ray://{address}"):
        with pytest.raises(BadInput, match=rf"^Ray at {name}: .*refused"):
            RayActors(name, lambda: square, 1, use_gpu=False)


@pytest.fixture
def hanging_ray(monkeypatch):
    """A stand-in for Ray that waits at its end for a service that does not end."""
    ray = SimpleNamespace(
        is_initialized=lambda: False,
        services=[],
        init=lambda **_: ray.services.append(subprocess.Popen(["sleep", "60"])),
        cluster_resources=lambda: {"CPU": 2},
        remote=lambda **_: lambda _: SimpleNamespace(remote=lambda *_: None),
        kill=lambda _: None,
        shutdown=lambda: ray.services[0].wait(),
        exceptions=SimpleNamespace(RayError=RuntimeError),
    )
    monkeypatch.setattr(workers, "import_module", lambda _: ray)
    monkeypatch.setattr(workers, "ENDING", 0.01)
    monkeypatch.setattr(workers.os, "cpu_count", lambda: 2)
    for name in workers.ENVIRONMENT:
        monkeypatch.setenv(name, "0")  # so that it is not set afterwards
    yield ray
    for service in ray.services:
        service.kill()
        service.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed by Linux")
def test_services_of_ray_that_hang_are_killed(hanging_ray):
    bystander = subprocess.Popen(["sleep", "60"])
    RayActors("local", lambda: square, 2, use_gpu=False).close()
    assert hanging_ray.services[0].wait(30) == -signal.SIGKILL and bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_ray_that_does_not_end_is_left(hanging_ray, monkeypatch):
    """At the end of this process, nobody waits for it again."""
    hanging_ray.shutdown, forgotten = Event().wait, []
    monkeypatch.setattr(workers.atexit, "unregister", forgotten.append)
    RayActors("local", lambda: square, 2, use_gpu=False).close()
    assert forgotten == [hanging_ray.shutdown]
    hanging_ray.shutdown = lambda: None
    monkeypatch.setattr(workers, "ENDING", 60)
    RayActors("local", lambda: square, 2, use_gpu=False).close()
    assert len(forgotten) == 1


@pytest.fixture
def _importable(monkeypatch, tmp_path):
    """Workers find this file; one may die."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of actors
    monkeypatch.setenv("DIED", str(tmp_path / "died"))


def start(system, count, work):
    """Workers of a system."""
    if system == "ray":
        return RayActors("local", partial(begin, work), count, use_gpu=False)
    return WorkerProcesses(count, partial(begin, work))


@pytest.mark.slow
@pytest.mark.usefixtures("_importable")
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_jobs_of_a_killed_worker_are_done_again(system, tmp_path):
    with start(system, 2, die) as started:
        results = [*started.map((number,) for number in range(12))]
    assert [result for result, _ in results] == [number**2 for number in range(12)]
    assert (tmp_path / "died").exists() and len({process for _, process in results}) > 1


@pytest.mark.slow
@pytest.mark.usefixtures("_importable")
@pytest.mark.parametrize("system", [pytest.param("ray", marks=RAY)])
def test_actors_of_this_machine_have_its_priority_and_report_nothing(system):
    with start(system, 1, priority) as started:
        assert [*started.map([(0,)])] == [(os.nice(0), "0")]


@pytest.mark.slow
@pytest.mark.usefixtures("_importable")
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_job_that_kills_every_worker_is_given_up(system, tmp_path):
    """Those before it have results."""
    fault = f"a worker process died {ATTEMPTS} times" if system == "processes" else "Ray: .* died"
    with start(system, 1, die_at_3) as started, pytest.raises(BadInput, match=fault):
        for number, result in enumerate(started.map((number,) for number in range(5))):
            assert result[0] == number**2 and number < 3
    deaths = (tmp_path / "died").read_text().count("died")
    assert deaths == ATTEMPTS if system == "processes" else deaths <= ATTEMPTS + 1


@pytest.mark.slow
@pytest.mark.usefixtures("_importable")
@pytest.mark.parametrize("system", SYSTEMS)
def test_an_error_of_a_worker_is_raised_here(system):
    expected = pytest.raises(BadInput, match=r"^number 7 is bad$")
    with start(system, 1, refuse) as started, expected:
        list(started.map([(7,)]))
