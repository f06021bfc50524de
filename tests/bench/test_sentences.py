"""The benchmark of sentence encoders; transformers stands in for sentence-transformers, which is
not installed here.
"""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.api import Model
from small_bert import small_bert
from small_tuning import RECIPE

transformers = pytest.importorskip("transformers")
NOUNS = ("owl", "cow", "dog", "pig")
COSINE = '[embedding]\nloss = "cosine"\nrange = [0, 5]'
PEER = ("--peer-python", sys.executable)
PAIRS = "[embedding]\nscale = 20\nleast_score = 4"


class StandIn(nn.Module):
    """What the peer reads of sentence-transformers' model: tokens, and normalised means."""

    def __init__(self, folder, device, local_files_only, config_kwargs, model_kwargs):
        super().__init__()
        named = {**config_kwargs, "attn_implementation": model_kwargs["attn_implementation"]}
        self.auto_model = transformers.BertModel.from_pretrained(folder, **named)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.max_seq_length = 48

    def __getitem__(self, number):
        return self

    def preprocess(self, texts):
        options = {"padding": True, "truncation": True, "max_length": self.max_seq_length}
        return {**self.tokenizer(texts, return_tensors="pt", **options), "modality": "text"}

    def forward(self, features):
        inputs = {name: value for name, value in features.items() if name != "modality"}
        states = self.auto_model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][:, :, None]
        return F.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    @torch.no_grad()
    def encode(self, texts, batch_size, show_progress_bar):
        parts = [texts[at : at + batch_size] for at in range(0, len(texts), batch_size)]
        return torch.cat([self(self.preprocess(part)) for part in parts]).numpy()


class Cosine(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def vectors(self, features):
        return [self.model(feature) for feature in features]

    def forward(self, features, labels):
        first, second = self.vectors(features)
        return F.mse_loss((first * second).sum(-1), labels)


class Ranking(Cosine):
    def forward(self, features, labels):
        first, second = self.vectors(features)
        return F.cross_entropy(20 * first @ second.T, torch.arange(len(first)))


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    losses = SimpleNamespace(CosineSimilarityLoss=Cosine, MultipleNegativesRankingLoss=Ranking)
    package, inner = ModuleType("sentence_transformers"), ModuleType("sentence_transformer")
    package.SentenceTransformer, inner.losses = StandIn, losses
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, f"{package.__name__}.{inner.__name__}", inner)


def sentence_encoder(folder):
    loaded = small_bert()
    loaded.notes["embedding"] = {"pool": "mean", "normalise": True, "longest": 48, "lower": False}
    Model(loaded).save(folder / "start", format="hf")
    return folder / "start"


def arguments(folder, table=COSINE):
    """A recipe, its data, and the encoder that it begins with."""
    things = [(noun, other) for noun in NOUNS for other in NOUNS]
    lines = [
        {"a": f"{noun} {other}", "b": f"{other} and some {noun} " * (1 + n % 3), "score": n % 6}
        for n, (noun, other) in enumerate(things)
    ]
    for name in ("train", "dev", "test"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ', options = { texts = ["a", "b"], score = "score" }'
    how = {"task": "embed", "ending": "jsonl", "tables": table, "metric": "Spearman"}
    text = RECIPE.format(**how, options=options, reader='reader = "jsonl"')
    text = text[: text.index("[text]")] + text[text.index("[embedding]") :]
    text = text[: text.index("size = ")] + text[text.index("[batches]") :]
    text = text.replace("rows = 16", "rows = 4").replace("\nwidth = 16", "")
    (folder / "alike.toml").write_text(text + "\n[model.change]\nattention_dropout = 0.0\n")
    start = sentence_encoder(folder)
    for option in ("--recipe", str(folder / "alike.toml")), ("--data", str(folder)):
        yield from option
    yield from ("--rounds", "2", str(start))


def test_systems_encode_the_same_vectors(tmp_path, printed):
    import sentences

    options = *arguments(tmp_path), *PEER, "--sentences", "7", "--peers", "eager"
    ours, theirs, place, apart = printed(sentences, *options, "--cpu-seconds")
    assert ours["system"] == "regard" and ours["sentences_per_second"][0] > 0
    assert theirs["regard_over_it"][0] > 0 and theirs["batch_size"] in (16, 32, 64, 128)
    assert apart["system"] == theirs["system"] and apart["largest_difference"] < 1e-5
    assert place["precision"] == "auto" and place["date"]


@pytest.mark.parametrize(("table", "pairs"), [(COSINE, 16), (PAIRS, 4)], ids=["cosine", "pairs"])
def test_systems_learn_from_the_same_loss(table, pairs, tmp_path, printed):
    import sentences

    given = [*arguments(tmp_path, table)]
    steps = str(pairs // 4)
    options = *given, *PEER, "--train", "--steps", steps, "--peers", "eager", "sorted"
    ours, eager, similar, place = printed(sentences, *options)
    assert ours["pairs_per_second"][0] > 0 and place["rows"] == 4
    assert ours["loss_before"] == pytest.approx(eager["loss_before"], abs=2e-6)
    assert 0 <= similar["padding"] <= eager["padding"] < 1
    assert eager["system"] == "sentence-transformers, eager"


def test_without_an_interpreter_regard_runs_alone(tmp_path, printed):
    import sentences

    options = arguments(tmp_path)
    ours, place = printed(sentences, *options, "--sentences", "3")
    assert ours["system"] == "regard" and place["torch"]


def test_sorted_batches_have_the_same_pairs():
    from peers.sentence_encoder import by_length

    batches = [[("a b c", "x", 0.1), ("a", "y", 0.2)], [("a b", "z", 0.3), ("a b c d", "w", 0.4)]]
    assert by_length(batches, lambda text: len(text.split())) == [
        [("a", "y", 0.2), ("a b", "z", 0.3)],
        [("a b c", "x", 0.1), ("a b c d", "w", 0.4)],
    ]
