"""What python_module.py runs: the package's declarations against the headers, and its behaviour on small models.

usage: python_cases.py SOURCE_ROOT BUILD_ROOT COMPILER...
"""
import ctypes
import gc
import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import warnings

import gale
import numpy as np
from gale import _structs
from gale._declarations import DECLARATIONS

from counted import counts, finish, skip

root, build, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
models = root / "fuzz/corpus/onnx"
scratch = tempfile.TemporaryDirectory()
GEMM = str(models / "gemm.onnx")
ones = np.ones((2, 3), np.float32)


def raises(kind, call, *words):
    """The call raises that kind of exception, and its message has the words in it."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), f"{error!r} lacks one of {words}"
        return error
    raise AssertionError(f"no {kind.__name__}")


# --- Declarations and layouts. ---

def headers():
    return "#include <gale/gale.h>\n"


def layout_program():
    """C that prints a line for each struct, field and constant; the declarations in it clash where a header says otherwise."""
    lines = [f'    printf("%s %zu\\n", "{s.__name__}", sizeof({s.__name__}));' for s in _structs.STRUCTS]
    lines += [f'    printf("%s %zu\\n", "{s.__name__}.{f}", offsetof({s.__name__}, {f}));' for s in _structs.STRUCTS for f, _ in s._fields_]
    lines += [f'    printf("%s %zu\\n", "device_info_head.{f}", offsetof(gale_device_info, {f}));' for f, _ in _structs.device_info_head._fields_]
    lines += [f'    printf("%s %lld\\n", "{name}", (long long){name});' for name in _structs.CONSTANTS]
    lines += ['    printf("statuses %d\\ntypes %d\\n", GALE_STATUS_COUNT, GALE_TYPE_COUNT);']
    return headers() + DECLARATIONS + "#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(lines) + "\n}\n"


def expected_layout():
    expected = {s.__name__: ctypes.sizeof(s) for s in _structs.STRUCTS}
    for s in [*_structs.STRUCTS, _structs.device_info_head]:
        expected.update({f"{s.__name__}.{name}": getattr(s, name).offset for name, _ in s._fields_})
    return {**expected, **_structs.CONSTANTS, "statuses": len(_structs.STATUSES), "types": len(_structs.TYPES)}


def test_layouts():
    source, program = pathlib.Path(scratch.name) / "layout.c", pathlib.Path(scratch.name) / "layout"
    source.write_text(layout_program())
    subprocess.run([*compiler, "-std=c17", "-Wall", "-Werror", f"-I{root / 'include'}", str(source), "-o", str(program)], check=True)
    printed = dict(line.split() for line in subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines())
    wrong = [f"{name}: {printed.get(name)} in C, {value} in Python" for name, value in expected_layout().items() if int(printed.get(name, -1)) != value]
    assert not wrong and len(printed) == len(expected_layout()), "\n".join(wrong)


def test_fields_are_all_there():
    """A struct that has grown at its end keeps its offsets; its size shows it, and so do its names."""
    text = "".join(re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S) for path in (root / "include/gale").glob("*.h"))
    for s in _structs.STRUCTS:
        body = re.search(rf"\bstruct {s.__name__} \{{(.*?)\n\}}", text, re.S).group(1)
        missing = [name for name, _ in s._fields_ if not re.search(rf"\b{name}\b", body)]
        assert not missing, f"{s.__name__}: {missing}"


# --- Models. ---

def test_model():
    model = gale.Model(GEMM, "cpu")
    assert [v.name for v in model.inputs] == ["x"] and model.inputs[0].shape == ["n", 3] and model.inputs[0].type == "float"
    result = model.run({"x": ones})
    assert list(result) == ["y"] and result["y"].shape == (2, 2) and result["y"].dtype == np.float32
    np.testing.assert_array_equal(result["y"][0], result["y"][1])
    assert "Gemm" in model.report() or model.report()


def test_result_outlives_everything():
    device = gale.Device("cpu")
    model = gale.Model(GEMM, device)
    result = model.run({"x": ones})["y"]
    expected = result.copy()
    model.close()
    device.close()
    del model, device
    gc.collect()
    fill = [np.full(result.size, i, np.float32) for i in range(100)]  # would overwrite memory that was freed
    np.testing.assert_array_equal(result, expected)
    result[0, 0] = 1  # it is the caller's
    assert len(fill) == 100


def test_results_are_not_copied():
    result = gale.Model(GEMM, "cpu").run({"x": ones})["y"]
    assert result.base is not None and not result.flags.owndata and result.flags.writeable


def test_inputs_are_not_copied():
    from gale import _tensors

    class Foreign:
        """A tensor of another library: all that NumPy sees of it is DLPack."""
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    gc.collect()
    before = len(_tensors._lent)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = _tensors.tensor_from(array)
    assert _tensors.lib.gale_tensor_data(tensor.address) == array.ctypes.data and len(_tensors._lent) == before + 1
    foreign = _tensors.tensor_from(Foreign(array))
    assert _tensors.lib.gale_tensor_data(foreign.address) == array.ctypes.data
    del tensor, foreign
    gc.collect()
    assert len(_tensors._lent) == before  # the arrays were let go
    model = gale.Model(GEMM, "cpu")
    expected = model.run({"x": array})["y"]
    for other in (Foreign(array), np.asfortranarray(array), array.astype(">f4"), np.lib.stride_tricks.as_strided(np.repeat(array, 2), array.shape, (24, 8))):
        np.testing.assert_array_equal(model.run({"x": other})["y"], expected)
    np.testing.assert_array_equal(np.from_dlpack(expected), expected)
    raises(gale.Error, lambda: model.run({"x": np.ones((2, 4), np.float32)}))
    gc.collect()
    assert len(_tensors._lent) == before


def test_closed_model():
    model = gale.Model(GEMM, "cpu")
    model.close()
    model.close()
    raises(ValueError, lambda: model.run({"x": ones}), "closed")
    with gale.Model(GEMM, "cpu") as inner:
        pass
    raises(ValueError, inner.report, "closed")


def test_bytes_and_views():
    data = pathlib.Path(GEMM).read_bytes()
    expected = gale.Model(GEMM, "cpu").run({"x": ones})["y"]
    model = gale.Model(bytearray(data), "cpu")
    del data
    gc.collect()
    wide = np.ones((2, 6), np.float32)[:, ::2]  # not dense
    np.testing.assert_array_equal(model.run({"x": wide})["y"], expected)
    np.testing.assert_array_equal(model.run({"x": np.ones((2, 3), ">f4")})["y"], expected)
    np.testing.assert_array_equal(model.run({"x": np.asfortranarray(ones)})["y"], expected)


def test_nothing_in_a_batch():
    assert gale.Model(GEMM, "cpu").run({"x": np.ones((0, 3), np.float32)})["y"].shape == (0, 2)


def test_strings():
    model = gale.Model(str(models / "strings.onnx"), "cpu")
    result = model.run({"x": np.array(["a\0b", "größe"], dtype=object)})["y"]
    assert result.dtype == object and result.shape == (2,) and all(isinstance(item, str) for item in result)
    assert model.run({"x": np.array(["ab", "cd"])})["y"].shape == (2,)


def test_sequences_and_maps():
    result = gale.Model(str(models / "sequence.onnx"), "cpu").run({"a": np.ones(2, np.float32), "b": np.zeros(3, np.float32)})
    assert isinstance(result["l"], list) and all(isinstance(item, np.ndarray) for item in result["l"]) and result["y"].shape == (5,)
    kept = result["l"][0]
    del result
    gc.collect()
    assert kept.dtype == np.float32
    model = gale.Model(str(models / "types.onnx"), "cpu")
    assert bool(model.run({"m": {1: np.float32(1)}, "o": np.ones(2, np.float32)})["has"])
    assert not bool(model.run({"m": {1: np.float32(1)}, "o": None})["has"])


def test_defaults_of_the_file():
    model = gale.Model(str(models / "default.onnx"), "cpu")
    assert [v.name for v in model.defaults] == ["w", "s"]
    plain = model.run({"x": ones})["y"]
    changed = model.run({"x": ones, "w": np.zeros((3, 2), np.float32)})["y"]
    assert plain.any() and not changed.any()


def test_model_errors():
    error = raises(gale.NoSuchFile, lambda: gale.Model("no-such.onnx", "cpu"), "no-such.onnx")
    assert error.status == "NOT_FOUND" and isinstance(error, (gale.Error, FileNotFoundError))
    raises(gale.Error, lambda: gale.Model(b"no model at all", "cpu"))
    model = gale.Model(GEMM, "cpu")
    raises(gale.InvalidArgument, lambda: model.run({"x": np.ones((2, 4), np.float32)}), "x", "extent 4")
    raises(gale.InvalidArgument, lambda: model.run({"x": np.ones((2, 3))}), "x")
    raises(gale.Error, lambda: model.run({"z": ones}), "z")
    raises(gale.Error, lambda: model.run({"x": ones}, ["no"]), "no")
    raises(TypeError, lambda: model.run({"x": ones.astype(complex)}), "input x", "complex")
    raises(ValueError, lambda: gale.Model(GEMM, "cpu", precision="fp8"), "fp8")
    raises(ValueError, lambda: gale.Model("a\0b", "cpu"), "zero byte")


def test_threads():
    """Many threads in one model while another closes it: each gets its result or is told."""
    model, expected, wrong = gale.Model(GEMM, "cpu"), gale.Model(GEMM, "cpu").run({"x": ones})["y"], []

    def work():
        try:
            for _ in range(200):
                if not np.array_equal(model.run({"x": ones})["y"], expected):
                    wrong.append("differs")
        except ValueError as error:
            wrong.extend([] if "closed" in str(error) else [str(error)])
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    model.close()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]


def test_no_leak():
    """A thousand runs, errors among them, and a hundred sessions: memory stays."""
    def pages():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1])

    def work(times):
        model, large = gale.Model(GEMM, "cpu"), np.ones((4096, 3), np.float32)
        for _ in range(times):
            model.run({"x": large})
            raises(gale.Error, lambda: model.run({"x": np.ones((2, 4), np.float32)}))
        for _ in range(times // 10):
            gale.InferenceSession(GEMM, providers=["CPUExecutionProvider"]).run(None, {"x": ones})

    work(200)
    before = pages()
    work(1000)
    gc.collect()
    grown = (pages() - before) * os.sysconf("SC_PAGE_SIZE")
    assert grown < 16 << 20, f"{grown >> 20} MiB more"


# --- ONNX Runtime's convention. ---

def test_session():
    options = gale.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = gale.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = gale.InferenceSession(GEMM, options, providers=["CPUExecutionProvider"])
    x, y = session.get_inputs()[0], session.get_outputs()[0]
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["n", 3]) and (y.name, y.type, y.shape) == ("y", "tensor(float)", ["n", 2])
    assert session.get_providers() == ["CPUExecutionProvider"]
    first = session.run(None, {"x": ones})
    assert isinstance(first, list) and len(first) == 1
    np.testing.assert_array_equal(session.run(["y"], {"x": ones}, gale.RunOptions())[0], first[0])
    np.testing.assert_array_equal(session.run([], {"x": ones.tolist()})[0], first[0])
    assert session.get_modelmeta().producer_name == "gale's tests"
    assert gale.InferenceSession(pathlib.Path(GEMM).read_bytes()).get_modelmeta().producer_name == "gale's tests"


def test_session_errors():
    session = gale.InferenceSession(GEMM)
    raises(ValueError, lambda: session.run(None, {}), "Required inputs (['x']) are missing from input feed ([])")
    raises(gale.InvalidArgument, lambda: session.run(["q"], {"x": ones}), "q")
    raises(gale.InvalidArgument, lambda: session.run(None, {"x": ones, "q": ones}), "q")
    raises(gale.InvalidArgument, lambda: session.run(None, {"x": ones[0]}), "x")
    raises(gale.NoSuchFile, lambda: gale.InferenceSession("no-such.onnx"))
    stopped = gale.RunOptions()
    stopped.terminate = True
    raises(gale.Fail, lambda: session.run(None, {"x": ones}, stopped))


def test_types_in_words():
    def types(name):
        session = gale.InferenceSession(str(models / name))
        return [a.type for a in session.get_inputs()], [a.type for a in session.get_outputs()]

    assert types("strings.onnx") == (["tensor(string)"], ["tensor(string)"])
    assert types("sequence.onnx")[1][0] == "seq(tensor(float))"
    assert types("types.onnx") == (["map(int64,tensor(float))", "optional(tensor(float))"], ["tensor(bool)"])
    assert [a.name for a in gale.InferenceSession(str(models / "default.onnx")).get_overridable_initializers()] == ["w", "s"]


def test_providers():
    assert gale.get_available_providers()[-1] == "CPUExecutionProvider" and "CPUExecutionProvider" in gale.get_all_providers()
    session = gale.InferenceSession(GEMM, providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"])
    assert "CPUExecutionProvider" in session.get_providers()
    assert gale.InferenceSession(GEMM, providers=["cpu"]).get_providers() == ["CPUExecutionProvider"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gale.InferenceSession(GEMM, providers=["QNNExecutionProvider"])
    assert any("QNNExecutionProvider" in str(w.message) for w in caught)
    aliases = {alias: p["name"] for p in gale.devices()["providers"] for alias in [p["name"], *p["aliases"]]}
    for name, provider in gale.session._ALIASES.items():
        assert aliases.get(name, provider) in (provider, "tensorrt"), name
    raises(ValueError, lambda: gale.InferenceSession(GEMM, providers=["cpu"], provider_options=[{}, {}]))


# --- Devices, jobs, pictures, text, EXR. ---

def test_devices():
    found = gale.devices()
    assert any(device["backend"] == "cpu" for device in found["devices"]) and found["version"] == gale.__version__
    device = gale.Device("cpu")
    assert device.backend == "cpu" and device.info["index"] == 0 and "cpu" in device.why and "cpu" in repr(device)
    assert device.memory["limit_bytes"] == 0
    raises(gale.Error, lambda: gale.Device("no-such-provider"), "no-such-provider")
    raises(gale.Error, lambda: gale.Device("cpu", index=7, strict=True))


def test_jobs():
    verified = gale.verify(GEMM, "cpu", shapes={"x": (2, 3)})
    assert verified["values"] and not any(value["exceeds"] for value in verified["values"])
    raises(gale.NoSuchFile, lambda: gale.verify("no-such.onnx", "cpu"))
    assert gale.inspect(GEMM)["inputs"][0]["name"] == "x"


class FakeRuntime:
    """ONNX Runtime for a test: gale's own results, moved by `off`."""
    __version__, off = "0", 0.0

    class InferenceSession:
        def __init__(self, path, providers):
            assert providers == ["CPUExecutionProvider"]
            self.model = gale.Model(path, "cpu")

        def run(self, names, feed):
            results = self.model.run(feed)
            return [results[name] * (1 + FakeRuntime.off) for name in names]


