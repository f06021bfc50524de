"""What all tests share: one seed, one thread for each worker, and what is skipped where."""

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test asks the Hugging Face hub

# isort: split
from regard.core.machine import has  # first: torch reads what is hidden when it is loaded

# isort: split
import torch
from hypothesis import settings

from regard.core.device import seed_generators
from regard.core.interrupt import SIGNALS, signals_in_use

sys.path.insert(0, str(Path(__file__).parent))  # for `naive`, the slow formulas tests compare with

# At a desk every run draws new examples; with HYPOTHESIS_PROFILE=ci all runs draw the same.
settings.register_profile("desk", deadline=None, max_examples=25, derandomize=False)
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "desk")

# A shell has its background ignore Ctrl-C, and nohup SIGHUP: the tests go on ignoring it, but with
# a handler, which the processes they start do not inherit.
for ignored in {*SIGNALS}.difference(signals_in_use()):
    signal.signal(ignored, lambda *_: None)

LIMIT = 300  # seconds that a phase of a test may take, ten times as long as any does

torch.set_num_threads(1)  # tensors are tiny, and workers share the cores
gc.set_threshold(10_000, 20, 20)  # collections take a twentieth of the time otherwise


@pytest.fixture(autouse=True)
def _seed() -> None:
    seed_generators(0)


@pytest.fixture(autouse=True, scope="session")
def _files_may_wait() -> Iterator[None]:
    """No test cuts the power: what was written can be read without waiting for the disk."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow-part",
        default="0/1",
        metavar="K/N",
        help="of the slow tests, run only part K of N: a hash of its name says in which a test is",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thin out, leave out slow tests of other parts, skip what needs what this machine has not."""
    thinned = [
        item
        for item in items
        if item.get_closest_marker("thinned") and not item.get_closest_marker("slow")
    ]
    cases_of = Counter(_function(item) for item in thinned)
    seen = Counter[str]()
    for item in thinned:
        name = _function(item)
        if seen[name] % 6 != crc32(name.encode()) % min(6, cases_of[name]):
            item.add_marker(pytest.mark.slow)
        seen[name] += 1
    part, parts = map(int, config.getoption("--slow-part").split("/"))
    left_out = {
        item
        for item in items
        if item.get_closest_marker("slow") and crc32(item.nodeid.encode()) % parts != part
    }
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        needed = {thing for marker in item.iter_markers("native") for thing in marker.args}
        if item.get_closest_marker("gpu"):
            needed.add("cuda")
        missing = sorted(thing for thing in needed if not has(thing))
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item):
        return (yield)


@contextmanager
def _limited(item: pytest.Item) -> Iterator[None]:
    """A test that waits for ever fails at the line where it waits, and the next one runs."""
    is_long = item.get_closest_marker("slow") or item.get_closest_marker("gpu")
    seconds = LIMIT * (3 if is_long else 1)

    def stop(*_: object) -> None:
        pytest.fail(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 10)  # again, where a wait is retried
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _function(item: pytest.Item) -> str:
    """Name of a test without its case."""
    return item.nodeid.partition("[")[0]


def pytest_collection_finish() -> None:
    """Collect garbage of the tests alone, not of what was imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a recipe, and a model trained on it for a moment: ``small_run / "run"``."""
    from small import write_corpus

    folder = tmp_path_factory.mktemp("small")
    return _trained(folder, write_corpus(folder, depth=2))


@pytest.fixture(scope="session")
def owl_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled texts with a recipe, and a classifier trained on them: ``owl_run / "run"``."""
    from small_labels import write_owls

    folder = tmp_path_factory.mktemp("owls")
    return _trained(folder, write_owls(folder))


def _trained(folder: Path, recipe: Path) -> Path:
    from regard.training.distributed import World
    from regard.training.loop import train
    from regard.training.recipe import read
    from regard.training.run import prepare

    asked = read(
        recipe, [f"train.{what}=60" for what in ("steps", "report_every", "checkpoint_every")]
    )
    run = prepare(asked, folder / "run", World(0, 1, torch.device("cpu")), data=folder)
    *_, ended = train(run.job)
    run.finish(ended.progress)
    return folder
