"""The server of the app: pages, hosts, origins, and requests that it refuses."""

import asyncio
import base64
import contextlib
import json
import random
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx
import numpy as np

import hardmax as hm
from hardmax.app import playground, server
from hardmax.app.api import HANDLERS, Reply
from hardmax.app.scene import Scene
from hardmax.app.server import MAX_BODY_BYTES, SECURITY_HEADERS, make_app

SERVE = """
import sys
from hardmax.app import server

server.MAX_BODY_SECONDS = 8.0
server.serve(
    server.make_app(),
    address="127.0.0.1",
    port=int(sys.argv[1]),
    started=lambda: print("open", flush=True),
)
"""
TRIANGLE = hm.configuration("triangle").tolist()
SMALL = json.dumps({"name": "triangle"}).encode()
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
        b'{"scene": {"tokens": [[1, 2]], "rule": "\xff"}}',
        b'{"scene": {"tokens": [[1, 2]], "rule": "\xed\xa0\x80"}}',  # half a character
        b'{"scene": {"tokens": [[%s, 1]]}}' % (b"1" * 4000),
        b'{"scene": {"tokens": [["%s"], [1]]}}' % (b"1" * 4000),
        b'{"scene": {"tokens": [[1]], "alpha": %s1%s}}' % (b"[" * 900, b"]" * 900),
        json.dumps({"scene": {"tokens": TRIANGLE}}).encode("utf-16"),
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


def reopen(document):
    found = post("open", {"document": document})
    assert found.status_code == 200, found.text
    return unpack(found)


def unpack(reply):
    length = int.from_bytes(reply.content[:4], "little")
    return json.loads(reply.content[4 : 4 + length])


SCENES = [
    {"rule": "hardmax", "alpha": 0.3, "A": [[2, 1], [1, 2]], "layers": 7},
    {"rule": "hardmax", "causal": True},
    {"rule": "softmax", "alpha": 1.7, "temperature": 0.25, "causal": True},
    *({"rule": "frank-wolfe", "alpha": k / 7} for k in range(1, 15)),
    {"rule": "frank-wolfe", "alpha": 0.001, "A": [[2, 1], [1, 2]]},
    {"rule": "self-attention", "V": [[1, 0.5], [0, 1]], "time": 2.5},
    {"rule": "self-attention", "causal": True},
    {"rule": "sphere", "beta": 4.5, "time": 3},
]


@pytest.mark.parametrize("entries", SCENES)
def test_an_exported_trajectory_is_opened_again(entries):
    scene = {"tokens": TRIANGLE, "layers": 5, "time": 1.0, **entries}
    document = post("export", {"scene": scene, "kind": "json"}).json()
    found = reopen(document)
    assert found["note"] == ""
    again = found["scene"]
    tokens = np.array(TRIANGLE)
    if entries["rule"] == "sphere":
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    np.testing.assert_allclose(again["tokens"], tokens, rtol=4e-16)
    unused = "layers" if entries["rule"] in ("self-attention", "sphere") else "time"
    expected = Scene.from_data(scene | {unused: again[unused]}).to_data()
    expected = json.loads(json.dumps(expected))
    del expected["tokens"], again["tokens"]
    if entries["rule"] == "frank-wolfe":
        step = expected["alpha"] / (1 + expected["alpha"])
        assert again["alpha"] / (1 + again["alpha"]) == step
        assert again["alpha"] == pytest.approx(expected.pop("alpha"), rel=1e-15)
        del again["alpha"]
    assert again == expected


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_exported_tokens_are_opened_again(kind):
    tokens = hm.configuration("gaussian", n=30, d=3).tolist()
    exported = post("export", {"scene": {"tokens": tokens}, "kind": kind})
    if kind == "csv":
        found = unpack(post("tokens", {"text": exported.text}))["tokens"]
    else:
        found = reopen(exported.json())["scene"]["tokens"]
    assert found == tokens


