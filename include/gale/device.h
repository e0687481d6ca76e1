/* Devices, memory, streams, events and kernels.
 *
 * A provider name ("cuda", "vulkan", "cpu", an alias) stands for a backend; a chain "cuda,vulkan,cpu" is tried in
 * order. A device is reference-counted: every object created from it holds a reference.  All functions may be called
 * from any thread; one stream serves one thread at a time.  Work on a stream runs in order, and asynchronously to the
 * caller. */
#ifndef GALE_DEVICE_H
#define GALE_DEVICE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_device gale_device;   /* threads: any number at once */
typedef struct gale_buffer gale_buffer;   /* threads: any number at once; streams order what is done to its bytes */
typedef struct gale_stream gale_stream;   /* threads: one at a time */
typedef struct gale_event gale_event;     /* threads: one at a time */
typedef struct gale_capture gale_capture; /* threads: one at a time, since it is replayed on a stream */
typedef struct gale_module gale_module;   /* threads: any number at once */
typedef struct gale_kernel gale_kernel;   /* threads: any number at once, each with a stream of its own */

/* A product of small matrices that the threads of a subgroup compute together in one instruction:
 * (m x k) * (k x n) + (m x n), operands and sums of these types. */
typedef struct gale_matrix_shape {
    uint16_t m, n, k;
    uint8_t operand, sum; /* gale_type */
} gale_matrix_shape;
#define GALE_MATRIX_SHAPES 16

/* What a device can do.  Zero means "no" or "unknown". */
typedef struct gale_device_caps {
    uint64_t memory_bytes, memory_free_bytes; /* as reported by the driver when it was probed */
    uint64_t alloc_max_bytes;                 /* largest single allocation */
    uint32_t compute_units, clock_mhz;
    uint32_t subgroup;          /* threads that run in lockstep; 1 if unknown */
    uint32_t group_max;         /* maximum threads in a work-group */
    uint32_t groups_max[3];     /* maximum work-groups on each axis of a launch: 65535 on lavapipe; 0: unlimited */
    uint32_t loop_max;          /* total loop iterations of a thread after which the driver silently stops: 65535 on
                                   lavapipe; 0: unlimited */
    uint32_t groups_together;   /* work-groups of a launch that surely run at the same time, so that they can wait for
                                   each other (a cooperative launch, one group for each compute unit); 0: none */
    uint32_t shared_bytes;      /* work-group memory */
    uint32_t shared_most_bytes; /* available on request at launch; 0: no more than shared_bytes */
    uint32_t push_bytes;        /* Vulkan: size of the push constants */
    uint32_t arch;              /* NVIDIA: 90 for compute capability 9.0 */
    const char *dialect; /* C dialect of its kernel compiler: "cuda", "hip", "opencl", "opencl+ptx" (with NVIDIA's
                            instructions); NULL: none */
    bool spirv;          /* it builds kernels from SPIR-V */
    bool host_functions; /* it runs functions of this process on host memory, on all cores, without a compiler */
    bool host_mapped;    /* kernels can read and write pinned memory of the host */
    bool in_place;       /* work runs synchronously on the caller's thread, and host memory is used in place */
    bool holds_data;     /* what is written can be read back; the null device runs nothing and keeps nothing */
    uint32_t kernels_per_module; /* kernels to compile together, if the compiler is slow to start; 0: one */
    uint32_t products_side;      /* matrix products with all sides this long go to the vendor's library, where it is
                                    installed (GALE_BLAS); 0: none do */
    uint32_t n_matrix;           /* shapes of its matrix units */
    gale_matrix_shape matrix[GALE_MATRIX_SHAPES];
    bool matrix_groups;   /* four subgroups multiply 64 rows straight from work-group memory: wgmma of Hopper */
    bool matrix_maps;     /* one thread fetches a part of a matrix into work-group memory: bulk copies of Hopper */
    bool matrix_quads;    /* the assignment of sums of a 16 x 16 matrix to threads is known: that of mma.sync */
    bool matrix_f32;      /* f32 products as six of bf16 on matrix units are faster than the device's own */
    bool matrix_emulated; /* matrix units are emulated by ordinary threads (GALE_MATRIX=emulate) */
    bool begins_early;    /* a kernel may begin before the one before it has ended, and waits for it where it must */
    bool f16, f64, i64, bf16, unified_memory, subgroup_ops, capture;
    bool denormals;           /* f32 denormals are kept (SPIR-V: when a kernel asks) */
    bool nan_inf;             /* SPIR-V: NaN and infinities are honoured when a kernel asks */
    bool memory_model;        /* threads of a group can exchange data through device memory */
    bool storage8, storage16; /* 8- and 16-bit loads and stores */
    bool own_math;            /* its own f32 exp, log and division have known error bounds */
    bool exact_division;      /* f32 division is correctly rounded over the whole range; else kernels use their own */
    bool corners;             /* f32 min and max propagate NaN, conversions to integers saturate */
    bool software;            /* a driver that runs on the CPU (PoCL, lavapipe): never chosen automatically */
} gale_device_caps;

