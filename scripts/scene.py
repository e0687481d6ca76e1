#!/usr/bin/env python3
"""scene.py OUTPUT.png [WIDTH [HEIGHT [SAMPLES]]]: a small picture of our own making, traced by rays: balls on tiles before a wall of bricks.

It has what photographs have and enlarging loses: slanted edges, fine lines, reflections, texture that gets finer with distance.
Needs nothing but Python. docs/figures/scene.png is `scripts/scene.py docs/figures/scene.png 280 188 4`."""
import math
import struct
import sys
import zlib

LIGHT = (-0.46, 0.69, -0.56)
BALLS = (  # centre, radius, kind
    ((-1.15, 0.75, 3.1), 0.75, "mirror"), ((0.75, 0.62, 2.5), 0.62, "stripes"), ((1.95, 0.95, 4.2), 0.95, "dots"), ((-0.2, 0.28, 1.8), 0.28, "glaze"))


def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def along(a, t, b):
    return (a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2])


def unit(a):
    return along((0, 0, 0), 1 / math.sqrt(dot(a, a)), a)


def mix(a, b, t):
    return along(a, t, (b[0] - a[0], b[1] - a[1], b[2] - a[2]))


def noise(x, y):
    n = (int(math.floor(x)) * 374761393 + int(math.floor(y)) * 668265263) & 0xffffffff
    n = (n ^ n >> 13) * 1274126177 & 0xffffffff
    return (n ^ n >> 16) / 0xffffffff


def hit(origin, way):
    """The nearest thing: (distance, kind, normal, ball)."""
    best = (1e9, "sky", None, None)
    if way[1] < -1e-6:
        best = (-origin[1] / way[1], "floor", (0, 1, 0), None)
    if way[2] > 1e-6 and (t := (6 - origin[2]) / way[2]) < best[0] and t > 1e-4 and origin[1] + t * way[1] < 2.6:
        best = (t, "wall", (0, 0, -1), None)
    for ball in BALLS:
        centre, radius, kind = ball
        to = along(origin, -1, centre)
        b = dot(to, way)
        d = b * b - dot(to, to) + radius * radius
        if d > 0 and 1e-4 < (t := -b - math.sqrt(d)) < best[0]:
            best = (t, kind, along((0, 0, 0), 1 / radius, along(along(origin, t, way), -1, centre)), ball)
    return best


def bricks(x, y):
    row = math.floor(y / 0.2)
    x += 0.23 * (row % 2)
    if y / 0.2 - row < 0.12 or x / 0.46 % 1 < 0.055:
        return (0.74, 0.71, 0.66)
    return mix((0.55, 0.24, 0.16), (0.74, 0.42, 0.28), noise(x / 0.46, row) * 0.8 + 0.2 * noise(x * 60, y * 60))


def surface(kind, point, normal):
    if kind == "floor":
        x, z = point[0] * 0.8 + point[2] * 0.6, point[2] * 0.8 - point[0] * 0.6
        light = (math.floor(x / 0.5) + math.floor(z / 0.5)) % 2
        return mix((0.16, 0.2, 0.25), (0.86, 0.84, 0.78), light)
    if kind == "wall":
        return bricks(point[0] + 10, point[1])
    if kind == "stripes":
        tilt = 0.8 * normal[1] + 0.6 * normal[0]
        return (0.93, 0.9, 0.82) if math.sin(26 * math.asin(max(-1, min(1, tilt)))) > 0 else (0.1, 0.3, 0.55)
    if kind == "dots":
        u, v = math.atan2(normal[0], -normal[2]) * 5, math.asin(normal[1]) * 6
        u += 0.5 * (math.floor(v) % 2)
        return (0.95, 0.93, 0.9) if (u % 1 - 0.5) ** 2 + (v % 1 - 0.5) ** 2 < 0.09 else (0.78, 0.16, 0.12)
    return (0.2, 0.55, 0.3) if kind == "glaze" else (0.9, 0.9, 0.92)


SHINE = {"mirror": 0.8, "glaze": 0.25, "stripes": 0.06, "dots": 0.12, "floor": 0.12}


def colour(origin, way, depth=0):
    t, kind, normal, _ = hit(origin, way)
    if kind == "sky":
        return mix((0.85, 0.88, 0.9), (0.3, 0.52, 0.82), max(0, min(1, 1.6 * way[1])))
    point = along(origin, t, way)
    lit = max(0, dot(normal, LIGHT))
    if lit and hit(along(point, 1e-3, normal), LIGHT)[1] not in ("sky", "wall"):
        lit = 0
    near = 1 if kind != "floor" else min(1, 0.55 + 0.5 * min((math.dist(point, b[0]) - b[1]) / b[1] + 0.4 for b in BALLS))
    seen = along((0, 0, 0), (0.3 + 0.8 * lit) * near, surface(kind, point, normal))
    if (shine := SHINE.get(kind)) and depth < 2:
        back = along(way, -2 * dot(way, normal), normal)
        seen = mix(seen, colour(along(point, 1e-3, normal), back, depth + 1), shine + (1 - shine) * (1 + dot(way, normal)) ** 5 * 0.6)
        if kind != "floor" and lit:
            seen = along(seen, max(0, dot(back, LIGHT)) ** 60, (0.9, 0.9, 0.85))
    return seen


def render(width, height, samples):
    """Bytes of R, G, B; every pixel is the mean of samples x samples rays."""
    pixels, eye = bytearray(), (0, 1.25, -1.6)
    for y in range(height):
        for x in range(width):
            total = (0, 0, 0)
            for s in range(samples * samples):
                u, v = x + (s % samples + 0.5) / samples, y + (s // samples + 0.5) / samples
                total = along(total, 1, tuple(min(1, c) for c in colour(eye, unit(((u - width / 2) / height, 0.42 - v / height, 1.05)))))
            pixels += bytes(round(255 * (c / samples ** 2) ** (1 / 1.8)) for c in total)
    return bytes(pixels)


def write_png(path, width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def line(y):  # differences to the left or to the row above, whichever are smaller
        row = pixels[3 * width * y:3 * width * (y + 1)]
        above = pixels[3 * width * (y - 1):3 * width * y] if y else bytes(3 * width)
        left = bytes(3) + row[:-3]
        tries = [bytes([kind]) + bytes(a - b & 255 for a, b in zip(row, other)) for kind, other in ((1, left), (2, above))]
        return min(tries, key=lambda t: sum(min(b, 256 - b) for b in t))

    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)))
        out.write(chunk(b"IDAT", zlib.compress(b"".join(map(line, range(height))), 9)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    size = [int(a) for a in sys.argv[2:5]] + [280, 188, 4][len(sys.argv) - 2:]
    write_png(sys.argv[1], size[0], size[1], render(*size))