def test_a_scene_is_opened_again():
    scene = Scene.from_data(
        {
            "tokens": TRIANGLE,
            "rule": "softmax",
            "shown": 3,
            "selected": 4,
            "wanted": [1, 2],
            "overlays": ["cells", "ellipse"],
            "colours": [[0, 3], [1, 300]],
        }
    ).to_data()
    scene = json.loads(json.dumps(scene))
    assert reopen(scene) == {"scene": scene, "note": "", "arrays": []}
    assert reopen({"tokens": TRIANGLE})["scene"]["alpha"] == 0.5


@pytest.mark.parametrize(
    ("options", "entries"),
    [
        (["simulate", "triangle", "--alpha", "1/3"], {"alpha": 1 / 3, "layers": 30}),
        (["simulate", "triangle", "--layers", "3", "--causal"], {"causal": True}),
        (["simulate", "triangle", "--A", "2,1;1,2"], {"A": [[2, 1], [1, 2]]}),
        (["simulate", "triangle", "--rule", "softmax", "--temperature", ".1"], {}),
        (["simulate", "triangle", "--rule", "sphere", "--time", "2"], {"time": 2}),
        (["simulate", "triangle", "--rule", "self-attention", "--time", "2"], {}),
        (["limit", "triangle", "--alpha", "2", "--causal"], {"alpha": 2}),
        (["limit", "emerging-leader", "--A", "2,1;1,2"], {"A": [[2, 1], [1, 2]]}),
    ],
)
def test_results_of_commands_are_opened(run, tmp_path, options, entries):
    code, out, err = run(*options, "--json", "--out", tmp_path / "result.json")
    assert code == 0, err
    assert (tmp_path / "result.json").read_text().strip() == out.strip()
    scene = reopen(json.loads(out))["scene"]
    rule = options[options.index("--rule") + 1] if "--rule" in options else "hardmax"
    assert scene["rule"] == rule
    if rule != "sphere":
        assert scene["tokens"] == hm.configuration(options[1]).tolist()
    assert {name: scene[name] for name in entries} == entries
    assert post("scene", {"scene": scene}).status_code == 200


@pytest.mark.parametrize("options", [[], ["--rule", "sphere", "--time", "1"]])
def test_a_table_of_a_trajectory_gives_its_first_tokens(run, tmp_path, options):
    table = tmp_path / "result.csv"
    assert run("simulate", "triangle", *options, "--out", table)[0] == 0
    found = unpack(post("tokens", {"text": table.read_text()}))["tokens"]
    tokens = np.array(TRIANGLE)
    if options:
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    np.testing.assert_allclose(found, tokens, rtol=4e-16)


def test_long_trajectories_are_opened_with_a_note():
    run = hm.simulate(TRIANGLE, hm.Hardmax(0.5), layers=250)
    found = reopen(json.loads(run.to_json()))
    assert found["note"] == "The first 200 of 250 layers are shown."
    assert found["scene"]["layers"] == 200


REFUSED = {
    "nothing": (lambda: None, "scene"),
    "a list": (list, "scene"),
    "verdicts": (lambda: {"format": "hardmax-verdicts-1"}, "format"),
    "no text": (lambda: {"format": []}, "format"),
    "no rule": (lambda: {"format": "hardmax-limit-1", "tokens": TRIANGLE}, "rule"),
    "other rule": (
        lambda: {"format": "hardmax-smooth-1", "rule": {"rule": "__class__"}},
        "rule",
    ),
    "no start": (
        lambda: json.loads(hm.limit(TRIANGLE, hm.Hardmax(1)).to_json()) | {"start": 1},
        "tokens",
    ),
    "division by zero": (
        lambda: {
            "format": "hardmax-trajectory-2",
            "rule": {"rule": "Hardmax", "normalize": True, "alpha": "1/0"},
        },
        "rule",
    ),
    "batch": (lambda: simulated(hm.Hardmax(0.5), tokens=[TRIANGLE] * 2), "token set"),
    "step sizes": (lambda: simulated(hm.Softmax([1, 2])), "step sizes"),
    "steps": (lambda: simulated(hm.FrankWolfe()), "FrankWolfe"),
    "last layer": (lambda: simulated(hm.Hardmax(1), save="last"), "layers"),
    "not rescaled": (lambda: simulated(hm.Hardmax(1, normalize=False)), "rule"),
    "custom code": (lambda: simulated(hm.SelfAttention(V=lambda t: np.eye(2))), "rule"),
}


