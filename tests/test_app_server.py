"""The server of the app: pages, hosts, origins, and requests that it refuses."""

import asyncio
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx

import hardmax as hm
from hardmax.app import playground, server
from hardmax.app.api import HANDLERS
from hardmax.app.server import MAX_BODY_BYTES, SECURITY_HEADERS, make_app

TRIANGLE = hm.configuration("triangle").tolist()
ORIGIN = "http://localhost:5006"
BODY = json.dumps({"scene": {"tokens": TRIANGLE}})


def send(method, path, *, content=None, **headers):
    """Send a request to the application; a header of None is left out."""
    given = {
        "Host": "localhost:5006",
        "Origin": ORIGIN,
        "Content-Type": "application/json",
    } | headers

    async def run():
        transport = httpx.ASGITransport(make_app(hosts=["talk.example.org"]))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            wanted = {
                name.replace("_", "-"): value
                for name, value in given.items()
                if value is not None
            }
            return await client.request(method, path, content=content, headers=wanted)

    return asyncio.run(run())


def post(path, body, **headers):
    return send(
        "POST",
        f"/api/{path}",
        content=body if isinstance(body, str | bytes) else json.dumps(body),
        **headers,
    )


def test_pages_and_modules_are_sent_with_a_policy():
    for path in (
        "/playground",
        "/reviews",
        "/viewer/playground.js",
        "/viewer/components.css",
    ):
        found = send("GET", path)
        assert found.status_code == 200
        assert {
            name: found.headers[name] for name in SECURITY_HEADERS
        } == SECURITY_HEADERS
        assert "http" not in found.text.replace(
            "http://www.w3.org/2000/svg", ""
        ).replace("over HTTP", "")
        assert "style=" not in found.text  # the policy allows no inline style
        assert send("GET", path, If_None_Match=found.headers["etag"]).status_code == 304
    assert send("GET", "/").headers["location"] == "/playground"


@pytest.mark.parametrize(
    "path",
    [
        "/viewer/../server.py",
        "/viewer/%2e%2e/server.py",
        "/viewer/..%2fserver.py",
        "/viewer/x.js",
        "/etc/passwd",
        "/%00",
    ],
)
def test_other_files_are_not_found(path):
    assert send("GET", path).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "127.0.0.1:5006", "Origin": "http://127.0.0.1:5006"}, 200),
        ({"Host": "[::1]:5006", "Origin": "http://[::1]:5006"}, 200),
        ({"Host": "talk.example.org", "Origin": "https://talk.example.org"}, 200),
        ({"Host": "evil.org:5006"}, 403),
        (
            {"Host": "evil.org:5006", "Origin": "http://evil.org:5006"},
            403,
        ),  # DNS rebinding
        ({"Host": "localhost.evil.org"}, 403),
        ({"Origin": "http://evil.org"}, 403),
        ({"Origin": "http://localhost:5007"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": None}, 415),
        ({"Content-Length": str(MAX_BODY_BYTES + 1)}, 413),
    ],
)
def test_requests_are_accepted_from_own_pages_only(headers, status):
    assert post("scene", BODY, **headers).status_code == status


@pytest.mark.parametrize("host", ["evil.org", "localhost.evil.org", ""])
def test_pages_are_sent_to_known_hosts_only(host):
    assert send("GET", "/playground", Host=host, Origin=None).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(method):
    assert send(method, "/api/scene", content=BODY).status_code == 405


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"scene":' * 50_000,
        b'{"scene": {"tokens": [[NaN, 1]]}}',
        b'{"scene": {"tokens": [[1e300, 1]]}}',
        b'{"scene": {"tokens": [[1e400, 1]]}}',
        b'{"scene": {"tokens": [[0, 0]], "rule": "sphere"}}',
        b'{"scene": {"tokens": [[1, 2], [2, 1]], "A": [[1, 5], [5, 1]]}}',
        b"[]",
    ],
)
def test_invalid_content_gets_a_sentence(body):
    found = post("scene", body)
    assert found.status_code == 400
    assert found.json()["error"].endswith(".")
    assert "Traceback" not in found.text


