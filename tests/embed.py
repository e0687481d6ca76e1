#!/usr/bin/env python3
"""gale embed from file to file with a small encoder whose vectors are known: formats of texts and vectors, order, parts, going on after a kill, inputs that are
wrong; and gale search over what it made.

usage: embed.py GALE
"""
import gzip
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from counted import check, finish, skip
import small_encoder
from small_encoder import DIMS, vector

gale = sys.argv[1]
folder = pathlib.Path(tempfile.mkdtemp())
encoder = small_encoder.make(folder / "encoder")
environment = {**os.environ, "GALE_CACHE": str(folder / "cache"), "GALE_PROVIDER": "cpu"}
for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"):
    environment.pop(name, None)
random.seed(7)


def embed(*arguments, stdin=None, code=0, model=encoder, env=None):
    done = subprocess.run([gale, "embed", *map(str, arguments), "--model", str(model)], input=stdin, capture_output=True, env={**environment, **(env or {})}, timeout=60)
    if done.returncode != code:
        check("gale embed " + " ".join(map(str, arguments)), False, f"exit code {done.returncode}, not {code}: {done.stderr.decode(errors='replace')[-300:]}")
    return done


def texts_of(n, longest=40):
    return [" ".join(random.choices(small_encoder.WORDS[4:], k=random.randint(0, random.choice([3, 8, longest])))) for _ in range(n)]


def read_npy(path):
    data = path.read_bytes()
    header = eval(data[10:128].decode())  # pylint: disable=eval-used
    rows, columns = header["shape"]
    numbers = struct.unpack(f"<{rows * columns}f", data[128:]) if header["descr"] == "<f4" else data[128:]
    return [list(numbers[i * columns:(i + 1) * columns]) for i in range(rows)]


def near(got, want, limit=2e-6):
    return len(got) == len(want) and all(len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < limit for a, b in zip(got, want))


