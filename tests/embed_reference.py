#!/usr/bin/env python3
"""Vectors of gale embed beside the reference's: all-MiniLM-L6-v2 in ONNX Runtime with Hugging Face's tokenizer, and random encoders of other families in
sentence-transformers.

usage: embed_reference.py GALE SOURCE BUILD [TEXTS]

The second part needs torch, transformers and sentence-transformers, which are large: it runs where GALE_TEST_PYTHON names an interpreter that has them.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from counted import check, finish, skip  # noqa: E402
import private_python  # noqa: E402
import random_encoders  # noqa: E402

LEAST = {"fp32": 0.99999, "fp16": 0.9999, "bf16": 0.9999}
ODD = ["", "  spaces around  ", "x" * 500, "word " * 300, "emoji \N{GRINNING FACE} na\u00efve cafe\u0301", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\t"]


def embed(gale, model, texts, folder, *more):
    import numpy as np
    (folder / "texts.txt").write_text("".join(t + "\n" for t in texts), encoding="utf8")
    subprocess.run([gale, "embed", str(folder / "texts.txt"), "-m", str(model), "-o", str(folder / "out.npy"), "-p", "cpu", *more], check=True, capture_output=True, timeout=1200)
    return np.load(folder / "out.npy")


def compare(name, made, wanted, least):
    import numpy as np
    wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    cosines = (made * wanted).sum(1)
    print(f"{name}: cosine at least {cosines.min():.7f}, median {np.median(cosines):.7f}, {len(cosines)} texts")
    check(name, made.shape == wanted.shape and cosines.min() >= least, f"{cosines.min()} at text {cosines.argmin()}, {least} is wanted")


def minilm(gale, data, texts, folder):
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer
    network = data / "models/all-MiniLM-L6-v2"
    tokenizer = Tokenizer.from_file(str(network / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    session = onnxruntime.InferenceSession(str(network / "model.onnx"), providers=["CPUExecutionProvider"])
    wanted = []
    for text in texts:  # one at a time, so without padding
        ids = np.array([tokenizer.encode(text).ids])
        wanted.append(session.run(["last_hidden_state"], {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0})[0][0].mean(0))
    for precision, least in LEAST.items():
        some = len(texts) if precision == "fp32" else min(len(texts), 200)
        compare(f"MiniLM, {precision}", embed(gale, network, texts[:some], folder, "--precision", precision), np.array(wanted[:some]), least)
    compare("MiniLM, packed", embed(gale, network, texts, folder, "--pack", "on"), np.array(wanted), LEAST["fp32"])


def families(gale, texts, folder):
    missing = [name for name in ("torch", "transformers", "sentence_transformers") if importlib.util.find_spec(name) is None]
    if missing:
        return skip("sentence-transformers", f"{', '.join(missing)} not installed; GALE_TEST_PYTHON names an interpreter that has them")
    from sentence_transformers import SentenceTransformer
    for name, encoder in random_encoders.make(folder, texts).items():
        reference = SentenceTransformer(str(encoder), device="cpu").encode(texts, batch_size=16, convert_to_numpy=True, show_progress_bar=False)
        for packing in ("off", "on"):
            compare(f"{name}, packing {packing}", embed(gale, encoder, texts, folder, "--pack", packing), reference, LEAST["fp32"])
    return None


def work(gale, data, count):
    lines = (data / "text/sentences.txt").read_text(encoding="utf8").split("\n")[:count]
    with tempfile.TemporaryDirectory() as folder:
        minilm(gale, data, lines + ODD, pathlib.Path(folder))
        families(gale, lines + ODD, pathlib.Path(folder))
    return finish()


def main():
    gale, source, build = sys.argv[1:4]
    data = pathlib.Path(os.environ.get("GALE_TEST_DATA", pathlib.Path(source).parent / "shared" / "data"))
    if not (data / "text/sentences.txt").exists() or not (data / "models/all-MiniLM-L6-v2/model.onnx").exists():
        return private_python.skip("vectors", "shared/data is not beside the project")
    if os.environ.get("GALE_TEST_INSIDE"):
        return work(gale, data, int(sys.argv[4]) if len(sys.argv) > 4 else 300)
    python, why = private_python.find(build, ["numpy", "onnxruntime", "tokenizers"])
    if not python:
        return private_python.skip("vectors", why)
    return subprocess.run([str(python), *sys.argv], env={**os.environ, "GALE_TEST_INSIDE": "1"}, check=False).returncode


sys.exit(main())
