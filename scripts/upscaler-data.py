#!/usr/bin/env python3
"""Makes the data files from which the embedded networks are trained.

For scripts/train-upscaler.py: unpacks photographs from Debian packages, scales them down (which takes away
JPEG blocks and sensor noise, and leaves pixels as sharp as they can be), keeps
the crops with most detail, and writes them losslessly packed. Held-out
photographs go in whole, at 896 pixels wide, and never into the crops.
For scripts/train-cleaner.py (--photographs): more photographs, whole, at most 0.8 Mpixels each, as JPEG files in a zip file.
Needs numpy and Pillow. docs/upscaler-training.md lists packages and licences.
"""
import argparse
import hashlib
import io
import lzma
import math
import pathlib
import subprocess
import sys
import zipfile

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
# For the cleaning network, from Ubuntu 24.04: path, version, and of each package the end of its name and the start of its SHA-256.
UBUNTU = "http://archive.ubuntu.com/ubuntu/pool/universe/"
FAMILIES = (
    ("b/budgie-wallpapers/budgie-wallpapers-", "24.04", """artful fcbda12be6120dbc bionic 1e90590bf9a9d253
        cosmic 0efef8b3897aa883 disco 5b907cc64d35bf6b eoan dd257cc4a32c4985 focal f7df963561cf38b4 groovy 8ece4317982ecc7d
        hirsute c2b706ce3b83b8ec impish 46d2b3909f1274f2 jammy 6acfe545def249ff kinetic 73294d1c3023702f lunar 5a4174407666b7bd
        mantic 4920a9bf424e4428 noble ccc170788a1552c1 xenial 9d57bea94489d9c4 yakkety 97ead47411fc0213 zesty 053b5a2aee58208f"""),
    ("u/ubuntu-wallpapers/ubuntu-wallpapers-", "24.04.2", """artful d5cd00d651cb8b94 bionic 41c161c52d59a307
        cosmic 3507a1a1aa9f95f5 disco 58a4101c73764374 eoan 50226d00de91e67b karmic 9c3753798ed94910 lucid 60d9eb9106db3625
        natty b847e9ae336c052e oneiric a093acbd96e5a6a5 saucy b073e529ed569233 utopic 0434146b5dbbe5e1 wily a9a0c7588f3b7809
        xenial 91dd950ae93ce323 yakkety d00fcdc9326cbe11 zesty 7b7ade52a3bedb3c"""),
    ("u/ubuntu-mate-artwork/ubuntu-mate-wallpapers-", "24.04.0", "photos 66e1183c767e4c20"),
    ("x/xubuntu-community-artwork/xubuntu-community-wallpapers-", "22.04.0",
     "bionic f02ca97910121571 focal 02a97d11a78c81cc xenial 35eb5566f61fbf15"),
)
# Drawings and renderings, a photograph that is there twice, and three that resemble a held-out one.
LEFT_OUT = """80s_Disco_Dingo_Simulation Autumn Blue_by_dariuskws BytheWater Elephants Endless-shapes Espaciolandia Infinite-Sea
    Saucy_Salamander Stripes Symbolics TheRainbowisDead This_Is_Bionic_Beaver Ubuntu_gel ai_generated analogpattern apo-frax
    there_is_something_human touch_de_vert Sunset_by_Kacperu Spices_in_Athens Frozen_sunset_on_the_lake ladybug
    Mr._Tau""".split()
DETAIL_LEAST, BYTES_MOST = 4.0, 320_000  # of a packed photograph: nearly flat or mostly noise teaches little


def unpack(folder, packages):
    """Downloads and unpacks the packages {name: (address, start of the SHA-256)} that FOLDER does not hold yet."""
    for name, (address, digest) in packages.items():
        target = folder / name
        if target.exists():
            continue
        deb = folder / (name + ".deb")
        subprocess.run(["curl", "-fsSL", "-o", deb, address], check=True)
        if not hashlib.sha256(deb.read_bytes()).hexdigest().startswith(digest):
            sys.exit(f"upscaler-data: {deb} is not the file that was trained on (SHA-256 differs); delete it and try again")
        subprocess.run(["dpkg-deb", "-x", deb, target], check=True)
        deb.unlink()


def more_packages():
    for path, version, ends in FAMILIES:
        words = ends.split()
        for end, digest in zip(words[::2], words[1::2]):
            yield (path + end).split("/")[-1], (f"{UBUNTU}{path}{end}_{version}_all.deb", digest)


def photographs(folder):
    """(name, JPEG file) of every photograph of all packages that is large, detailed and not held out."""
    held = [name for names in HELD_OUT.values() for name in names.split()]
    for path in sorted(folder.glob("*/usr/**/*.jpg")):
        plasma = "contents" in path.parts
        name = path.parts[-4] if plasma else path.stem
        if path.is_symlink() or name in held or (plasma and path.stem != "2560x1600") or any(map(name.startswith, LEFT_OUT)):
            continue
        picture = Image.open(path)
        if picture.width < 1500 or picture.height < 900 or picture.width * picture.height < 2.2e6:
            continue
        factor = math.sqrt(1120 * 700 / (picture.width * picture.height))
        size = round(picture.width * factor), round(picture.height * factor)
        picture.draft("RGB", size)
        file = io.BytesIO()
        picture.convert("RGB").resize(size, Image.LANCZOS).save(file, "JPEG", quality=88, subsampling=0)
        pixels = np.asarray(Image.open(file).convert("L"))[..., None]
        if detail(pixels) >= DETAIL_LEAST and len(file.getvalue()) < BYTES_MOST:
            yield f"{path.relative_to(folder).parts[0]}~{name}.jpg", file.getvalue()


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
    parser.add_argument("--photographs", type=pathlib.Path, metavar="ZIP", help="make the file for train-cleaner.py, and stop")
    parser.add_argument("--crops", type=int, default=20, help="crops taken from each photograph")
    parser.add_argument("--floor", type=float, default=2.5, help="crops with less detail than this are left out")
    options = parser.parse_args()
    options.packages.mkdir(parents=True, exist_ok=True)
    unpack(options.packages, {name: (DEBIAN + file, digest) for name, (file, digest) in PACKAGES.items()})
    if options.photographs:
        unpack(options.packages, dict(more_packages()))
        with zipfile.ZipFile(options.photographs, "w") as out:
            for name, data in photographs(options.packages):
                out.writestr(name, data)
        return print(f"{len(out.namelist())} photographs, {options.photographs.stat().st_size / 1e6:.1f} MB")
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
