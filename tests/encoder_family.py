"""What is tested of every family of encoders against ``transformers``: values of all heads on
ragged rows, folders both ways, folders without tokenizer files, and fine-tuning.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import regard
from regard.core.batch import TokenRow, pack_rows
from regard.models.folders import folder as folders
from regard.models.paper import Paper
from regard.weights.files import read_folder
from verb import run

LENGTHS = (7, 1, 20, 3, 12)  # 20 is the last position
TWO_LABELS = ("QuestionAnswering", "QuestionAnsweringSimple", "PreTraining")
LOGITS = {  # of several heads
    "mlm": ("prediction_logits",),
    "sentence_pair": ("sop_logits", "seq_relationship_logits"),
}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@dataclass(frozen=True)
class Family:
    """A paper, its configuration class of ``transformers`` with small sizes (60 ids, 20 positions),
    and by architecture the head, or the heads ("mlm sentence_pair"), that each has.

    ``settings`` of configurations are tried with every head, and ``stored`` ones come back from
    folders. ``trained`` tells whether the facts of a model are those of a task of the family.
    """

    paper: Paper
    config: str
    sizes: Mapping[str, Any]
    heads: Mapping[str, str | None]
    first_id: int = 1
    segments: int = 1
    pooled: frozenset[str] = field(default_factory=frozenset)  # architectures with a pooler
    changes: str = "width = 12, depth = 1, heads = 2, inner = 16, longest = 48"  # of recipes
    settings: tuple[Mapping[str, Any], ...] = ()
    stored: tuple[Mapping[str, Any], ...] = ({},)
    trained: Callable[[Any], bool] = lambda facts: True

    def reference(self, kind: str, **settings: Any) -> Any:
        """A random model of ``transformers``, whose biases and norms differ from their start."""
        import transformers

        torch.manual_seed(0)
        labels = {"num_labels": 2 if kind.endswith(TWO_LABELS) else 3}
        config = getattr(transformers, self.config)(**self.sizes | labels | settings)
        model = getattr(transformers, kind)(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return model.eval()

    def rows(self) -> list[TokenRow]:
        """Rows of all lengths; where there are two segments, the second begins in the middle."""
        draw = torch.Generator().manual_seed(1)
        ids = [torch.randint(self.first_id, 60, (n,), generator=draw).tolist() for n in LENGTHS]
        return [
            TokenRow(row, [int(self.segments > 1 and 2 * at >= len(row)) for at in range(len(row))])
            for row in ids
        ]

    @torch.no_grad()
    def check_values(
        self,
        kind: str,
        settings: Mapping[str, Any],
        folder: Any,
        precision: torch.dtype = torch.float32,
    ) -> None:
        """States, pooled states and logits agree for every row."""
        theirs = self.reference(kind, **settings)
        theirs.save_pretrained(folder)
        ours, batch = folders.read(folder), pack_rows(self.rows())
        theirs.to(precision)
        ours.module.to(precision)
        assert ours.paper is self.paper
        outputs, names = ours.module(batch), (self.heads[kind] or "").split()
        assert [*outputs.by_head] == names
        states = batch.layout.split(outputs.encoded.states_TD)
        for place, (row, states_TD) in enumerate(zip(self.rows(), states, strict=True)):
            expected = theirs(**self._inputs(kind, row), output_hidden_states=True)
            torch.testing.assert_close(states_TD, expected.hidden_states[-1][0], **CLOSE)
            if kind in self.pooled:
                pooled_D = outputs.pooled_BD[place]
                torch.testing.assert_close(pooled_D, expected.pooler_output[0], **CLOSE)
            for name in names:
                logits, per_row = outputs.by_head[name], ours.facts.head(name).per_row
                found = logits[place] if per_row else batch.layout.split(logits)[place]
                wanted = _logits(expected, name).view_as(found)
                torch.testing.assert_close(found, wanted, **CLOSE)

    def _inputs(self, kind: str, row: TokenRow) -> dict[str, torch.Tensor]:
        segments = {"token_type_ids": row.segments} if self.segments > 1 else {}
        given = {"input_ids": row.tokens, **segments}
        choice = (None,) if kind.endswith("MultipleChoice") else ()
        return {key: torch.tensor([value])[choice] for key, value in given.items()}

    def check_folder(self, kind: str, folder: Any, **settings: Any) -> None:
        """A folder becomes ours and comes back bit for bit."""
        self.reference(kind, **settings).save_pretrained(folder / "theirs")
        regard.load(folder / "theirs", "cpu").save(folder / "ours", "regard")
        regard.load(folder / "ours", "cpu").save(folder / "again", "hf")
        before, after = (read_folder(folder / name) for name in ("theirs", "again"))
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)
        assert _config(folder / "theirs") == _config(folder / "again")

    def check_new_folder(self, kind: str, folder: Any) -> None:
        """A model that never was in a folder is written, and ``transformers`` reads all of it."""
        import transformers

        self.reference(kind).save_pretrained(folder / "theirs")
        loaded = folders.read(folder / "theirs")
        bare = folders.LoadedModel(loaded.paper, loaded.facts, loaded.module, labels=loaded.labels)
        (folder / "new").mkdir()
        folders.write(folder / "new", bare, "hf")
        again, info = getattr(transformers, kind).from_pretrained(
            folder / "new", output_loading_info=True, local_files_only=True
        )
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        before = self.reference(kind).state_dict()
        assert all(torch.equal(before[name], one) for name, one in again.state_dict().items())

    def check_conversion(self, kind: str, folder: Any) -> None:
        """``regard convert --check`` finds every head in ``transformers``, with the same values."""
        self.reference(kind).save_pretrained(folder / "theirs")
        order = ("convert", folder / "theirs", folder / "ours", "--to", "regard", "--check")
        records = [json.loads(line) for line in run(*order, "--json").stdout.splitlines()]
        found = {record["layer"]: record["transformers"] for record in records}
        outputs = [f"{name} logits" for name in (self.heads[kind] or "").split()]
        for name in outputs + ["pooled"] * (kind in self.pooled):
            assert found[name] is not None
        assert all(one is None or one <= 1e-5 for one in found.values())

    def check_ids(self, kind: str, folder: Any) -> None:
        """A folder without tokenizer files serves ids."""
        theirs = self.reference(kind)
        theirs.save_pretrained(folder)
        model, row = regard.load(folder, "cpu"), self.rows()[0].tokens
        assert model.tokenizer is None
        (states_TD,) = model.encode([row])
        expected = theirs(torch.tensor([row]), output_hidden_states=True).hidden_states[-1][0]
        torch.testing.assert_close(torch.as_tensor(states_TD), expected, **CLOSE)

    def check_task(self, task: str, folder: Any) -> Any:
        """A task trains, predicts, and is read by ``transformers``; the model."""
        import transformers

        reader, name, content = FILES[task]
        (folder / name).write_text(content)
        options = ', options = { texts = ["text"], label = "label" }' if reader == "tsv" else ""
        table = f'{{ reader = "{reader}", file = "{name}"{options} }}'
        model = self.train(task, folder, table, table)
        predicted = [str(one) for one in model.predict(INPUTS[task])]
        assert len(predicted) == len(INPUTS[task])
        model.save(folder / "hf", "hf")
        again = regard.load(folder / "hf", "cpu")
        assert [str(one) for one in again.predict(INPUTS[task])] == predicted
        kind = _config(folder / "hf")["architectures"][0]
        getattr(transformers, kind).from_pretrained(folder / "hf", local_files_only=True)
        return model

    def train(self, task: str, folder: Any, train: str, dev: str, more: str = "") -> Any:
        """The model that a small recipe of a task gives."""
        recipe = RECIPE.format(
            task=task, train=train, dev=dev, paper=self.paper.key, changes=self.changes
        )
        (folder / "r.toml").write_text(recipe + more)
        run("train", str(folder / "r.toml"), "--data", str(folder), "--out", str(folder / "run"))
        model = regard.load(folder / "run" / "model", "cpu")
        assert model.paper is self.paper
        return model

    def pretrain(self, folder: Any, objectives: str) -> Any:
        """The model that these objectives give on a few documents."""
        (folder / "books.txt").write_text("\n\n".join("\n".join(SENTENCES[:3]) for _ in range(6)))
        tables = '{ documents = "books.txt" }', "{ held_out = 1 }"
        return self.train("pretrain", folder, *tables, f"\n[objective]\n{objectives}\n")


def _logits(expected: Any, head: str) -> torch.Tensor:
    if "start_logits" in expected:
        return torch.stack([expected.start_logits[0], expected.end_logits[0]], -1)
    if "mc_logits" in expected and head == "choice":
        return expected.mc_logits
    names = ("logits", *LOGITS.get(head, ()))
    return next(expected[name] for name in names if name in expected)[0]


def _config(folder: Any) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


SENTENCES = (
    "The old sailor mended his nets before the storm came in.",
    "Nobody believed that the lighthouse keeper had a cat which could read.",
    "Ada Lovelace met Charles Babbage in London; naïve cafés, 東京 and 🙂 too.",
    "  two spaces,\ttabs\nand lines  ",
)
RECIPE = """
task = "{task}"
[data]
train = {train}
dev = {dev}
[text]
vocab = 300
[model]
paper = "{paper}"
change = {{ {changes} }}
[batches]
tokens = 256
rows = 8
longest = 40
[optimiser]
rate = 1e-3
warmup = 1
[train]
steps = 3
precision = "fp32"
smoothing = 0.0
report_every = 1
"""
QUESTION = {"question": "Who met Charles?", "answers": [{"text": "Ada", "answer_start": 0}]}
PARAGRAPH = {
    "context": "Ada met Charles in London.",
    "qas": [{"id": str(i), **QUESTION} for i in range(6)],
}
FILES = {
    "classify": ("tsv", "a.tsv", "text\tlabel\nthe sea\tgood\na storm\tbad\n" * 4),
    "tag": ("CoNLL", "a.conll", "Ada NNP B-NP B-PER\nsails VB B-VP O\n\n" * 6),
    "answer": (
        "SQuAD",
        "a.json",
        json.dumps({"data": [{"title": "Ada", "paragraphs": [PARAGRAPH]}]}),
    ),
    "choose": (
        "SWAG",
        "a.csv",
        "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
        "\n" + "x,1,a b,the sea,a,gold,one,two,three,four,1\n" * 6,
    ),
}
INPUTS = {
    "classify": ["the sea", ("the sea", "a storm")],
    "tag": ["Ada sails"],
    "answer": [("Who?", "Ada met Charles.")],
    "choose": [("the sea", ["one", "two"])],
}