def test_other_engines():
    found = sys.modules.get("onnxruntime")
    sys.modules["onnxruntime"] = FakeRuntime
    try:
        same = gale.verify(GEMM, "cpu", shapes={"x": (2, 3)}, against="onnxruntime")
        assert same["exceeding"] == 0 and same["values"][0]["relative"] == 0 and same["against"] == "onnxruntime 0"
        FakeRuntime.off = 1e-2
        apart = gale.verify(GEMM, "cpu", inputs={"x": np.ones((2, 3), np.float32)}, against="onnxruntime")
        assert apart["exceeding"] == 1 and abs(apart["values"][0]["relative"] - 1e-2 / 1.01) < 1e-6
        assert gale.verify(GEMM, "cpu", shapes={"x": (2, 3)}, against="onnxruntime", tolerance=0.1)["exceeding"] == 0
    finally:
        del sys.modules["onnxruntime"]
        if found:
            sys.modules["onnxruntime"] = found
    raises(ValueError, lambda: gale.verify(GEMM, "cpu", against="another"))
    raises(ValueError, lambda: gale.verify(GEMM, "cpu", inputs={}))


def test_pictures():
    array = np.random.default_rng(1).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    path = pathlib.Path(scratch.name) / "picture.ppm"
    gale.write_picture(path, array)
    picture = gale.read_picture(path)
    kept = picture.array
    del picture
    gc.collect()
    np.testing.assert_array_equal(kept, array)
    larger = gale.upscale(array, device="cpu")
    assert larger.shape == (40, 48, 3) and larger.dtype == np.uint8
    upscaler = gale.Upscaler(device="cpu")
    assert upscaler.info["scale"] == 2
    assert upscaler.run(path, width=30, tile=0).array.shape == (25, 30, 3)
    raises(gale.Error, lambda: upscaler.set("no-such-control=1"))
    noisy = np.clip(128 + 20 * np.random.default_rng(1).standard_normal((64, 72, 3)), 0, 255).astype(np.uint8)
    with gale.Upscaler("auto", device="cpu") as both:
        cleaned, plain = (both.run(noisy, width=72, clean=amount).array for amount in (None, 0))
    assert cleaned.std() < 10 < plain.std() and (plain == noisy).all()
    raises(ValueError, lambda: gale.upscale(np.zeros((2, 2, 9), np.uint8), device="cpu"))
    raises(TypeError, lambda: gale.upscale(np.zeros((2, 2, 3), np.int64), device="cpu"))
    raises(gale.NoSuchFile, lambda: gale.read_picture("no-such.png"))