/* Peak rates, measured once per device and driver and stored in the cache folder; zero: not measured. */
typedef struct gale_device_ceilings {
    double copy_gbps; /* device to device, bytes read + written */
    double upload_gbps, download_gbps;
    double f32_gflops;    /* multiply-add chains, two operations each */
    double launch_us;     /* one empty kernel, amortised */
    double round_trip_us; /* a few bytes up, one kernel, a few bytes down, and the wait; or, if longer, what a run with
                           * 64 KB up and down takes beside its kernels and these bytes */
    double efficiency;    /* share of these rates that a network reaches */
    /* What a kernel of a network takes beside its work: with little of it, and with enough for all threads. */
    double small_us, large_us;
    double step_ns; /* a term of a sum, where sums are too few to hide how long memory takes to answer */
} gale_device_ceilings;

typedef struct gale_device_info {
    const char *backend; /* "cuda" */
    int index;           /* counted per backend from 0 */
    char name[128];
    char vendor[64];
    char driver[96]; /* name and version */
    char id[64];     /* stable for this machine: UUID or bus id */
    gale_device_caps caps;
    gale_device_ceilings ceilings;
} gale_device_info;

/* All zero: defaults. */
#define GALE_DEVICE_FIRST (-2)
typedef struct gale_device_options {
    const char *chain; /* NULL: GALE_PROVIDER, else automatic */
    int index;   /* which of the provider's devices, counted from 0; 0 also means unset: GALE_DEVICE, else the first.
                    GALE_DEVICE_FIRST: the first, whatever GALE_DEVICE says */
    bool strict; /* a fallback to the next provider is an error */
    bool debug_layer;
    /* If a GPU is chosen automatically, jobs on models (run, bench, verify, upscale, embed) may use the CPU instead,
     * where a run is predicted to end sooner there (gale_model_place).  No effect on a device that was named. */
    bool place;
    uint64_t pool_limit_bytes; /* 0: GALE_POOL_LIMIT_MB, else none */
    gale_context *context;     /* whose log and counters the device uses; NULL: the thread's current context */
    uint64_t reserved[4];      /* 0 */
} gale_device_options;
#define GALE_DEVICE_OPTIONS GALE_DEFAULTS

/* Some drivers compute wrong results unless an environment variable is set before they are loaded.  This call sets
 * those variables if the user has not; programs call it at the start of main, before there are threads.  `gale
 * doctor` lists them.  A library must not change its host's environment, so gale never calls this itself; without the
 * call, the self-test below rejects such a device. */
GALE_API void gale_workarounds_apply(void);

/* The first time a device with an unknown driver version is opened, a short self-test runs in a separate process, and
 * the verdict is stored in the cache folder.  A device that fails the self-test is not opened, unless
 * GALE_ALLOW_UNTRUSTED=1. */

/* Opens the first device of the chain that works.  Each fallback is logged as one warning with the reason;
 * gale_device_why() returns them.  NULL options: all defaults. */
GALE_API gale_status gale_device_open(const gale_device_options *options, gale_device **out);
GALE_API void gale_device_close(gale_device **device);
GALE_API const gale_device_info *gale_device_get_info(const gale_device *device);
/* Why this device was chosen, one line per step; never NULL. */
GALE_API const char *gale_device_why(const gale_device *device);

