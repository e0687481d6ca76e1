#!/usr/bin/env python3
"""Scans of every kind through `gale run`, beside onnx's reference and ONNX Runtime: each covers what the other does not.

usage: scan.py GALE SOURCE BUILD
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import private_python  # noqa: E402

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\nagraph '
STRINGS = {"x": [["a", "b"], ["c", "d"], ["e", "f"]], "s": [">", "<"], "u": ["!"]}
# name: (model, inputs: whole numbers are i64, others f32, bool or strings)
CASES = {
    "strings": ("""(string[n,2] x, string[2] s, string[1] u) => (string[2] last, string[2,m] all) {
        last, all = Scan <num_scan_inputs=1, scan_input_directions=[1], scan_output_axes=[-1], scan_output_directions=[1],
            body = b (string[2] st, string[2] e) => (string[2] ns, string[2] y) { ns = StringConcat(st, e) y = StringConcat(e, u) }> (s, x) }""", STRINGS),
    "count of data": ("""(float[n,4] x) => (int64[n] y) {
        y = Scan <num_scan_inputs=1, body = b (float[4] e) => (int64 r) { nz = NonZero(e) r = ReduceSum<keepdims=0>(nz) }> (x) }""",
        {"x": [[0., 1, 0, 2], [0, 0, 0, 0], [1, 1, 1, 1]]}),
    "extent of data": ("""(float[n,4] x, bool[n,4] k) => (float[1] st, float[n] y) {
        zero = Constant<value=float[1]{0.0}>()
        st, y = Scan <num_scan_inputs=2, body = b (float[1] s, float[4] e, bool[4] c) => (float[1] s2, float r) {
            z = Compress<axis=0>(e, c) r = ReduceSum<keepdims=0>(z) s2 = Add(s, r) }> (zero, x, k) }""",
        {"x": [[0., 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], "k": [[True, False, False, True], [False] * 4, [True] * 4]}),
    "sequence": ("""(float[4,n] x) => (float[2,n] y) {
        y = Scan <num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1], body = b (float[4] e) => (float[2] r) {
            two = Constant<value_int=2>() l = SplitToSequence<axis=0>(e, two) one = Constant<value_int=1>() a = SequenceAt(l, one)
            zero = Constant<value_int=0>() c = SequenceAt(l, zero) r = Sub(a, c) }> (x) }""", {"x": [[0., 1, 4], [9, 16, 25], [36, 49, 64], [81, 100, 121]]}),
    "choice": ("""(float[n] x, float[1] c) => (float[n,1] y) {
        y = Scan <num_scan_inputs=1, body = b (float e) => (float[1] r) { z = Constant<value_float=0.0>() g = Greater(e, z)
            r = If (g) <then_branch = t () => (float[1] a) { a = Mul(e, c) }, else_branch = f () => (float[1] d) { d = Add(e, c) }> }> (x) }""",
        {"x": [1., -1, 3], "c": [10.]}),
    "shape by slice": ("""(int64[n,2] s, float[4] x) => (float[n] y) {
        y = Scan <num_scan_inputs=1, body = b (int64[2] e) => (float r) { q = Reshape(x, e) ax = Constant<value_ints=[0]>() w = ReduceMax<keepdims=0>(q, ax)
            r = ReduceSum<keepdims=0>(w) }> (s) }""", {"s": [[2, 2], [1, 4], [4, 1]], "x": [4., 1, 2, 3]}),
    "shape from outside": ("""(float[n,4] x, float[2] f) => (float[n,2,2] y) {
        s = Cast<to=7>(f)
        y = Scan <num_scan_inputs=1, body = b (float[4] e) => (float[2,2] r) { r = Reshape(e, s) }> (x) }""", {"x": [[0., 1, 2, 3], [4, 5, 6, 7]], "f": [2., 2]}),
    "scan in a scan": ("""(float[n,m,3] x) => (float[3] st, float[n,m,3] y, int64[n] c) {
        z = Constant<value=float[3]{0.0,0.0,0.0}>()
        st, y, c = Scan <num_scan_inputs=1, body = b (float[3] s, float[m,3] e) => (float[3] s2, float[m,3] r, int64 k) {
            s2, r = Scan<num_scan_inputs=1, body = i (float[3] t, float[3] w) => (float[3] t2, float[3] t3) { t2 = Add(t, w) t3 = Identity(t2) }> (s, e)
            nz = NonZero(r) k = Size(nz) }> (z, x) }""", {"x": [[[0., 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 0, 1]]]}),
    "axes and directions": ("""(float[2,n] x, float[n,2] z) => (float[2] st, float[2,m] y, float[m,k] w) {
        s0 = Constant<value=float[2]{0.0,1.0}>()
        st, y, w = Scan <num_scan_inputs=2, scan_input_axes=[-1,0], scan_input_directions=[0,1], scan_output_axes=[1,0], scan_output_directions=[1,0],
            body = b (float[2] s, float[2] e, float[2] f) => (float[2] s2, float[2] r, float[k] u) { s2 = Add(s, e) r = Mul(s, f) v = Unique(e) u = Identity(v) }> (s0, x, z) }""",
        {"x": [[1., 2, 3], [4, 5, 6]], "z": [[1., 2], [3, 4], [5, 6]]}),
    "loop of strings": ("""(int64 n, string[2] s) => (string[2] last, string[m,2] all) {
        t = Constant<value=bool{1}>()
        last, all = Loop <body = b (int64 i, bool c, string[2] st) => (bool c2, string[2] ns, string[2] y) { c2 = Identity(c) ns = StringConcat(st, st) y = Identity(st) }> (n, t, s) }""",
        {"n": 3, "s": ["a", "bc"]}),
}


def arrays(inputs):
    import numpy as np
    made = {name: np.array(value) for name, value in inputs.items()}
    return {name: a.astype({"f": np.float32, "U": object}.get(a.dtype.kind, a.dtype)) for name, a in made.items()}


def expected(model, path, feeds):
    """Results of whichever peer runs it; None where neither does."""
    import onnxruntime
    from onnx.reference import ReferenceEvaluator
    try:
        return ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # it says in many ways what it has not got
        pass
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(str(path), options).run(None, feeds)
    except Exception:
        return None


def results(gale, model, path, feeds):
    import onnx
    from onnx import numpy_helper
    arguments, made = [], []
    for name, value in feeds.items():
        path.with_suffix(f".{name}.pb").write_bytes(numpy_helper.from_array(value, name).SerializeToString())
        arguments += ["--input", f"{name}={path.with_suffix(f'.{name}.pb')}"]
    for output in model.graph.output:
        arguments += ["--output", f"{output.name}={path.with_suffix(f'.{output.name}.out.pb')}"]
    subprocess.run([gale, "run", str(path), "--provider", "cpu", *arguments], check=True, capture_output=True, text=True, timeout=120)
    for output in model.graph.output:
        made.append(numpy_helper.to_array(onnx.TensorProto.FromString(path.with_suffix(f".{output.name}.out.pb").read_bytes())))
    return made


def same(a, b):
    import numpy as np
    a, b = np.asarray(a), np.asarray(b)
    plain = [[x.decode() if isinstance(x, bytes) else x for x in y.ravel().tolist()] for y in (a, b)]
    return a.shape == b.shape and plain[0] == plain[1]


def work(gale):
    import onnx
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (text, inputs)) in enumerate(CASES.items()):
            model, path, feeds = onnx.parser.parse_model(HEAD + text), pathlib.Path(folder) / f"{number}.onnx", arrays(inputs)
            onnx.save(model, path)
            want = expected(model, path, feeds)
            if want is None:
                print(f"SKIP {name}: no peer runs it")
                skipped += 1
                continue
            try:
                made = results(gale, model, path, feeds)
                wrong = None if all(map(same, made, want)) else f"{made}, not {want}"
            except subprocess.CalledProcessError as error:
                wrong = error.stderr.strip()
            print(f"FAIL {name}: {wrong}" if wrong else "", end="\n" if wrong else "")
            failed += bool(wrong)
            passed += not wrong
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--work":
        return work(sys.argv[2])
    gale, _, build = sys.argv[1:4]
    python, why = private_python.find(build, ["onnx", "onnxruntime"])
    if not python:
        return private_python.skip("scans beside their peers", why)
    return subprocess.run([str(python), __file__, "--work", gale], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
