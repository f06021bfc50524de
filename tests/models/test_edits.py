"""Files of edits: each kind does what a tape does, in every method; bad files are refused."""

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

import regard
from circuits import PROGRAMS
from regard import BadInput, Tape, without_head
from regard.models.edits import read_edits
from small_bert import model as small_encoder
from small_gpt import write_gpt2

TEXTS = ["the old cat came", "the cat", "an old old dog came home"]
BLOCK = "trunk.blocks.1"


@pytest.fixture(scope="module")
def encoder():
    return small_encoder("words")


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return regard.load(write_gpt2(tmp_path_factory.mktemp("gpt2")), "cpu")


@pytest.fixture
def written(tmp_path):
    """Function that writes a file of edits and reads it."""

    def write(*tables: str, name: str = "edits.toml"):
        (tmp_path / name).write_text("".join(f"[[edit]]\n{table}\n" for table in tables))
        return read_edits(tmp_path / name)

    return write


def logits(model, tape=None):
    return torch.cat(model.logits(TEXTS, **({} if tape is None else {"tape": tape})))


def check_same(model, edits, tape_edits):
    edited = logits(model.edited(edits))
    assert_close(edited, logits(model, Tape(edits=tape_edits)))
    assert not torch.allclose(edited, logits(model), atol=1e-4)


def test_a_head_off_is_the_head_without_weights(encoder, written):
    edits = written(f'kind = "head-off"\nat = "{BLOCK}.attention"\nhead = 1')
    check_same(encoder, edits, {f"{BLOCK}.attention.weights": without_head(1)})
    check_same(encoder, edits, {f"{BLOCK}.attention.head_outputs": without_head(1)})


def test_a_layer_off_adds_nothing(encoder, written):
    names = (f"{BLOCK}.attention.output", f"{BLOCK}.mlp.output")
    edits = written(f'kind = "layer-off"\nat = "{BLOCK}"')
    check_same(encoder, edits, dict.fromkeys(names, lambda name, value: 0 * value))


@pytest.fixture
def steer(tmp_path, encoder):
    width = encoder.facts.trunk.stack.width
    vectors = {"happy": torch.randn(width, generator=torch.manual_seed(2)), "short": torch.ones(3)}
    save_file(vectors, tmp_path / "steer.safetensors")
    return vectors["happy"]


def test_a_steering_vector_is_added(encoder, written, steer):
    line = f'at = "{BLOCK}.output"\nvector = "steer.safetensors:happy"'
    edits = written(f'kind = "add"\n{line}\nscale = 4')
    check_same(encoder, edits, {f"{BLOCK}.output": lambda name, value: value + 4 * steer})
    edits = written(f'kind = "replace"\n{line}')
    check_same(encoder, edits, {f"{BLOCK}.output": lambda name, value: steer.expand_as(value)})


def test_the_output_of_a_pool_is_edited(owl_run, written):
    model = regard.load(owl_run / "run" / "model", "cpu")
    edited = model.edited(written('kind = "replace"\nat = "pool.output"\nvalue = 0.5'))
    tape = Tape(edits={"pool.output": lambda name, value: 0 * value + 0.5})
    assert_close(logits(edited), logits(model, tape))
    assert not torch.allclose(logits(edited), logits(model), atol=1e-4)


def test_tokens_are_chosen_by_their_position_in_each_row(encoder, written):
    edits = written(f'kind = "replace"\nat = "{BLOCK}.output"\nvalue = 0.5\ntokens = [0, 2]')
    plain, edited = encoder.encode(TEXTS), encoder.edited(edits).encode(TEXTS)
    for before, after in zip(plain, edited, strict=True):
        expected = before.clone()
        expected[0] = expected[2:3] = 0.5
        assert_close(after, expected)


