#!/usr/bin/env python3
"""demo-page.py GALE PICTURE OUTPUT.html [--quick]: enlarges the picture and writes a page that needs nothing else.

The page has a slider between the picture as a browser enlarges it and as `gale upscale` does, the time of the embedded network on every
device (`gale bench`), and what `gale devices` says. --quick times the CPU alone. Needs nothing but Python."""
import base64
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent / "src/jobs/upscale/zoom2x.onnx"
gale, picture, output = sys.argv[1:4]
quick = "--quick" in sys.argv[4:]


def run(*command, seconds=600):
    """Standard output; what went wrong ends the script."""
    done = subprocess.run([gale, *map(str, command)], capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        sys.exit(f"gale {' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def enlarge():
    """The large picture and the line that says how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        large = pathlib.Path(folder) / "large.png"
        said = run("upscale", picture, "-o", large).splitlines()
        return large.read_bytes(), re.sub(r"^.*?: (?=\d+ x)|(?<= ->) \S+:|, \d+ tiles", "", said[0])


def measure(device):
    """Pixels a second that go into the network, or a text that says why there is no number."""
    software = "software" in device["features"]
    side = 24 if software else 128 if device["backend"] == "cpu" else 512
    command = [gale, "bench", MODEL, "--shape", f"x=1x3x{side}x{side}", "--repeats", "3" if software else "9", "--json",
               "--provider", device["backend"], "--device", str(device["index"])]
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, env={**os.environ, "GALE_WATCHDOG_S": "100"})
    except subprocess.TimeoutExpired:
        return "more than two minutes"
    if done.returncode:
        return (done.stderr.strip() or "no answer").splitlines()[-1]
    return side * side / json.loads(done.stdout)["median_ms"] * 1e3


def bars(devices):
    results = [(f"{d['backend']}:{d['index']}", d["name"] + (" (runs on the CPU)" if "software" in d["features"] else ""), measure(d)) for d in devices]
    most = max([r for _, _, r in results if isinstance(r, float)], default=1)
    for place, name, result in results:
        number = isinstance(result, float)
        print(f"{place}: {result:,.0f} pixels/s" if number else f"{place}: {result}", flush=True)
        share = 100 * result / most if number else 0
        text = f"{result:,.0f} pixels/s" if number else html.escape(result)
        yield f'<span>{place}<small>{html.escape(name)}</small></span><i style="width:{share:.2f}%"></i><span>{text}</span>'


def data_uri(content):
    kind = "jpeg" if content[:2] == b"\xff\xd8" else "png"
    return f"data:image/{kind};base64," + base64.b64encode(content).decode()


def page(large, took, rows, report):
    small = pathlib.Path(picture).read_bytes()
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>gale: one picture, twice as large</title>
<style>
{(HERE / "demo.css").read_text()}</style></head>
<body>
<h1>gale upscale {html.escape(pathlib.Path(picture).name)}</h1>
<p>{html.escape(took)}, with the network that the program carries inside. Drag.</p>
<div id="slider"><img src="{data_uri(small)}" alt="the small picture, enlarged by the browser"><img class="after" src="{data_uri(large)}" alt="enlarged by gale">
<span style="left:.6rem">before: the browser's own</span><span style="right:.6rem">after: gale</span><div class="handle"></div></div>
<input id="place" type="range" min="0" max="100" step="0.1" value="50" aria-label="before and after">
<h2>The same network on each device</h2>
<p>Pixels of the small picture a second, the median of <code>gale bench zoom2x.onnx</code>. Longer is faster. A driver that runs on the CPU gets smaller pictures, so that it comes to an end.</p>
<div class="bars">
{rows}
</div>
<h2>gale devices</h2>
<pre>{html.escape(report.strip())}</pre>
<script>
{(HERE / "demo.js").read_text()}</script>
</body></html>
"""


def main():
    large, took = enlarge()
    print(took, flush=True)
    devices = [d for d in json.loads(run("devices", "--json"))["devices"] if d["backend"] != "null" and (d["backend"] == "cpu" or not quick)]
    text = page(large, took, "\n".join(bars(devices)), run("devices"))
    pathlib.Path(output).write_text(text)
    print(f"{output}: {len(text) // 1024} KiB; open it in a browser")


main()
