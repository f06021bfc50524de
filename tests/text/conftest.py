"""A little text to learn from, and one vocabulary of each kind learnt from it."""

import pytest

from regard.text.tokenizers.plain_tokenizer import KINDS, train_subwords
from regard.text.tokenizers.subwords import Subwords

ENGLISH = (
    "The old sailor mended his nets before the storm came in.",
    "Nobody believed that the lighthouse keeper's cat could read.",
    "She counted 12 gulls, 3 boats and one very small whale.",
    "Before the storm, the harbour was full of singing sailors.",
    "The keeper lit the lamp at 7:45 and read to the cat.",
    "Singing is forbidden in the lighthouse (but the cat sings).",
)
GERMAN = (
    "Der alte Seemann flickte seine Netze, bevor der Sturm kam.",
    "Niemand glaubte, dass die Katze des Leuchtturmwärters lesen konnte.",
    "Sie zählte 12 Möwen, 3 Boote und einen sehr kleinen Wal.",
    "Vor dem Sturm war der Hafen voller singender Seeleute.",
)


@pytest.fixture(scope="session")
def english() -> tuple[str, ...]:
    return ENGLISH


@pytest.fixture(scope="session")
def german() -> tuple[str, ...]:
    return GERMAN


@pytest.fixture(scope="session")
def vocabularies() -> dict[str, Subwords]:
    return {kind: train_subwords(ENGLISH + GERMAN, kind, 420) for kind in KINDS}


@pytest.fixture(scope="session", params=KINDS)
def subwords(request: pytest.FixtureRequest, vocabularies: dict[str, Subwords]) -> Subwords:
    return vocabularies[request.param]


@pytest.fixture(scope="session", params=("bpe", "byte-bpe", "unigram"))
def bytesafe(request: pytest.FixtureRequest, vocabularies: dict[str, Subwords]) -> Subwords:
    return vocabularies[request.param]


@pytest.fixture(scope="session", params=("bpe", "byte-bpe"))
def mergeable(request: pytest.FixtureRequest, vocabularies: dict[str, Subwords]) -> Subwords:
    return vocabularies[request.param]


@pytest.fixture(scope="session")
def wordpiece(vocabularies: dict[str, Subwords]) -> Subwords:
    return vocabularies["wordpiece"]
