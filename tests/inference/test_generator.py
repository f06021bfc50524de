"""Generation: what ``generate`` of transformers gives, in any batch; streams, stops, limits."""

import json
from dataclasses import replace
from functools import cache
from itertools import takewhile

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sacrebleu import sentence_chrf

import regard
from regard import generation
from regard.core.errors import BadInput
from regard.generation import Beam, Diverse, Greedy, MinimumRisk, Sample
from regard.inference.generator import Ending
from small_gpt import POSITIONS, write_gpt2

transformers = pytest.importorskip("transformers")

PROMPTS = ["The old man", "", "A", "The house is old; naïve", "The girl sees the dog near the"]
SEARCHES = [
    Greedy(),
    Greedy(no_repeat=2, repetition_penalty=1.3),
    Beam(3, best=2),
    Beam(2, repetition_penalty=1.2, no_repeat=3),
    Diverse(Beam(2, best=3), groups=2),
    Sample(count=3, top_p=0.9, temperature=1.5, seed=4),
    Sample(top_k=7, repetition_penalty=1.5),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def model(folder):
    return regard.load(folder, "cpu")


def with_engine(model, name):
    """The generator of a model, stepped by that engine."""
    return replace(model.generator, engine=generation.build_engine(name, model.module, "fp32"))


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    """Folders of other random weights."""
    return [write_gpt2(tmp_path_factory.mktemp("gpt2"), seed=seed) for seed in range(2)]


@cache
def reference(folder):
    return transformers.GPT2LMHeadModel.from_pretrained(folder)


def theirs(folder, prompt: str, model, **settings) -> list[list[int]]:
    """What ``generate`` adds to a prompt, without EOS."""
    gpt2 = reference(folder)
    row = torch.tensor(model.generator.read_prompts([prompt]))
    out = gpt2.generate(
        row, attention_mask=torch.ones_like(row), pad_token_id=gpt2.config.eos_token_id, **settings
    )
    ends = settings.get("eos_token_id", [gpt2.config.eos_token_id])
    new = [row_L[row.shape[1] :] for row_L in out.tolist()]
    return [[*takewhile(lambda token: token not in ends, one)] for one in new]


SETTINGS = [
    (Greedy(), {}),
    (Greedy(no_repeat=2), {"no_repeat_ngram_size": 2}),
    (Greedy(repetition_penalty=1.4), {"repetition_penalty": 1.4}),
    (Greedy(repetition_penalty=0.8), {"repetition_penalty": 0.8}),
    (Beam(4, 4, "power", 1.0, stop="transformers"), {"num_beams": 4, "num_return_sequences": 4}),
    (
        Beam(3, 2, "power", 0.5, no_repeat=2, stop="transformers-early", repetition_penalty=1.3),
        {
            **{"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5},
            **{"early_stopping": True, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
        },
    ),
]


@pytest.mark.thinned
@pytest.mark.parametrize("least", [0, 5])
@pytest.mark.parametrize(("search", "settings"), SETTINGS, ids=lambda one: str(one)[:60])
def test_it_is_what_generate_gives(search, settings, least, seeded):
    for folder in seeded:
        model = regard.load(folder, "cpu")
        found = model.generate(PROMPTS, search, max_new_tokens=12, min_new_tokens=least)
        for prompt, best in zip(PROMPTS, found, strict=True):
            expected = theirs(
                folder, prompt, model, max_new_tokens=12, min_new_tokens=least, **settings
            )
            assert [[*one.hypothesis.tokens] for one in best] == expected


@pytest.mark.thinned
@pytest.mark.parametrize(
    "settings",
    [
        {"max_new_tokens": 7},
        {"max_length": 20, "repetition_penalty": 1.3},
        {"num_beams": 3, "length_penalty": 0.3, "max_new_tokens": 9, "min_new_tokens": 4},
        {"max_new_tokens": 12, "min_length": 11},
        {"num_beams": 3, "max_length": 24, "min_length": 14},
        {"max_new_tokens": 9, "min_length": 14, "min_new_tokens": 2},
    ],
)
def test_a_folder_generates_as_it_was_published(settings, tmp_path):
    folder = write_gpt2(tmp_path, **settings)
    model = regard.load(folder, "cpu")
    for prompt, (best,) in zip(PROMPTS, model.generate(PROMPTS), strict=True):
        (expected,) = theirs(folder, prompt, model)
        assert [*best.hypothesis.tokens] == expected


CPP = pytest.param("cpp", marks=pytest.mark.native("compiler"))
FIXED_BUFFERS = pytest.param("cuda-graph", id="fixed-buffers")  # no graph is captured on a CPU


@pytest.fixture(scope="module")
def one_by_one(model):
    """What a search gives for each prompt alone."""

    @cache
    def generate(search, ending):
        return [
            model.generator.generate([prompt], search, ending, first=number)[0]
            for number, prompt in enumerate(PROMPTS)
        ]

    return generate


@pytest.mark.thinned
@pytest.mark.parametrize("engine", ["torch", FIXED_BUFFERS, CPP])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_batch_gives_what_its_prompts_give_alone(search, engine, model, one_by_one):
    generator = with_engine(model, engine)
    ending = Ending(14, stop_strings=("e ",))
    together = generator.generate(PROMPTS, search, ending)
    for number, alone in enumerate(one_by_one(search, ending)):
        assert [(one.text, one.ended) for one in together[number]] == [
            (one.text, one.ended) for one in alone
        ]
        for one, other in zip(together[number], alone, strict=True):
            assert one.hypothesis.tokens == other.hypothesis.tokens
            assert one.hypothesis.logprobs == pytest.approx(other.hypothesis.logprobs, abs=1e-4)
    assert generator.generate(PROMPTS, search, ending) == together


@pytest.mark.parametrize("engine", ["torch", FIXED_BUFFERS])
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.lists(st.integers(0, 299), min_size=1, max_size=POSITIONS), min_size=1, max_size=7
    ),
    search=st.sampled_from(SEARCHES),
    longest=st.integers(1, 12),
)
def test_any_prompts_in_one_batch_or_alone(engine, model, rows, search, longest):
    generator = with_engine(model, engine)
    together = generator.generate(rows, search, Ending(longest))
    for number, row in enumerate(rows):
        (alone,) = model.generator.generate([row], search, Ending(longest), first=number)
        assert [(one.hypothesis.tokens, one.ended) for one in together[number]] == [
            (one.hypothesis.tokens, one.ended) for one in alone
        ]


@pytest.mark.thinned
@pytest.mark.parametrize("search", [Greedy(), Sample(top_p=0.9, seed=3, temperature=2.0)], ids=str)
@pytest.mark.parametrize("stops", [(), ("e",), ("d th", "book")])
def test_a_stream_gives_the_text_of_generate(search, stops, model):
    settings = {"max_new_tokens": 30, "stop_strings": stops}
    for number, found in enumerate(model.generate(PROMPTS, search, **settings)):
        pieces = list(model.stream(PROMPTS[number], search, number=number, **settings))
        assert "".join(pieces) == found[0].text
        assert all(pieces) and not any(stop in found[0].text for stop in stops)
        pieces[:-1] = [piece for piece in pieces[:-1] if not piece.endswith("\ufffd")]
        assert "".join(pieces) == found[0].text


def test_a_stop_string_ends_the_text_and_the_search(model):
    (free,) = model.generate(PROMPTS[:1], max_new_tokens=30)
    stop = free[0].text[5:8]
    assert stop.strip() and free[0].ended in ("length", "eos")
    (stopped,) = model.generate(PROMPTS[:1], max_new_tokens=30, stop_strings=[stop])
    assert stopped[0].text == free[0].text[: free[0].text.index(stop)]
    assert stopped[0].ended == "stop" and not stopped[0].hypothesis.finished
    assert len(stopped[0].hypothesis.tokens) < len(free[0].hypothesis.tokens)
    (beam,) = model.generate(PROMPTS[:1], Beam(1), max_new_tokens=30, stop_strings=[stop])
    assert beam[0].text == stopped[0].text and beam[0].ended == "stop"


def test_log_probabilities_are_those_of_the_model(model):
    for prompt, (best,) in zip(PROMPTS, model.generate(PROMPTS, max_new_tokens=6), strict=True):
        row = model.generator.read_prompts([prompt])[0]
        written = [*best.hypothesis.tokens, *[model.generator.eos] * best.hypothesis.finished]
        (logits_TV,) = model.logits([[*row, *written]])
        logprobs = logits_TV.log_softmax(-1)[len(row) - 1 :]
        expected = [float(logprobs[at, token]) for at, token in enumerate(written)]
        assert best.hypothesis.logprobs == pytest.approx(expected, abs=1e-4)
        assert best.score == pytest.approx(sum(expected), abs=1e-3)


def test_positions_end_a_text(model):
    row = model.generator.read_prompts(["The old man reads a book. The girl"])[0]
    (found,) = model.generate([row], max_new_tokens=200, min_new_tokens=200)
    assert found[0].ended == "positions"
    assert len(row) + len(found[0].hypothesis.tokens) == POSITIONS + 1  # the last is not read
    (found,) = model.generate([[5] * POSITIONS], max_new_tokens=3, min_new_tokens=3)
    assert len(found[0].hypothesis.tokens) == 1
    with pytest.raises(BadInput, match=f"input 1: 49 tokens, but the model has {POSITIONS}"):
        model.generate([[5] * 49])
    with pytest.raises(BadInput, match="input 2: 4 tokens, more than 3"):
        model.generate([[5] * 3, [5] * 4], max_length=3)


@pytest.mark.parametrize("engine", [FIXED_BUFFERS, CPP])
def test_rows_that_reach_their_last_position_wait_for_the_others(engine, model):
    generator = with_engine(model, engine)
    prompts = [[5] * POSITIONS, [6, 7], [5] * (POSITIONS - 3)]
    ending = {"max_new_tokens": 30, "min_new_tokens": 30}
    expected = [found[0].hypothesis.tokens for found in model.generate(prompts, **ending)]
    found = generator.generate(prompts, None, Ending(**ending))
    assert [one[0].hypothesis.tokens for one in found] == expected
    assert [len(tokens) for tokens in expected] == [1, 30, 4]


def test_samples_depend_on_seed_prompt_and_number(model):
    search = Sample(count=2, temperature=3.0)
    same = model.generate(["The", "The"], search, max_new_tokens=10)
    texts = [one.text for found in same for one in found]
    assert len({*texts}) == 4
    assert model.generate(["The", "The"], search, max_new_tokens=10) == same
    other = model.generate(["The"], Sample(temperature=3.0, seed=1), max_new_tokens=10)
    assert other[0][0].text not in texts


def test_minimum_risk_chooses_among_samples(model):
    risk = regard.MinimumRisk(Sample(count=6, temperature=2.0), best=2)
    results = model.generate(PROMPTS[:2], risk, max_new_tokens=6)
    for found in results:
        assert len(found) == 2 and found[0].score >= found[1].score
    given = replace(risk, decode=model.tokenizer.words.decode)
    assert model.generate(PROMPTS[:2], given, max_new_tokens=6) == results


def test_minimum_risk_compares_texts_without_what_follows_stop_strings(model):
    """The vowels end texts early, so that several samples are the same text."""
    draws = Sample(count=8, temperature=2.0)
    ending = {"max_new_tokens": 6, "stop_strings": ["a", "e", "o", "i"]}
    (samples,) = model.generate(["The"], draws, **ending)
    (found,) = model.generate(["The"], MinimumRisk(draws, best=8), **ending)
    texts = [one.text for one in samples]
    assert len({*texts}) < len(texts)
    assert sorted(one.text for one in found) == sorted({*texts})
    for one in found:
        utilities = [sentence_chrf(one.text, [other]).score for other in texts]
        assert one.score == pytest.approx(sum(utilities) / len(utilities))


def test_a_folder_without_tokenizer_files_continues_ids(folder, tmp_path):
    from shutil import copytree, ignore_patterns

    bare = copytree(folder, tmp_path / "bare", ignore=ignore_patterns("*token*", "vocab*", "merg*"))
    model, whole = regard.load(bare, "cpu"), regard.load(folder, "cpu")
    row = whole.generator.read_prompts(["The old man"])[0]
    (found,) = model.generate([row], max_new_tokens=8)
    (expected,) = whole.generate([row], max_new_tokens=8)
    assert found[0].hypothesis == expected[0].hypothesis and found[0].text == ""
    with pytest.raises(BadInput, match="no tokenizer files"):
        model.generate(["The"])
    with pytest.raises(BadInput, match="no tokenizer files"):
        model.generate([row], stop_strings=["x"])
    with pytest.raises(BadInput, match=r"no tokenizer files.*use generate"):
        model.stream(row)
    with pytest.raises(BadInput, match="compares texts, but there is no tokenizer"):
        model.generate([row], MinimumRisk())


def test_sampling_as_published(tmp_path):
    settings = {"do_sample": True, "temperature": 0.7, "repetition_penalty": 1.2}
    model = regard.load(write_gpt2(tmp_path, **settings), "cpu")
    expected = Sample(temperature=0.7, top_k=50, repetition_penalty=1.2)
    assert model.generator.search == expected


def test_sampling_settings_are_followed_or_refused(tmp_path):
    settings = {"do_sample": True, "num_return_sequences": 3, "min_p": 0.0, "typical_p": 1.0}
    model = regard.load(write_gpt2(tmp_path / "three", **settings), "cpu")
    assert [len(texts) for texts in model.generate(["The", "A"], max_new_tokens=2)] == [3, 3]
    for name, value in {"min_p": 0.1, "typical_p": 0.5, "top_h": 0.4}.items():
        settings = {"do_sample": True, name: value}
        model = regard.load(write_gpt2(tmp_path / name, **settings), "cpu")
        with pytest.raises(BadInput, match=f"{name} {value} is not supported; choose a search"):
            model.generate(["The"])
        assert model.generate(["The"], Sample(), max_new_tokens=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"max_new_tokens": 3, "min_new_tokens": 4}, "max_new_tokens must be at least 4"),
        ({"stop_strings": [""]}, "at least one character"),
        ({"stop_strings": "end"}, "not one text"),
        ({"stop_strings": [3]}, "stop strings must be a list of strings"),
        ({"search": "greedy"}, "search must be a value"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, message, model):
    with pytest.raises(BadInput, match=message):
        model.generate(["The"], **wrong)


