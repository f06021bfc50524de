"""The models before ELMo and ULMFiT that brought context from one task to another."""

from regard.models.papers import elmo, taglm


def gru(inputs: int, width: int) -> int:
    """The weights of one layer in both directions; a gate has two biases."""
    return 2 * 3 * width * (inputs + width + 2)


def test_the_parameters_of_taglm():
    frozen = elmo.PAPER.parameters(elmo.ORIGINAL)
    mixture = 2  # the weight of the only layer, and the scale
    layers = gru(50, 300) + gru(600 + 1_024, 300)
    assert taglm.PAPER.parameters(taglm.BASE) == 130_000 * 50 + layers + mixture + frozen
