"""The structs and numbers of the headers that this package fills in or reads.

A test compiles a program that prints the size and the offsets of each, and the value of each number, and compares: see tests/python_layout.py.
"""
import ctypes as c

MAX_RANK = 12

# Values of enums and macros, by the names that C has for them.
CONSTANTS = {
    "GALE_MAX_RANK": MAX_RANK,
    "GALE_OK": 0,
    "GALE_DEVICE_FIRST": -2,
    "GALE_TILE_WHOLE": -2,
    "GALE_CLEAN_NONE": -2,
    "GALE_VERSION": 100,
    "GALE_OBJECT_NONE": 0,
    "GALE_OBJECT_TENSOR": 1,
    "GALE_OBJECT_SEQUENCE": 2,
    "GALE_OBJECT_MAP": 3,
    "GALE_PRECISION_AS_IT_IS": 0,
    "GALE_PRECISION_F16": 1,
    "GALE_PRECISION_BF16": 2,
}

STATUSES = ["OK", "INVALID", "NO_MEMORY", "NO_DEVICE", "UNSUPPORTED", "NOT_FOUND", "IO", "FORMAT", "BUILD", "LIMIT", "DEVICE_LOST", "TIMEOUT", "MISMATCH",
            "CANCELLED", "NOT_FINITE", "INTERNAL", "DEADLINE"]
TYPES = ["F32", "F64", "F16", "BF16", "F8E4M3FN", "F8E4M3FNUZ", "F8E5M2", "F8E5M2FNUZ", "F8E8M0", "F4E2M1", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64",
         "I4", "U4", "I2", "U2", "BOOL", "STRING", "F6E2M3", "F6E3M2"]
TONES = ["LINEAR", "ACES", "REINHARD", "FILMIC", "HABLE", "LOCAL"]
POOLINGS = ["AUTO", "MEAN", "CLS", "MAX", "LAST", "MEAN_SQRT", "WEIGHTED", "MODEL"]
VECTOR_TYPES = ["F32", "F16", "INT8", "BINARY"]
for _prefix, _names in (("GALE_", STATUSES), ("GALE_", TYPES), ("GALE_EXR_", TONES), ("GALE_POOLING_", POOLINGS), ("GALE_VECTOR_", VECTOR_TYPES)):
    CONSTANTS.update({_prefix + name: number for number, name in enumerate(_names)})


RESERVED = ("reserved", c.c_uint64 * 4)  # what every options struct ends with


class gale_matrix_shape(c.Structure):
    _fields_ = [("m", c.c_uint16), ("n", c.c_uint16), ("k", c.c_uint16), ("operand", c.c_uint8), ("sum", c.c_uint8)]


class gale_device_options(c.Structure):
    _fields_ = [("chain", c.c_char_p), ("index", c.c_int), ("strict", c.c_bool), ("debug_layer", c.c_bool), ("place", c.c_bool), ("pool_limit_bytes", c.c_uint64), ("context", c.c_void_p), RESERVED]


class device_info_head(c.Structure):
    """What gale_device_info begins with; capabilities come from gale_devices_list as JSON."""
    _fields_ = [("backend", c.c_char_p), ("index", c.c_int), ("name", c.c_char * 128), ("vendor", c.c_char * 64), ("driver", c.c_char * 96), ("id", c.c_char * 64)]


class gale_memory_stats(c.Structure):
    _fields_ = [(name, c.c_uint64) for name in ("in_use_bytes", "peak_bytes", "reserved_bytes", "limit_bytes", "cached_bytes", "largest_free_bytes", "buffers", "allocations",
                                                "driver_allocations", "fragments")]


class gale_program_options(c.Structure):
    _fields_ = [("no_fusion", c.c_bool), ("no_capture", c.c_bool), ("layout", c.c_int), ("fast", c.c_bool), ("memory_limit_bytes", c.c_uint64), ("no_recognise", c.c_bool),
                ("no_paths", c.c_bool), ("precision", c.c_int), ("threads", c.c_int), ("plan_memory_bytes", c.c_uint64),
                ("batch_invariant", c.c_bool), RESERVED]


