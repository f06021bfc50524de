"""Seconds from a text to its picture in the studio, frames while hovering, and size of an export.

    python bench/studio.py MODEL [--rounds 7]            (MODEL: a classifier of texts)

Chromium, driven by Playwright, types a sentence into the page Understand of a studio in a process
of its own; "picture" is from the last key until the heat map of all layers and heads is painted,
of which the page waits a quarter of a second for more keys, and "cpu" the CPU seconds of the
server meanwhile, which a busy machine changes less than wall time. "frames" are frames a second
while the pointer moves over 512 tokens × 144 heads, "task" the CPU milliseconds of the page's main
thread for one of them. "export" is the size of the single-file page of the model on a text of 128
tokens, in megabytes.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.request import urlopen

import numpy as np
from measure import add_options, emit, interval, rounded
from serve import cpu_seconds

import regard
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession

TEXT = "The old man who lives in the small house by the river reads a book in the garden"
WORDS = ("in the summer", "every evening", "with his dog", "and sings", "before he sleeps")
HOVER = """async () => {
  const cells = document.querySelector(".cells");
  const { left, top, width, height } = cells.getBoundingClientRect();
  const began = performance.now();
  for (let frame = 0; frame < 240; frame++) {
    const place = { clientX: left + (frame * 7) % width, clientY: top + (frame * 5) % height };
    cells.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, ...place }));
    await new Promise(requestAnimationFrame);
  }
  return (1000 * 240) / (performance.now() - began);
}"""
PAINTED = """() => document.querySelector("[data-kind=attention] .cells canvas")
  && window.before !== document.querySelector("[data-kind=attention] .cells canvas")"""


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of a classifier of texts")
    add_options(parser, rounds=7, seconds=300)
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        pictures = [*first_pictures(browser, asked.model, asked.rounds)]
        seconds, cpu = (interval([*kind]) for kind in zip(*pictures, strict=True))
        hovers = [*hovering(browser, asked.rounds)]
        frames, task = (interval([*kind]) for kind in zip(*hovers, strict=True))
        emit(
            asked,
            picture=rounded(seconds),
            cpu=rounded(cpu),
            frames=rounded(frames, 1),
            task=rounded(task),
            export=round(len(export_of(asked.model).encode()) / 1e6, 2),
            chromium=browser.version,
            load=[round(each, 1) for each in os.getloadavg()],
        )


def first_pictures(browser: "Browser", model: str, rounds: int) -> Iterator[tuple[float, float]]:
    """Wall seconds to the picture of a new text, and CPU seconds of the server, each round."""
    with studio_of(model) as (address, process):
        page = browser.new_page()
        page.goto(f"{address}?page=understand&open=inside")
        page.wait_for_function(PAINTED, timeout=120_000)
        field = page.locator("textarea:visible, input[type=text]:visible").first
        for number in range(rounds):
            page.evaluate("window.before = document.querySelector('.cells canvas')")
            used, start = cpu_seconds(process), time.perf_counter()
            field.fill(f"{TEXT} {WORDS[number % len(WORDS)]} {number}.")
            page.wait_for_function(PAINTED, timeout=120_000, polling="raf")
            yield time.perf_counter() - start, cpu_seconds(process) - used


@contextmanager
def studio_of(model: str) -> Iterator[tuple[str, int]]:
    """Address and process of a studio."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "regard", "studio", model, "--port", str(port)]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while running.poll() is None:
            try:
                urlopen(f"{address}/health/ready", timeout=5).read()
                break
            except OSError:
                time.sleep(0.2)
        yield f"{address}/studio", running.pid
    finally:
        running.terminate()
        running.wait()


def hovering(browser: "Browser", rounds: int) -> Iterator[tuple[float, float]]:
    """Frames a second over the heat map of 512 tokens × 144 heads, and CPU ms of a frame."""
    words = tuple(f"word{number}" for number in range(512))
    weights_NHLS = np.exp(0.3 * np.random.default_rng(4).normal(size=(12, 12, 512, 512)))
    weights_NHLS /= weights_NHLS.sum(-1, keepdims=True)
    view = AttentionView("a text", (AttentionMap("encoder", words, words, weights_NHLS),))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(view.html(), encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri() + "#hide=")
        page.wait_for_selector('.pictures[data-waiting="0"]', timeout=300_000)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        for _ in range(rounds):
            before = task_seconds(session)
            frames = page.evaluate(HOVER)
            yield frames, 1000 * (task_seconds(session) - before) / 240


def task_seconds(session: "CDPSession") -> float:
    """CPU seconds of all tasks of a page's main thread so far."""
    values = session.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in values if each["name"] == "TaskDuration")


def export_of(model: str) -> str:
    """Single-file page of all heads on a text of 128 tokens."""
    loaded, words = regard.load(model), f"{TEXT}, ".split() * 12
    while len(loaded.tokens([" ".join(words)])[0].ids) > 128:
        words.pop()
    return loaded.look(" ".join(words), subwords=True).html()


if __name__ == "__main__":
    main()