def test_a_row_is_forced_in_inputs_that_have_it(encoder, written):
    path = f"{BLOCK}.attention.weights"
    edits = written(f'kind = "force-row"\nat = "{path}"\nhead = 1\nrow = 2\ncolumn = 5')
    model, tape, plain = encoder.edited(edits), Tape(path), Tape(path)
    lengths = [len(ids) for ids in encoder.encode(TEXTS)]
    assert sum(length > 5 for length in lengths) not in (0, len(lengths))
    encoder.logits(TEXTS, tape=plain)
    model.logits(TEXTS, tape=tape)
    (forced,), (before,) = tape.records.values(), plain.records.values()
    for row, other, length in zip(forced, before, lengths, strict=True):
        if length > 5:
            assert row[1, 2].tolist() == [float(key == 5) for key in range(row.shape[-1])]
            row[1, 2] = other[1, 2]
        assert_close(row, other)


def test_edits_of_one_value_follow_each_other(encoder, written):
    line = f'at = "{BLOCK}.output"\nvalue = '
    one, two = (f'kind = "replace"\n{line}{number}' for number in (0.25, 0.75))
    states = encoder.edited(written(one, two)).encode(TEXTS)
    assert torch.cat(states).eq(0.75).all()


def test_results_do_not_depend_on_batches(encoder, written):
    edits = written(f'kind = "replace"\nat = "{BLOCK}.output"\nvalue = 0.5\ntokens = [1]')
    model = encoder.edited(edits)
    alone = [model.encode([text])[0] for text in TEXTS]
    for one, other in zip(alone, model.encode(TEXTS), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("kind", ["head-off", "replace"])
def test_every_step_of_a_search_is_edited(causal, written, kind):
    at = "trunk.blocks.0.attention" if kind == "head-off" else "trunk.blocks.0.output"
    key = "head = 0" if kind == "head-off" else "value = 0.3\ntokens = [0, 3, 5]"
    edited = causal.edited(written(f'kind = "{kind}"\nat = "{at}"\n{key}'))
    prompts = [[1, 2, 3, 4], [3, 4], [5, 2, 2]]
    search = regard.Greedy()
    for (text, *_), prompt in zip(
        edited.generate(prompts, search, max_new_tokens=5), prompts, strict=True
    ):
        tokens = [*prompt]
        for _ in range(5):  # one forward pass over all tokens for each new one
            tokens.append(int(edited.logits([tokens])[0][-1].argmax()))
        assert [*text.hypothesis.tokens][:5] == tokens[len(prompt) :]


def test_a_program_without_its_head_is_wrong(written):
    program = PROGRAMS["previous-token"]
    model = regard.Model(program.build())
    edits = written('kind = "head-off"\nat = "trunk.blocks.0.attention"\nhead = 2')
    text = program.text(["a", "b", "c"])
    whole, without = (each.logits([text])[0].numpy() for each in (model, model.edited(edits)))
    assert program.decode(whole) == ["^", "a", "b"] != program.decode(without)


def test_the_weights_are_shared_and_saved_without_edits(encoder, written, tmp_path):
    edits = written(f'kind = "layer-off"\nat = "{BLOCK}"')
    edited = encoder.edited(edits)
    assert edited.module is encoder.module
    edited.save(tmp_path / "model")
    assert_close(logits(regard.load(tmp_path / "model", "cpu")), logits(encoder))


def test_a_hash_is_of_the_contents(written, steer, tmp_path):
    line = f'kind = "add"\nat = "{BLOCK}.output"\nvector = "steer.safetensors:happy"'
    first = written(line)
    assert len(first.hash) == 12 and str(first).endswith(f"1 edit, hash {first.hash}")
    assert written(f"{line}\nscale = 1.0", name="other.toml").hash == first.hash
    assert written(f"{line}\nscale = 2").hash != first.hash
    save_file({"happy": 2 * steer}, tmp_path / "steer.safetensors")
    assert written(line).hash != first.hash


OUTPUT = f'at = "{BLOCK}.output"'
ADD, REPLACE = f'kind = "add"\n{OUTPUT}', f'kind = "replace"\n{OUTPUT}'
STEER = f'{ADD}\nvector = "steer.safetensors'
WEIGHTS = f'kind = "force-row"\nat = "{BLOCK}.attention.weights"'
BAD = {
    "at = 'x'": "kind: must be one of head-off, .*, not None",
    'kind = "head-of"': "kind: there is no edit 'head-of'; did you mean 'head-off'",
    'kind = "head-off"\nhead = 1': "at: missing; head-off needs it",
    'kind = "head-off"\nat = 3\nhead = 1': "at: must be a string, not 3",
    'kind = "head-off"\nat = "x"\nheads = 1': "heads: not a key of head-off; did you mean 'head'",
    'kind = "head-off"\nat = "x"\nhead = -1': "head: must be at least 0, not -1",
    ADD: "vector: missing; write vector = ",
    f'{ADD}\nvector = "a"': 'vector: must be "FILE.safetensors:NAME", not .a',
    f'{ADD}\nvector = "none.safetensors:a"': "none.safetensors: cannot be read",
    f'{STEER}:hapy"': "has no tensor 'hapy'; did you",
    f'{STEER}:happy"\nscale = nan': "scale: must be a f",
    REPLACE: "vector, value: write one of the two",
    f"{REPLACE}\nvalue = 1\ntokens = []": "tokens: must be a list of positions",
    f"{REPLACE}\nvalue = 1\ntokens = [-1]": "tokens: must be at least 0",
}


@pytest.mark.parametrize("table", BAD)
def test_bad_edits_are_refused(written, steer, table):
    with pytest.raises(BadInput, match=f"edits.toml: edit 2: .*{BAD[table]}"):
        written(f'kind = "layer-off"\nat = "{BLOCK}"', table)


MISFITS = {
    'kind = "head-off"\nat = "trunk.blocks.9.attention"\nhead = 0': "at: this model has no "
    "'trunk.blocks.9.attention' for head-off; the nearest names: trunk.blocks.[01].attention",
    f'kind = "head-off"\nat = "{BLOCK}.attention"\nhead = 7': "head: 7 is too high: there are",
    'kind = "layer-off"\nat = "trunk.block.1"': ".*; the nearest names: trunk.blocks.1",
    'kind = "replace"\nat = "heads.mlm.logits"\nvalue = 0': "at: this model has no .heads.mlm",
    f'{STEER}:short"': "vector: steer.safetensors:short has size 3, but trunk.blocks.1.output",
    f'kind = "replace"\nat = "{BLOCK}.attention.weights"\nvalue = 0': "at: attention has no value",
    f"{WEIGHTS}\nhead = 7\nrow = 0\ncolumn = 0": "head: 7 is too high",
    f'kind = "force-row"\n{OUTPUT}\nhead = 0\nrow = 0\ncolumn = 0': "at: force-row needs att",
}


@pytest.mark.parametrize("table", MISFITS)
def test_edits_that_do_not_fit_are_refused(encoder, written, steer, table):
    with pytest.raises(BadInput, match=f"edits.toml: edit 1: {MISFITS[table]}"):
        encoder.edited(written(table))


def test_causal_attention_is_not_forced_to_later_keys(causal, written):
    edits = written(
        'kind = "force-row"\nat = "trunk.blocks.0.attention.weights"\nhead = 0\nrow = 1\ncolumn = 2'
    )
    with pytest.raises(BadInput, match="edit 1: column: 2 comes after row 1"):
        causal.edited(edits)


def test_bad_files_are_refused(tmp_path, encoder):
    with pytest.raises(BadInput, match="cannot be read"):
        read_edits(tmp_path / "none.toml")
    for content, fault in {
        "[[edit]": "not TOML",
        "": "no edits",
        "edits = 1": "unknown key",
    }.items():
        (tmp_path / "bad.toml").write_text(content)
        with pytest.raises(BadInput, match=f"bad.toml: {fault}"):
            read_edits(tmp_path / "bad.toml")
    with pytest.raises(BadInput, match="edits: give the result of read_edits, not"):
        encoder.edited("edits.toml")
