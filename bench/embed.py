#!/usr/bin/env python3
"""Texts to vectors with all-MiniLM-L6-v2: gale embed from file to .npy, beside ONNX Runtime with Hugging Face's tokenizer and sorted batches, in one run.

usage: embed.py GALE MODEL TEXTS [COUNT [ROUNDS]]

Rounds take turns, and medians are printed.  Wall time means little on a machine that does other work too, so processor time is given beside it; a thread that
waits by spinning counts there as well.  Needs numpy, onnxruntime and tokenizers; with sentence_transformers installed and weights of torch in the folder it takes part.
"""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime
import tokenizers

BATCH = 64


def used(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def timed(function, who):
    processor, wall = used(who), time.time()
    result = function()
    return time.time() - wall, used(who) - processor, result


class Gale:
    def __init__(self, program, model, texts, folder, threads):
        self.name = f"gale, {threads} thread{'s' * (threads > 1)}"
        self.who = resource.RUSAGE_CHILDREN
        self.out = folder / "gale.npy"
        self.command = [program, "embed", str(texts), "-m", str(model), "-o", str(self.out), "-p", "cpu", "--threads", str(threads), "--json"]

    def run(self):
        done = json.loads(subprocess.run(self.command, check=True, capture_output=True).stdout)
        self.inside = done["seconds"]
        return numpy.load(self.out)


class Ort:
    def __init__(self, model, texts, threads):
        self.name = f"ONNX Runtime {onnxruntime.__version__}, {threads} thread{'s' * (threads > 1)}"
        self.who = resource.RUSAGE_SELF
        self.texts = texts.read_text(encoding="utf8").split("\n")[:-1]
        self.tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(512)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(model / "model.onnx"), options, providers=["CPUExecutionProvider"])
        self.takes = {i.name for i in self.session.get_inputs()}

    def run(self):
        lists = [e.ids for e in self.tokenizer.encode_batch(self.texts)]
        order = sorted(range(len(lists)), key=lambda i: len(lists[i]))
        rows = None
        for at in range(0, len(order), BATCH):
            some = order[at:at + BATCH]
            longest = max(len(lists[i]) for i in some)
            ids = numpy.array([lists[i] + [0] * (longest - len(lists[i])) for i in some], numpy.int64)
            mask = numpy.array([[1] * len(lists[i]) + [0] * (longest - len(lists[i])) for i in some], numpy.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
            hidden = self.session.run(None, {name: value for name, value in given.items() if name in self.takes})[0]
            pooled = (hidden * mask[..., None]).sum(1)
            rows = numpy.zeros((len(lists), pooled.shape[1]), numpy.float32) if rows is None else rows
            rows[some] = pooled / numpy.linalg.norm(pooled, axis=1, keepdims=True)
        return rows


def main():
    program, model, texts = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    count, rounds = [int(word) for word in sys.argv[4:6]] + [2000, 3][len(sys.argv) - 4:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        some = folder / "texts.txt"
        some.write_text("".join(line + "\n" for line in texts.read_text(encoding="utf8").split("\n")[:count]), encoding="utf8")
        cores = len(os.sched_getaffinity(0))
        sides = [side for threads in sorted({1, cores}) for side in (Gale(program, model, some, folder, threads), Ort(model, some, threads))]
        times = {side.name: [] for side in sides}
        vectors = {}
        for _ in range(rounds):
            for side in sides:
                wall, processor, vectors[side.name] = timed(side.run, side.who)
                times[side.name].append((wall, processor))
        reference = vectors[sides[1].name]
        print(f"{count} texts, {rounds} rounds, {cores} cores, load {os.getloadavg()[0]:.1f}")
        for name, pairs in times.items():
            wall, processor = (statistics.median(p[i] for p in pairs) for i in range(2))
            print(f"{name:34} {count / wall:8.0f} texts/s  {1e3 * processor / count:7.3f} ms of a core each  cosine at least {(vectors[name] * reference).sum(1).min():.7f}")


main()
