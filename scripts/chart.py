#!/usr/bin/env python3
"""Draws a bar chart (SVG) from results of `gale bench kernels --json`: which share of the device's own copy rate each work reaches.

    scripts/chart.py OUT.svg TITLE LABEL=FILE.json [LABEL=FILE.json ...]
"""
import html
import json
import sys

COLOURS = ["#2f6f9f", "#c8722c", "#5a8f3c", "#8a5aa0"]
BAR, GAP, LEFT, WIDTH = 13, 14, 210, 470


def main():
    out, title, sets = sys.argv[1], sys.argv[2], [a.split("=", 1) for a in sys.argv[3:]]
    data = [(label, {r["name"]: r for r in json.load(open(path))}) for label, path in sets]
    names = [n for n in data[0][1] if n != "copy" and "kernels" not in n and "matmul" not in n and all(n in rows for _, rows in data)]
    height = 70 + len(names) * (BAR * len(data) + GAP)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 90}" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#ffffff"/>',
           f'<text x="12" y="22" font-size="15" font-weight="bold">{html.escape(title)}</text>']
    for i, (label, _) in enumerate(data):
        svg.append(f'<rect x="{LEFT + i * 110}" y="34" width="11" height="11" fill="{COLOURS[i]}"/><text x="{LEFT + 16 + i * 110}" y="44">{html.escape(label)}</text>')
    full = LEFT + WIDTH * 100 / 110
    svg.append(f'<line x1="{full}" y1="54" x2="{full}" y2="{height - 8}" stroke="#999" stroke-dasharray="3 3"/><text x="{full}" y="52" text-anchor="middle" fill="#666">copy</text>')
    y = 62
    for name in names:
        svg.append(f'<text x="{LEFT - 8}" y="{y + BAR * len(data) / 2 + 4}" text-anchor="end">{html.escape(name)}</text>')
        for i, (_, rows) in enumerate(data):
            share = 100 * rows[name]["share_of_copy"]
            w = WIDTH * min(share, 110) / 110
            svg.append(f'<rect x="{LEFT}" y="{y}" width="{w:.1f}" height="{BAR - 2}" fill="{COLOURS[i]}"/>'
                       f'<text x="{LEFT + w + 5:.1f}" y="{y + BAR - 3}" font-size="10">{share:.0f} %  {rows[name]["median_us"]:.0f} us</text>')
            y += BAR
        y += GAP
    svg.append("</svg>\n")
    open(out, "w").write("\n".join(svg))


main()
