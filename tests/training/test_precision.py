"""The precision of a run follows from what the device is, and stays that of the run."""

from contextlib import contextmanager
from threading import Event, Thread

import pytest
import torch

from regard.core import machine
from regard.core.errors import BadInput
from regard.training import precision as precisions
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.precision import Precision, checked_precision, choose, kept_precision
from regard.training.recipe import read
from regard.training.run import prepare
from small import tensors_of, write_corpus

CPU = torch.device("cpu")


SAPPHIRE = "avx2 fma avx512f avx512bw avx512dq avx512vl amx_tile amx_int8 amx_bf16"
PROCESSORS = {  # flags, and what "auto" is where oneDNN takes products in bf16
    "AMX": (SAPPHIRE, "bf16"),
    "emulated with AVX-512": (SAPPHIRE.partition(" amx")[0], "fp32"),
    "dot products": (SAPPHIRE.partition(" amx")[0] + " avx512_bf16", "fp32"),
    "AVX2": ("avx2 fma", "fp32"),
    "ARM with BFMMLA": ("asimd asimddp i8mm bf16", "bf16"),
    "ARM": ("asimd asimddp", "fp32"),
}


@pytest.fixture
def processor(monkeypatch):
    """Sets the flags of the processor, whose oneDNN accepts bf16."""
    monkeypatch.delenv(machine.HIDE, raising=False)
    monkeypatch.setattr(machine, "_cpu_has_bf16", lambda: True)

    def take(flags):
        monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(flags.split()))

    return take


@pytest.mark.parametrize(("flags", "kind"), PROCESSORS.values(), ids=PROCESSORS.keys())
def test_auto_follows_from_the_units_of_the_processor(processor, flags, kind):
    processor(flags)
    found = choose("auto", CPU)
    assert found.kind == kind
    assert found.why == f"the CPU has {'' if found.is_bf16 else 'no '}units for " + (
        "it" if found.is_bf16 else "bf16"
    )


def test_auto_is_fp32_where_the_units_are_hidden_or_unused(processor, monkeypatch):
    processor(SAPPHIRE)
    monkeypatch.setattr(machine, "_cpu_has_bf16", lambda: False)  # this torch does not use them
    assert choose("auto", CPU).kind == "fp32"
    monkeypatch.setattr(machine, "_cpu_has_bf16", lambda: True)
    monkeypatch.setenv(machine.HIDE, "bf16")
    assert choose("auto", CPU).kind == "fp32"


def test_a_gpu_has_units_if_its_products_in_bf16_are_no_emulation(monkeypatch):
    monkeypatch.delenv(machine.HIDE, raising=False)
    for has, kind in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda *, including_emulation, has=has: has
        )
        assert choose("auto", torch.device("cuda", 0)).kind == kind


def test_bf16_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(precisions, "has_bf16", lambda device: False)
    checked = lambda: checked_precision("bf16", CPU, "as asked")  # noqa: E731
    for refused in (lambda: choose("bf16", CPU), checked):
        with pytest.raises(BadInput, match=r"bf16 \(as asked\): the CPU has no .*precision=fp32"):
            refused()
    assert choose("fp32", CPU).kind == "fp32"


def test_a_resumed_run_keeps_its_precision_and_names_another_choice(processor):
    processor(SAPPHIRE)
    assert kept_precision("bf16", "auto", CPU).why == "as before"
    assert kept_precision("fp32", "fp32", CPU).why == "as before"
    kept = kept_precision("fp32", "auto", CPU)
    assert (kept.kind, kept.why) == (
        "fp32",
        "as before; here auto is bf16: the CPU has units for it",
    )
    processor("avx2 fma")
    kept = kept_precision("bf16", "auto", CPU)
    assert (kept.kind, kept.why) == (
        "bf16",
        "as before; here auto is fp32: the CPU has no units for bf16",
    )


@contextmanager
def busy_cores():
    """A block beside which other threads take the processor."""
    stop, matrix = Event(), torch.eye(64)

    def work():
        while not stop.is_set():
            matrix @ matrix

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_recipe_has_the_same_precision_and_weights_on_a_busy_machine(tmp_path, monkeypatch):
    """No step is tried before the first, so that there is no race that a busy machine decides."""
    recipe = write_corpus(tmp_path)

    def train_in(name):
        asked = read(recipe, ["train.precision=auto", "train.steps=4"])
        run = prepare(asked, tmp_path / name, World(0, 1, CPU), data=tmp_path)
        with monkeypatch.context() as patched:
            forwards = []
            objective = type(run.job.objective)
            call = objective.__call__
            patched.setattr(
                objective, "__call__", lambda *a, **k: forwards.append(1) or call(*a, **k)
            )
            events = train(run.job)
            start = next(events)
            assert not forwards
        list(events)
        run.release()
        return start.precision.kind, tensors_of(tmp_path / name, 4)

    quiet = train_in("quiet")
    with busy_cores():
        assert train_in("busy") == quiet


@pytest.mark.native("bf16")
def test_only_matrix_products_change():
    found = choose("bf16", CPU)
    with found.context(CPU):
        product = torch.randn(2, 3) @ torch.randn(3, 2)
    assert product.dtype == torch.bfloat16
    with choose("fp32", CPU).context(CPU):
        assert (torch.randn(2, 3) @ torch.randn(3, 2)).dtype == torch.float32


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_products_in_tf32_beside_bf16_alone(kind):
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    assert not matmul.allow_tf32 and cudnn.allow_tf32
    with pytest.raises(RuntimeError), Precision(kind, "as asked").tf32_beside_bf16():
        assert matmul.allow_tf32 is cudnn.allow_tf32 is (kind == "bf16")
        raise RuntimeError
    assert not matmul.allow_tf32 and cudnn.allow_tf32


def test_what_was_allowed_stays_so():
    matmul = torch.backends.cuda.matmul
    with Precision("bf16", "as asked").tf32_beside_bf16():
        with Precision("fp32", "as asked").tf32_beside_bf16():
            assert matmul.allow_tf32
        assert matmul.allow_tf32
