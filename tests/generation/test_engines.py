"""The table of engines: what it says, and who asks it."""

import pytest

from regard.core import machine
from regard.generation import engines
from regard.generation.engines import TABLE, engine_in_table
from regard.layers.linear import int8
from regard.layers.linear.convert import describe_products


def test_the_table_knows_instruction_sets_precisions_and_engines():
    for name, precisions in TABLE.items():
        assert name in machine.INSTRUCTION_SETS
        for precision, rows in precisions.items():
            assert precision in ("fp32", "int8")
            assert min(rows) == 1
            assert set(rows.values()) <= {"cpp", "torch"}


def test_a_row_counts_from_its_batch_size_on(monkeypatch):
    monkeypatch.setattr(engines, "instruction_set", lambda: "x")
    monkeypatch.setattr(engines, "TABLE", {"x": {"fp32": {1: "cpp", 8: "torch", 64: "cpp"}}})
    chosen = [engine_in_table("fp32", batch) for batch in (1, 7, 8, 63, 64, 1_000)]
    assert chosen == ["cpp", "cpp", "torch", "torch", "cpp", "cpp"]


@pytest.mark.parametrize("name", [machine.GENERIC, "avx512", "never heard of"])
def test_what_was_never_measured_is_torch(monkeypatch, name):
    monkeypatch.setattr(engines, "instruction_set", lambda: name)
    assert engine_in_table("int8", 1) == engine_in_table("fp32", 64) == "torch"


def test_fp32_is_torch_on_arm_but_where_it_was_measured(monkeypatch):
    chosen = {}
    for name in ("neon", "neon-dotprod", "neon-i8mm"):
        monkeypatch.setattr(engines, "instruction_set", lambda name=name: name)
        chosen[name] = {engine_in_table("fp32", batch) for batch in (1, 32, 64)}
    assert chosen == {"neon": {"torch"}, "neon-dotprod": {"cpp"}, "neon-i8mm": {"torch"}}


def test_int8_says_where_fp32_is_faster(monkeypatch):
    monkeypatch.setattr("regard.layers.linear.convert.instruction_set", lambda: "neon-dotprod")
    monkeypatch.setattr("regard.layers.linear.int8.instruction_set", lambda: "neon-dotprod")
    assert describe_products("int8").endswith("; fp32 is faster with neon-dotprod")
    monkeypatch.setattr("regard.layers.linear.int8.instruction_set", lambda: "amx")
    assert "faster" not in describe_products("int8")
    monkeypatch.setattr(int8, "products", lambda: (int8.Floats, int8.Floats))
    monkeypatch.setattr("regard.layers.linear.convert.has", lambda instructions: True)
    assert "; fp32 is faster: fbgemm of torch " in describe_products("int8")
