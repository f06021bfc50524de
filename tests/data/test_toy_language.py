"""The built-in language: its German is correct, its links are true, its corpus is clean."""

from collections import Counter
from hashlib import sha256
from itertools import islice
from random import Random

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.toy_language.clauses import sentence
from regard.data.toy_language.corpus import (
    Corpus,
    SentencePair,
    corpus,
    dictionary,
    pair,
    sample,
    word_by_word,
    write,
)
from regard.data.toy_language.german import noun_phrase
from regard.data.toy_language.lexicon import (
    ADJECTIVES,
    ASKING,
    AT_HOME,
    BE,
    BELONG,
    FUTURE,
    HABITS,
    LIVING,
    MEANS,
    NOUNS,
    OFTEN,
    PAST,
    SAYING,
    TO_WHERE,
    TRYING,
    VERBS,
    WEATHER,
    WHERE,
    Case,
    ing_of,
    past_of,
    plural_of,
)
from regard.data.toy_language.syntax_tree import (
    Adjunct,
    Both,
    Clause,
    Gap,
    Name,
    NounPhrase,
    Place,
    Pronoun,
    Sentence,
)
from regard.text.words import words

TYPES = 300


def a(noun: str, determiner: str = "the", adjective: str = "", **more: object) -> NounPhrase:
    quality = ADJECTIVES[adjective] if adjective else None
    return NounPhrase(NOUNS[noun], determiner, adjective=quality, **more)  # type: ignore[arg-type]


def at(group: str, number: int = 0) -> Place:
    english, german, noun = WHERE[group][number]
    return Place(english, german, "dative", NounPhrase(noun))


def to(group: str, number: int = 0) -> Place:
    english, german, noun = TO_WHERE[group][number]
    case: Case = "dative" if german == "zu" else "accusative"
    return Place(english, german, case, NounPhrase(noun))


def told(clause: Clause, **more: object) -> tuple[str, str]:
    both = pair(Sentence(clause, **more))  # type: ignore[arg-type]
    return both.source, both.target


def is_raining() -> Clause:
    return Clause(Pronoun("it"), WEATHER["rain"], "progressive")


def named(name: str) -> Name:
    return Name(name, "she")


# --- what the grammar says ------------------------------------------------------------------------


def test_a_fronted_adverb_inverts_and_the_participle_closes_the_clause() -> None:
    clause = Clause(
        a("boy"),
        VERBS["see"],
        "past",
        object=a("dog", "a", "small"),
        place=at("nature"),
        time=PAST["yesterday"],
        fronted="time",
    )
    assert told(clause) == (
        "Yesterday the boy saw a small dog in the garden.",
        "Gestern hat der Junge im Garten einen kleinen Hund gesehen.",
    )


@pytest.mark.parametrize(
    ("animal", "german"),
    [
        ("dog", "Der Hund schläft, weil er müde ist."),
        ("cat", "Die Katze schläft, weil sie müde ist."),
        ("horse", "Das Pferd schläft, weil es müde ist."),
    ],
)
def test_it_takes_the_gender_of_what_it_stands_for_and_the_verb_goes_last(
    animal: str, german: str
) -> None:
    it = Pronoun("it", NOUNS[animal].gender)
    reason = Adjunct("because", Clause(it, BE, predicate=ADJECTIVES["tired"]))
    clause = Clause(a(animal), VERBS["sleep"], "progressive", adjunct=reason)
    assert told(clause) == (f"The {animal} is sleeping because it is tired.", german)


