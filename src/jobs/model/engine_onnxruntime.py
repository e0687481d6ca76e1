"""python3 engine_onnxruntime.py MODEL FOLDER INPUT... -- OUTPUT...: runs a model with ONNX Runtime on the CPU.  FOLDER
has in0.npy, in1.npy ... and gets out0.npy ...; the version is printed.  Exit code 3: it is not installed."""
import os
import sys

try:
    import numpy
    import onnxruntime
except ImportError as missing:
    print(missing)
    sys.exit(3)

model, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
inputs, outputs = names[:names.index("--")], names[names.index("--") + 1:]
feed = {name: numpy.load(os.path.join(folder, "in%d.npy" % i)) for i, name in enumerate(inputs)}
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
try:
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for i, value in enumerate(session.run(outputs, feed)):
        if isinstance(value, numpy.ndarray) and value.dtype != object:
            numpy.save(os.path.join(folder, "out%d.npy" % i), value)
except Exception as failure:  # pylint: disable=broad-except
    print(str(failure).strip().splitlines()[0] if str(failure).strip() else repr(failure))
    sys.exit(1)
print("onnxruntime " + onnxruntime.__version__)