def simulated(rule, tokens=TRIANGLE, **options):
    length = {"times": [0, 1]} if rule.continuous else {"layers": 2}
    return json.loads(hm.simulate(tokens, rule, **length, **options).to_json())


@pytest.mark.parametrize("name", REFUSED)
def test_other_documents_are_refused_with_a_sentence(name):
    make, word = REFUSED[name]
    found = post("open", {"document": make()})
    assert found.status_code == 400
    assert word in found.json()["error"]


def test_an_exported_explanation_is_opened_again():
    text = 'A "great" film, caf\u00e9 \U0001f600.\nBut too long.'
    exported = post("export-text", {"text": text, "kind": "json"})
    data = base64.b64encode(exported.content).decode()
    found = post("table", {"name": "explanation.json", "data": data})
    assert [row["text"] for row in unpack(found)["rows"]] == [text]
    data = base64.b64encode(b'{"format": "hardmax-limit-1"}').decode()
    found = post("table", {"name": "explanation.json", "data": data})
    assert found.status_code == 400
    assert "explanation" in found.json()["error"]


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (lambda body, context: 1 / 0, "ZeroDivisionError"),
        (lambda body, context: Reply({"margin": float("nan")}), "ValueError"),
    ],
)
def test_a_bug_is_logged_and_its_traceback_stays_here(
    monkeypatch, caplog, handler, error
):
    monkeypatch.setitem(HANDLERS, "scene", handler)
    found = post("scene", BODY)
    assert found.status_code == 500
    assert "bug in the app" in found.json()["error"]
    assert error not in found.text
    assert error in caplog.text


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


class Running:
    """A server in a process of its own, and what it writes to standard error."""

    def __init__(self, process, port, log):
        self.process, self.port, self.log = process, port, log

    @property
    def written(self):
        return self.log.read_text()

    @property
    def memory(self):
        """Resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def head(self, length, path="configuration", *more, method="POST"):
        """Return the head of a request; a length of None is left out."""
        origin = f"127.0.0.1:{self.port}"
        lines = [
            f"{method} /api/{path} HTTP/1.1",
            f"Host: {origin}",
            f"Origin: http://{origin}",
            "Content-Type: application/json",
            *more,
        ]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        return "\r\n".join([*lines, "", ""]).encode()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def post(self, path, body):
        """Return the status of the reply to a request."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=200)
        origin = f"http://127.0.0.1:{self.port}"
        headers = {"Content-Type": "application/json", "Origin": origin}
        connection.request("POST", f"/api/{path}", body, headers)
        reply = connection.getresponse()
        reply.read()
        connection.close()
        return reply.status


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "stderr.txt"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", SERVE, str(port)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout.readline() == "open\n"
            yield Running(process, port, log)
        finally:
            process.kill()


def read_all(connection):
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def statuses(reply):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+) ", reply)]


def test_aborted_uploads_write_nothing(running):
    reset = struct.pack("ii", 1, 0)  # close with RST
    for k in range(300):
        with running.connect() as upload:
            upload.sendall(running.head(100_000, "scene") + b"[" * (k % 3) * 20_000)
            if k % 2:
                upload.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    assert running.post("configuration", SMALL) == 200
    assert running.written == ""


def test_clients_that_leave_during_a_reply_write_nothing(running):
    page = running.head(None, method="GET").replace(b"/api/configuration", b"/reviews")
    body = json.dumps({"scene": {"tokens": TRIANGLE * 50}}).encode()
    for request in (page * 20, running.head(len(body), "scene") + body):
        for k in range(10):
            with running.connect() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.sendall(request)
                if k % 2:
                    client.recv(100)
    assert running.post("configuration", SMALL) == 200
    assert running.written == ""