def write(name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


texts = texts_of(3000)
wanted = [vector(t) for t in texts]
lines = write("lines.txt", "\n".join(texts) + "\n")


def orders_and_formats():
    for extra in ([], ["--window", 64, "--batch-tokens", 256], ["--batch", 7, "--lanes", 3], ["--pack", "on"], ["--pack", "on", "--window", 64, "--batch-tokens", 256]):
        embed(lines, "-o", folder / "v.npy", *extra)
        check(f"npy {extra}", near(read_npy(folder / "v.npy"), wanted), "vectors or their order differ")
    embed(lines, "-o", folder / "v.raw")
    raw = (folder / "v.raw").read_bytes()
    rows = [list(struct.unpack_from(f"<{DIMS}f", raw, i * DIMS * 4)) for i in range(len(raw) // (DIMS * 4))]
    check("raw", near(rows, wanted) and raw == (folder / "v.npy").read_bytes()[128:] or near(rows, wanted), "vectors differ")
    embed(lines, "-o", folder / "v.fvecs")
    data = (folder / "v.fvecs").read_bytes()
    fvecs = [struct.unpack_from(f"<i{DIMS}f", data, i * (DIMS * 4 + 4)) for i in range(len(data) // (DIMS * 4 + 4))]
    check("fvecs", all(f[0] == DIMS for f in fvecs) and near([list(f[1:]) for f in fvecs], wanted), "vectors differ")
    embed(lines, "-o", folder / "v.jsonl", "--with-text")
    objects = [json.loads(line) for line in (folder / "v.jsonl").read_text().splitlines()]
    check("jsonl", near([o["vector"] for o in objects], wanted) and [o["text"] for o in objects] == texts and [o["index"] for o in objects] == list(range(len(texts))), "differs")
    embed(lines, "-o", folder / "v.csv")
    check("csv", near([list(map(float, line.split(","))) for line in (folder / "v.csv").read_text().splitlines()], wanted), "differs")
    embed(lines, "-o", folder / "v.copy", "--format", "pgvector")
    copy = [line.split("\t") for line in (folder / "v.copy").read_text().splitlines()]
    check("pgvector", [int(c[0]) for c in copy] == list(range(len(texts))) and near([json.loads(c[1]) for c in copy], wanted), "differs")
    out = embed(lines).stdout.decode().splitlines()
    check("standard output", near([json.loads(line)["vector"] for line in out], wanted), "differs")
    embed(lines, "-o", folder / "v8.npy", "--type", "int8")
    check("int8", [b if b < 128 else b - 256 for b in read_npy(folder / "v8.npy")[5]] == [round(127 * x) for x in wanted[5]], "differs")
    embed(lines, "-o", folder / "v1.npy", "--type", "binary")
    check("binary", read_npy(folder / "v1.npy")[5] == [sum(128 >> k for k in range(DIMS) if wanted[5][k] > 0)], "differs")
    for precision in ("fp16", "bf16"):
        embed(lines, "-o", folder / "vh.npy", "--precision", precision)
        check(f"length 1 in {precision}", all(abs(sum(x * x for x in row) - 1) < 1e-5 for row in read_npy(folder / "vh.npy")), "vectors are shorter or longer")
    check("nothing is left", not list(folder.glob("*.part")) + list(folder.glob("*.journal")), "a part or a journal")


def check_texts(name, path, expected, *extra, stdin=None):
    embed(*path, "-o", folder / "t.npy", *extra, stdin=stdin)
    check(name, near(read_npy(folder / "t.npy"), [vector(t) for t in expected]), "vectors differ")


def reads(kind, packed):
    """Whether this build unpacks such files; a counted skip where it does not."""
    done = subprocess.run([gale, "embed", packed, "-o", folder / "t.npy", "--model", encoder], capture_output=True, env=environment, timeout=60)
    if b"this build of gale does not support" not in done.stderr:
        return True
    skip(kind, done.stderr.decode().strip())
    return False


def inputs():
    some = texts[:200]
    plain = "\n".join(some).encode()
    check_texts("no end of the last line", [write("a.txt", plain)], some)
    check_texts("CRLF and a byte order mark", [write("b.txt", b"\xef\xbb\xbf" + "\r\n".join(some).encode() + b"\r\n")], some)
    packed = write("c.txt.gz", gzip.compress(plain[:1000]) + gzip.compress(plain[1000:]))
    if reads("gzip", packed):
        check_texts("gzip in two members", [packed], some)
    else:
        packed = write("c.txt", plain)
    if not shutil.which("zstd"):
        skip("zstd", "there is no zstd program")
    else:
        subprocess.run(["zstd", "-q", "-f", folder / "a.txt", "-o", folder / "d.zst"], check=True)
        if reads("zstd", folder / "d.zst"):
            check_texts("zstd", [folder / "d.zst"], some)
    check_texts("standard input", ["-"], some, stdin=plain)
    check_texts("many files", [folder / "a.txt", "-", packed], some * 3, stdin=plain)
    check_texts("JSONL", [write("e.jsonl", "".join(json.dumps({"id": 1, "body": t}) + "\n" for t in some))], some, "--field", "body")
    rows = 'id,"text, really",text\n' + "".join(f'1,"x ""q"" \n,",  "{t}"\n'.replace(',  "', ',"') for t in some)
    check_texts("CSV", [write("f.csv", rows)], some)
    check_texts("CSV by number", [write("g.csv", "".join(f'{t},7\n' for t in some))], some, "--field", "1")
    check_texts("TSV", [write("h.tsv", "n\ttext\n" + "".join(f'1\t{t}\n' for t in some))], some)
    check_texts("empty lines", [write("i.txt", "\n\none\n\n")], ["", "", "one", ""])
    check_texts("nothing at all", [write("j.txt", "")], [])
    check_texts("a line of 10 MB", [write("k.txt", "one two\n" + "three " * 1700000 + "\nfour\n")], ["one two", "three " * 100, "four"])
    check_texts("not UTF-8", [write("l.txt", b"one \xff\xfe two\nt\xc3\n\xf0\x9f\x98\n")], ["one x two", "x", "x"])
    check_texts("zero bytes", [write("m.txt", b"one \0 two\n")], ["one x two"])


def parts():
    embed(lines, "-o", folder / "all.raw")
    for k in (1, 2, 3, 4, 5, 6, 7):
        embed(lines, "-o", folder / f"p{k}.raw", "--shard", f"{k}/7", "--pack", "on" if k % 2 else "off")
    joined = b"".join((folder / f"p{k}.raw").read_bytes() for k in range(1, 8))
    whole = (folder / "all.raw").read_bytes()
    check("parts", len(joined) == len(whole) and near([struct.unpack(f"<{len(whole) // 4}f", joined)], [struct.unpack(f"<{len(whole) // 4}f", whole)]), "do not add up")
    for rank in range(2):
        embed(lines, "-o", folder / "auto.jsonl", "--shard", "auto", env={"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"})
    objects = [json.loads(line) for k in (1, 2) for line in (folder / f"auto-0000{k}-of-00002.jsonl").read_text().splitlines()]
    check("parts by rank", [o["index"] for o in objects] == list(range(len(texts))) and near([o["vector"] for o in objects], wanted), "differ")
    for wrong in ("0/3", "4/3", "x", "auto", "1/0"):
        embed(lines, "-o", folder / "w.raw", "--shard", wrong, code=2)
    embed("-", "-o", folder / "w.raw", "--shard", "1/2", stdin=b"one\n", code=1)


def start(output, *extra):
    return subprocess.Popen([gale, "embed", "-", "-o", str(output), "--window", "64", "--model", str(encoder), *extra], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


sanitized = b"__asan_init" in pathlib.Path(gale).read_bytes()
PIECE = 6000  # lines, so that more than one block of standard input is filled
many, many_wanted = texts * 60, wanted * 60


def feed_until_journal(process, output, data):
    """Gives it lines, slowly, until it has written down that some are done; then kills it."""
    journal, at = pathlib.Path(f"{output}.journal"), 0
    end = time.time() + 60
    while not journal.exists() and time.time() < end and at < len(data):
        process.stdin.write("".join(t + "\n" for t in data[at:at + PIECE]).encode())
        process.stdin.flush()
        at += PIECE
        time.sleep(0.3)
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    return journal.exists()


def complaint(name, pattern, *arguments, code=1, **more):
    done = embed(*arguments, code=code, **more)
    text = done.stderr.decode(errors="replace")
    check(name, pattern in text, f"no '{pattern}' in: {text[-300:]}")


def after_kill():
    if sanitized and os.environ.get("GALE_TEST_LIGHT") == "2":
        return skip("kill -9", "takes three times as long under the sanitizer, and runs without it")
    for name, extra in (("k.npy", ["--pack", "on"]), ("k.jsonl", [])):
        output = folder / name
        check(f"{name}: killed", feed_until_journal(start(output, *extra), output, many), "there was no journal within a minute")
        check(f"{name}: not there yet", not output.exists() and pathlib.Path(f"{output}.part").exists(), "the result is there, or no part")
        with open(f"{output}.part", "ab") as part:
            part.write(b"half a row that the journal does not know of")
        data = "".join(t + "\n" for t in many).encode()
        report = json.loads(embed("-", "-o", output, "--window", 64, "--json", *extra, stdin=data).stdout)
        rows = read_npy(output) if name.endswith("npy") else [json.loads(line)["vector"] for line in output.read_text().splitlines()]
        check(f"{name}: goes on", 0 < report["resumed"] < len(many) and report["texts"] == len(many), str(report))
        check(f"{name}: packed or not", report["packed"] == bool(extra), str(report))
        check(f"{name}: nothing is lost or doubled", near(rows, many_wanted), "vectors differ")
        check(f"{name}: all is tidied", not list(folder.glob("k.*.journal")) + list(folder.glob("k.*.part")), "a part or a journal is left")
    output = folder / "other.npy"
    other = texts_of(400)
    feed_until_journal(start(output), output, many)
    complaint("other texts on standard input", "--restart", "-", "-o", output, "--window", 64, stdin="".join(t + "\n" for t in other).encode())
    for extra, expected in ((["--restart"], many), (["--dims", "3"], many)):
        feed_until_journal(start(output), output, many)
        done = embed("-", "-o", output, "--window", 64, *extra, stdin="".join(t + "\n" for t in expected).encode())
        check(f"other texts or settings {extra}", "from the previous run" not in done.stderr.decode() and len(read_npy(output)) == len(expected), done.stderr.decode())
    process = start(folder / "i.npy")
    process.stdin.write(b"one\n" * 200000)
    process.stdin.flush()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.stdin.write(b"one\n" * 20000)
    process.stdin.close()
    process.stderr.read()
    check("interrupted", process.wait() == -signal.SIGINT and (folder / "i.npy.part").exists(), f"code {process.returncode}")


def wrong_inputs():
    one = write("one.txt", "one\n" * 2000)
    out = folder / "w.npy"
    complaint("no such encoder", "not found: neither a folder", one, "-o", out, model=folder / "nowhere")
    complaint("no such file", "No such file", folder / "nowhere.txt", "-o", out)
    complaint("a folder as output", "is a folder", one, "-o", folder)
    complaint("full disk", "No space left", one, "-o", "/dev/full", "--format", "raw")
    complaint("npy to a device", "--format raw", one, "-o", "/dev/null", "--format", "npy")
    complaint("npy to standard output", "--format raw", one, "--format", "npy")
    complaint("int8 as text", "npy or raw", one, "-o", folder / "w.csv", "--type", "int8")
    complaint("no key", "no key \"text\"", write("n.jsonl", '{"text": "one"}\n{"a": 1}\n'), "-o", out)
    complaint("which record", "record 2", folder / "n.jsonl", "-o", out)
    complaint("not JSON", "record 1", write("o.jsonl", "one two\n"), "-o", out)
    complaint("no column", "no column", write("p.csv", "a,b\n1,2\n"), "-o", out)
    complaint("too few fields", "too few fields", write("q.csv", "a,text\n1\n"), "-o", out)
    cut = write("r.gz", gzip.compress(b"one\n" * 9000)[:-20])
    if reads("damaged gzip", cut):
        complaint("damaged gzip", "gzip stream is damaged", cut, "-o", out)
    complaint("no folder for the result", "cannot", one, "-o", folder / "none/w.npy")
    bare = small_encoder.make(folder / "bare")
    (bare / "tokenizer.json").unlink()
    complaint("no tokenizer", "tokenizer", one, "-o", out, model=bare)
    small = small_encoder.make(folder / "small")
    (small / "tokenizer.json").write_text((small / "tokenizer.json").read_text().replace('"eight": 11', '"eight": 11, "more": 12'))
    complaint("vocabulary", "do not belong together", one, "-o", out, model=small, code=1)
    check("nothing is left of failures", not list(folder.glob("w.*")), str(list(folder.glob("w.*"))))


def search(*arguments, code=0):
    done = subprocess.run([gale, "search", *map(str, arguments)], capture_output=True, env=environment, timeout=60)
    if done.returncode != code:
        check("gale search " + " ".join(map(str, arguments)), False, f"exit code {done.returncode}, not {code}: {done.stderr.decode()[-300:]}")
    return done


def nearest(text, allowed, k):
    query = vector(text)
    scores = sorted(((-sum(a * b for a, b in zip(query, v)), i) for i, v in enumerate(wanted) if allowed(i)))
    return [-score for score, _ in scores[:k]]


def several_devices():
    one, two = folder / "one.npy", folder / "two.npy"
    embed(lines, "-o", one)
    done = json.loads(embed(lines, "-p", "cpu:0+cpu:0", "-o", two, "--json").stdout)
    check("two devices", one.read_bytes() == two.read_bytes() and len(done["batches_by_device"]) == 2 and sum(done["batches_by_device"]) == done["batches"], str(done))
    check("all devices", json.loads(embed(lines, "-p", "cpu:all", "-o", two, "--restart", "--json").stdout)["batches_by_device"], "none")
    for chain, pattern in (("cpu:x+cpu", "PROVIDER:NUMBER"), ("cpu+nosuch:1", "unknown provider"), ("cpu:7+cpu", "out of range")):
        done = subprocess.run([gale, "embed", str(lines), "-m", str(encoder), "-p", chain, "-o", str(two)], capture_output=True, env=environment, timeout=60)
        check(f"provider {chain}", done.returncode and pattern in done.stderr.decode(), done.stderr.decode()[-300:])


def warm_cache():
    def cache(*arguments):
        return subprocess.run([gale, "cache", *map(str, arguments)], capture_output=True, env=environment, timeout=60)
    check("an encoder's kernels", json.loads(cache("warm", encoder, "-p", "cpu", "--json").stdout)["compiled"] == 0, "the CPU compiles nothing")
    check("a model's kernels", b"kernels compiled" in cache("warm", encoder / "model.onnx", "-p", "cpu", "--dim", "b=2", "--dim", "t=5").stdout, "not a line")
    for arguments in (["warm"], ["stats", encoder]):
        check(f"cache {arguments}", cache(*arguments).returncode == 2, "not refused")


def searches():
    index, objects = folder / "s.npy", [{"text": t, "lang": "en" if i % 3 else "de", "year": i % 10} for i, t in enumerate(texts)]
    jsonl = write("s.jsonl", "".join(json.dumps(o) + "\n" for o in objects))
    embed(jsonl, "-o", index)
    for extra, allowed in (([], lambda i: True), (["--where", "lang=de", "--where", "year=6"], lambda i: i % 3 == 0 and i % 10 == 6)):
        lines_out = search(index, "one two", "six", "-m", encoder, "--texts", jsonl, "-k", 5, "--json", *extra).stdout.decode().splitlines()
        for line, text in zip(lines_out, ("one two", "six")):
            found = json.loads(line)
            good = found["query"] == text and all(allowed(h["row"]) and texts[h["row"]] == h["text"] for h in found["hits"])
            scores = [h["score"] for h in found["hits"]]
            check(f"search {text} {extra}", good and near([scores], [nearest(text, allowed, 5)], 1e-5), line[:300])
    short = write("short.jsonl", "".join(json.dumps(o) + "\n" for o in objects[:-1]))
    done = search(index, "one two", "-m", encoder, "--texts", short, "-k", 1, code=1)
    check("texts that are too few", f"has {len(texts) - 1} texts, but the index has {len(texts)} rows" in done.stderr.decode(), done.stderr.decode())
    vectors = index.read_bytes()
    for name, count in (("nan.npy", 5), ("all-nan.npy", len(texts))):
        size = count * 4 * small_encoder.DIMS
        write(name, vectors[:-size] + b"\0\0\xc0\x7f" * (size // 4))
        done = search(folder / name, "one two", "-m", encoder, "--json", "-k", 3)
        found = json.loads(done.stdout)["hits"]
        check(f"vectors of NaN in {name}", f"{count} of {len(texts)} vectors contain NaN" in done.stderr.decode() and len(found) == (0 if count == len(texts) else 3), done.stderr.decode())
    search(index, "one", "-m", encoder, "--probes", 1, code=1)
    built = json.loads(search(index, "--build-index", "--lists", 4, "--json").stdout)
    check("an index is built", built["lists"] == 4 and built["rows"] == len(texts) and built["recall"] >= 0.95, str(built))
    for extra in ([], ["--where", "lang=de"]):
        ways = [search(index, "one two", "-m", encoder, "--texts", jsonl, "--json", *extra, *way).stdout for way in ([], ["--probes", 4])]
        check(f"all lists are what exact search finds {extra}", ways[0] == ways[1], str(ways)[:300])
    check("few lists", b"hits" in search(index, "one two", "-m", encoder, "--json", "--probes", 0).stdout, "nothing")
    questions = write("questions.txt", "two\nthree four\n")
    check("queries from a file", len(search(index, "--queries", questions, "-m", encoder, "--json").stdout.decode().splitlines()) == 2, "not a line for each")
    for arguments, pattern, code in (([index, "one"], "missing option: --model", 2), ([index], "nothing to search for", 2), ([index, "one", "--build-index"], "searches for nothing", 2), ([folder / "none.npy", "one", "-m", encoder], "none.npy", 1),
                                     ([lines, "one", "-m", encoder], "not a vector file", 1), ([index, "one", "-m", encoder, "--dims", 3], "the model produces 3", 1),
                                     ([index, "one", "-m", encoder, "--where", "a=b"], "--texts", 1)):
        done = search(*arguments, code=code)
        check(f"search {arguments}", pattern in done.stderr.decode(), done.stderr.decode()[-300:])


def levels():
    models = folder / "models"
    small_encoder.make(models / "all-MiniLM-L6-v2")
    one = write("one.txt", "one two\n")

    def with_level(pattern, *arguments, code=0, env=None):
        command = [gale, "embed", str(one), "-o", str(folder / "l.jsonl"), *arguments]
        done = subprocess.run(command, capture_output=True, env={**environment, "GALE_MODELS": str(models), **(env or {})}, timeout=60)
        check(f"{arguments} {env}", done.returncode == code and pattern in done.stderr.decode(), f"code {done.returncode}: {done.stderr.decode()[-300:]}")
        return json.loads((folder / "l.jsonl").read_text())["vector"] if code == 0 else None

    check("level medium", near([with_level("1 vector ", "--level", "MED")], [vector("one two")]), "another vector")
    with_level("falling back to medium", "--level", "high")
    with_level("falling back to medium", env={"OP_DBUS_VECTOR_LEVEL": "High"})
    with_level("1 vector ", env={"GALE_MODELS": "", "OP_DBUS_MODEL_DIR": str(models), "OP_DBUS_VECTOR_LEVEL": "medium", "GALE_PROVIDER": "", "OP_DBUS_EXECUTION_PROVIDER": "cpu"})
    with_level("neither its encoder", "--level", "low", code=1)
    with_level("level none produces no vectors", "--level", "none", code=1)
    with_level("unknown level", "--level", "huge", code=1)
    with_level("neither its encoder", "--preset", "dev", code=1)
    with_level("1 vector ", "--preset", "standard")
    heuristic = with_level("1 vector of 64", "--model", "heuristic")
    check("heuristic", len(heuristic) == 64 and abs(sum(v * v for v in heuristic) - 1) < 1e-5, "not 64 numbers of length 1")
    check("heuristic again", near([with_level("", "--model", "heuristic")], [heuristic]), "another vector for the same text")


def pairs_and_duplicates():
    some = texts[:300]
    pairs = write("pairs.txt", "".join(f"{a}\t{b}\n" for a, b in zip(some, reversed(some))))
    made = [float(line) for line in embed(pairs, "--pairs").stdout.split()]
    expected = [sum(x * y for x, y in zip(vector(a), vector(b))) for a, b in zip(some, reversed(some))]
    check("pairs", near([made], [expected], 2e-6), "other cosines")
    table = write("pairs.tsv", pairs.read_bytes())
    check("pairs of a .tsv file", [float(line) for line in embed(table, "--pairs").stdout.split()] == made, "other cosines")
    complaint("no pair", "text 2 has no tab", write("nopair.txt", "a\tb\nab\n"), "--pairs")
    done = embed(lines, "-o", folder / "u.npy", "--dedup", 0.99)
    found = {int(a): (int(b), float(c)) for a, b, c in (line.split("\t") for line in done.stdout.decode().splitlines())}
    kept, good = [], True
    for i, v in enumerate(wanted):
        scores = [(k, sum(a * b for a, b in zip(v, wanted[k]))) for k in kept]
        near_ones = [k for k, score in scores if score >= 0.99 + 1e-5]
        maybe = [k for k, score in scores if score >= 0.99 - 1e-5]
        if i in found:
            good = good and found[i][0] in maybe and (not near_ones or found[i][0] <= near_ones[0])
        else:
            good = good and not near_ones
            kept.append(i)
    check("near duplicates", good and len(found) > 100, f"{len(found)} found")
    complaint("duplicates of nothing", "--dedup needs -o", lines, "--dedup", 0.9, code=2)


def footprints():
    objects = [{"operation": "create", "data": {"name": "one", "mtu": 1500, "up": True, "none": None, "inner": {"x": "two"}}, "plugin": "net", "metadata": {"host": "six"}, "tags": ["a", 2]}]
    path = write("objects.jsonl", "".join(json.dumps(o) + "\n" for o in objects))
    out = embed(path, "--input-format", "footprint", "--format", "jsonl", "--with-text").stdout
    text = "plugin: net\noperation: create\nname: one\nmtu: 1500\nup: true\ninner.x: two\nmeta.host: six\ntags: a, 2"
    check("footprint", json.loads(out)["text"] == text, out.decode())
    complaint("no object", "not a JSON object", write("list.jsonl", "[1]\n"), "--input-format", "footprint")


def report_page():
    embed(lines, "-o", folder / "page.npy", "--report", folder / "page.html")
    page = (folder / "page.html").read_text()
    check("page", page.count("<svg") == 4 and page.count("<circle") == 1500 and "http" not in page and "NaN" not in page and "nan" not in page, f"{page.count('<svg')} charts, {page.count('<circle')} points")
    complaint("a page of nothing", "--report needs -o", lines, "--report", folder / "page.html", code=2)


def cached():
    def cache(*arguments, code=0):
        done = subprocess.run([gale, "cache", *arguments, "--kind", "vectors", "--json"], capture_output=True, env=environment, timeout=60)
        check(f"gale cache {arguments}", done.returncode == code, done.stderr.decode())
        return json.loads(done.stdout) if code == 0 else None

    if "does not include SQLite" in embed(lines, "-o", folder / "c.npy", "--cache").stderr.decode():
        skip("cache of vectors", "built without SQLite")
        return
    distinct = len(set(texts))
    check("kept", cache("stats")["vectors"] == distinct, str(cache("stats")))
    report = json.loads(embed(lines, "-o", folder / "c.npy", "--cache", "--json", "--window", 500).stdout)
    check("from the cache", report["cached"] == len(texts) and report["batches"] == 0 and near(read_npy(folder / "c.npy"), wanted), str(report))
    more = write("more.txt", "\n".join(["seven eight one " * 3, *texts[:100], "eight " * 9]) + "\n")
    report = json.loads(embed(more, "-o", folder / "c.npy", "--cache", "--json").stdout)
    check("some from the cache", report["cached"] == 100 and report["texts"] == 102, str(report))
    check("others for other settings", json.loads(embed(more, "-o", folder / "c.npy", "--cache", "--json", "--dims", 3).stdout)["cached"] == 0, "taken from the cache")
    both = [subprocess.Popen([gale, "embed", str(lines), "-o", str(folder / f"both{i}.npy"), "--cache", "--prompt", "one ", "--window", "64", "-m", str(encoder)], env=environment,
                             stderr=subprocess.PIPE) for i in range(3)]
    errors = [process.communicate()[1].decode() for process in both]
    check("several at once", all(p.returncode == 0 for p in both) and not any("not cached" in e for e in errors), str(errors))
    before = cache("stats")["vectors"]
    check("shrunk", cache("clean", "--limit", "0")["vectors"] < before, "nothing went")
    check("emptied", cache("clear")["vectors"] == 0, "something is left")
    file = folder / "cache/vectors.sqlite"
    file.write_bytes(b"this is no database at all, but it is longer than a header would be" * 30)
    done = embed(lines, "-o", folder / "c.npy", "--cache")
    check("a damaged cache", "not cached" in done.stderr.decode() and near(read_npy(folder / "c.npy"), wanted), done.stderr.decode())
    cache("stats", code=1)
    cache("clear")


def memory_is_flat():
    def peak(n):
        before = write("big.txt", "one two three four\n" * n)
        code = "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        done = subprocess.run([sys.executable, "-c", code, gale, "embed", before, "-o", folder / "big.raw", "--model", encoder], env=environment, capture_output=True, check=True)
        return int(done.stdout)
    if sanitized:
        return skip("memory", "the address sanitizer keeps what was freed")
    small, large = peak(100000), peak(1000000)
    check("memory", large < small * 1.3 + 20000, f"{small} kB for 100,000 texts, {large} kB for 1,000,000")


try:
    orders_and_formats()
    inputs()
    parts()
    wrong_inputs()
    several_devices()
    warm_cache()
    searches()
    levels()
    pairs_and_duplicates()
    footprints()
    report_page()
    cached()
    after_kill()
    memory_is_flat()
finally:
    shutil.rmtree(folder)
sys.exit(finish())