/* Memory, from the device's pool. */
typedef struct gale_memory_stats {
    uint64_t in_use_bytes, peak_bytes, reserved_bytes, limit_bytes; /* reserved: allocated from the driver */
    uint64_t cached_bytes, largest_free_bytes;                      /* free inside the pool */
    uint64_t buffers, allocations, driver_allocations, fragments;
} gale_memory_stats;
GALE_API gale_status gale_buffer_create(gale_device *device, size_t size_bytes, gale_buffer **out);
GALE_API void gale_buffer_destroy(gale_buffer **buffer);
GALE_API size_t gale_buffer_size(const gale_buffer *buffer);
GALE_API void gale_memory_get_stats(const gale_device *device, gale_memory_stats *out);
/* Returns unused memory to the driver. */
GALE_API void gale_memory_trim(gale_device *device);

/* Streams.  Uploads copy from `host` before they return (through pinned staging) or as they run; the caller may
 * reuse `host` when the call returns.  A download is complete after gale_stream_sync or an event. */
GALE_API gale_status gale_stream_create(gale_device *device, gale_stream **out);
GALE_API void gale_stream_destroy(gale_stream **stream);
GALE_API gale_status gale_upload(gale_stream *stream, gale_buffer *to, size_t offset, const void *host, size_t size);
GALE_API gale_status gale_download(
    gale_stream *stream, const gale_buffer *from, size_t offset, void *host, size_t size);
GALE_API gale_status gale_copy(
    gale_stream *stream, gale_buffer *to, size_t to_offset, const gale_buffer *from, size_t from_offset, size_t size);
/* Repeats the 1, 2, 4 or 8 bytes at `pattern`. */
GALE_API gale_status gale_fill(
    gale_stream *stream, gale_buffer *to, size_t offset, size_t size, const void *pattern, size_t pattern_bytes);
GALE_API gale_status gale_stream_sync(gale_stream *stream);

GALE_API gale_status gale_event_create(gale_device *device, gale_event **out);
GALE_API void gale_event_destroy(gale_event **event);
GALE_API gale_status gale_event_record(gale_event *event, gale_stream *stream);
GALE_API gale_status gale_event_wait(gale_event *event);                       /* the host waits */
GALE_API gale_status gale_event_poll(gale_event *event, bool *reached);        /* the host asks */
GALE_API gale_status gale_stream_wait(gale_stream *stream, gale_event *event); /* the stream waits */
GALE_API gale_status gale_event_elapsed(gale_event *from, gale_event *to, double *time_us);

/* Capture: commands submitted between begin and end are recorded, not run; replay runs them any number of times.
 * GALE_UNSUPPORTED if the driver does not support it. */
GALE_API gale_status gale_capture_begin(gale_stream *stream);
GALE_API gale_status gale_capture_end(gale_stream *stream, gale_capture **out);
GALE_API gale_status gale_capture_replay(gale_stream *stream, gale_capture *capture);
GALE_API void gale_capture_destroy(gale_capture **capture);

/* Users' own kernels.  language: "cuda", "hip", "opencl", "glsl", "spirv" or "binary"; gale_error() has
 * the compiler's message if the source does not compile.  Pointer parameters come first, then 32-bit words:
 * see docs/kernels.md for the signature in each language. */
GALE_API gale_status gale_module_create(
    gale_device *device, const char *language, const void *source, size_t size, const char *options, gale_module **out);
GALE_API void gale_module_destroy(gale_module **module);
GALE_API gale_status gale_kernel_get(
    gale_module *module, const char *entry, const uint32_t group[3], gale_kernel **out);
GALE_API void gale_kernel_destroy(gale_kernel **kernel);
/* The number of buffers and words must be the kernel's, as far as the driver or the code tells (OpenCL, Vulkan, CUDA
 * since 12.4). */
GALE_API gale_status gale_kernel_launch(gale_stream *stream, gale_kernel *kernel, const uint32_t groups[3],
    gale_buffer *const *buffers, int n_buffers, const uint32_t *words, int n_words);

#ifdef __cplusplus
}
#endif
#endif
