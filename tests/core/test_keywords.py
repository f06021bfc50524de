"""Keyword arguments that a function does not have."""

import inspect

import pytest

import regard
from regard import BadInput
from regard.core.keywords import check_keywords
from small_bert import model as small_encoder


@pytest.mark.parametrize(
    ("method", "given", "keyword", "nearest"),
    [
        ("encode", ["a"], "batchsize", "batch_size"),
        ("encode", ["a"], "layers", "layer"),
        ("embed", ["a"], "normalize", "normalise"),
        ("predict", ["a"], "max_len", "max_length"),
        ("translate", ["a"], "serach", "search"),
        ("generate", ["a"], "max_tokens", "max_new_tokens"),
        ("stream", "a", "stop_string", "stop_strings"),
        ("score", ["a"], "strides", "stride"),
        ("look", "a", "subword", "subwords"),
        ("logits", ["a"], "tapes", "tape"),
        ("save", "folder", "formt", "format"),
        ("to", "cpu", "devise", "device"),
    ],
)
def test_a_wrong_keyword_of_a_method_names_the_nearest(method, given, keyword, nearest):
    call = getattr(small_encoder("one"), method)
    fault = rf"{method}\(\) has no argument '{keyword}'; did you mean '{nearest}'\?"
    with pytest.raises(BadInput, match=fault) as error:
        call(given, **{keyword: None})
    assert isinstance(error.value, TypeError)  # as Python has it


def test_load_train_and_components_too():
    with pytest.raises(BadInput, match=r"load\(\) has no argument 'precison'; did you mean 'prec"):
        regard.load("folder", precison="fp32")
    with pytest.raises(
        BadInput, match=r"train\(\) has no argument 'setting'; did you mean 'settin"
    ):
        regard.train("tour", setting={})
    with pytest.raises(BadInput, match=r"^embed has no option 'pol'; did you mean 'pool'"):
        small_encoder("one").component("embed", pol="mean")


def test_a_keyword_like_no_other_gets_the_list():
    with pytest.raises(BadInput, match="known: as_numpy, batch_size, carry, layer, max_length, ta"):
        small_encoder("one").encode(["a"], xyzzy=1)


def test_signatures_and_docstrings_are_those_of_the_functions():
    assert "batch_size" in inspect.signature(regard.Model.encode).parameters
    assert regard.Model.encode.__doc__.startswith("Encoder states")
    assert inspect.signature(regard.load).parameters["device"].default is None


def test_any_keyword_is_left_alone():
    def report(**options: int) -> dict[str, int]:
        return options

    assert check_keywords(report)(a=1) == {"a": 1}
