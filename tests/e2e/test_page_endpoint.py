"""The one public endpoint, used as a program uses it."""

import time

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from specviz.trace import FORMAT, Trace, orjson
from tests.e2e.conftest import Site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def client(site: Site) -> Client:
    site.pace.seconds = 0.0
    return Client(site.url, verbose=False)


def test_trace_returns_a_trace(client: Client) -> None:
    answer = client.predict(
        prompt="abc", method="draft", rule="rejection", k=3, temperature=0.7, max_new_tokens=12, seed=3, api_name="/trace"
    )
    trace = Trace.from_json(orjson.dumps(answer))
    assert (trace.header.prompt, trace.header.config.k, trace.header.config.seed) == ("abc", 3, 3)
    assert len(trace.token_ids) == 12
    assert trace.header.baseline
    assert trace.header.peaks


def test_the_defaults_are_those_of_decode(client: Client) -> None:
    config = Trace.from_json(orjson.dumps(client.predict(prompt="abc", max_new_tokens=4, api_name="/trace"))).header.config
    assert (config.method, config.rule, config.k, config.temperature, config.top_p, config.chat) == ("draft", "rejection", 5, 0, 1, True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prompt": ""}, "The prompt is empty"),
        ({"method": "magic"}, "magic"),
        ({"temperature": -1}, "temperature"),
        ({"k": "many"}, "k must be"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(client: Client, change: dict, sentence: str) -> None:
    with pytest.raises(AppError, match=sentence) as refused:
        client.predict(**{"prompt": "abc", **change}, api_name="/trace")
    assert "Traceback" not in str(refused.value)


def test_nothing_else_is_offered(client: Client) -> None:
    assert list(client.view_api(return_format="dict")["named_endpoints"]) == ["/trace"]
    for name in ("/stream", "/relabel", "/adapt", "/choose_preset", "/stop"):
        with pytest.raises(ValueError, match="Cannot find a function"):
            client.predict(api_name=name)


def test_a_caller_who_cancels_frees_the_model(client: Client, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_IS_E2E_TEST", "1")  # heartbeats, at which a client may cancel, come four times a second
    site.pace.seconds, site.pace.passes = 0.05, 0
    job = client.submit(prompt="abc", method="plain", rule="match", temperature=1.0, max_new_tokens=400, api_name="/trace")
    while site.pace.passes < 20:
        time.sleep(0.05)
    job.cancel()
    passes = -1
    while passes != site.pace.passes:
        passes = site.pace.passes
        time.sleep(0.5)
    site.pace.seconds = 0.0
    assert passes < 300, "the run went on to its end"
    assert client.predict(prompt="abc", max_new_tokens=4, api_name="/trace")["format"] == FORMAT