def test_one_prompt_is_no_list(model):
    with pytest.raises(BadInput, match="give a list of texts, not one text"):
        model.generate("The old man")


def test_a_stream_is_one_text_of_a_search_without_branches(model):
    with pytest.raises(BadInput, match="Beam cannot stream"):
        list(model.stream("The", Beam(2)))
    with pytest.raises(BadInput, match="set the number of samples to 1"):
        list(model.stream("The", Sample(count=2)))


def test_settings_that_cannot_be_followed_are_reported(folder, tmp_path):
    model = regard.load(write_gpt2(tmp_path, num_beams=2, do_sample=True), "cpu")
    with pytest.raises(BadInput, match="beams cannot sample"):
        model.generate(["The"])
    assert model.generate(["The"], Greedy(), max_new_tokens=2)


@pytest.mark.thinned
@pytest.mark.parametrize("engine", ["torch", "cuda-graph"])
@pytest.mark.parametrize("least", [0, 4])
def test_each_of_several_end_tokens_ends_a_text(tmp_path, engine, least):
    """As in the folders of Llama 3; chosen so that most texts end at one or another."""
    written = regard.load(write_gpt2(tmp_path), "cpu").generate(PROMPTS, max_new_tokens=9)
    ends = sorted({nbest[0].hypothesis.tokens[5] for nbest in written})
    folder = write_gpt2(tmp_path, eos_token_id=ends, max_new_tokens=9, min_new_tokens=least)
    model = regard.load(folder, "cpu")
    generator = with_engine(model, engine)
    limits = {"max_new_tokens": 9, "min_new_tokens": least, "eos_token_id": ends}
    for search, options in SETTINGS[0], SETTINGS[4]:
        found = generator.generate(PROMPTS, search)
        expected = [theirs(folder, text, model, **limits, **options) for text in PROMPTS]
        assert [[[*one.hypothesis.tokens] for one in nbest] for nbest in found] == expected
        assert {one.ended for nbest in found for one in nbest} >= {"eos"}
    for prompt, (first, *_) in zip(PROMPTS, generator.generate(PROMPTS), strict=True):
        assert "".join(generator.stream(prompt)) == first.text


