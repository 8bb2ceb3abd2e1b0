"""A Hugging Face Hub on loopback: takes commits of `huggingface_hub` and gives the files back."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0" * 40
REPO = "someone/policy"


class FakeHub(ThreadingHTTPServer):
    """`files` are those of the one repository; requests without the token, and all if `refuse` is set, are refused."""

    def __init__(self, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token, self.refuse = token, 0
        self.files: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running(token: str) -> Iterator[FakeHub]:
    with FakeHub(token) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            hub.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        self.server.calls.append(path)
        refused = 401 if self.headers["Authorization"] != f"Bearer {self.server.token}" else self.server.refuse
        if refused:
            self._json({"error": "you shall not pass"}, refused)
        elif path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self._json({"url": f"{self.server.url}/{name}", "name": name})
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(body)["files"]
            self._json(
                {"files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]}
            )
        elif "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self._json({"success": True, "commitUrl": f"{self.server.url}/{REPO}/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self._json({"error": f"unknown {path}"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/") and "/revision/" in path:
            siblings = [{"rfilename": name} for name in self.server.files]
            self._json({"id": REPO, "sha": COMMIT, "siblings": siblings})
        elif path.startswith("/api/models/") and "/tree/" in path:
            self._json(
                [
                    {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for name, data in self.server.files.items()
                ]
            )
        elif "/resolve/" in path:
            self._send(self.server.files[path.split("/", 5)[-1]])
        else:
            self._json({"error": f"unknown {path}"}, 404)

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), status, "application/json")

    def _send(self, data: bytes, status: int = 200, kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), "X-Repo-Commit": COMMIT}.items():
            self.send_header(name, value)
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...
