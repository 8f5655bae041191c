"""
A web endpoint that returns predictions with explanations
=========================================================

Users of a classification service also need reasons. Here every response contains the
label, its probability and the contributions of words, as JSON over HTTP, with only the
standard library around the classifier. Without an argument the script sends itself two
requests and exits; with a port it keeps running::

    python examples/explain_texts/web_endpoint.py 8000
    curl -d '{"text": "A dull film."}' http://127.0.0.1:8000
"""

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.cli.predict import parse_line, predict_text
from hardmax.draw.style import BLUE, ORANGE

MOST_BYTES = 100_000
classifier = hm.pretrained(
    "imdb"
)  # read once; answering changes nothing in it, so threads may share it

# %%
# The endpoint. A body that is not a text gets status 400 with a message, a body that is
# too long 413.


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        try:
            if size > MOST_BYTES:
                code, found = (
                    413,
                    {
                        "error": (
                            f"A question must have at most {MOST_BYTES:,} bytes. Got"
                            f" {size:,}."
                        )
                    },
                )
            else:
                code, found = (
                    200,
                    predict_text(
                        classifier,
                        parse_line(self.rfile.read(size).decode()),
                        explain=True,
                    ),
                )
        except (hm.InputError, UnicodeDecodeError) as problem:
            code, found = 400, {"error": str(problem)}
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


port = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 0
server = ThreadingHTTPServer(("127.0.0.1", port), Endpoint)
address = f"http://127.0.0.1:{server.server_port}"
if port:
    print(f"Answers at {address}. Stop with Ctrl-C.")
    server.serve_forever()

# %%
# Two requests, as any client would send them.

threading.Thread(target=server.serve_forever, daemon=True).start()
answers = {}
for text in ("A dull film with a wonderful end.", "Do not miss it!"):
    question = urllib.request.Request(address, json.dumps({"text": text}).encode())
    with urllib.request.urlopen(question) as response:
        answers[text] = json.load(response)
    words = ", ".join(
        f"{word} {value:+.2f}" for word, value in answers[text]["words"][:3]
    )
    print(
        f"{text}\n  {answers[text]['prediction']}, probability"
        f" {answers[text]['probability']:.3f}: {words}"
    )
server.shutdown()
server.server_close()

# %%
# A client can draw the responses: evidence for "pos" in blue, for "neg" in orange,
# whatever the prediction.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for ax, (text, found) in zip(axes, answers.items(), strict=True):
    words, values = zip(*found["words"][:7], strict=True)
    ax.barh(
        range(len(words)),
        values,
        color=[BLUE if value > 0 else ORANGE for value in values],
    )
    ax.set_yticks(range(len(words)), words)
    ax.invert_yaxis()
    ax.axvline(0, color="#444", lw=0.8)
    ax.set_title(
        f"{text}\n{found['prediction']}, probability {found['probability']:.3f}",
        fontsize=11,
    )
    ax.set_xlabel("neg ← contribution to the logit → pos")
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
assert all(0.5 <= found["probability"] <= 1 for found in answers.values())

# %%
# What to try
# -----------
# ``hm.HardmaxClassifier.load("FOLDER")`` serves a model of your own. ``hardmax predict
# --stream --explain`` gives the same answers line by line to a program that starts it.