class gale_model_options(c.Structure):
    _fields_ = [("program", gale_program_options), ("precision", c.c_int), ("allow_nonfinite", c.c_bool), ("given", c.POINTER(c.c_char_p)), ("n_given", c.c_int),
                ("progress", c.c_void_p), ("user", c.c_void_p), ("cancel", c.c_void_p), RESERVED]


class gale_model_value(c.Structure):
    _fields_ = [("name", c.c_char_p), ("kind", c.c_int), ("optional", c.c_bool), ("has_default", c.c_bool), ("type", c.c_int), ("rank", c.c_int),
                ("dims", c.c_int64 * MAX_RANK), ("symbols", c.c_char_p * MAX_RANK)]


class gale_job_control(c.Structure):
    _fields_ = [("progress", c.c_void_p), ("user", c.c_void_p), ("cancel", c.c_void_p), RESERVED]


class gale_pixel_options(c.Structure):
    _fields_ = [("layout", c.c_int), ("range", c.c_int), ("mean", c.c_char_p), ("std", c.c_char_p), ("colours", c.c_int), RESERVED]


class gale_input_options(c.Structure):
    _fields_ = [("files", c.POINTER(c.c_char_p)), ("n_files", c.c_int), ("shapes", c.POINTER(c.c_char_p)), ("n_shapes", c.c_int), ("dims", c.POINTER(c.c_char_p)), ("n_dims", c.c_int), ("random", c.c_bool), ("seed", c.c_uint64), ("pixels", gale_pixel_options), RESERVED]


class gale_verify_options(c.Structure):
    _fields_ = [("model", gale_model_options), ("inputs", gale_input_options), ("tolerance", c.c_double), ("control", gale_job_control), ("other", c.c_char_p), ("against", c.c_char_p), RESERVED]


class gale_inspect_options(c.Structure):
    _fields_ = [("shapes", c.c_bool), ("control", gale_job_control), RESERVED]


class gale_devices_options(c.Structure):
    _fields_ = [("measure", c.c_bool), ("control", gale_job_control), RESERVED]


class gale_picture_bytes(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t)]


class gale_picture(c.Structure):
    _fields_ = [("width", c.c_int64), ("height", c.c_int64), ("channels", c.c_int), ("type", c.c_int), ("data", c.c_void_p), ("premultiplied", c.c_bool), ("linear", c.c_bool),
                ("lossless", c.c_bool), ("gamma", c.c_double), ("dpi_x", c.c_double), ("dpi_y", c.c_double), ("icc", gale_picture_bytes), ("exif", gale_picture_bytes),
                ("xmp", gale_picture_bytes), ("iptc", gale_picture_bytes), ("texts", gale_picture_bytes), ("exr", gale_picture_bytes), ("frames", c.c_int), ("format", c.c_char_p), ("jpeg_quality", c.c_int)]


class gale_picture_read_options(c.Structure):
    _fields_ = [("max_pixels", c.c_uint64), ("max_bytes", c.c_uint64), ("keep_orientation", c.c_bool), ("layer", c.c_char_p), ("tolerant", c.c_bool), ("first_frame", c.c_bool), RESERVED]


class gale_picture_write_options(c.Structure):
    _fields_ = [("format", c.c_char_p), ("quality", c.c_int), ("lossless", c.c_bool), ("effort", c.c_int), RESERVED]


class gale_upscaler_info(c.Structure):
    _fields_ = [("name", c.c_char_p), ("description", c.c_char_p), ("source", c.c_char_p), ("scale", c.c_int), ("tile", c.c_int), ("overlap", c.c_int), ("controls", c.c_int),
                ("precision", c.c_char_p)]


class gale_upscale_options(c.Structure):
    _fields_ = [("tile", c.c_int64), ("overlap", c.c_int64), ("batch", c.c_int64), ("lanes", c.c_int64), ("width", c.c_int64), ("height", c.c_int64), ("no_check", c.c_bool),
                ("progress", c.c_void_p), ("user", c.c_void_p), ("cancel", c.c_void_p), ("deadline_ns", c.c_uint64), ("clean", c.c_double), RESERVED]


