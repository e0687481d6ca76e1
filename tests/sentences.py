#!/usr/bin/env python3
"""all-MiniLM-L6-v2 in 8 bit: calibrated on some sentences, its vectors of others are held to those in single precision.

usage: sentences.py GALE SOURCE BUILD [SAMPLES [OTHERS]]
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import private_python  # noqa: E402

LEAST, MEDIAN = 0.985, 0.996  # what 64 samples give at least, for any choice of sentences
NAMES = ("input_ids", "attention_mask", "token_type_ids")
FIRST, UNKNOWN, LAST = 101, 100, 102


def tokens(sentence, vocabulary):
    """WordPiece: the longest piece that is known, then the next."""
    plain = "".join(c for c in unicodedata.normalize("NFD", sentence.lower()) if unicodedata.category(c) != "Mn")
    made = [FIRST]
    for word in re.findall(r"\w+|[^\w\s]", plain):
        at, pieces = 0, []
        while at < len(word):
            end = next((e for e in range(len(word), at, -1) if ("##" if at else "") + word[at:e] in vocabulary), None)
            if end is None:
                pieces = [UNKNOWN]
                break
            pieces.append(vocabulary[("##" if at else "") + word[at:end]])
            at = end
        made += pieces
    return made[:126] + [LAST]


def save(path, lists):
    import numpy as np
    ids = np.zeros((len(lists), max(map(len, lists))), np.int64)
    mask = np.zeros_like(ids)
    for row, items in enumerate(lists):
        ids[row, :len(items)], mask[row, :len(items)] = items, 1
    np.savez(path, **dict(zip(NAMES, (ids, mask, np.zeros_like(ids)))))
    return mask


def vectors(gale, model, inputs, mask, result):
    import numpy as np
    given = [word for name in NAMES for word in ("--input", f"{name}={inputs}")]
    subprocess.run([gale, "run", str(model), "--provider", "cpu", *given, "--output", f"last_hidden_state={result}"], check=True, capture_output=True, timeout=600)
    pooled = (np.load(result) * mask[..., None]).sum(1)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def work(gale, data, samples, others):
    import numpy as np
    network = data / "models/all-MiniLM-L6-v2"
    vocabulary = {line: i for i, line in enumerate((network / "vocab.txt").read_text(encoding="utf8").split("\n"))}
    lines = [line.strip() for line in (data / "text/sentences.txt").open(encoding="utf8") if line.strip()]
    chosen = [tokens(line, vocabulary) for line in random.Random(1).sample(lines, samples + others)]
    with tempfile.TemporaryDirectory() as folder:
        folder, cosines = pathlib.Path(folder), []
        arguments = []
        for i, sentence in enumerate(chosen[:samples]):
            save(folder / f"{i}.npz", [sentence])
            arguments += ["--calibrate", str(folder / f"{i}.npz")]
        subprocess.run([gale, "convert", str(network / "model.onnx"), "-o", str(folder / "int8.onnx"), "--opset", "newest", "--fold", "--precision", "int8", *arguments], check=True,
                       capture_output=True, timeout=600)
        rest = sorted(chosen[samples:], key=len)
        for at in range(0, len(rest), 20):
            mask = save(folder / "some.npz", rest[at:at + 20])
            pair = [vectors(gale, model, folder / "some.npz", mask, folder / "made.npy") for model in (network / "model.onnx", folder / "int8.onnx")]
            cosines += list((pair[0] * pair[1]).sum(1))
    least, low, middle = min(cosines), np.quantile(cosines, 0.05), np.median(cosines)
    print(f"cosine: least {least:.4f}, 5 % lie below {low:.4f}, median {middle:.4f} ({samples} samples, {len(cosines)} others)")
    good = least >= LEAST and middle >= MEDIAN
    if not good:
        print(f"FAIL sentences in 8 bit: {LEAST} and {MEDIAN} are wanted")
    print(f"{int(good)} passed, {int(not good)} failed, 0 skipped")
    return int(not good)


def main():
    gale, source, build = sys.argv[1:4]
    counts = [int(word) for word in sys.argv[4:6]]
    samples, others = counts + [64, 60][len(counts):]
    data = pathlib.Path(os.environ.get("GALE_TEST_DATA", pathlib.Path(source).parent / "shared" / "data"))
    if not (data / "text/sentences.txt").exists() or not (data / "models/all-MiniLM-L6-v2/model.onnx").exists():
        return private_python.skip("sentences in 8 bit", "shared/data is not beside the project")
    if os.environ.get("GALE_TEST_INSIDE"):
        return work(gale, data, samples, others)
    python, why = private_python.find(build, ["numpy"])
    if not python:
        return private_python.skip("sentences in 8 bit", why)
    return subprocess.run([str(python), *sys.argv], env={**os.environ, "GALE_TEST_INSIDE": "1"}, check=False).returncode


sys.exit(main())