def test_text():
    embedder = gale.Embedder("heuristic", "cpu")
    vectors = embedder.embed(["a red bicycle", "two red bicycles", "rain in May", ""])
    assert vectors.shape == (4, embedder.dims) and vectors.dtype == np.float32
    np.testing.assert_allclose(embedder.embed("rain in May"), vectors[2], atol=1e-6)
    assert embedder.embed([]).shape == (0, embedder.dims)
    path = pathlib.Path(scratch.name) / "vectors.npy"
    np.save(path, vectors[:3])
    index = gale.Index(path, "cpu")
    assert (index.rows, index.dims) == (3, embedder.dims)
    rows, scores = index.search(vectors[:3], k=2)
    assert rows.shape == (3, 2) and rows[:, 0].tolist() == [0, 1, 2] and np.allclose(scores[:, 0], 1, atol=1e-5) and rows[0, 1] == 1
    assert index.search(vectors[0], k=5)[0].tolist()[3:] == [-1, -1]
    assert index.search(vectors[0], k=1, allowed=[0, 1, 1])[0].tolist() == [1]
    np.testing.assert_array_equal(index.vector(2), vectors[2])
    raises(gale.Error, lambda: index.vector(3))
    raises(ValueError, lambda: index.search(vectors[:, :5]), "5")
    raises(ValueError, lambda: gale.Embedder("heuristic", "cpu", pooling="none"))
    raises(gale.Error, lambda: gale.Embedder("no-such-encoder", "cpu"), "no-such-encoder")


