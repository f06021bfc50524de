"""Limits of requests and tokens a minute, of each key and each address."""

import openai
import pytest

from regard.serving import rates
from regard.serving.rates import RateLimited, RateLimiter, RateLimits, client_address
from regard.serving.request_errors import TooLarge
from regard.serving.settings import APIKeys, ServerSettings
from serving.running_server import running

KEYS = ("a-key-of-a-user-1", "a-key-of-a-user-2")


class Clock:
    """A clock that a test turns."""

    def __init__(self):
        self.seconds = 1_000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def limited(models):
    """A function that serves with limits, by a clock of the test."""
    servers = []

    def start(keys=None, **limits):
        settings = ServerSettings(keys=keys, rates=RateLimits(**limits))
        servers.append(running(models, settings))
        server = servers[-1].__enter__()
        server.clock = server.app.limiter.clock = Clock()
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def ask(server, **more):
    return server.post("/v1/classify", {"text": "a"}, **more)


def test_requests_of_an_address_fill_up_by_the_second(limited):
    server = limited(requests=3)
    for left in (2, 1, 0):
        answer = ask(server)
        assert answer.status_code == 200
        assert answer.headers["x-ratelimit-limit-requests"] == "3"
        assert answer.headers["x-ratelimit-remaining-requests"] == str(left)
        assert answer.headers["x-ratelimit-reset-requests"] == f"{20 * (3 - left):.3f}s"
        assert "x-ratelimit-limit-tokens" not in answer.headers
    server.clock.seconds += 5
    refused = ask(server)
    assert refused.status_code == 429 and refused.headers["retry-after"] == "15"
    assert refused.json()["error"]["kind"] == "rate_limit_exceeded"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert server.client.get("/health").status_code == 200
    server.clock.seconds += 15
    assert ask(server).status_code == 200
    assert ask(server).status_code == 429
    server.clock.seconds += 1_000  # no more than those of a minute
    assert [ask(server).status_code for _ in range(4)] == [200, 200, 200, 429]


def test_each_key_has_its_own_requests_and_wrong_keys_have_an_address(limited, tmp_path):
    (tmp_path / "keys").write_text("\n".join(KEYS))
    server = limited(APIKeys.read(tmp_path / "keys"), requests=2)
    for key in KEYS:
        headers = {"x-api-key": key}
        assert [ask(server, headers=headers).status_code for _ in range(3)] == [200, 200, 429]
    for number in range(2):
        assert ask(server, headers={"x-api-key": f"guess {number}"}).status_code == 401
    refused = ask(server, headers={"x-api-key": "guess 3"})
    assert refused.status_code == 429 and "retry-after" in refused.headers
    assert server.client.get("/v1/models").status_code == 429


def test_the_client_of_openai_is_told(limited):
    server = limited(requests=50, tokens=40)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        raw = client.embeddings.with_raw_response.create(model="bert", input="a storm")
        used = raw.parse().usage.total_tokens
        assert raw.headers["x-ratelimit-limit-tokens"] == "40"
        assert raw.headers["x-ratelimit-remaining-tokens"] == str(40 - used)
        assert raw.headers["x-ratelimit-remaining-requests"] == "49"
        with pytest.raises(openai.RateLimitError, match="more than 40 tokens in a minute") as error:
            client.completions.create(model="gpt", prompt=[5, 6], max_tokens=36)
        assert error.value.code == "rate_limit_exceeded" and error.value.type == "rate_limit_error"
        assert int(error.value.response.headers["retry-after"]) > 1
        with pytest.raises(openai.APIStatusError, match="than the 40 of a minute") as error:
            client.completions.create(model="gpt", prompt=[5, 6], max_tokens=39)
        assert error.value.status_code == 413
        server.clock.seconds += 60
        assert client.completions.create(model="gpt", prompt=[5, 6], max_tokens=36).choices
        server.clock.seconds += 60
        with pytest.raises(openai.RateLimitError):
            for _ in range(3):
                client.completions.create(model="gpt", prompt=[5], max_tokens=20, stream=True)


def test_a_request_that_has_begun_is_not_refused_by_its_later_runs(limited):
    server = limited(tokens=20)
    body = {"model": "gpt", "prompt": [5, 6], "max_tokens": 10, "logprobs": 1, "temperature": 0}
    assert server.post("/v1/completions", body).status_code == 200  # and its scores count, too
    server.clock.seconds += 2
    refused = ask(server, headers={"x-request-id": "a"})
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 1
    assert "tokens in a minute" in refused.json()["error"]["message"]


def test_without_limits_no_client_is_kept(models):
    with running(models) as server:
        answer = ask(server)
        assert not any(name.startswith("x-ratelimit") for name in answer.headers)
        assert not server.app.limiter.clients


def test_the_number_of_clients_is_bounded(monkeypatch):
    monkeypatch.setattr(rates, "MOST_CLIENTS", 3)
    limiter = RateLimiter(RateLimits(requests=1), Clock())
    for name in ("a", "b", "c"):
        limiter.client(name).begin()
    with pytest.raises(RateLimited, match="more than 1 requests in a minute"):
        limiter.client("a").begin()
    limiter.client("d").begin()
    assert [*limiter.clients] == ["c", "a", "d"]
    with pytest.raises(RateLimited):
        limiter.client("a").begin()


def test_a_request_that_no_minute_has_room_for_is_too_large():
    client = RateLimiter(RateLimits(tokens=5), Clock()).client("a")
    with pytest.raises(TooLarge, match="6 tokens are more than the 5 of a minute"):
        client.begin().take_tokens(6)
    client.begin().take_tokens(5)


ADDRESSES = {
    "10.0.0.1": "10.0.0.1",
    "::ffff:10.0.0.1": "10.0.0.1",
    "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
    "2001:db8:1:2::9": "2001:db8:1:2::/64",
    "testclient": "testclient",
    None: "",
}


@pytest.mark.parametrize("host", ADDRESSES)
def test_an_address_of_ipv6_is_known_by_its_network(host):
    assert client_address(host) == ADDRESSES[host]
