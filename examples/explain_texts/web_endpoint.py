"""
A web endpoint that answers texts with a label, its probability and the words that speak for it
===============================================================================================

A web endpoint that answers texts with a label, its probability and the words that speak for it.

Without an argument it asks itself two questions and ends. `python examples/explain_texts/web_endpoint.py 8000` stays:

    curl -d '{"text": "A dull film."}' http://127.0.0.1:8000
"""

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hardmax as hm
from hardmax.cli.stream import answer, text_of

MOST_BYTES = 100_000
classifier = hm.pretrained("imdb")  # read once; answering changes nothing in it, so threads may share it


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        try:
            text = text_of(self.rfile.read(min(size, MOST_BYTES)).decode())
            code, found = 200, answer(classifier, text, explain=True)
        except (hm.InputError, UnicodeDecodeError) as problem:
            code, found = 400, {"error": str(problem)}
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing for every request."""


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Endpoint)
address = f"http://127.0.0.1:{server.server_port}"
if len(sys.argv) > 1:
    print(f"Answers at {address}. Stop with Ctrl-C.")
    server.serve_forever()
threading.Thread(target=server.serve_forever, daemon=True).start()
for text in ("A dull film with a wonderful end.", "Do not miss it!"):
    question = urllib.request.Request(address, json.dumps({"text": text}).encode())
    with urllib.request.urlopen(question) as response:
        found = json.load(response)
    words = ", ".join(f"{word} {value:+.2f}" for word, value in found["words"][:3])
    print(f"{text}\n  {found['prediction']}, probability {found['probability']:.3f}: {words}")
server.shutdown()
server.server_close()
