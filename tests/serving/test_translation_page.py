"""The page at /, and guesses of the languages that are served."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from libretranslatepy import LibreTranslateAPI

from regard.serving.engine import ServedModel
from regard.serving.languages_by_words import guess_languages, language_profiles
from regard.serving.settings import APIKeys, ServerSettings
from serving.running_server import running
from small_bert import model as small_bert

ENGLISH = "The owl that we saw on the roof was not there in the morning."
GERMAN = "Die Eule, die wir auf dem Dach sahen, war am Morgen nicht mehr da."


@pytest.fixture(scope="module")
def server(translator):
    served = [
        ServedModel(translator, "mt-en-de"),
        ServedModel(translator, "back", languages=("de", "en")),
        ServedModel(translator, "third", languages=("ru", "en")),
    ]
    with running(served) as server:
        yield server


class Parts(HTMLParser):
    """Scripts, styles, and addresses of a page."""

    def __init__(self, page):
        super().__init__()
        self.open, self.parts, self.addresses, self.handlers = "", [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.open = tag
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]

    def handle_data(self, data):
        if self.open in ("script", "style") and data.strip():
            self.parts.append((self.open, data))

    def handle_endtag(self, tag):
        self.open = ""


def test_the_page_runs_its_own_script_alone(server):
    answer = server.client.get("/")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    page, policy = Parts(answer.text), answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert [tag for tag, _ in page.parts] == ["style", "script"]
    for tag, content in page.parts:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert page.addresses == ["data:,", "docs"] and not page.handlers
    assert "//" not in answer.text.replace("</", "")
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
        assert unsafe not in answer.text
    asked = re.findall(r'ask\("(\w+)"', answer.text)
    assert {f"/{path}" for path in asked} <= server.paths


def test_without_a_translator_the_way_is_to_the_list_of_paths():
    with running({"one": small_bert("one")}) as server:
        answer = server.client.get("/")
        assert answer.status_code == 307 and answer.headers["location"] == "docs"
        assert "/v1/classify" in server.client.get("/", follow_redirects=True).text
        assert server.client.head("/").status_code == 307


def test_the_page_needs_no_key_but_what_it_asks_does(translator, tmp_path):
    (tmp_path / "keys").write_text("a-key-of-a-user-1")
    settings = ServerSettings(keys=APIKeys.read(tmp_path / "keys"), hosts=("mine.example",))
    with running([ServedModel(translator, "mt-en-de")], settings) as server:
        assert server.client.get("/").status_code == 200
        assert server.client.post("/").status_code == 401
        assert server.client.get("/languages").status_code == 401
        assert server.client.get("/", headers={"host": "evil.example"}).status_code == 403


TEXTS = {
    "bg": "Това не е книгата, която той искаше да прочете.",
    "ca": "Aquest llibre no és el que ella volia llegir amb els seus amics.",
    "cs": "To není kniha, kterou jsem si chtěl přečíst, ale je dobrá.",
    "da": "Det er ikke den bog, som jeg ville læse, men den er af en god ven.",
    "de": GERMAN,
    "el": "Δεν είναι το βιβλίο που ήθελα να διαβάσω.",
    "en": ENGLISH,
    "es": "No es el libro que yo quería leer, pero es muy bueno.",
    "fi": "Se ei ole kirja, jonka minä halusin lukea, mutta se on hyvä.",
    "fr": "Ce n'est pas le livre que je voulais lire, mais il est bon.",
    "hu": "Ez nem az a könyv, amit el akartam olvasni, de jó.",
    "it": "Non è il libro che volevo leggere, ma è molto bello.",
    "ja": "これは私が読みたかった本ではありません。",
    "ko": "이것은 내가 읽고 싶었던 책이 아니다.",
    "nl": "Het is niet het boek dat ik wilde lezen, maar het is goed.",
    "no": "Det er ikke den boken jeg ville lese nå, men den er god.",
    "pl": "To nie jest książka, którą chciałem przeczytać, ale jest dobra.",
    "pt": "Não é o livro que eu queria ler, mas ele é muito bom.",
    "ro": "Nu este cartea pe care am vrut să o citesc, dar este bună.",
    "ru": "Это не та книга, которую я хотел прочитать, но она была хорошая.",
    "sv": "Det är inte den bok som jag ville läsa, men den är bra.",
    "tr": "Bu benim okumak istediğim kitap değil ama çok iyi bir kitap.",
    "uk": "Це не та книга, яку я хотів прочитати, але вона була добра.",
    "zh": "这不是我想读的书。",
    "ar": "هذا ليس الكتاب الذي أردت أن أقرأه",
    "he": "זה לא הספר שרציתי לקרוא",
}


@pytest.mark.parametrize("code", TEXTS)
def test_the_language_of_a_sentence_is_guessed_among_many(code):
    guesses = guess_languages(TEXTS[code], TEXTS)
    assert next(iter(guesses)) == code and [*guesses.values()] == sorted(guesses.values())[::-1]
    assert guesses[code] > 0.5 and sum(guesses.values()) <= 1 + 1e-9


def test_a_text_of_another_language_is_no_sure_guess():
    assert guess_languages(TEXTS["ja"], ["de", "en"])["en"] < 1e-6
    assert guess_languages("Xylophon Quarz", ["de", "en"]) == pytest.approx(
        {"de": 1 / 3, "en": 1 / 3}
    )
    assert guess_languages("... 3", ["de", "en"]) == {"de": 0, "en": 0}
    assert guess_languages("saluton", ["eo"]) == pytest.approx({"eo": 1 / 2})  # without a profile


def test_profiles_are_those_of_known_languages():
    from regard.serving.apis.libre_translate import NAMES

    assert language_profiles().keys() <= NAMES.keys()
    for code, profile in language_profiles().items():
        assert all(profile.evidence([word]) > 0 for word in profile.words), code


def test_the_client_detects_languages_that_are_served(server, translator):
    client = LibreTranslateAPI(server.url)
    for text, code in ((ENGLISH, "en"), (GERMAN, "de"), (TEXTS["ru"], "ru")):
        found = client.detect(text)
        assert found[0]["language"] == code and 90 < found[0]["confidence"] <= 100
        assert {each["language"] for each in found} == {"de", "en", "ru"}
    body = {"q": [ENGLISH, GERMAN], "source": "auto", "target": "de"}
    answer = server.post("/translate", body).json()
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en", "de"]
    assert answer["translatedText"] == [translator.translate([ENGLISH])[0][0].text, GERMAN]


def test_nothing_is_detected_where_nothing_is_translated():
    with running({"one": small_bert("one")}) as server:
        answer = server.post("/detect", {"q": ENGLISH})
        assert answer.status_code == 404
        assert answer.json() == {"error": "no model here translates or detects languages"}
