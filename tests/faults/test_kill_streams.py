"""A killed run of a recurrent language model goes on with its carried state and its averages."""

import signal

import pytest

from small import journal_of, tensors_of
from small_rnn import write_streams
from verb import run
from warm import killed

STEPS = 30
SETTINGS = (
    f"train.steps={STEPS}",
    "train.checkpoint_every=1",
    "train.evaluate_every=3",
    "train.report_every=7",
    "optimiser.kind=nt-asgd",
    "optimiser.rate=20",
    "optimiser.nonmonotone=1",
    "objective.causal-lm.mean_length=12",
    "objective.causal-lm.ar=2",
    "objective.causal-lm.tar=1",
    "model.paper=awd-lstm",
    'model.change={width=16, embedding=12, last_width=12, initial="learned"}',
)
CHANGES = tuple(word for one in SETTINGS for word in ("--set", one))


def arguments(corpus, out):
    return ("train", corpus / "lstm.toml", "--data", corpus, "--out", out, *CHANGES)


@pytest.mark.slow
def test_sigkill_with_carried_state(tmp_path):
    corpus = write_streams(tmp_path)
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    broken.mkdir()
    run(*arguments(corpus, straight))
    assert killed(arguments(corpus, broken), broken, 14, 0.01) == -signal.SIGKILL
    run(*arguments(corpus, broken), "--resume")
    tensors = tensors_of(broken, STEPS)
    assert {"average.safetensors", "carried.safetensors"} <= tensors.keys()
    assert tensors == tensors_of(straight, STEPS)
    model = "model/model.safetensors"
    assert (broken / model).read_bytes() == (straight / model).read_bytes()
    assert journal_of(broken) == journal_of(straight)
