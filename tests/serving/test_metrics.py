"""Metrics of several processes, which each of them answers for all."""

import re
import signal
import subprocess
import sys
import time

import httpx
import pytest

from serving.running_server import serving_process
from small import environment
from small_bert import model as small_bert
from work import ends

PROCESSES = """
import os, sys
from regard.serving.metrics import Metrics
metrics = Metrics()
metrics.requests.labels("/v1/embed", "200").inc(int(sys.argv[1]))
metrics.latency.labels("/v1/embed").observe(0.003)
metrics.of_queue("bert")[0].set(int(sys.argv[1]))
print(metrics.text().decode(), flush=True)
sys.stdin.read()
"""


def figure(text, name):
    """The value of a figure, with its labels, in the text format of Prometheus."""
    values = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.M)
    assert len(values) == 1, (name, text)
    return float(values[0])


REQUESTS = 'regard_requests_total{path="/v1/embed",status="200"}'
LATENCIES = 'regard_latency_seconds_bucket{le="0.005",path="/v1/embed"}'
QUEUED = 'regard_queued_tokens{model="bert"}'


def test_figures_are_summed_and_queues_of_dead_processes_are_forgotten(tmp_path):
    def started(count):
        words = [sys.executable, "-c", PROCESSES, str(count)]
        environ = environment() | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen(words, **pipes, text=True, env=environ)

    first = started(3)
    with ends(120):
        assert first.stdout.readline()  # it has written its figures
    both, _ = started(4).communicate(timeout=120)
    assert [figure(both, name) for name in (REQUESTS, LATENCIES, QUEUED)] == [7, 2, 7]
    first.communicate(timeout=120)
    last, _ = started(5).communicate(timeout=120)
    assert [figure(last, name) for name in (REQUESTS, LATENCIES, QUEUED)] == [12, 3, 5]


def _figures_of_all(url, name):
    """A figure over several connections, which reach both processes."""
    texts = [httpx.get(f"{url}/metrics", trust_env=False).text for _ in range(8)]
    return {figure(text, name) for text in texts}


@pytest.mark.slow
def test_each_of_several_processes_has_the_figures_of_all(tmp_path):
    small_bert("one").save(tmp_path / "model")
    name = 'regard_requests_total{path="/v1/classify",status="200"}'
    with serving_process(tmp_path / "model", "--workers", 2) as (process, url):
        for _ in range(20):  # each over a connection of its own
            answer = httpx.post(f"{url}/v1/classify", json={"text": "a"}, trust_env=False)
            assert answer.status_code == 200
        end = time.monotonic() + 30  # the last answer is counted after it was sent
        while (figures := _figures_of_all(url, name)) != {20} and time.monotonic() < end:
            time.sleep(0.1)
        assert figures == {20}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