LARGE = {
    "tokens": b'{"scene":{"tokens":[[0.1,0.2]' + b",[0.12,1.23]" * 810_000 + b"]}}",
    "integers": b"[1" + b",1" * 4_900_000 + b"]",
    "lists": b"[[]" + b",[]" * 3_200_000 + b"]",
    "halves": b'["\\ud800"' + b",0.12345" * 1_200_000 + b"]",
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_bodies_delay_no_small_request(running, kind):
    running.post("configuration", SMALL)
    before = running.memory
    found, seconds = [], []

    def upload():
        found.append(running.post("scene", LARGE[kind]))

    threads = [threading.Thread(target=upload) for _ in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        began = time.monotonic()
        assert running.post("configuration", SMALL) == 200
        seconds.append(time.monotonic() - began)
        time.sleep(0.02)
    assert found == [400] * 6
    assert statistics.median(seconds) < 0.5, seconds
    assert max(seconds) < 3, seconds  # on a busy machine
    assert running.memory < before + 300
    assert running.written == ""


def test_the_largest_scene_is_accepted():
    number = -1.2345678901234567e-100
    scene = {
        "tokens": [[number] * 16] * 20_000,
        "A": [[float(r == c) for c in range(16)] for r in range(16)],
        "wanted": list(range(20_000)),
        "colours": [[i, 367] for i in range(20_000)],
    }
    body = json.dumps({"scene": scene, "kind": "py"})
    assert 0.8 * MAX_BODY_BYTES < len(body) < MAX_BODY_BYTES
    assert post("export", body).status_code == 200


def test_a_slow_body_gets_a_status(running):
    began = time.monotonic()
    reply = b""
    with running.connect() as client:
        client.sendall(running.head(1000, "scene"))
        client.settimeout(0.2)
        while not reply and time.monotonic() < began + 60:
            client.sendall(b"[")
            with contextlib.suppress(TimeoutError):
                reply = client.recv(1 << 16)
        client.settimeout(60)
        reply += read_all(client)
    assert statuses(reply) == [408]
    assert b"must arrive within 8 seconds" in reply
    assert b"connection: close" in reply.lower()
    assert running.written == ""


def test_a_refused_body_is_not_read_to_its_end(running):
    for length, path in ((10**9, "scene"), (10**9, "../playground"), (10**12, "table")):
        sent = 0
        with running.connect() as client:
            client.sendall(running.head(length, path))
            try:
                while sent < 500_000_000:
                    client.sendall(b" " * 1_000_000)
                    sent += 1_000_000
            except OSError:
                pass
        assert sent < 100_000_000
    with running.connect() as client:  # the reply comes before the body
        client.sendall(running.head(10**9, "scene") + b"[")
        reply = read_all(client)
    assert statuses(reply) == [413]
    assert b"at most 10,000,000 bytes" in reply
    assert (
        running.post("scene", b" " * 24_000_000) == 413
    )  # read by a client that sends
    assert running.written == ""


@pytest.mark.parametrize(
    ("length", "line", "body", "status"),
    [
        (None, "Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n", 411),
        (None, "Transfer-Encoding: chunked", b"2\r\n{}\r\nZZ\r\n", 400),
        (2, "Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n", 411),
        (None, "Accept: */*", b"", 411),
    ],
)
def test_a_body_without_a_length_is_refused(running, length, line, body, status):
    head = running.head(length, "scene", line, "Connection: close")
    with running.connect() as client:
        client.sendall(head + body)
        assert statuses(read_all(client)) == [status]
    with running.connect() as client:  # a wrong chunk after the reply
        client.sendall(head)
        time.sleep(0.3)
        client.sendall(b"ZZ\r\n")
    assert running.post("configuration", SMALL) == 200
    assert running.written == ""


def test_two_requests_in_one_connection(running):
    first = running.head(len(SMALL)) + SMALL
    last = running.head(len(SMALL), "configuration", "Connection: close") + SMALL
    with running.connect() as client:
        client.sendall(first + first + last)
        assert statuses(read_all(client)) == [200, 200, 200]
    with running.connect() as client:  # after an error in the content
        client.sendall(running.head(1) + b"{" + last)
        assert statuses(read_all(client)) == [400, 200]
    assert running.written == ""


def test_head_is_answered_without_a_body():
    assert send("HEAD", "/playground").status_code == 200
    assert send("HEAD", "/playground").content == b""
    assert send("HEAD", "/api/scene").status_code in (404, 405)


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