def test_separable_prefixes() -> None:
    def calling(**more: object) -> Clause:
        return Clause(a("mother", "my"), VERBS["call"], object=a("sister", "her"), **more)  # type: ignore[arg-type]

    assert told(calling(time=HABITS["every day"])) == (
        "My mother calls her sister every day.",
        "Meine Mutter ruft jeden Tag ihre Schwester an.",
    )
    inside = calling(time=OFTEN["often"])
    assert told(Clause(named("Anna"), SAYING["know"], content=inside)) == (
        "Anna knows that my mother often calls her sister.",
        "Anna weiß, dass meine Mutter ihre Schwester oft anruft.",
    )
    task = Clause(Pronoun("she"), VERBS["open"], object=a("window", plural=True))
    assert told(Clause(Pronoun("she"), TRYING["try"], "past", task=task)) == (
        "She tried to open the windows.",
        "Sie hat versucht, die Fenster aufzumachen.",
    )


@pytest.mark.parametrize(
    ("object_", "english", "german"),
    [
        (a("dog"), "not see the dog", "sieht den Hund nicht"),
        (a("dog", "a"), "not see a dog", "sieht keinen Hund"),
        (a("dog", "", plural=True), "not see any dogs", "sieht keine Hunde"),
        (a("milk", "", "fresh"), "not see any fresh milk", "sieht keine frische Milch"),
        (Pronoun("they"), "not see them", "sieht sie nicht"),
    ],
)
def test_negation(object_: NounPhrase | Pronoun, english: str, german: str) -> None:
    clause = Clause(a("man"), VERBS["see"], negative=True, object=object_)
    assert told(clause) == (f"The man does {english}.", f"Der Mann {german}.")


def test_must_not_is_not_the_negation_of_must() -> None:
    assert told(Clause(Pronoun("we"), VERBS["swim"], "must", place=at("water"))) == (
        "We must swim in the lake.",
        "Wir müssen im See schwimmen.",
    )
    assert told(Clause(Pronoun("we"), VERBS["swim"], "must", negative=True, place=at("water"))) == (
        "We must not swim in the lake.",
        "Wir dürfen nicht im See schwimmen.",
    )
    assert told(Clause(Pronoun("I"), VERBS["sleep"], "can", negative=True)) == (
        "I cannot sleep.",
        "Ich kann nicht schlafen.",
    )


def test_dative_before_accusative_and_pronouns_before_both() -> None:
    clause = Clause(
        Pronoun("she"),
        VERBS["give"],
        "past",
        object=a("book"),
        receiver=a("child", plural=True),
        time=PAST["two days ago"],
    )
    assert told(clause) == (
        "She gave the book to the children two days ago.",
        "Sie hat vor zwei Tagen den Kindern das Buch gegeben.",
    )
    clause = Clause(
        a("neighbour", "our"),
        VERBS["send"],
        "will",
        object=a("letter", "a"),
        receiver=Pronoun("he"),
        time=FUTURE["tonight"],
    )
    assert told(clause) == (
        "Our neighbour will send a letter to him tonight.",
        "Unser Nachbar wird ihm heute Abend einen Brief schicken.",
    )


def test_owners_follow_in_the_genitive_but_names_go_before() -> None:
    car = a("car", "", "new", owner=a("teacher"))
    assert told(Clause(Pronoun("I"), VERBS["need"], object=car)) == (
        "I need the teacher's new car.",
        "Ich brauche das neue Auto des Lehrers.",
    )
    coat = a("coat", "", "old", owner=named("Anna"))
    assert told(Clause(coat, BE, predicate=ADJECTIVES["expensive"], degree="too")) == (
        "Anna's old coat is too expensive.",
        "Annas alter Mantel ist zu teuer.",
    )


def test_relative_clauses() -> None:
    gap = Gap(NOUNS["bus"], plural=False)
    waited = Clause(a("student", plural=True), VERBS["wait for"], "past", object=gap)
    bus = a("bus", relative=waited)
    assert told(Clause(bus, BE, predicate=ADJECTIVES["new"])) == (
        "The bus that the students waited for is new.",
        "Der Bus, auf den die Studenten gewartet haben, ist neu.",
    )
    who = Gap(NOUNS["woman"], plural=True)
    women = a("woman", plural=True, relative=Clause(who, LIVING["live"], place=at("town", 1)))
    assert told(Clause(named("Maria"), VERBS["help"], "past", object=women)) == (
        "Maria helped the women who live in the village.",
        "Maria hat den Frauen geholfen, die im Dorf wohnen.",
    )
    gap = Gap(NOUNS["child"], plural=True)
    thanked = Clause(Pronoun("he"), VERBS["thank"], "perfect", object=gap)
    children = a("child", "two", plural=True, relative=thanked)
    assert told(Clause(children, VERBS["laugh"], "progressive")) == (
        "Two children that he has thanked are laughing.",
        "Zwei Kinder, denen er gedankt hat, lachen.",
    )


