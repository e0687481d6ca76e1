#!/usr/bin/env python3
"""Makes the data file from which scripts/train-upscaler.py trains the embedded 2x network.

Unpacks photographs from Debian packages, scales them down (which takes away
JPEG blocks and sensor noise, and leaves pixels as sharp as they can be), keeps
the crops with most detail, and writes them losslessly packed. Held-out
photographs go in whole, at 896 pixels wide, and never into the crops.
Needs numpy and Pillow. docs/upscaler-training.md lists packages and licences.
"""
import argparse
import hashlib
import io
import lzma
import pathlib
import subprocess
import sys

import numpy as np
from PIL import Image

DEBIAN = "http://deb.debian.org/debian/pool/main/"
PACKAGES = {  # name: (file, SHA-256)
    "budgie-backgrounds": (
        "b/budgie-backgrounds/budgie-backgrounds_3.0-2_all.deb",
        "ccff65e46c3c060864ea077557fb2118e0fedd4d322ee0b344741cdea75e232d"),
    "gnome-backgrounds": (
        "g/gnome-backgrounds/gnome-backgrounds_3.38.0-1_all.deb",
        "76d8a4c52e5f346d9cb08bc8a1f58ad443d2bae211721af8a7248457c7a520e8"),
    "mate-backgrounds": (
        "m/mate-backgrounds/mate-backgrounds_1.26.0-1_all.deb",
        "7bf4c2209f34b4f61ba6d24c8b58c28b361e82e4b943aae6d42c030169af9e04"),
    "lomiri-wallpapers-16.04": (
        "l/lomiri-wallpapers/lomiri-wallpapers-16.04_20.04.0-2_all.deb",
        "a99ff6a3bfe451e4cc0682ecb3cc82e71740626d59e4845ae34a0a0e45421eab"),
    "lomiri-wallpapers-20.04": (
        "l/lomiri-wallpapers/lomiri-wallpapers-20.04_20.04.0-2_all.deb",
        "d44e89b8473aafe64a5b678f014862dc31335aaaf18665c544d985d854f1a709"),
    "plasma-workspace-wallpapers": (
        "p/plasma-workspace-wallpapers/plasma-workspace-wallpapers_5.27.5-2_all.deb",
        "32cd18b71c8c938a18b3b351f217c02ac590e323caa3cf322fbb875ce8892f8b"),
}
# Photographs only: the packages' drawings and renderings are left out.
TRAIN = {
    "budgie-backgrounds": """abstract-spiral blue-periwinkle canyon-wren extreme-desert-hike high-trestle-trail
        ocean-waves perched-osprey piazza-gae-aulenti saturnian-profile singaporean-cityscape tea-gardens""",
    "gnome-backgrounds": "Acrylic ColdWarm Dark_Ivy Icetwigs Road SeaSunset",
    "mate-backgrounds": """Aqua Blinds Dune FreshFlower Garden GreenMeadow RainDrops Storm TwoWings Wood
        YellowFlower""",
    "lomiri-wallpapers-16.04": """Bridge_by_Sander_Klootwijk Dragonfly_by_Bolly Picture_0B_by_freespace
        Picture_1A_by_freespace Wine_by_Jakkub_Mede aitzgorri_by_Aitzol_Berasategi free_by_Peter_Nerlich
        greentock_by_Peter_Nerlich life_by_Aitzol_Berasategi seeding_by_Clements_Engelhardt
        sunset_by_Aitzol_Berasategi""",
    "lomiri-wallpapers-20.04": "Kleiber_by_Lukas_Baubkus",
    "plasma-workspace-wallpapers": "BytheWater ColdRipple ColorfulCups FallenLeaf Grey OneStandsOut Path",
}
HELD_OUT = {
    "budgie-backgrounds": "casa-mila roman-colosseum oakland-zoo-otters beacon-street-sunset lake-sherburne",
    "mate-backgrounds": "LadyBird",
    "lomiri-wallpapers-16.04": "picosdeeuropa_by_Aitzol_Berasategi friends_by_Aitzol_Berasategi",
    "plasma-workspace-wallpapers": "EveningGlow",
}
CROP = 160
EVAL_WIDTH = 896