def test_exr():
    path = pathlib.Path(scratch.name) / "render.exr"
    channels = {name: np.random.default_rng(i).random((11, 7), dtype=np.float32) for i, name in enumerate("RGB")}
    try:
        gale.write_exr(path, {**channels, "Z": np.arange(77, dtype=np.uint32).reshape(11, 7)})
    except gale.NotImplemented as error:
        return skip("EXR", str(error))
    with gale.Exr(path) as file:
        part = file.parts[0]
        assert set(part.channels) == {"R", "G", "B", "Z"} and part.data_window == (0, 0, 6, 10) and part.channels["Z"] == np.uint32
        read = file.read(["R", "Z"])
        np.testing.assert_array_equal(read["R"], channels["R"])
        assert file.read(["G"], dtype=np.float16)["G"].dtype == np.float16
        assert file.view("cpu", tone="aces", width=14).array.shape == (22, 14, 3)
        raises(gale.Error, lambda: file.read(["no"]), "no")
        raises(IndexError, lambda: file.read(part=1))
        raises(ValueError, lambda: file.view("cpu", tone="no"))
    raises(ValueError, lambda: file.read(["R"]), "closed")
    raises(gale.Error, lambda: gale.Exr(GEMM))
    return None


def test_log():
    lines = []
    logger = logging.getLogger("gale.test")
    logger.addHandler(type("Lines", (logging.Handler,), {"emit": lambda self, record: lines.append(record.getMessage())})())
    logger.propagate = False
    gale.log_to(logger)
    try:
        gale.Device("cuda,cpu") if not any(d["backend"] == "cuda" for d in gale.devices()["devices"]) else lines.append("cuda")
    finally:
        gale.log_to(None)
    assert any("cuda" in line for line in lines), lines