def test_clauses_nest_in_clauses() -> None:
    rain = Adjunct("because", is_raining())
    home = Clause(a("boy", "every"), VERBS["play"], "progressive", place=AT_HOME, adjunct=rain)
    thought = Clause(a("farmer", "this"), SAYING["think"], content=home)
    said = Clause(a("doctor", "many", plural=True), SAYING["believe"], content=thought)
    assert told(said) == (
        "Many doctors believe that this farmer thinks that every boy is playing at home "
        "because it is raining.",
        "Viele Ärztinnen glauben, dass dieser Bauer denkt, dass jeder Junge zu Hause spielt, "
        "weil es regnet.",
    )


def test_two_banks_and_two_ways_to_know() -> None:
    _, _, river = WHERE["water"][1]
    english, german, shore = WHERE["shore"][0]
    bank = Place(english, german, "dative", NounPhrase(shore, owner=NounPhrase(river)))
    assert told(Clause(Pronoun("he"), VERBS["sit"], "past", place=bank)) == (
        "He sat on the bank of the river.",
        "Er hat am Ufer des Flusses gesessen.",
    )
    work = Clause(Pronoun("he"), VERBS["work"], place=at("work", 2), time=HABITS["in the evening"])
    assert told(work) == (
        "He works at the bank in the evening.",
        "Er arbeitet am Abend in der Bank.",
    )
    assert told(Clause(Pronoun("they"), VERBS["know"], object=a("play"))) == (
        "They know the play.",
        "Sie kennen das Theaterstück.",
    )
    assert told(Clause(Pronoun("they"), SAYING["know"], content=is_raining())) == (
        "They know that it is raining.",
        "Sie wissen, dass es regnet.",
    )


def test_one_word_for_many_and_many_for_one() -> None:
    assert told(Clause(Pronoun("I"), VERBS["remember"], object=a("girl"))) == (
        "I remember the girl.",
        "Ich erinnere mich an das Mädchen.",
    )
    assert told(Clause(Pronoun("we"), VERBS["get up"], "going to", time=FUTURE["tomorrow"])) == (
        "We are going to get up tomorrow.",
        "Wir werden morgen aufstehen.",
    )
    assert told(Clause(a("cat", plural=True), VERBS["be hungry"], negative=True)) == (
        "The cats are not hungry.",
        "Die Katzen haben keinen Hunger.",
    )
    dream = Clause(Both(named("Maria"), a("bus driver")), VERBS["dream of"], object=a("car"))
    assert told(dream) == (
        "Maria and the bus driver dream of the car.",
        "Maria und der Busfahrer träumen vom Auto.",
    )
    belongs = Clause(a("coffee cup", "this"), BELONG, object=a("bus driver"))
    assert told(belongs) == (
        "This coffee cup belongs to the bus driver.",
        "Diese Kaffeetasse gehört dem Busfahrer.",
    )


def test_direction_means_and_aim() -> None:
    bread = Clause(Pronoun("they"), VERBS["buy"], object=a("bread", "", "fresh"))
    assert told(Clause(Pronoun("they"), VERBS["go"], "past", place=to("shops"), aim=bread)) == (
        "They went to the market to buy fresh bread.",
        "Sie sind zum Markt gegangen, um frisches Brot zu kaufen.",
    )
    clause = Clause(
        a("uncle", "my"),
        VERBS["travel"],
        "want to",
        place=to("town"),
        means=MEANS["by train"],
        time=FUTURE["next week"],
    )
    assert told(clause) == (
        "My uncle wants to travel to the city by train next week.",
        "Mein Onkel will nächste Woche mit dem Zug in die Stadt fahren.",
    )


