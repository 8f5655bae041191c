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
    assert f"`--port` must be free. Got {port}: " in err


SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "eHh4eHh4eHh4eHh4eHh4eA==",
}


def status_of(address: str, path: str, **headers: str) -> int:
    """Return the status of a GET request."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_foreign_host_is_refused_even_if_it_is_the_origin() -> None:
    """DNS rebinding: the browser believes that this server is evil.example, and so are Host and Origin."""
    with browser.served("--allow-websocket-origin", "talk.example.org:8000") as address:
        address = address.removeprefix("http://")
        port = address.partition(":")[2]
        foreign = (
            "evil.example",
            f"evil.example:{port}",
            f"127.0.0.1.evil.example:{port}",
            f"localhost:{port}, evil.example",
        )
        for host in foreign:
            for path in ("/", "/playground", "/playground/autoload.js", "/static/js/bokeh.min.js", "/nowhere"):
                assert status_of(address, path, Host=host) in (400, 403)
            socket_headers = SOCKET | {"Host": host, "Origin": f"http://{host}"}
            assert status_of(address, "/playground/ws", **socket_headers) in (400, 403)
        for host in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", "talk.example.org"):
            assert status_of(address, "/playground", Host=host) == 200
        assert status_of(address, "/playground/ws", **SOCKET, Origin="http://evil.example") == 403


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