def test_install():
    """pip installs it without a network, into a folder of its own."""
    target = pathlib.Path(scratch.name) / "site"
    if subprocess.run([sys.executable, "-c", "import setuptools, wheel, pip"], capture_output=True, check=False).returncode:
        return skip("install", "pip, setuptools or wheel is missing")
    copy = pathlib.Path(scratch.name) / "python"  # pip writes beside the sources
    subprocess.run(["cp", "-r", str(root / "python"), str(copy)], check=True)
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", "--no-deps", "--target", str(target), str(copy)],
                          capture_output=True, text=True, check=False, env=plain)
    assert done.returncode == 0, done.stderr
    where = subprocess.run([sys.executable, "-c", "import gale; print(gale.__file__, gale.__version__)"], capture_output=True, text=True, check=True,
                           env={**plain, "PYTHONPATH": str(target)}, cwd=scratch.name).stdout
    assert str(target) in where, where
    return None


def test_library_is_found():
    """GALE_LIBRARY decides; a file that is not there is said so."""
    def run(**variables):
        return subprocess.run([sys.executable, "-c", "import gale"], capture_output=True, text=True, check=False, env={**os.environ, **variables})

    assert run(GALE_LIBRARY=str(build / "libgale.so"), GALE_BUILD="").returncode == 0
    assert "GALE_LIBRARY" in run(GALE_LIBRARY="/no/such/libgale.so").stderr
    assert "another version" in run(GALE_LIBRARY="libm.so.6").stderr


for name, case in list(globals().items()):
    if name.startswith("test_"):
        try:
            case()
            counts["passed"] += 1
        except Exception as error:  # pylint: disable=broad-except
            counts["failed"] += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}")
scratch.cleanup()
sys.exit(finish())
