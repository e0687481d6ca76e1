#!/usr/bin/env python3
"""The page that scripts/demo writes, opened in a real browser: both pictures are shown, and nothing is fetched.

usage: demo.py PROGRAM SOURCE_ROOT [FOLDER_FOR_THE_SCREENSHOT]"""
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

from counted import check, finish, skip

gale, root = sys.argv[1], pathlib.Path(sys.argv[2])


def browse(browser, page, folder, *options):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--window-size=1000,1100",
               "--virtual-time-budget=5000", f"--user-data-dir={folder}/profile", *options, f"file://{page}"]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=240)


def colours_of(path):
    """How many colours a screenshot has, of rows as they are stored: a blank page has few."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    return len(set(struct.iter_unpack("4s", zlib.decompress(packed)[:1 << 20 & ~3])))


def open_in_browser(page, folder):
    names = map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))
    browser = next((b for b in names if b and subprocess.run([b, "--version"], capture_output=True).returncode == 0), None)
    if not browser:
        skip("the page in a browser", "there is no chromium; `apt install chromium` brings it")
        return
    dom = browse(browser, page, folder, "--dump-dom").stdout
    shown = re.search(r'data-shown="(\d+) (\d+)"', dom)
    check("both pictures are shown", shown and int(shown[2]) == 2 * int(shown[1]), "the browser says " + (shown[0] if shown else dom[-300:] or "nothing"))
    check("the slider stands in the middle", re.search(r'id="slider" style="--at: 50%', dom), "its place was not set by the script")
    shot = pathlib.Path(folder) / "demo.png"
    browse(browser, page, folder, f"--screenshot={shot}")
    check("a screenshot", shot.exists() and colours_of(shot) > 1000, "there is none, or it is blank")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = sys.argv[3] if len(sys.argv) > 3 else scratch
        page = pathlib.Path(folder) / "demo.html"
        command = [sys.executable, root / "scripts/demo-page.py", gale, root / "docs/figures/scene.png", page, "--quick"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
        if "this build does not include it" in done.stderr:
            skip("the page", done.stderr.strip())
        else:
            check("the page is written", done.returncode == 0 and page.exists(), done.stderr.strip())
            if page.exists():
                text = page.read_text()
                check("nothing is fetched", not re.search(r'(src|href)\s*=\s*"(?!data:)|url\(|@import', text), "a resource from outside")
                check("devices and times are there", "cpu:0" in text and "pixels/s" in text, "no bar for the CPU")
                open_in_browser(page, folder)
    sys.exit(finish())


main()
