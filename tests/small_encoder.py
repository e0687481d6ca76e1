"""A folder with a small encoder, written without any package: the vector of a token is its row of a table."""
import json
import pathlib
import struct

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "one", "two", "three", "four", "five", "six", "seven", "eight"]
DIMS = 6


def row(token):
    return [((token * 37 + k * 11) % 23 - 11) / 8 for k in range(DIMS)]


def number(n):
    out = bytearray()
    while True:
        out.append(n & 127 | (128 if n > 127 else 0))
        n >>= 7
        if not n:
            return bytes(out)


def field(tag, value):
    """A field of a protobuf message: an integer, or bytes or text with its length."""
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(data)) + data


def value_info(name, kind, dims):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def model():
    table = b"".join(struct.pack("<6f", *row(i)) for i in range(len(WORDS)))
    tensor = field(1, len(WORDS)) + field(1, DIMS) + field(2, 1) + field(8, "table") + field(9, table)
    node = field(1, "table") + field(1, "input_ids") + field(2, "last_hidden_state") + field(4, "Gather")
    graph = (field(1, node) + field(2, "g") + field(5, tensor)
             + b"".join(field(11, value_info(name, 7, ["b", "t"])) for name in ("input_ids", "attention_mask"))
             + field(12, value_info("last_hidden_state", 1, ["b", "t", DIMS])))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def make(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model())
    (folder / "tokenizer.json").write_text(json.dumps({
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {word: i for i, word in enumerate(WORDS)}}}))
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "max_position_embeddings": 64, "pad_token_id": 0}))
    return folder


def vector(text, most=64):
    """What the encoder gives: the mean of its tokens' rows, with length 1."""
    tokens = [WORDS.index(w) if w in WORDS else 3 for w in text.split()][:most - 2]
    rows = [row(t) for t in [1, *tokens, 2]]
    mean = [sum(r[k] for r in rows) / len(rows) for k in range(DIMS)]
    length = sum(v * v for v in mean) ** 0.5
    return [v / length for v in mean]