def unpack(folder):
    """Downloads and unpacks the packages that FOLDER does not hold yet."""
    for name, (file, digest) in PACKAGES.items():
        target = folder / name
        if target.exists():
            continue
        deb = folder / (name + ".deb")
        subprocess.run(["curl", "-fsSL", "-o", deb, DEBIAN + file], check=True)
        if hashlib.sha256(deb.read_bytes()).hexdigest() != digest:
            sys.exit(f"upscaler-data: {deb} is not the file that was trained on (SHA-256 differs); delete it and try again")
        subprocess.run(["dpkg-deb", "-x", deb, target], check=True)
        deb.unlink()


def find(folder, package, name):
    """A plasma wallpaper is a folder of sizes; the others are NAME.jpg."""
    for pattern in (f"**/{name}.jpg", f"**/{name}/contents/images/2560x1600.jpg"):
        for path in sorted((folder / package).glob(pattern)):
            return path
    sys.exit(f"upscaler-data: {package} has no photograph {name}; was the package unpacked whole?")


def scaled(picture, width):
    height = round(picture.height * width / picture.width)
    return np.asarray(picture.resize((width, height), Image.LANCZOS))


def detail(crop):
    """Mean step between second neighbours: what halving the crop would lose."""
    y = crop.astype(np.float32).mean(axis=2)
    return np.abs(y[2:] - 2 * y[1:-1] + y[:-2]).mean() + np.abs(y[:, 2:] - 2 * y[:, 1:-1] + y[:, :-2]).mean()


def crops_of(path, most, rng):
    """The crops of a photograph with most detail, and a few of any kind so that calm areas stay calm."""
    picture = Image.open(path).convert("RGB")
    found = []
    for width in (1920, 960):
        width = min(width, int(picture.width / 1.6))
        pixels = scaled(picture, width)
        for top in range(0, pixels.shape[0] - CROP + 1, CROP):
            for left in range(0, pixels.shape[1] - CROP + 1, CROP):
                crop = pixels[top:top + CROP, left:left + CROP]
                found.append((detail(crop), len(found), crop))
    found.sort(reverse=True)
    few = max(1, most // 8)
    rest = found[most - few:]
    return found[:most - few] + [rest[i] for i in rng.permutation(len(rest))[:few]]


def whole(path):
    pixels = scaled(Image.open(path).convert("RGB"), EVAL_WIDTH)
    return pixels[:pixels.shape[0] // 16 * 16]


def pack(pixels):
    """Planes of differences (to green, then to the left neighbour) are about half as long under xz."""
    planes = np.moveaxis(pixels, -1, -3).copy()
    planes[..., 0, :, :] -= planes[..., 1, :, :]
    planes[..., 2, :, :] -= planes[..., 1, :, :]
    planes[..., 1:] -= planes[..., :-1].copy()
    return planes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--packages", type=pathlib.Path, default="packages", help="folder to unpack packages in")
    parser.add_argument("--out", type=pathlib.Path, default="upscaler-data.npz.xz")
    parser.add_argument("--held-out", type=pathlib.Path, nargs="*", default=[],
                        help="further photographs to keep for the evaluation")
    parser.add_argument("--crops", type=int, default=20, help="crops taken from each photograph")
    parser.add_argument("--floor", type=float, default=2.5, help="crops with less detail than this are left out")
    options = parser.parse_args()
    options.packages.mkdir(parents=True, exist_ok=True)
    unpack(options.packages)
    rng = np.random.default_rng(1)
    crops, arrays = [], {}
    for package, names in TRAIN.items():
        for name in names.split():
            taken = crops_of(find(options.packages, package, name), options.crops, rng)
            kept = [crop for i, (score, _, crop) in enumerate(taken) if score > options.floor or i >= len(taken) - 2]
            print(f"{package:28} {name:36} {len(kept):3} crops, detail {taken[0][0]:.1f}", flush=True)
            crops += kept
    paths = [find(options.packages, package, name) for package, names in HELD_OUT.items() for name in names.split()]
    for path in paths + options.held_out:
        name = path.stem if "contents" not in path.parts else path.parts[-4]
        arrays["held_" + name.split("_by_")[0]] = pack(whole(path))
    arrays["train"] = pack(np.stack(crops))
    raw = io.BytesIO()
    np.savez(raw, **arrays)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 2, "lc": 4, "lp": 0, "pb": 0}]
    options.out.write_bytes(lzma.compress(raw.getvalue(), filters=filters))
    print(f"{len(crops)} crops of {CROP}x{CROP}, {len(arrays) - 1} held-out photographs, "
          f"{options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
