"""``model.tree``: the search of a translator or generator, as a tree."""

import pytest

from regard import BadInput, Beam, BeamTree, Greedy, Sample, TokenTree
from regard.api import Model
from small_bert import model as small_encoder
from small_gpt import small_gpt2
from small_mistakes import small_translator

TEXT = "the owl"


@pytest.fixture(scope="module")
def translator():
    return Model(small_translator("translator"))


def test_the_tree_of_a_translation_ends_in_the_translation(translator):
    tree = translator.tree(TEXT, Beam(3))
    ((best,),) = translator.translate([TEXT], Beam(3))
    assert isinstance(tree, BeamTree) and tree.hypotheses[0].text == best.text
    assert str(tree) == f"{TEXT}\n{best.text}\n{tree.summary}" and "beam of 3" in tree.summary
    assert translator.tree(TEXT).beam == translator.translator.base_beam


def test_a_tree_is_saved_as_a_page_or_a_drawing(translator, tmp_path):
    tree = translator.tree(TEXT, Beam(2))
    tree.save(tmp_path / "new" / "tree.svg")
    tree.save(str(tmp_path / "tree.html"))
    assert (tmp_path / "new" / "tree.svg").read_text() == tree.svg()
    assert (tmp_path / "tree.html").read_text() == tree.html()
    known = r"tree\.gif: the suffix must be one of \.html, \.svg, \.png, \.pdf$"
    with pytest.raises(BadInput, match=known):
        tree.save(tmp_path / "tree.gif")
    assert not (tmp_path / "tree.gif").exists()


def test_a_map_is_saved_as_a_drawing(translator, tmp_path):
    cross = translator.look(TEXT, "die Eule").map("cross")
    cross.save(tmp_path / "cross.svg")
    assert (tmp_path / "cross.svg").read_text() == cross.svg() == cross._repr_html_()
    with pytest.raises(BadInput, match=r"the suffix must be one of \.svg"):
        cross.save(tmp_path / "cross.html")


@pytest.mark.parametrize("search", [None, Greedy(), Sample(seed=3)], ids=str)
def test_the_tree_of_a_continuation_has_alternatives(search):
    model = small_gpt2()
    tree = model.tree("The old", search, max_new_tokens=3, alternatives=4)
    ((best,),) = model.generate(["The old"], search or Greedy(), max_new_tokens=3)
    assert isinstance(tree, TokenTree) and tree.hypotheses[0].text == best.text
    assert all(4 <= len(tree.at(step)) <= 5 for step in range(1, tree.steps + 1))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"search": Greedy()}, "needs a Beam, not Greedy"),
        ({"max_new_tokens": 2}, "max_new_tokens cannot be used with a translator"),
    ],
)
def test_what_a_translator_does_not_do_is_refused(translator, options, fault):
    with pytest.raises(BadInput, match=fault):
        translator.tree(TEXT, **options)


def test_the_tree_of_a_blank_text_is_refused(translator):
    with pytest.raises(BadInput, match="the text is empty: there is no search to show"):
        translator.tree(" \n")


def test_other_models_and_searches_are_refused():
    with pytest.raises(BadInput, match="a tree of tokens needs greedy search"):
        small_gpt2().tree("The old", Beam(2))
    with pytest.raises(BadInput, match="it cannot generate"):
        small_encoder("one").tree(TEXT)
    with pytest.raises(BadInput, match="is not a text"):
        small_gpt2().tree(["The old"])
