#!/usr/bin/env python3
"""`gale tokenize` beside Hugging Face's tokenizers and SentencePiece: the same ids, offsets and words, and the same text back.

usage: text_tokenizers.py GALE SOURCE BUILD [LINES]

Tokenizers of many kinds are trained here on made-up texts in many scripts; LINES (default: 16000) are encoded with each.  The tokenizer of
all-MiniLM-L6-v2 and the English sentences in shared/data are used where they lie beside the project, or where GALE_TEST_DATA says.
"""
import base64
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import private_python  # noqa: E402

BLOCKS = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x530, 0x700), (0x900, 0xD00), (0xE00, 0xF00), (0xF00, 0x10A0), (0x10A0, 0x1200), (0x1780, 0x1800),
          (0x1E00, 0x2070), (0x2070, 0x2800), (0x3000, 0x3100), (0x3100, 0x3400), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFE00), (0xFE00, 0x10000), (0x1F300, 0x1FA00),
          (0x1D400, 0x1D800), (0x20000, 0x20100), (0x10000, 0x11000), (0x1E000, 0x1F000), (0, 0x20), (0x7F, 0xA0), (0xE000, 0xE010)]
PIECES = ["[CLS]", "[MASK]", "<s>", "</s>", "<unk>", "<mask>", "<sep>", "<|endoftext|>", "'s", "'ll", "n't", "\r\n", "\t", "   ", "\u200d", "\ufe0f", "👩‍👩‍👧‍👦", "🇩🇪", "🏳️‍🌈",
          "e\u0301", "a\u0316\u0301", "\u0301", "ﬁ", "Å", "İ", "ß", "ǅ", "①", "½", "²", "ｱ", "㌀", "豈", "ﷺ", "\u1100\u1161\u11a8", "끄\u11a7", "क्षि", "ก็", "ນໍ້າ", "\u202e",
          "\u00ad", "\ufeff", "\ufffd", "▁", "Ġ", "##a", "<0x41>", "\u3000", "\u2028", "\x00", "\x85", "3.14", "日本語", "東京タワー", "한국어", "العربية", "हिन्दी", "ไทย", "Русский"]
WORDS = ("the of and a to in is you that it he was for on are with as his they at be this from I have or by one had not but what all were when we there can an your which "
         "their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its "
         "who now people my made over did down only way find use may water long little very after words called just where most know Tokenization internationalisation "
         "wienerschnitzel doooooo aaaaaaaa 12345 2,718.28 http://example.org/?q=1 C++ don't we've naïve café Größe").split()
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def run_of(rng, most):
    low, high = rng.choice(BLOCKS)
    return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(1, most)))


def text(rng):
    kind = rng.random()
    if kind < 0.25:
        return " ".join(run_of(rng, 9) for _ in range(rng.randint(1, 8)))
    if kind < 0.5:
        parts = [rng.choice([rng.choice(WORDS), rng.choice(PIECES), run_of(rng, 5)]) + rng.choice(["", " ", "  "]) for _ in range(rng.randint(1, 12))]
        return "".join(parts)
    if kind < 0.6:
        return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12)))
    if kind < 0.62:
        return rng.choice("abcXYZ1é北") * rng.randint(50, 400)
    if kind < 0.7:
        return "".join(chr(c) for c in (rng.randrange(0x110000) for _ in range(20)) if not 0xD800 <= c < 0xE000)
    line = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 25)))
    return unicodedata.normalize(rng.choice(["NFD", "NFKD", "NFC"]), line)


def make_lines(count, seed):
    rng, lines = random.Random(seed), []
    for _ in range(count):
        line = bytearray(text(rng).encode().replace(b"\n", b" "))
        for _ in range(rng.randint(1, 4) if rng.random() < 0.05 else 0):
            line.insert(rng.randrange(len(line) + 1), rng.randrange(0x80, 0x100))
        lines.append(bytes(line))
    return lines


