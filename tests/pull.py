#!/usr/bin/env python3
"""`gale models pull` against a server on loopback: whole, cut and gone on with, wrong, missing, and told to write where it must not.

usage: pull.py GALE
"""
import hashlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

from counted import check, finish

DATA = bytes((i * i * 31 + i // 7) & 255 for i in range(300_000))
GOOD = hashlib.sha256(DATA).hexdigest()
MANIFEST = b"name: net\nparams: {scale_factor: 2}\n"


class Server(http.server.BaseHTTPRequestHandler):
    asked = []  # (path, Range)
    cut_after = None  # bytes after which the connection breaks, once

    def log_message(self, *_):
        pass

    def do_GET(self):
        Server.asked.append((self.path, self.headers.get("Range")))
        path = self.path.split("?")[0]
        data = {"/net.onnx": DATA, "/plain.onnx": DATA, "/net.yml": MANIFEST, "/other.onnx": DATA[::-1], "/page.onnx": b"<!DOCTYPE html><html>see here</html>"}.get(path)
        if path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/net.onnx")
            self.end_headers()
            return
        if path == "/astray":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
            return
        if data is None:
            self.send_error(404)
            return
        begin = self.begin_of(len(data)) if path != "/plain.onnx" else 0  # this one does not know ranges
        if begin >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        piece, Server.cut_after = data[begin:][:Server.cut_after], None
        self.wfile.write(piece)

    def begin_of(self, size):
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        return min(int(match.group(1)), size) if match else 0


class Pull:
    """One folder of models, and what `gale models pull` does with it."""

    def __init__(self, gale, root):
        self.gale, self.folder = gale, root / "models"

    def __call__(self, name, code, pattern, *args):
        Server.asked.clear()
        done = subprocess.run([self.gale, "models", "pull", *args, "--models", str(self.folder)], capture_output=True, text=True, check=False, timeout=60)
        said = done.stdout + done.stderr
        check(name, done.returncode == code and re.search(pattern, said), f"exit code {done.returncode}, said: {said.strip()}")

    def holds(self, name, *files):
        here = sorted(p.name for p in self.folder.iterdir()) if self.folder.exists() else []
        check(name, here == sorted(files), f"the folder has {here}")

    def clear(self):
        for p in self.folder.iterdir():
            p.unlink()


def whole(pull, url):
    pull("a digest is asked for", 1, "no SHA-256 is known", f"{url}/net.onnx")
    pull("a digest that is none", 2, "64 hexadecimal digits", f"{url}/net.onnx", "--sha256", "abc")
    pull("a name is asked for", 2, "pull needs")
    pull("whole", 0, GOOD, f"{url}/net.onnx", "--sha256", GOOD.upper())
    pull.holds("whole, with its digest", "net.onnx", "net.onnx.sha256")
    check("the same bytes", (pull.folder / "net.onnx").read_bytes() == DATA)
    check("as sha256sum writes it", (pull.folder / "net.onnx.sha256").read_text() == f"{GOOD}  net.onnx\n")
    pull("again", 0, "already exists and is correct", f"{url}/net.onnx", "--sha256", GOOD)
    check("again asks nobody", not Server.asked, Server.asked)
    pull("what is there is not written over", 1, "already exists", f"{url}/other.onnx", "--sha256", "0" * 64, "--name", "net")
    pull("a redirection", 0, "moved.onnx", f"{url}/moved", "--sha256", GOOD)
    pull("a query", 0, "again.onnx", f"{url}/net.onnx?x=/y.z#f", "--sha256", GOOD, "--name", "again")
    pull("a redirection to a file", 1, "rotocol", f"{url}/astray", "--sha256", GOOD)
    pull("without a digest, with a warning", 0, "which was not verified(.|\n)*without a SHA-256", f"{url}/net.onnx", "--unverified", "-n", "loose")
    pull("a page about the file", 1, "received a web page, not a network", f"{url}/page.onnx", "--unverified")
    check("the page is not kept", not list(pull.folder.glob("page*")))
    pull.clear()


def broken(pull, url):
    Server.cut_after = 100_000
    pull("cut", 1, "is kept, run the same command again", f"{url}/net.onnx", "--sha256", GOOD)
    pull.holds("cut leaves a part", "net.onnx.part")
    size = (pull.folder / "net.onnx.part").stat().st_size
    check("of what came", 0 < size <= 100_000, size)
    pull("gone on with", 0, GOOD, f"{url}/net.onnx", "--sha256", GOOD)
    check("from there", Server.asked == [("/net.onnx", f"bytes={size}-")], Server.asked)
    check("whole in the end", (pull.folder / "net.onnx").read_bytes() == DATA)
    pull.clear()
    for name, part, url_of in (("complete", DATA, "net"), ("of another file", b"x" * 1000, "net"), ("too long", DATA + b"x", "net"), ("and no ranges", DATA[:1000], "plain")):
        (pull.folder / "net.onnx.part").write_bytes(part)
        pull(f"a part that is {name}", 0, GOOD, f"{url}/{url_of}.onnx", "--sha256", GOOD, "--name", "net")
        pull.holds(f"a part that is {name}: done", "net.onnx", "net.onnx.sha256")
        pull.clear()
    pull("wrong digest", 1, "wrong file: its SHA-256", f"{url}/other.onnx", "--sha256", GOOD)
    pull.holds("wrong digest leaves nothing")
    pull("404", 1, "not found", f"{url}/none.onnx", "--sha256", GOOD)
    pull.holds("404 leaves nothing")
    pull("nobody there", 1, "onnect", "http://127.0.0.1:1/net.onnx", "--sha256", GOOD)
    pull("another protocol", 1, "rotocol", "ftp://127.0.0.1/net.onnx", "--sha256", GOOD)
    for bad in ("../net", "a/b", "..\\net", ".hidden", "a\nb", "x" * 300):
        pull(f"the name {bad[:20]!r}", 1, "invalid model name|more than", f"{url}/net.onnx", "--sha256", GOOD, "--name", bad)
    pull("a URL without a name", 1, "use --name", f"{url}/", "--sha256", GOOD)
    check("no such name is asked for", not Server.asked, Server.asked)
    pull.holds("bad names leave nothing")
    check("nor beside", sorted(p.name for p in pull.folder.parent.iterdir()) == ["models"])


def by_name(pull, url):
    entry = {"name": "net", "url": f"{url}/net.onnx", "sha256": GOOD, "size": len(DATA), "licence": "CC0", "manifest": f"{url}/net.yml", "manifest_sha256": hashlib.sha256(MANIFEST).hexdigest()}
    catalogue = pull.folder / "catalogue.json"
    pull("no catalogue", 1, "no catalogue", "net")
    catalogue.write_text(json.dumps({"models": [entry, {**entry, "name": "long", "size": 5}, {**entry, "name": "../up"}, {"name": "bare", "url": f"{url}/net.onnx"}]}))
    pull("by name", 0, "licence of net: CC0", "net")
    pull.holds("with its manifest", "catalogue.json", "net.onnx", "net.onnx.sha256", "net.yml")
    pull("an unknown name", 1, "it has net, long, ", "nix")
    pull("another size", 1, "larger than the expected 5 bytes", "long")
    pull("a name that leads out", 1, "invalid model name", "../up")
    pull("no digest in the catalogue", 1, "no SHA-256 is known", "bare")
    pull("no digest in the catalogue but here", 0, GOOD, "bare", "--sha256", GOOD)
    yaml = pull.folder.parent / "mine.yml"
    yaml.write_text(f"models:\n  - name: mine\n    url: {url}/net.onnx\n    sha256: {GOOD}\n")
    pull("a catalogue elsewhere", 0, GOOD, "mine", "--catalogue", str(yaml))
    yaml.write_text("models:\n  - name: mine\n")
    pull("a catalogue with a mistake", 1, "mine.yml: model 1: mine: no url", "mine", "--catalogue", str(yaml))


def main():
    gale = sys.argv[1]
    os.environ.pop("GALE_CATALOGUE", None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as temporary, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        probe = subprocess.run([gale, "models", "pull", f"file://{temporary}/none.onnx", "--unverified", "--models", f"{temporary}/probe"], capture_output=True, text=True, check=False)
        if "needs libcurl" in probe.stderr or "cannot download" in probe.stderr:
            print(f"SKIP gale models pull: {probe.stderr.strip()}\n0 passed, 0 failed, 1 skipped")
            return 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = pathlib.Path(temporary) / "root"
        root.mkdir()
        pull, url = Pull(gale, root), f"http://127.0.0.1:{server.server_address[1]}"
        for part in (whole, broken, by_name):
            part(pull, url)
        server.shutdown()
    return finish()


sys.exit(main())