def test_random_content_never_fails():
    rng = random.Random(3)
    values = [
        None,
        -1,
        1e300,
        "x",
        "<script>alert(1)</script>",
        [],
        {},
        [1, 2],
        True,
        {"text": "a"},
        "\0",
        [[1, 2]],
    ]
    values += ["\ud800", {"tokens": [[1, 2]]}]
    keys = [
        "scene",
        "name",
        "n",
        "d",
        "seed",
        "text",
        "axis",
        "end",
        "first",
        "second",
        "degrees",
        "kind",
        "model",
    ]
    keys += ["head", "edits", "data", "column", "rows"]
    for kind in ("html", "json", "csv", "py"):  # half of a character
        assert (
            post(
                "export-text",
                f'{{"text": "a \\ud800 film", "kind": "{kind}"}}'.encode(),
            ).status_code
            == 200
        )
    for _ in range(150):
        path = rng.choice([*HANDLERS, "x"])
        body = {key: rng.choice(values) for key in rng.sample(keys, rng.randint(0, 6))}
        assert post(path, body).status_code in (200, 400), (path, body)


def test_a_bug_is_logged_and_its_traceback_stays_here(monkeypatch, caplog):
    monkeypatch.setitem(HANDLERS, "scene", lambda body, context: 1 / 0)
    found = post("scene", BODY)
    assert found.status_code == 500
    assert "ZeroDivisionError" not in found.text
    assert "ZeroDivisionError" in caplog.text


def test_work_for_a_client_that_has_gone_is_stopped(monkeypatch):
    started, ended = threading.Event(), threading.Event()

    def work(body, context):
        started.set()
        while not context.stopped():
            time.sleep(0.01)
        ended.set()
        raise playground.Cancelled

    monkeypatch.setitem(HANDLERS, "scene", work)

    async def run():
        app, sent = (
            make_app(),
            iter([{"type": "http.request", "body": BODY.encode(), "more_body": False}]),
        )

        async def receive():
            message = next(sent, None)
            if message is None:
                await asyncio.to_thread(started.wait, 30)
                return {"type": "http.disconnect"}
            return message

        async def ignore(message):
            pass

        headers = {
            "host": "localhost",
            "origin": "http://localhost",
            "content-type": "application/json",
        }
        headers["content-length"] = str(len(BODY))
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "server": ("localhost", 80),
            "method": "POST",
        }
        scope |= {
            "path": "/api/scene",
            "raw_path": b"/api/scene",
            "query_string": b"",
            "root_path": "",
        }
        scope["headers"] = [
            (name.encode(), value.encode()) for name, value in headers.items()
        ]
        await asyncio.wait_for(app(scope, receive, ignore), 30)

    asyncio.run(run())
    assert ended.is_set()


def test_answers_that_take_too_long_end(monkeypatch):
    monkeypatch.setattr(playground, "MAX_SECONDS", 0.0)
    found = post("scene", BODY)
    assert found.status_code == 400
    assert "seconds" in found.json()["error"]


def test_the_command_starts_and_stops():
    command = [
        sys.executable,
        "-u",
        "-m",
        "hardmax.cli.main",
        "app",
        "--port",
        "0",
        "--no-browser",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        assert line.startswith("hardmax is at http://localhost:")
        port = int(line.split(":")[2].split("/")[0])
        assert httpx.get(f"http://127.0.0.1:{port}/playground").status_code == 200
        with socket.socket() as other:
            assert other.connect_ex(("127.0.0.1", port)) == 0
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "Stopped.\n", "")


def test_a_busy_port_is_refused(run):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        code, _, err = run("app", "--port", port, "--no-browser")
    assert code == 2
    assert f"Got {port}" in err
    assert re.search(r"--port \d+", err)


def test_invalid_options_are_named(run):
    assert "`--allow-host`" in run("app", "--allow-host", "*", "--no-browser")[2]
    assert "`--model`" in run("app", "--model", "nowhere", "--no-browser")[2]
    assert server.host_name("localhost:1, evil") == ""