class gale_embedder_options(c.Structure):
    _fields_ = [("pooling", c.c_int), ("no_normalize", c.c_bool), ("dims", c.c_int64), ("max_length", c.c_int64), ("prompt", c.c_char_p), ("prompt_name", c.c_char_p),
                ("file", c.c_char_p), ("model", gale_model_options), ("packing", c.c_int), RESERVED]


class gale_embedder_info(c.Structure):
    _fields_ = [("model", c.c_char_p), ("family", c.c_char_p), ("prompt", c.c_char_p), ("dims", c.c_int64), ("max_length", c.c_int64), ("vocabulary", c.c_int64),
                ("pooling", c.c_int), ("normalized", c.c_bool), ("takes_mask", c.c_bool), ("takes_types", c.c_bool), ("takes_positions", c.c_bool)]


class gale_index_options(c.Structure):
    _fields_ = [("format", c.c_int), ("dims", c.c_int64), ("type", c.c_int), ("device", c.c_void_p), ("probes", c.c_int64), RESERVED]


class gale_index_build_report(c.Structure):
    _fields_ = [("rows", c.c_int64), ("lists", c.c_int64), ("probes", c.c_int64), ("recall", c.c_double), ("seconds", c.c_double)]


class gale_index_info(c.Structure):
    _fields_ = [("rows", c.c_int64), ("dims", c.c_int64), ("type", c.c_int), ("normalized", c.c_bool)]


class gale_hit(c.Structure):
    _fields_ = [("row", c.c_int64), ("score", c.c_float)]


class gale_exr_box(c.Structure):
    _fields_ = [("x0", c.c_int32), ("y0", c.c_int32), ("x1", c.c_int32), ("y1", c.c_int32)]


class gale_exr_channel(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int), ("x_sampling", c.c_int), ("y_sampling", c.c_int), ("linear", c.c_bool)]


class gale_exr_attribute(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_char_p), ("text", c.c_char_p)]


class gale_exr_part(c.Structure):
    _fields_ = [("name", c.c_char_p), ("view", c.c_char_p), ("storage", c.c_int), ("compression", c.c_char_p), ("line_order", c.c_char_p), ("data", gale_exr_box),
                ("display", gale_exr_box), ("pixel_aspect", c.c_double), ("tile_width", c.c_int), ("tile_height", c.c_int), ("levels", c.c_int), ("round_up", c.c_bool),
                ("levels_x", c.c_int), ("levels_y", c.c_int), ("channels", c.POINTER(gale_exr_channel)), ("channel_count", c.c_int),
                ("attributes", c.POINTER(gale_exr_attribute)), ("attribute_count", c.c_int), ("has_chromaticities", c.c_bool), ("chromaticities", c.c_double * 8)]


class gale_exr_target(c.Structure):
    _fields_ = [("channel", c.c_char_p), ("type", c.c_int), ("data", c.c_void_p), ("pixel_bytes", c.c_size_t), ("row_bytes", c.c_size_t)]


class gale_exr_look(c.Structure):
    _fields_ = [("layer", c.c_char_p), ("tone", c.c_int), ("exposure", c.c_double), ("gamma", c.c_double), ("radius", c.c_double), ("width", c.c_int64), ("height", c.c_int64),
                ("side", c.c_int64), ("filter", c.c_int), ("lut", c.c_char_p), ("file_colours", c.c_bool), ("no_alpha", c.c_bool), ("dither", c.c_bool), ("bits", c.c_int),
                ("full", c.c_bool), RESERVED]


class gale_exr_source(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int), ("data", c.c_void_p), ("x_sampling", c.c_int), ("y_sampling", c.c_int)]


class gale_exr_new_part(c.Structure):
    _fields_ = [("name", c.c_char_p), ("data", gale_exr_box), ("display", gale_exr_box), ("compression", c.c_char_p), ("tile_width", c.c_int), ("tile_height", c.c_int),
                ("levels", c.c_int), ("round_up", c.c_bool), ("channels", c.POINTER(gale_exr_source)), ("channel_count", c.c_int), ("level", c.c_void_p), ("user", c.c_void_p),
                ("like", c.c_void_p), ("like_part", c.c_int)]


STRUCTS = [item for item in list(globals().values()) if isinstance(item, type) and issubclass(item, c.Structure) and item.__name__.startswith("gale_")]