def test_when_is_als_once_and_wenn_always() -> None:
    back = Clause(a("father", "her"), VERBS["come back"], "past")
    clause = Clause(
        Pronoun("she"),
        VERBS["watch television"],
        "past",
        adjunct=Adjunct("when", back),
        fronted="adjunct",
    )
    assert told(clause) == (
        "When her father came back, she watched television.",
        "Als ihr Vater zurückgekommen ist, hat sie ferngesehen.",
    )
    rains = Clause(Pronoun("it"), WEATHER["rain"])
    likes = Clause(
        Pronoun("she"),
        VERBS["read"],
        "like to",
        object=a("book", "", plural=True),
        adjunct=Adjunct("when", rains),
    )
    assert told(likes) == (
        "She likes to read books when it rains.",
        "Sie liest gern Bücher, wenn es regnet.",
    )


def test_questions() -> None:
    assert told(Clause(a("girl"), VERBS["sing"], "like to"), question=True) == (
        "Does the girl like to sing?",
        "Singt das Mädchen gern?",
    )
    asked = Clause(Pronoun("he"), VERBS["cry"], "past", time=ASKING["why"], fronted="time")
    assert told(asked, question=True) == ("Why did he cry?", "Warum hat er geweint?")


def test_but_joins_two_main_clauses() -> None:
    tired = Clause(Pronoun("they"), BE, "past", predicate=ADJECTIVES["tired"], degree="very")
    clause = Clause(a("boy", plural=True), VERBS["take care of"], "past", object=a("mouse"))
    assert told(clause, but=tired) == (
        "The boys took care of the mouse, but they were very tired.",
        "Die Jungen haben sich um die Maus gekümmert, aber sie waren sehr müde.",
    )


@pytest.mark.parametrize(
    ("phrase", "forms"),
    [
        (a("boy", "the", "young"), "der junge · den jungen · dem jungen · des jungen"),
        (a("boy", "a", "young"), "ein junger · einen jungen · einem jungen · eines jungen"),
        (a("cat", "my", "old"), "meine alte · meine alte · meiner alten · meiner alten"),
        (a("horse", "no", "old"), "kein altes · kein altes · keinem alten · keines alten"),
        (a("horse", "this", "old"), "dieses alte · dieses alte · diesem alten · dieses alten"),
        (a("milk", "", "fresh"), "frische · frische · frischer · frischer"),
        (a("cat", "our", "old", plural=True), "unsere alten · unsere alten · unseren alten"),
        (a("cat", "many", "old", plural=True), "viele alte · viele alte · vielen alten"),
        (a("cat", "two", "old", plural=True), "zwei alte · zwei alte · zwei alten"),
        (a("cat", "the", "tired", plural=True), "die müden · die müden · den müden · der müden"),
    ],
)
def test_articles_and_adjectives_agree(phrase: NounPhrase, forms: str) -> None:
    cases: tuple[Case, ...] = ("nominative", "accusative", "dative", "genitive")
    for case, form in zip(cases, forms.split(" · "), strict=False):
        *before, _ = noun_phrase(phrase, case)
        assert " ".join(word.text for word in before) == form


@pytest.mark.parametrize(
    ("noun", "plural", "case", "form"),
    [
        ("boy", False, "accusative", "Jungen"),
        ("neighbour", False, "dative", "Nachbarn"),
        ("dog", False, "genitive", "Hundes"),
        ("child", True, "dative", "Kindern"),
        ("car", True, "dative", "Autos"),
        ("girl", True, "dative", "Mädchen"),
    ],
)
def test_nouns_decline(noun: str, plural: bool, case: Case, form: str) -> None:
    assert noun_phrase(a(noun, plural=plural), case)[-1].text == form


