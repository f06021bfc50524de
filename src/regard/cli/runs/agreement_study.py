"""The study of ``regard agreement``: four language models of one size, trained on one text."""

from collections.abc import Sequence
from pathlib import Path

from regard.api import load
from regard.cli.io.console import note, slug
from regard.data.agreement_sentences import AgreementSentence, make_agreement_text
from regard.ground.files import write_text
from regard.inside.studies.agreement import AgreementScores
from regard.inside.studies.agreement_table import CHARTS, AgreementTable
from regard.training.train import train

RECIPES = {
    "RNN": "agreement-rnn",
    "GRU": "agreement-gru",
    "LSTM": "agreement-lstm",
    "Transformer": "agreement-gpt",
}
LINES = 64  # prefixes that are written for ``regard recency``
QUICK = {"train.steps": 20, "train.evaluate_every": 20, "train.checkpoint_every": 20}


def study_models(
    out: Path, sentences: Sequence[AgreementSentence], device: str | None, seeds: int, quick: bool
) -> AgreementTable:
    """Train each model with each seed and score it; the table, as a page, and charts in ``out``."""
    corpus = out / "corpus"
    make_agreement_text(*((400, 40) if quick else ())).write(corpus)
    write_text(corpus / "prefixes.txt", "".join(f"{text}\n" for text in _long_prefixes(sentences)))
    models: dict[str, list[AgreementScores]] = {name: [] for name in RECIPES}
    for name, recipe in RECIPES.items():
        for seed in range(1, seeds + 1):
            folder = out / f"{slug(name)}-{seed}"
            settings = {"train.seed": seed, **(QUICK if quick else {})}
            for _ in train(recipe, corpus, folder, settings=settings, device=device):
                pass
            model = load(folder / "model", device)
            models[name].append(scores := model.agreement(sentences))
            note(f"{name}, seed {seed}: {model!r}, {scores.accuracy:.1f}")
    table = AgreementTable.of(models)
    write_text(out / "agreement.html", table.html())
    for chart in CHARTS:
        write_text(out / f"agreement-{chart}.svg", table.svg(chart))
    return table


def _long_prefixes(sentences: Sequence[AgreementSentence]) -> list[str]:
    """Some of the longest, with every number of attractors."""
    longest = max(sentence.distance for sentence in sentences)
    texts = [one.prefix.text for one in sentences if one.distance == longest]
    return texts[:: -(-len(texts) // LINES)]
