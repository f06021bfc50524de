"""The client libretranslatepy against a real server, and requests of other clients."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from libretranslatepy import LibreTranslateAPI

from regard.api import Model
from regard.serving.apis.request import APIRequest
from regard.serving.engine import ServedModel
from regard.serving.html_text import HTMLTexts
from regard.serving.settings import APIKeys, ServerSettings
from regard.text.label_sets import SingleLabelSet
from serving.running_server import running
from small_bert import small_bert
from work import ends

TEXT = "the owl sees the cow"


@pytest.fixture(scope="module")
def detector():
    return Model(replace(small_bert("one"), labels=SingleLabelSet(("en", "de", "fr"))))


@pytest.fixture(scope="module")
def server(translator, detector):
    served = [
        ServedModel(translator, "mt-en-de"),
        ServedModel(translator, "back", languages=("de", "en")),
        ServedModel(translator, "third", languages=("fr", "de")),
        ServedModel(detector, "detector"),
    ]
    with running(served) as server:
        yield server


def ask(server, body, status=200):
    response = server.post("/translate", body)
    assert response.status_code == status, response.text
    return response.json()


def test_the_client_translates_and_lists_languages(server, translator):
    client = LibreTranslateAPI(server.url)
    ((best, *_),) = translator.translate([TEXT])
    assert client.translate(TEXT, "en", "de") == best.text
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "fr", "name": "French", "targets": ["de"]},
    ]


def test_a_language_is_detected(server, translator, detector):
    (prediction,) = detector.predict([TEXT])
    found = LibreTranslateAPI(server.url).detect(TEXT)
    assert found[0]["language"] == prediction.label
    assert found[0]["confidence"] == pytest.approx(100 * prediction.probability, abs=1e-2)
    target = "de" if prediction.label != "de" else "en"
    answer = ask(server, {"q": TEXT, "source": "auto", "target": target})
    assert answer["detectedLanguage"]["language"] == prediction.label
    ((best, *_),) = translator.translate([TEXT])
    assert answer["translatedText"] == best.text


def test_batches_and_alternatives(server, translator):
    texts = [TEXT, "the cow", ""]
    nbests = [[each.text for each in nbest] for nbest in translator.translate(texts)]
    answer = ask(server, {"q": texts, "source": "en", "target": "de"})
    assert answer == {"translatedText": [best for best, *_ in nbests]}
    answer = ask(server, {"q": TEXT, "source": "en", "target": "de", "alternatives": 2})
    assert answer["translatedText"] == nbests[0][0]
    assert 1 <= len(answer["alternatives"]) <= 2
    assert nbests[0][0] not in answer["alternatives"]
    form = {"q": texts[:2], "source": "en", "target": "de", "alternatives": "1"}
    posted = server.client.post("/translate", data=form).json()
    assert len(posted["translatedText"]) == len(posted["alternatives"]) == 2


def test_lines_stay_lines(server, translator):
    ((first, *_), (second, *_)) = translator.translate([TEXT, "the cow"])
    answer = ask(server, {"q": f"{TEXT}\n\n  the cow\n", "source": "en", "target": "de"})
    assert answer["translatedText"] == f"{first.text}\n\n  {second.text}\n"


@pytest.mark.parametrize("text", ["  {} ", "\t{}\r\n {}\u3000\n\n", "\n{}", " \n ", ""])
def test_spaces_at_the_edges_of_lines_are_kept(server, translator, text):
    ((best, *_),) = translator.translate([TEXT])
    answer = ask(server, {"q": text.replace("{}", TEXT), "source": "en", "target": "de"})
    assert answer["translatedText"] == text.replace("{}", best.text)


def test_html_keeps_its_tags(server, translator):
    document = '<p class="x">the owl <b>sees</b> <br/>the cow &amp; 3</p><!-- no --><pre>a</pre>'
    answer = ask(server, {"q": document, "source": "en", "target": "de", "format": "html"})
    texts = ["the owl", "sees", "the cow & 3"]
    found = [best.text for best, *_ in translator.translate(texts)]
    escaped = [
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for text in found
    ]
    expected = document
    for text, other in zip(["the owl", "sees", "the cow &amp; 3"], escaped, strict=True):
        expected = expected.replace(text, other, 1)
    assert answer["translatedText"] == expected


@given(st.text("<>/ab! &;\"'=-p\n", max_size=40))
def test_any_html_is_read(document):
    read = HTMLTexts(document)
    assert len(read.parts) == 2 * len(read.texts) + 1
    HTMLTexts(read.replaced(read.texts))
    if not read.texts:
        assert read.replaced([]) == document


def test_html_with_code_is_the_same_without_translation():
    document = (
        "<!DOCTYPE html><script>if (a < b && c) {}</script><style>a>b{}</style>"
        '<p translate="no">a <i>b</i></p><p>one<img src="a.png"> two</p><code>x &lt; y</code>'
    )
    read = HTMLTexts(document)
    assert read.texts == ["one", "two"] and read.replaced(read.texts) == document


MARKUP = [
    "<DIV Class=x>one</DIV >",
    "<svg><foreignObject>one</foreignObject></svg>",
    "<![CDATA[x]]><p>one</p>",
    "<p>one</p><!-- a --><?php b ?><!doctype HTML>",
    "<pre>&eacute; &quot; \n</pre>\n\n<p\n>one\n</p\n>&nbsp;<br/>",
]


@pytest.mark.parametrize("document", MARKUP)
def test_markup_stays_letter_by_letter(document):
    read = HTMLTexts(document)
    assert read.texts == ["one"] and read.replaced(["two"]) == document.replace("one", "two")


KEPT = [
    '<p translate="NO">a</p>one',
    "<p Translate=no>a<p>one",
    "<div translate=no><p>a</div>one",
    '<div translate="no">a<p translate="yes">one</p>b</div>',
    '<i class="x notranslate">a</i>one',
    "<ul><li translate=no>a<ul><li>b</ul>c<li>one</ul>",
    "<table><tr><td translate=no>a<td>one<tr translate=no><td>b</table>",
    "<div class=notranslate>a</b>b<i>c</div>one",
    "</>one</>",
    "one<!-- a <b>c</b>",
    "<!-->one<!--->",
    'one<a href="b>c</a>d',
    '<a href="a>b">one</a>',
    "<SCRIPT>a<b></Script >one",
    "one<textarea>a<b>",
]


@pytest.mark.parametrize("document", KEPT)
def test_what_is_no_text_stays_letter_by_letter(document):
    read = HTMLTexts(document)
    assert read.texts == ["one"] and read.replaced(read.texts) == document


def test_an_unfinished_tag_is_text():
    read = HTMLTexts("one</")
    assert read.texts == ["one</"] and read.replaced(read.texts) == "one&lt;/"


class WrittenText(HTMLParser):
    """Tags and text of a document, as the parser of the standard library reads them."""

    def __init__(self, document):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


TRANSLATIONS = ["<script>alert(1)</script>", "a < b & c > d", "&lt;b&gt; &amp;", "<!-- a", "</p>"]


@pytest.mark.parametrize("translation", TRANSLATIONS)
def test_a_translation_never_becomes_markup(translation):
    written = WrittenText(HTMLTexts("<p>one<br>two</p>").replaced([translation, "end"]))
    assert written.tags == ["p", "br"] and written.text == f"{translation}end"


def test_translations_in_an_answer_are_escaped(server, monkeypatch):
    results = APIRequest.results

    async def with_markup(request, *given):
        return [marked_up(result) for result in await results(request, *given)]

    def marked_up(result):
        texts = [replace(each, text=f"<b>{each.text}</b> & more") for each in result.value.texts]
        return replace(result, value=result.value._replace(texts=texts))

    monkeypatch.setattr(APIRequest, "results", with_markup)
    body = {"q": "<p>the owl</p>", "source": "en", "target": "de", "format": "html"}
    written = WrittenText(ask(server, body)["translatedText"])
    assert written.tags == ["p"] and "<b>" in written.text and written.text.endswith("</b> & more")


MANY = ["<a ", "<!--", "<", "</", '<a b="', "<a b='\"", "<!", "<b>", "</b>", "<p>", "<td><p>", " "]
MANY += ["<script>", "<title>", "<a/", "a ", "&#9", "<b translate=", "<i =", "&"]


@pytest.mark.thinned
@pytest.mark.parametrize("before", ["", "<a translate ", "<b>a  <i>"])
@pytest.mark.parametrize("piece", MANY)
def test_html_of_any_kind_is_read_in_linear_time(piece, before):
    document = before + (piece * 100_000)[:100_000] + "b"
    with ends(20):
        read = HTMLTexts(document)
    assert len(read.texts) <= len(before) + 1


def test_a_reference_to_no_character_is_a_text():
    (text,) = HTMLTexts(f"<p>a&#{'9' * 5_000};b</p>").texts
    assert text == "a\ufffdb"


def test_documents_with_too_many_tags_are_refused(server):
    body = {"q": ["<b></b>" * 20_000] * 2, "source": "en", "target": "de", "format": "html"}
    assert "65536 tags" in ask(server, body, 413)["error"]
    assert len(ask(server, body | {"format": "text", "source": "de", "target": "de"})) == 1


def test_the_same_language_is_left_alone(server):
    assert ask(server, {"q": TEXT, "source": "en", "target": "en"}) == {"translatedText": TEXT}


def test_settings_of_a_page(server):
    settings = server.client.get("/frontend/settings").json()
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert settings["keyRequired"] is False and settings["charLimit"] == -1


def test_keys_may_be_in_the_body(translator, tmp_path):
    path = tmp_path / "keys"
    path.write_text("a-long-enough-key\n")
    settings = ServerSettings(keys=APIKeys.read(path))
    with running([ServedModel(translator, "mt-en-de")], settings) as server:
        client = LibreTranslateAPI(server.url, api_key="a-long-enough-key")
        assert isinstance(client.translate("the cow", "en", "de"), str)
        assert len(client.languages()) == 1
        body = {"q": "the cow", "source": "en", "target": "de"}
        assert server.post("/translate", body | {"api_key": "a-long-enough-key"}).is_success
        assert server.post("/translate", body).status_code == 401
        with pytest.raises(HTTPError, match="401"):
            LibreTranslateAPI(server.url, api_key="a-wrong-key-here").translate("a", "en", "de")
        assert server.client.get("/frontend/settings").status_code == 401


WRONG = {
    "missing q": {"source": "en", "target": "de"},
    "missing source": {"q": "a", "target": "de"},
    "missing target": {"q": "a", "source": "en"},
    "xx is not supported": {"q": "a", "source": "en", "target": "xx"},
    "en is not supported as a target of fr": {"q": "a", "source": "fr", "target": "en"},
    "no text": {"q": [], "source": "en", "target": "de"},
    "format": {"q": "a", "source": "en", "target": "de", "format": "pdf"},
    "colour": {"q": "a", "source": "en", "target": "de", "colour": 1},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_requests(server, message):
    error = ask(server, WRONG[message], 400)
    assert error.keys() == {"error"} and message in error["error"]


def test_without_a_classifier_languages_are_guessed(translator):
    with running([ServedModel(translator, "mt-en-de")]) as server:
        assert [each["language"] for each in server.post("/detect", {"q": "das"}).json()] == [
            "de",
            "en",
        ]
        for text in ("the owl", "..."):  # without a word, that of the first translator
            answer = ask(server, {"q": text, "source": "auto", "target": "de"})
            assert answer["detectedLanguage"]["language"] == "en"
        assert answer["detectedLanguage"]["confidence"] == 0
        broken = server.client.post("/translate", content=b"\xff\xfe")
        assert broken.status_code == 400 and json.loads(broken.content)["error"]


def test_a_form_may_have_letters_that_are_not_escaped(server):
    text = "the schöne owl & cow"
    answer = ask(server, {"q": text, "source": "en", "target": "de"})
    plain = "q=the schöne owl %26 cow&source=en&target=de".encode()
    assert server.client.post("/translate", content=plain).json() == answer
    refused = server.client.post("/translate", content="q=ö&source=en".encode("latin-1"))
    assert refused.status_code == 400 and "neither JSON nor a form" in refused.json()["error"]


def test_a_form_may_be_of_several_parts(translator, tmp_path):
    path, key = tmp_path / "keys", "a-long-enough-key"
    path.write_text(f"{key}\n")
    ((best, *_),) = translator.translate([TEXT])
    form = {"q": TEXT, "source": "en", "target": "de", "api_key": key}
    fields = {name: (None, value) for name, value in form.items()}
    settings = ServerSettings(keys=APIKeys.read(path))
    with running([ServedModel(translator, "mt-en-de")], settings) as server:
        answer = server.client.post("/translate", files=fields)
        assert answer.json() == {"translatedText": best.text}
        several = [*fields.items(), ("q", (None, "the cow"))]
        assert len(server.client.post("/translate", files=several).json()["translatedText"]) == 2
        header = {"x-api-key": key}
        for files in (fields | {"file": ("a.txt", b"a")}, fields | {"q": (None, b"\xff")}):
            refused = server.client.post("/translate", files=files, headers=header)
            assert refused.status_code == 400, refused.text
        for content in (b"--", b"--a\r\n", b"--a\r\nb\r\n--a--\r\n", b"--a\r\n" * 3_000):
            refused = server.client.post("/translate", content=content, headers=header)
            assert refused.status_code == 400 and "error" in refused.json()