def test_english_spelling_rules() -> None:
    assert [plural_of(word) for word in ("story", "boy", "bus", "potato", "watch")] == [
        "stories",
        "boys",
        "buses",
        "potatoes",
        "watches",
    ]
    assert [past_of(base) for base in ("try", "play", "like", "help")] == [
        "tried",
        "played",
        "liked",
        "helped",
    ]
    assert [ing_of(base) for base in ("write", "see", "sit", "visit", "play", "forget")] == [
        "writing",
        "seeing",
        "sitting",
        "visiting",
        "playing",
        "forgetting",
    ]


# --- links ----------------------------------------------------------------------------------------


def linked(both: SentencePair) -> set[tuple[str, str]]:
    source, target = words(both.source), words(both.target)
    return {(source[i], target[j]) for i, j in both.links}


def test_links_are_literal() -> None:
    clause = Clause(
        a("bus driver"),
        VERBS["remember"],
        "past",
        negative=True,
        object=a("coffee cup"),
        time=PAST["three weeks ago"],
    )
    both = pair(Sentence(clause))
    assert both.source == "The bus driver did not remember the coffee cup three weeks ago."
    assert both.target == (
        "Der Busfahrer hat sich vor drei Wochen nicht an die Kaffeetasse erinnert."
    )
    assert linked(both) == {
        ("The", "Der"),
        ("bus", "Busfahrer"),
        ("driver", "Busfahrer"),
        ("did", "hat"),
        ("not", "nicht"),
        ("remember", "sich"),
        ("remember", "an"),
        ("remember", "erinnert"),
        ("the", "die"),
        ("coffee", "Kaffeetasse"),
        ("cup", "Kaffeetasse"),
        ("three", "drei"),
        ("weeks", "Wochen"),
        ("ago", "vor"),
        (".", "."),
    }


def test_links_of_contracted_split_and_denied_words() -> None:
    opening = Clause(
        a("man"), VERBS["open"], negative=True, object=a("letter", "a"), place=at("home")
    )
    assert linked(pair(Sentence(opening))) >= {
        ("does", "macht"),
        ("open", "macht"),
        ("open", "auf"),
        ("not", "keinen"),
        ("a", "keinen"),
        ("in", "in"),
        ("the", "der"),
    }
    garden = Clause(a("man"), VERBS["sleep"], "progressive", place=at("nature"))
    assert linked(pair(Sentence(garden))) == {
        ("The", "Der"),
        ("man", "Mann"),
        ("is", "schläft"),
        ("sleeping", "schläft"),
        ("in", "im"),
        ("the", "im"),
        ("garden", "Garten"),
        (".", "."),
    }


def test_equal_words_are_not_confused() -> None:
    both = pair(Sentence(Clause(a("dog"), VERBS["see"], object=a("dog", plural=True))))
    assert both.links == {(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)}


# --- the corpus -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole() -> Corpus:
    """The corpus with fewer training pairs."""
    return corpus(train=4_000)


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_every_pair_is_well_formed(seed: int) -> None:
    for both in islice(sample(seed), 40):
        source, target = words(both.source), words(both.target)
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in both.links)
        assert {i for i, _ in both.links} == set(range(len(source)))
        unlinked = {target[j] for j in range(len(target)) if j not in {j for _, j in both.links}}
        assert {word.lower() for word in unlinked} <= {",", "der", "die", "das", "den", "dem"}
        for side in (both.source, both.target):
            assert side[0].isupper()
            assert side[-1] in ".?"
            assert not any(mark in side for mark in ("  ", " ,", " .", ",,", ",.", ",?"))


def test_an_english_sentence_has_one_translation() -> None:
    dice, known = Random(5), dict[str, str]()
    for _ in range(8_000):
        both = pair(sentence(dice))
        assert known.setdefault(both.source, both.target) == both.target


