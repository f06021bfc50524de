"""Every form of every paper at a tiny size: inference and training steps, in fp32 and in bf16."""

import pytest

from paper_matrix import check, forms, inference_rows, tiny, tiny_changes, training_rows


@pytest.mark.thinned
@pytest.mark.parametrize("size", forms(), ids=str)
def test_what_a_paper_does(size, tmp_path):
    check(inference_rows(size, tiny(size), "cpu", tmp_path / "model"))


@pytest.mark.thinned
@pytest.mark.parametrize("size", forms(), ids=str)
def test_steps(size, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.training.precision.has_bf16", lambda device: True)
    check(training_rows(size, tiny_changes(size), "cpu", tmp_path))
