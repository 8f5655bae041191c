"""`hardmax app`: what it refuses, and how it begins and ends."""

import http.client
import socket
import urllib.request

import pytest

pytest.importorskip("panel")

from tests import browser


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "70000"], "`--port` must be a number from 0 to 65535. Got 70000."),
        (["--allow-websocket-origin", "*"], "`--allow-websocket-origin` must name hosts"),
        (["--model", "nowhere"], "`--model` must be a folder that hardmax train wrote"),
    ],
)
def test_bad_options_get_a_sentence(run, arguments: list[str], sentence: str) -> None:
    code, out, err = run("app", "--no-browser", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_port_that_is_taken_gets_a_sentence(run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run("app", "--no-browser", "--port", port)
    assert code == 2
    assert f"`--port` must be one that is free. Got {port}: " in err


@pytest.mark.slow
def test_it_stops_without_a_traceback_and_other_hosts_get_no_socket() -> None:
    with browser.served() as address:
        with urllib.request.urlopen(f"{address}/playground", timeout=60) as response:
            page = response.read().decode()
        assert "<title>hardmax</title>" in page
        with urllib.request.urlopen(address, timeout=60) as response:
            assert response.url == f"{address}/playground"
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        headers |= {"Sec-WebSocket-Key": "eHh4eHh4eHh4eHh4eHh4eA==", "Origin": "http://elsewhere.example"}
        connection.request("GET", "/playground/ws", headers=headers)
        assert connection.getresponse().status == 403
        connection.close()