def test_end_tokens_of_an_older_folder_are_those_of_its_config(tmp_path):
    folder = write_gpt2(tmp_path)
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": [7, 5]}))
    assert regard.load(folder, "cpu").generator.ends == (7, 5)


@pytest.mark.parametrize("wrong", [[0, 300], [0, "a"], 1.5, [], {"a": 1}])
def test_end_tokens_are_ids(tmp_path, wrong):
    model = regard.load(write_gpt2(tmp_path, eos_token_id=wrong), "cpu")
    with pytest.raises(BadInput, match=r"generation_config.json: eos_token_id has .*, no id of"):
        model.generate(["The"])


def test_a_shortest_length_counts_the_prompt(tmp_path):
    model = regard.load(write_gpt2(tmp_path, min_length=8, max_new_tokens=12), "cpu")
    rows = [[5], [5, 6, 7], [5] * 9]
    for engine in ("torch", "cuda-graph"):
        generator = with_engine(model, engine)
        limits = generator._limits(rows, Ending())
        assert limits.shortest == [8, 6, 0]
        assert limits.repeated(3, 2).shortest == [8, 8, 6, 6, 0, 0]
        assert generator._limits(rows, Ending(min_new_tokens=2)).shortest == 3
        together = generator.generate(rows, Sample(count=2, seed=3))
        for number, row in enumerate(rows):
            (alone,) = generator.generate([row], Sample(count=2, seed=3), first=number)
            for one, other in zip(together[number], alone, strict=True):
                assert one.hypothesis.tokens == other.hypothesis.tokens
                assert len(row) + len(one.hypothesis.tokens) > 8


def test_models_that_do_not_write_say_so(tmp_path):
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match="BERT is no causal model with a next-token head"):
        regard.load(tmp_path, "cpu").generate([[3, 4]])
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bert"


def test_of_a_text_longer_than_the_positions_only_logits_read_the_beginning(model):
    text = "The old man " * POSITIONS
    (logits,) = model.logits([text])
    assert len(logits) == POSITIONS
    for refuse in (lambda: model.generate([text]), lambda: model.look(text, subwords=True)):
        with pytest.raises(BadInput, match="positions"):
            refuse()


def test_an_empty_list_of_ids_is_no_empty_prompt(model):
    assert model.generate([""], max_new_tokens=2)
    with pytest.raises(BadInput, match="has no tokens"):
        model.generate([[]])
