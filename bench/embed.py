#!/usr/bin/env python3
"""Texts to vectors with all-MiniLM-L6-v2: gale embed from file to .npy, beside ONNX Runtime with Hugging Face's tokenizer and sorted batches, in one run.

usage: embed.py GALE MODEL TEXTS [COUNT [ROUNDS]] [--provider cuda] [--precision fp16]

Rounds take turns, and medians are printed.  Wall time means little on a machine that does other work too, so processor time is given beside it; a thread that
waits by spinning counts there as well.  Needs numpy, onnxruntime and tokenizers.

With a provider other than cpu, gale runs there, and sentence-transformers (which needs torch with CUDA) takes ONNX Runtime's place; ONNX Runtime takes part where its
package has CUDA.  Without weights for torch in the folder, sentence-transformers gets random ones, which take as long, and its vectors are not compared.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
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
    def __init__(self, program, model, texts, folder, threads, provider="cpu", precision="fp32"):
        self.name = f"gale, {provider} {precision}" if provider != "cpu" else f"gale, {threads} thread{'s' * (threads > 1)}"
        self.who = resource.RUSAGE_CHILDREN
        self.out = folder / "gale.npy"
        self.command = [program, "embed", str(texts), "-m", str(model), "-o", str(self.out), "-p", provider, "--strict", "--precision", precision, "--threads", str(threads), "--json"]

    def run(self):
        done = json.loads(subprocess.run(self.command, check=True, capture_output=True).stdout)
        self.inside = done["seconds"]
        return numpy.load(self.out)


class Ort:
    def __init__(self, model, texts, threads, provider="CPUExecutionProvider"):
        self.name = f"ONNX Runtime {onnxruntime.__version__}, " + (f"{threads} thread{'s' * (threads > 1)}" if provider.startswith("CPU") else "CUDA fp32")
        self.who = resource.RUSAGE_SELF
        self.texts = texts.read_text(encoding="utf8").split("\n")[:-1]
        self.tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(512)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(model / "model.onnx"), options, providers=[provider])
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


class Sentences:
    """sentence-transformers on a GPU, in half precision, with its own sorted batches."""

    def __init__(self, model, texts, batch):
        import sentence_transformers
        import torch
        import transformers
        try:
            from sentence_transformers import models as modules
        except ImportError:  # later versions
            from sentence_transformers.sentence_transformer import modules
        self.name = f"sentence-transformers {sentence_transformers.__version__}, cuda fp16, batch {batch}"
        self.who, self.batch = resource.RUSAGE_SELF, batch
        self.texts = texts.read_text(encoding="utf8").split("\n")[:-1]
        self.random = not any((model / name).exists() for name in ("model.safetensors", "pytorch_model.bin"))
        source = model
        if self.random:
            source = texts.parent / "random"
            transformers.BertModel(transformers.BertConfig.from_json_file(model / "config.json")).save_pretrained(source)
            transformers.PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"), unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]").save_pretrained(source)
        word = modules.Transformer(str(source), max_seq_length=256)
        self.model = sentence_transformers.SentenceTransformer(modules=[word, modules.Pooling(json.loads((model / "config.json").read_text())["hidden_size"]), modules.Normalize()], device="cuda").half()
        self.model.encode(self.texts[:1000], batch_size=batch)
        torch.cuda.synchronize()

    def run(self):
        return self.model.encode(self.texts, batch_size=self.batch, convert_to_numpy=True, show_progress_bar=False)


def sides_of(given, texts, folder):
    cores = len(os.sched_getaffinity(0))
    if given.provider == "cpu":
        return [side for threads in sorted({1, cores}) for side in (Gale(given.gale, given.model, texts, folder, threads), Ort(given.model, texts, threads))]
    sides = [Gale(given.gale, given.model, texts, folder, cores, given.provider, given.precision)]
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        sides.append(Ort(given.model, texts, cores, "CUDAExecutionProvider"))
    return sides + [Sentences(given.model, texts, batch) for batch in (256, 1024)]


def reference_of(given, texts, folder, sides, vectors):
    """Vectors to compare with: ONNX Runtime's, else gale's own on the CPU."""
    if isinstance(sides[1], Ort):
        return vectors[sides[1].name]
    some = folder / "some.txt"
    some.write_text("".join(line + "\n" for line in texts.read_text(encoding="utf8").split("\n")[:-1][:1000]), encoding="utf8")
    return Gale(given.gale, given.model, some, folder, len(os.sched_getaffinity(0))).run()


def main():
    parser = argparse.ArgumentParser()
    for name, kind in (("gale", str), ("model", pathlib.Path), ("texts", pathlib.Path)):
        parser.add_argument(name, type=kind)
    parser.add_argument("count", type=int, nargs="?", default=2000)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--provider", default="cpu")
    parser.add_argument("--precision", default="fp32")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        some = folder / "texts.txt"
        some.write_text("".join(line + "\n" for line in given.texts.read_text(encoding="utf8").split("\n")[:-1][:given.count]), encoding="utf8")
        count, sides = some.read_text(encoding="utf8").count("\n"), sides_of(given, some, folder)
        times, vectors = {side.name: [] for side in sides}, {}
        for _ in range(given.rounds):
            for side in sides:
                wall, processor, vectors[side.name] = timed(side.run, side.who)
                times[side.name].append((wall, processor))
        reference = reference_of(given, some, folder, sides, vectors)
        print(f"{count} texts, {given.rounds} rounds, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
        for side in sides:
            wall, processor = (statistics.median(p[i] for p in times[side.name]) for i in range(2))
            cosine = "" if getattr(side, "random", False) else f"  cosine at least {(vectors[side.name][:len(reference)] * reference).sum(1).min():.7f}"
            inside = f"  {count / side.inside:.0f} without program start" if hasattr(side, "inside") else ""
            print(f"{side.name:48} {count / wall:9.0f} texts/s  {1e3 * processor / count:8.4f} ms of a core each{cosine}{inside}")


main()