def fields(data):
    """The fields of a protocol buffer: (number, value)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at:at + size]
        at += size


def bpe_tokenizers(train):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, processors, trainers
    alphabet = P.ByteLevel.alphabet()

    def make(size, special=(), **options):
        return trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False, **options)

    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder, t.post_processor = P.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    yield "gpt2", train(t, make(3000, ["<|endoftext|>"], initial_alphabet=alphabet))
    t = Tokenizer(models.BPE())
    t.normalizer, t.pre_tokenizer, t.decoder = N.NFC(), P.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    train(t, make(3000, ["<s>", "<pad>", "</s>", "<unk>"], initial_alphabet=alphabet))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    t.enable_truncation(24)
    yield "roberta", t
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = P.Sequence([P.Split(Regex(GPT4), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, make(3000, ["<|begin|>", "<|end|>"], initial_alphabet=alphabet))
    template = processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|end|>:1 $B:1", special_tokens=[("<|begin|>", 0), ("<|end|>", 1)])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    yield "llama3", t
    t = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=True, end_of_word_suffix="</w>"))
    t.normalizer, t.pre_tokenizer, t.decoder = N.Sequence([N.NFKC(), N.Lowercase()]), P.Whitespace(), decoders.BPEDecoder()
    yield "suffix", train(t, make(2500, ["[UNK]"], end_of_word_suffix="</w>", limit_alphabet=400))
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    t.normalizer = N.Sequence([N.NFKD(), N.StripAccents(), N.Strip()])
    t.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Digits(individual_digits=True), P.Punctuation("merged_with_previous")])
    yield "prefix", train(t, make(2500, ["[UNK]"], continuing_subword_prefix="##", limit_alphabet=300))
    t = Tokenizer(models.BPE())
    t.normalizer, t.pre_tokenizer = N.ByteLevel(), P.Split(Regex(r"\w+|[^\w\s]+"), "merged_with_next", invert=True)
    yield "bytes first", train(t, make(2000, initial_alphabet=alphabet))
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = P.Sequence([P.Split(Regex(BLOOM), "isolated"), P.Split(Regex(r"\b"), "merged_with_previous"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield "bloom", train(t, make(2000, initial_alphabet=alphabet))
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = P.UnicodeScripts()
    yield "scripts", train(t, make(2000, limit_alphabet=300))
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer, t.pre_tokenizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), P.Split("▁", "merged_with_next")
    train(t, make(3000, ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], limit_alphabet=300))
    d = json.loads(t.to_str())
    d["pre_tokenizer"], d["added_tokens"] = None, [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    d["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                     {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    yield "llama2", Tokenizer.from_str(json.dumps(d))


def other_tokenizers(train, charsmap):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, processors, trainers
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(), decoders.Metaspace()
    few = [" ".join(WORDS)] * 20 + ["日本語 ไทย हिन्दी Русский"] * 20
    t.train_from_iterator(few, trainers.UnigramTrainer(vocab_size=400, special_tokens=["<s>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    yield "unigram", t
    d = json.loads(t.to_str())
    d["pre_tokenizer"].update(split=False, prepend_scheme="first")
    d["model"]["vocab"] += [[f"<0x{b:02X}>", -20] for b in range(256)]
    d["model"]["byte_fallback"] = True
    yield "unigram, whole", Tokenizer.from_str(json.dumps(d))
    d = json.loads(t.to_str())
    d["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    yield "precompiled", Tokenizer.from_str(json.dumps(d))
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = N.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=True)
    t.pre_tokenizer = P.Sequence([P.CharDelimiterSplit(" "), P.Punctuation("contiguous")])
    yield "words", train(t, trainers.WordLevelTrainer(vocab_size=2000, special_tokens=["[UNK]"], show_progress=False))
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), decoders.WordPiece()
    train(t, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=["[UNK]", "[CLS]", "[SEP]"], limit_alphabet=400, show_progress=False))
    t.add_tokens([AddedToken("the", single_word=True, normalized=True), AddedToken("of", single_word=True, lstrip=True), AddedToken("日本", rstrip=True, lstrip=True, normalized=False)])
    t.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    t.enable_truncation(16, direction="left")
    t.enable_padding(length=20, direction="left")
    yield "wordpiece", t


class Comparison:
    def __init__(self, gale, folder, lines):
        self.gale, self.folder, self.passed, self.failed = gale, folder, 0, 0
        self.path = folder / "lines.txt"
        self.path.write_bytes(b"\n".join(lines) + b"\n")
        self.texts = [line.decode("utf-8", "replace") for line in lines]

    def run(self, *arguments, stdin=None):
        done = subprocess.run([self.gale, "tokenize", *map(str, arguments)], input=stdin, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode("utf-8", "replace").strip())
        return [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]

    def report(self, name, wrong):
        self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)
        for line in wrong[:3]:
            print(f"FAIL {name}: {line}")
        if len(wrong) > 3:
            print(f"FAIL {name}: and {len(wrong) - 3} more")

    def guard(self, name, work):
        try:
            self.report(name, work())
        except (RuntimeError, ValueError) as error:
            self.report(name, [str(error)])

    def encode(self, tokenizer, path, lines, texts):
        got, wrong = self.run(lines, "--tokenizer", path, "--json"), []
        for start in range(0, len(texts), 4000):
            for text, e, g in zip(texts[start:start + 4000], tokenizer.encode_batch(texts[start:start + 4000]), got[start:start + 4000]):
                if (e.ids, e.offsets, e.word_ids) != (g["ids"], [tuple(o) for o in g["offsets"]], g["words"]):
                    wrong.append(f"{text[:80]!r}: {g['ids'][:20]} {g['offsets'][:20]}, not {e.ids[:20]} {e.offsets[:20]}")
        return wrong + ([] if len(got) == len(texts) else [f"{len(got)} lines, not {len(texts)}"])

    def decode(self, tokenizer, path):
        ids = [e.ids for e in tokenizer.encode_batch(self.texts[:1500])]
        got = self.run("--tokenizer", path, "--decode", "--json", stdin="".join(" ".join(map(str, i)) + "\n" for i in ids).encode())
        expected = [tokenizer.decode(i) for i in ids]
        return [f"decoded {g!r}, not {e!r}" for g, e in zip(got, expected) if g != e]

    def pairs(self, tokenizer, path):
        both = [(a.replace("\t", " "), b.replace("\t", " ")) for a, b in zip(self.texts[:1000], self.texts[1000:2000])]
        got = self.run("--tokenizer", path, "--pairs", "--json", stdin="".join(f"{a}\t{b}\n" for a, b in both).encode())
        wrong = []
        for (a, b), g in zip(both, got):
            e = tokenizer.encode(a, b)
            if (e.ids, e.type_ids, e.offsets) != (g["ids"], g["type_ids"], [tuple(o) for o in g["offsets"]]):
                wrong.append(f"{a[:40]!r} and {b[:40]!r}: {g['ids'][:20]}, not {e.ids[:20]}")
        return wrong

    def tokenizer(self, name, trained):
        # The library rounds a score that it reads twice, so about one in sixty is not the one that it wrote, and equally good splits of a word may change places.
        # Scores from its trainer differ in the last digits from run to run.  What the file says is what is compared.
        from tokenizers import Tokenizer
        path = self.folder / "tokenizer.json"
        trained.save(str(path))
        tokenizer = Tokenizer.from_file(str(path))
        self.guard(name, lambda: self.encode(tokenizer, path, self.path, self.texts))
        self.guard(f"{name}, decoded", lambda: self.decode(tokenizer, path))
        self.guard(f"{name}, pairs", lambda: self.pairs(tokenizer, path))

    def sentencepiece(self, name, path):
        import sentencepiece
        peer = sentencepiece.SentencePieceProcessor(model_file=str(path))

        def work():
            got, expected = self.run(self.path, "--tokenizer", path, "--json"), peer.encode(self.texts)
            return [f"{t[:80]!r}: {g['ids'][:20]}, not {e[:20]}" for t, g, e in zip(self.texts, got, expected) if g["ids"] != e]
        self.guard(name, work)


def train_sentencepiece(folder, kind, **options):
    import sentencepiece
    source = folder / "train.txt"
    lines = [" ".join(WORDS[i:]) for i in range(20)] + ["日本語 ไทย हिन्दी Русский <sep>"] * 20
    source.write_text("\n".join(lines))
    prefix = folder / f"piece-{kind}-{len(options)}"
    sentencepiece.SentencePieceTrainer.train(input=str(source), model_prefix=str(prefix), vocab_size=500, model_type=kind, hard_vocab_limit=False, minloglevel=3, **options)
    return pathlib.Path(f"{prefix}.model")


def compare_files(c, data):
    """Files that were not made here: vocab.txt and vocab.json with merges.txt beside the library's own readers."""
    from tokenizers import ByteLevelBPETokenizer, BertWordPieceTokenizer, Tokenizer
    real = data / "models" / "all-MiniLM-L6-v2"
    sentences = data / "text" / "sentences.txt"
    t = ByteLevelBPETokenizer()
    t.train_from_iterator(c.texts[:4000], vocab_size=1500, show_progress=False)
    t.save_model(str(c.folder))
    c.guard("vocab.json", lambda: c.encode(ByteLevelBPETokenizer(str(c.folder / "vocab.json"), str(c.folder / "merges.txt")), c.folder / "vocab.json", c.path, c.texts))
    if not real.exists():
        print("SKIP all-MiniLM-L6-v2: it is not here")
        return 1
    peer = Tokenizer.from_file(str(real / "tokenizer.json"))
    c.guard("all-MiniLM-L6-v2", lambda: c.encode(peer, real, c.path, c.texts))
    c.guard("vocab.txt", lambda: c.encode(BertWordPieceTokenizer(str(real / "vocab.txt")), real / "vocab.txt", c.path, c.texts))
    if sentences.exists() and not os.environ.get("GALE_TEST_LIGHT"):
        lines = [line.decode() for line in sentences.read_bytes().split(b"\n")[:-1]]
        c.guard("all-MiniLM-L6-v2, sentences", lambda: c.encode(peer, real, sentences, lines))
    return 0