@pytest.mark.slow
def test_pairs_are_distinct_and_held_out_ones_stay_out() -> None:
    whole = corpus()
    parts = (whole.train, whole.dev, whole.test)
    assert [len(part) for part in parts] == [20_000, 500, 500]
    for side in ("source", "target"):
        assert len({getattr(both, side) for part in parts for both in part}) == 21_000


def test_the_same_seed_gives_the_same_pairs(whole: Corpus) -> None:
    again = corpus(train=50)
    assert (again.dev, again.test, again.train) == (whole.dev, whole.test, whole.train[:50])
    assert corpus(10, 10, 10, seed=2) != corpus(10, 10, 10, seed=1)


@pytest.mark.parametrize(
    ("seed", "digest"),
    [(1, "82c16ea343fa7af0ab0c5ae8949de80e"), (7, "3f1d98f457ce4349226d59f69ead304a")],
)
def test_the_files_of_a_seed_never_change(tmp_path, seed: int, digest: str) -> None:
    """Scores of the tour, of ladders and of benchmarks were measured on these sentences."""
    write(corpus(1_000, 50, 50, seed), tmp_path)
    content = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert sha256(content).hexdigest()[:32] == digest


def test_both_vocabularies_are_everyday_size(whole: Corpus) -> None:
    for side in ("source", "target"):
        texts = [getattr(both, side) for both in whole.train]
        types = {word.lower() for text in texts for word in words(text) if word.isalpha()}
        assert TYPES <= len(types) <= 700
        lengths = [len(words(text)) for text in texts]
        assert 9 <= sum(lengths) / len(lengths) <= 12
        assert sum(length < 25 for length in lengths) > 0.98 * len(lengths)


def test_every_kind_of_link_occurs(whole: Corpus) -> None:
    kinds: Counter[str] = Counter()
    for both in whole.dev:
        sources, targets = Counter(i for i, _ in both.links), Counter(j for _, j in both.links)
        kinds["one to many"] += any(count > 1 for count in sources.values())
        kinds["many to one"] += any(count > 1 for count in targets.values())
        kinds["spurious"] += len(targets) < len(words(both.target))
        kinds["crossing"] += any(i < k and j > m for i, j in both.links for k, m in both.links)
    assert all(kinds[kind] > 100 for kind in ("one to many", "many to one", "spurious", "crossing"))


def test_word_by_word_translation_is_poor(whole: Corpus) -> None:
    known = dictionary(whole.train)
    translations = [word_by_word(both.source, known) for both in whole.test]
    score = sacrebleu.corpus_bleu(translations, [[both.target for both in whole.test]]).score
    assert 5 < score < 30


def test_the_dictionary_is_learnt_from_links() -> None:
    pairs = [
        SentencePair("a b c.", "B A A.", frozenset({(0, 1), (0, 2), (1, 0), (3, 3)})),
        SentencePair("a", "Z", frozenset({(0, 0)})),
        SentencePair("a", "A A", frozenset({(0, 0), (0, 1)})),
    ]
    known = dictionary(pairs)
    assert known == {"a": "A A", "b": "B", "c": "", ".": "."}
    assert word_by_word("b c d a.", known) == "B d A A."


def test_files(tmp_path, whole: Corpus) -> None:
    small = Corpus(whole.train[:3], whole.dev[:2], whole.test[:1])
    write(small, tmp_path / "language")
    files = sorted(path.name for path in (tmp_path / "language").iterdir())
    assert files == sorted(
        f"{part}.{kind}" for part in ("train", "dev", "test") for kind in ("en", "de", "links")
    )
    lines = {name: (tmp_path / "language" / name).read_text("utf-8").splitlines() for name in files}
    assert lines["train.en"] == [both.source for both in small.train]
    assert lines["dev.de"] == [both.target for both in small.dev]
    (links,) = lines["test.links"]
    read = {tuple(map(int, link.split("-"))) for link in links.split()}
    assert read == small.test[0].links
