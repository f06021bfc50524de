"""The models before ELMo and ULMFiT that brought context from one task to another."""

from regard.models.facts import change
from regard.models.papers import context2vec, cove, dai, elmo, ma, taglm
from regard.models.papers.context2vec import ContextHead
from regard.models.papers.lin import BASE as LIN

MIXTURE = 2  # the weight of one layer, and the scale


def cells(gates: int, inputs: int, width: int, directions: int = 2) -> int:
    """The weights of one recurrent layer; a gate has two biases."""
    return directions * gates * width * (inputs + width + 2)


def test_the_parameters_of_dai_and_le():
    reader = 30_000 * 512 + cells(4, 512, 1_024, 1)
    count = dai.PAPER.parameters
    assert count(dai.CLASSIFIER) == reader
    assert count(dai.AUTOENCODER) == 2 * reader + 30_000 * 1_024


def test_the_parameters_of_context2vec():
    reader = 180_000 * 300 + cells(4, 300, 600)
    gap = 1_200 * 1_201 + 1_201 * 600  # two dense layers
    count = context2vec.PAPER.parameters
    assert count(context2vec.BASE) == reader
    assert count(context2vec.BASE.with_heads(ContextHead())) == reader + gap + 180_000 * 600


def test_the_parameters_of_taglm():
    frozen = elmo.PAPER.parameters(elmo.ORIGINAL)
    layers = cells(3, 50, 300) + cells(3, 600 + 1_024, 300)
    assert taglm.PAPER.parameters(taglm.BASE) == 130_000 * 50 + layers + MIXTURE + frozen


def test_the_parameters_of_cove():
    encoder = 50_000 * 300 + cells(4, 300, 300) + cells(4, 600, 300)
    decoder = 50_000 * 300 + cells(4, 300 + 600, 600, 1) + cells(4, 600, 600, 1)
    attention = 600 * 600 + 1_200 * 600  # the score, and what joins context and state
    count = cove.PAPER.parameters
    assert count(cove.MT_LSTM) == encoder + decoder + attention + 50_000 * 600
    alone = count(change(LIN, embedding=900)) - 30_000 * 600  # whose words have 300 numbers
    assert count(cove.CLASSIFIER) == alone + encoder + MIXTURE
    assert cove.MT_LSTM.source.width == cove.FEATURES.width_at("input") == 600


def test_the_parameters_of_ma_and_hovy():
    characters = 261 * 30 + 30 * (3 * 30 + 1)
    words = 400_000 * 100 + cells(4, 100 + 30, 200)
    assert ma.PAPER.parameters(ma.BASE) == words + characters
