"""Runs of tasks that write text resume bit for bit."""

import pytest

from small_answers import write_answers
from small_runs import check_resume, prepared
from small_spans import write_prefix, write_spans

SETTINGS = ("train.steps=6", "train.evaluate_every=3")


@pytest.mark.parametrize("write", [write_prefix, write_spans, write_answers])
def test_resuming_is_exact(write, tmp_path):
    recipe = write(tmp_path)

    def begin(out, resume):
        return prepared(recipe, out, *SETTINGS, resume=resume)

    check_resume(begin, tmp_path, 5, 3)
