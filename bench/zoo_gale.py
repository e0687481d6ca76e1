"""gale by its C library, for bench/zoo: models run inside the process that times the peers too."""
import ctypes as c

import numpy as np

TYPES = {'float32': 0, 'float64': 1, 'float16': 2, 'int8': 10, 'int16': 11, 'int32': 12, 'int64': 13, 'uint8': 14, 'bool': 22}  # include/gale/types.def
NUMPY = {number: name for name, number in TYPES.items()}


class DeviceOptions(c.Structure):
    _fields_ = [('chain', c.c_char_p), ('index', c.c_int), ('strict', c.c_bool), ('debug_layer', c.c_bool), ('place', c.c_bool), ('pool_limit_bytes', c.c_uint64), ('context', c.c_void_p), ('reserved', c.c_uint64 * 4)]


class Library:
    def __init__(self, path):
        self.c = c.CDLL(path)
        for name in ('gale_error',):
            getattr(self.c, name).restype = c.c_char_p
        for name in ('gale_object_get_tensor', 'gale_tensor_data', 'gale_tensor_dims'):
            getattr(self.c, name).restype = c.c_void_p
            getattr(self.c, name).argtypes = [c.c_void_p]
        for name in ('gale_tensor_type', 'gale_tensor_rank', 'gale_model_inputs', 'gale_model_outputs'):
            getattr(self.c, name).argtypes = [c.c_void_p]
        self.device = c.c_void_p()
        self.check(self.c.gale_device_open(c.byref(DeviceOptions(b'cpu', -1)), c.byref(self.device)))

    def check(self, status):
        if status:
            raise RuntimeError(self.c.gale_error().decode())


class Model:
    """Inputs are given once; a run makes its outputs and drops them."""

    def __init__(self, library, path, inputs):
        self.library, self.c, self.model = library, library.c, c.c_void_p()
        library.check(self.c.gale_model_open(str(path).encode(), library.device, None, c.byref(self.model)))
        self.inputs = (c.c_void_p * len(inputs))(*(self.object_of(x) for x in inputs))
        self.n_outputs = self.c.gale_model_outputs(self.model)

    def object_of(self, array):
        array = np.require(array, requirements='C')
        tensor, result = c.c_void_p(), c.c_void_p()
        dims = (c.c_int64 * array.ndim)(*array.shape)
        self.library.check(self.c.gale_tensor_from_cpu(None, TYPES[array.dtype.name], array.ndim, dims, array.ctypes.data_as(c.c_void_p), c.byref(tensor)))
        self.library.check(self.c.gale_object_tensor(tensor, c.byref(result)))
        self.c.gale_tensor_destroy(c.byref(tensor))
        return result

    def run_objects(self):
        outputs = (c.c_void_p * self.n_outputs)()
        self.library.check(self.c.gale_model_run(self.model, self.inputs, outputs, c.c_bool(True)))
        return outputs

    def drop(self, outputs):
        for i in range(self.n_outputs):
            one = c.c_void_p(outputs[i])
            self.c.gale_object_destroy(c.byref(one))

    def run(self):
        self.drop(self.run_objects())

    def results(self):
        outputs, arrays = self.run_objects(), []
        for i in range(self.n_outputs):
            tensor = self.c.gale_object_get_tensor(outputs[i])
            rank = self.c.gale_tensor_rank(tensor)
            dims = list((c.c_int64 * rank).from_address(self.c.gale_tensor_dims(tensor))) if rank else []
            kind = np.dtype(NUMPY[self.c.gale_tensor_type(tensor)])
            size = int(np.prod(dims)) * kind.itemsize
            data = c.string_at(self.c.gale_tensor_data(tensor), size) if size else b''
            arrays.append(np.frombuffer(data, kind).reshape(dims).copy())
        self.drop(outputs)
        return arrays

    def report(self):
        text = c.c_char_p()
        self.library.check(self.c.gale_model_report(self.model, c.c_bool(False), c.byref(text)))
        return text.value.decode()
