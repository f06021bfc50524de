"""The token of a studio: every path asks for it, and the page keeps it in a cookie."""

import re
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import httpx
import pytest

from regard.cli.verbs.studio import studio
from regard.serving.settings import ServerSettings
from regard.studio.access import AccessToken
from regard.studio.app import page_to, studio_apis
from serving.running_server import PLAIN, running
from small_bert import model as small_bert

APIS = studio_apis(token=AccessToken("secret"))
PATHS = [(route.method, route.path) for api in APIS for route in api.routes]
OPENED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
OPENED |= {"sec-fetch-dest": "document"}


@pytest.fixture(scope="module")
def server():
    with running({"labels": small_bert("one")}, ServerSettings(allow_edits=True), APIS) as server:
        yield server


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.url, timeout=30, **PLAIN) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_no_path_answers_without_the_token(client, method, path):
    address = re.sub(r"\{\w+\}", "x", path)
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "regard-studio-80=secret"}):
        answer = client.request(method, address, headers=headers)
        assert answer.status_code in (401, 403), answer.text  # 401: for administrators
        assert "secret" not in answer.text and "set-cookie" not in answer.headers
    assert client.request(method, f"{address}?token=wrong").status_code in (401, 403)


def test_the_page_keeps_the_token_in_a_cookie_of_its_port(server, client):
    answer = client.get("/studio?page=heads&token=secret")
    port = urlsplit(server.url).port
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 200 and "secret" not in answer.text
    assert cookie.startswith(f"regard-studio-{port}=secret; HttpOnly; Path=/; SameSite=strict")
    assert client.get("/studio/models").json()["models"][0]["name"] == "labels"
    body = {"model": "labels", "text": "the old sailor"}
    assert client.post("/v1/classify", json=body).status_code == 200
    assert client.get("/", follow_redirects=True).status_code == 200


def test_the_root_leads_on_with_the_token(client):
    answer = client.get("/?token=secret", follow_redirects=True)
    assert answer.status_code == 200 and "<title>regard studio</title>" in answer.text


def test_programs_send_the_token_as_a_key(client):
    headers = {"authorization": "Bearer secret"}
    assert client.get("/studio/models", headers=headers).status_code == 200


def test_a_file_may_open_the_page_with_its_token_and_no_other_site_asks_for_more(client):
    assert client.get("/studio?token=secret", headers=OPENED).status_code == 200
    assert client.get("/studio", headers=OPENED).status_code == 403  # although it has the cookie
    fetched = {**OPENED, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
    assert client.get("/studio/models?token=secret", headers=fetched).status_code == 403
    body = {"model": "labels", "text": "the old sailor"}
    assert client.post("/v1/classify?token=secret", json=body, headers=OPENED).status_code == 403
    bound = {**OPENED, "host": "evil.example"}
    assert client.get("/studio?token=secret", headers=bound).status_code == 403


def test_tokens_differ_and_the_file_that_opens_the_page_is_of_one_user():
    assert len({AccessToken.new().value for _ in range(100)}) == 100
    with page_to("http://127.0.0.1:1/studio?token=a&b") as address:
        file = Path(url2pathname(unquote(urlsplit(address).path)))
        assert 'url=http://127.0.0.1:1/studio?token=a&amp;b"' in file.read_text()
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.exists()


@pytest.mark.parametrize(
    ("trains", "chosen", "asks"),
    [(False, None, False), (True, None, True), (False, True, True), (True, False, False)],
)
def test_the_command_prints_an_address_with_a_token(
    monkeypatch, tmp_path, capsys, trains, chosen, asks
):
    opened, apis = [], []

    def serve(config, listening, drain, when_loaded):
        apis.extend(config.apis)
        when_loaded()
        file = opened[0].removeprefix("file://")
        opened.append(Path(file).read_text() if asks else opened[0])

    monkeypatch.setattr("regard.studio.app.serve", serve)
    monkeypatch.setattr("webbrowser.open", opened.append)
    runs = {"runs": tmp_path, "trains": trains, "has_token": chosen}
    studio([str(tmp_path)], **runs, port=0, opens=True)
    (address,) = re.findall(r"the studio is at (\S+);", capsys.readouterr().err)
    assert ("?token=" in address) == asks and address in opened[1]
    assert opened[0].startswith("file://" if asks else "http://127.0.0.1:")
    assert asks == (address.rpartition("=")[2] not in opened[0])
    with running({"labels": small_bert("one")}, apis=apis) as server:
        assert server.client.get("/studio").status_code == (403 if asks else 200)
        path = address[address.index("/studio") :]
        assert server.client.get(path).status_code == 200