def work(gale, source, count):
    data = pathlib.Path(os.environ.get("GALE_TEST_DATA", pathlib.Path(source).parent / "shared" / "data"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        c = Comparison(gale, folder, make_lines(count, 7))
        training = c.texts[:200 if os.environ.get("GALE_TEST_LIGHT") else 1500]

        def train(tokenizer, trainer):
            tokenizer.train_from_iterator(training, trainer)
            return tokenizer
        model = train_sentencepiece(folder, "unigram", user_defined_symbols=["<sep>"])
        charsmap = next(v for number, part in fields(model.read_bytes()) if number == 3 for inner, v in fields(part) if inner == 2)
        for name, tokenizer in [*bpe_tokenizers(train), *other_tokenizers(train, charsmap)]:
            c.tokenizer(name, tokenizer)
        c.sentencepiece("SentencePiece, Unigram", model)
        c.sentencepiece("SentencePiece, BPE", train_sentencepiece(folder, "bpe", byte_fallback=True, user_defined_symbols=["<sep>"]))
        c.sentencepiece("SentencePiece, whole lines", train_sentencepiece(folder, "unigram", remove_extra_whitespaces=False, normalization_rule_name="nfkc_cf", split_by_whitespace=False))
        skipped = compare_files(c, data)
    print(f"{c.passed} passed, {c.failed} failed, {skipped} skipped")
    return int(c.failed > 0)


def main():
    gale, source, build = sys.argv[1:4]
    if os.environ.get("GALE_TEST_INSIDE"):
        return work(gale, source, int(sys.argv[4]) if len(sys.argv) > 4 else 2000 if os.environ.get("GALE_TEST_LIGHT") else 16000)
    python, why = private_python.find(build, ["tokenizers", "sentencepiece"])
    if not python:
        return private_python.skip("tokenizers", why)
    return subprocess.run([str(python), *sys.argv], env={**os.environ, "GALE_TEST_INSIDE": "1"}, check=False).returncode


sys.exit(main())
