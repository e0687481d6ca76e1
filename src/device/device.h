/* The function table of a backend, and the objects of the device front end.
 *
 * The front end (device.c, stream.c, memory_pool.c) validates arguments (bounds, ownership, state) once; a backend
 * trusts them.  Other rooms use the front end only, never the table. */
#ifndef GALE_DEVICE_DEVICE_H
#define GALE_DEVICE_DEVICE_H
#include "base/context.h"
#include "base/str.h"
#include "base/thread.h"
#include "gale/device.h"

typedef struct gale__backend gale__backend;
typedef struct gale__call gale__call; /* call.h */
struct gale__matrix_product;

/* A block of driver memory. */
typedef struct gale__mem {
    uint64_t address; /* on the device: CUDA, HIP, Vulkan (buffer device address), CPU (the pointer) */
    void *handle;     /* cl_mem, VkBuffer ... */
    void *extra;      /* VkDeviceMemory ... */
    void *host;       /* where the host sees it; NULL when it does not */
    size_t size;
} gale__mem;
typedef enum gale__mem_kind { GALE__MEM_DEVICE, GALE__MEM_HOST /* pinned, mapped */ } gale__mem_kind;

/* A piece of a block.  Made by the pool. */
struct gale_buffer {
    gale_device *device;
    gale__mem *mem;
    size_t offset, size;
    struct gale__pool_piece *piece; /* NULL: memory of somebody else */
    _Atomic int refs;
    bool read_only;
    void (*release)(void *owner); /* of such memory; may be NULL */
    void *owner;
    gale__mem foreign; /* such memory */
};
/* Memory of a device that another library has, as DLPack describes it; release (may be NULL) is called when it is not
 * used any more, not on failure. */
typedef struct gale__foreign {
    int type; /* DLPack's device type */
    void *data;
    uint64_t offset;
    size_t size;
    bool read_only;
    void (*release)(void *owner);
    void *owner;
} gale__foreign;
/* Where a kernel's pointer parameter points. */
typedef struct gale__ref {
    const gale__mem *mem;
    uint64_t offset;
} gale__ref;

/* What the profiler knows of a launch or a transfer beyond its time. */
typedef struct gale__tag {
    const char *name; /* kernel: "map_f32_3" */
    const char *op;   /* operator(s) it stands for: "Softmax" */
    double bytes, operations;
    const char *nodes; /* of the model, as messages call them; NULL: not known */
} gale__tag;

/* Along the width or the height of pictures: how many pixels there are, bytes from one to the next, the first and the
 * last pixel where a window begins, and how far apart windows are. */
typedef struct gale__matrix_axis {
    uint64_t extent, pitch;
    int32_t first, last;
    uint32_t step;
} gale__matrix_axis;

/* A matrix that a kernel fetches parts of, where the device has matrix_maps: rows of `k` elements of 1 or 2 bytes,
 * `pitch` bytes from row to row, in boxes of rows that are `row` bytes long, 128 or 64.  Or the pixels of pictures, of
 * k elements each and 0 outside, seen from windows: their rows follow each other along the width, the height, and the
 * pictures. */
typedef struct gale__matrix_map {
    int ref; /* of the launch */
    uint64_t offset, rows, k, pitch;
    uint32_t box_rows, element, row;
    uint32_t spread; /* 0; or of each 32 or 64 rows of a box, those that differ in the two upper bits lie where bits 1
                        and 2 would put them, and those that differ in the bits between lie above these */
    bool window;     /* rows: pictures; pitch: from one to the next */
    gale__matrix_axis axis[2];
} gale__matrix_map;
#define GALE__LAUNCH_MAPS 2

/* Arguments of a launch: the parameter block is pointers (8 bytes each), then words (4 bytes each).
 *   CUDA, HIP   one struct by value: { unsigned long long p[NP]; unsigned int w[NW]; }, then the maps
 *   OpenCL      one (__global uchar *) per pointer, then one struct by value { ulong offset[NP]; uint w[NW]; }
 *   Vulkan      the block in push constants when it fits caps.push_bytes, else push constants hold its 8-byte address
 *   CPU         the launch itself is handed to the function */
typedef struct gale__launch {
    uint32_t groups[3], group[3];
    int n_refs, n_words, n_maps;
    const gale__ref *refs;
    const uint32_t *words;
    const gale__matrix_map *maps;
    const gale__tag *tag; /* NULL: nothing known */
} gale__launch;

/* What a module is built from. */
typedef enum gale__code {
    GALE__CODE_TEXT,
    GALE__CODE_SPIRV,
    GALE__CODE_BINARY,
    GALE__CODE_HOST,
    GALE__CODE_GLSL
} gale__code;
typedef void gale__host_kernel(void *user, const gale__launch *launch);
typedef struct gale__source {
    gale__code code;
    const void *data; /* text, words or binary; CODE_HOST: unused */
    size_t size;
    const char *options;   /* extra compiler options, "" for none */
    gale__host_kernel *fn; /* CODE_HOST */
    void *user;
    bool ours;      /* made by gale's printers: standard ABI, cached on disk */
    bool waits;     /* CUDA: kernels wait for the one before them themselves, where their target can */
    bool in_device; /* the module is kept in device->kernel_state, which dies with the device: it does not hold the
                       device */
} gale__source;

/* source.data is the caller's and NULL after the build. */
struct gale_module {
    gale_device *device;
    void *impl;
    gale__source source;
    _Atomic int refs;
};
struct gale_kernel {
    gale_module *module;
    void *impl;
    char entry[64];
    uint32_t group[3];
    uint32_t block_bytes;  /* Vulkan: size of the parameter block; 0: not known before the launch */
    uint32_t shared_bytes; /* CUDA: work-group memory that is asked for at launch; 0: what the kernel declares is all */
    bool waits;            /* CUDA: may be launched while the one before is still running */
    bool together;         /* its groups wait for each other: all of a launch must run at the same time */
    /* Parameters of a user's kernel, as reported by the driver or its code; -1: not known. */
    int arguments;       /* buffers and words together */
    int parameter_bytes; /* 8 for each buffer, 4 for each word */
};
struct gale_stream {
    gale_device *device;
    void *impl;
    struct gale__staging *staging;
    bool capturing, late;
    double weight, filled; /* of the launches of a capture so far: bytes, and bytes times occupancy */
};                         /* late: the watchdog gave up on it, and its work may still complete */
struct gale_event {
    gale_device *device;
    void *impl;
    struct gale__staging *staging; /* of the stream it was recorded on: downloads up to `mark` are complete with it */
    uint64_t mark;
    bool recorded;
};
struct gale_capture {
    gale_device *device;
    void *impl;
    void *graph;      /* what impl was made of, where launches in it can change; else NULL */
    double occupancy; /* mean of its launches by the bytes they move; < 0: not known */
};

/* One device as probe finds it, and the reason when there is none. */
typedef struct gale__probe {
    gale_device_info *devices; /* gale__alloc'd */
    int count;
    char reason[512];  /* when count == 0: library not found, no device, version too old, permission ... */
    char remedy[256];  /* what to install or change */
    char library[128]; /* the soname that was opened, "" when none */
} gale__probe;

struct gale__backend {
    const char *name;
    gale_status (*probe)(gale__probe *out); /* fails only if host memory is exhausted */
    gale_status (*open)(
        gale_device *device); /* device->info.index, ->debug_layer are set; fills ->impl, may refine info */
    void (*close)(gale_device *device);
    gale_status (*alloc)(gale_device *device, gale__mem_kind kind, size_t size,
        gale__mem *out); /* GALE_NO_MEMORY when it does not fit */
    void (*free)(gale_device *device, gale__mem *mem);
    gale_status (*stream_create)(gale_device *device, gale_stream *stream);
    void (*stream_destroy)(gale_stream *stream);
    /* host is pinned memory (GALE__MEM_HOST) that stays valid until the stream has passed this point. */
    gale_status (*upload)(gale_stream *stream, gale__ref to, gale__ref host, size_t size);
    gale_status (*download)(gale_stream *stream, gale__ref from, gale__ref host, size_t size);
    gale_status (*copy)(gale_stream *stream, gale__ref to, gale__ref from, size_t size);
    gale_status (*fill)(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes);
    gale_status (*build)(gale_device *device, const gale__source *source, gale_module *module);
    void (*unbuild)(gale_module *module);
    int selftest_parts; /* processes that a self-test on many cores is divided among, if that is faster; 0: one */
    uint32_t selftest_kernels;                     /* kernels_per_module of a self-test; 0: the same */
    gale_status (*compile_file)(const char *path); /* to PATH.code, for device->apart; NULL: cannot */
    gale_status (*kernel)(
        gale_module *module, gale_kernel *kernel); /* entry, group, block_bytes and shared_bytes are set */
    void (*kernel_destroy)(gale_kernel *kernel);
    gale_status (*launch)(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch);
    /* The share of all threads that the device can hold at once which this launch fills at most: as many groups as its
     * registers and work-group memory let a compute unit hold.  NULL, or below 0: not known. */
    double (*occupancy)(const gale_device *device, const gale_kernel *kernel, const gale__launch *launch);
    gale_status (*event_create)(gale_device *device, gale_event *event);
    void (*event_destroy)(gale_event *event);
    gale_status (*event_record)(gale_event *event, gale_stream *stream);
    gale_status (*event_wait)(gale_event *event); /* honours the watchdog */
    gale_status (*event_poll)(gale_event *event, bool *reached);
    gale_status (*stream_wait)(gale_stream *stream, gale_event *event);
    gale_status (*event_elapsed)(gale_event *from, gale_event *to, double *time_us); /* both reached */
    gale_status (*capture_begin)(gale_stream *stream);                               /* NULL: cannot */
    gale_status (*capture_end)(gale_stream *stream, gale_capture *capture);
    gale_status (*capture_replay)(gale_stream *stream, gale_capture *capture);
    void (*capture_destroy)(gale_capture *capture);
    /* The launch that was captured last; NULL: it cannot be told, or captures cannot change. */
    void *(*capture_last)(gale_stream *stream);
    gale_status (*capture_change)(
        gale_capture *capture, void *launched, gale_kernel *kernel, const gale__launch *launch);
    gale_status (*sync)(gale_stream *stream); /* GALE_TIMEOUT after GALE_WATCHDOG_S, GALE_DEVICE_LOST */
    /* Library calls (call.h), for devices with caps.products_side; the others leave these NULL.  product fills impl and
     * workspace_bytes; refs are the result, the factors and the workspace. */
    gale_status (*product)(gale_device *device, const struct gale__matrix_product *product, gale__call *call);
    gale_status (*call_run)(gale_stream *stream, gale__call *call, const gale__ref *refs);
    void (*call_destroy)(gale__call *call);
    gale_status (*memory_info)(gale_device *device, uint64_t *total, uint64_t *free_bytes); /* may be NULL */
    /* What DLPack calls its devices, and whether memory is passed there by its handle instead of its address; 0: other
     * libraries cannot use its memory. */
    int dlpack_type;
    bool dlpack_handle;
};
#define GALE_EVERY_BACKEND
#define X(symbol, label) extern const gale__backend gale__backend_##symbol;
#include "device/backends.def"
#undef X
#undef GALE_EVERY_BACKEND

/* For the graph room, whose runs share the device's memory. */
typedef struct gale__turns {
    gale__mutex lock; /* of the list, `done`, and of waiting */
    gale__cond changed;
    _Atomic uint64_t started, ended; /* runs, */
    uint64_t done;                   /* and those that did not fail for want of memory, since one waits */
    _Atomic int waiting;
    struct gale_program *programs;
} gale__turns;

struct gale_device {
    const gale__backend *backend;
    gale_device_info info;
    void *impl;
    bool debug_layer;
    bool apart;    /* this is a process of gale, which compiles kernels in further ones where that is faster */
    uint32_t once; /* 0, or kernels of a module in a self-test: they run once, and are made to be compiled quickly */
    struct gale__pool *pool;
    struct gale__staging_spare *spare;      /* pinned memory that streams lend each other */
    struct gale__buffer_watch *watch;       /* NULL: off */
    struct gale_profiler *_Atomic profiler; /* NULL: off, at no cost */
    void *kernel_state;                     /* the kernel room's cache of built kernels, with its destructor */
    void (*kernel_state_finish)(void *);
    void *graph_state; /* the graph room's store of weights, likewise */
    void (*graph_state_finish)(void *);
    gale__turns turns;
    gale_context *context; /* held; NULL: the default one */
    gale_device *other;    /* held: the CPU, if work that is predicted to end sooner there may go there; NULL: not so */
    char *why;
    gale_device_options wish; /* that it was opened by, as far as environment and flags decided it, */
    char *chain;              /* its chain, NULL: none, */
    int step;                 /* and the place in that */
    gale__mutex lock;         /* for kernel_state and graph_state */
    _Atomic int refs;         /* handles and objects */
    _Atomic int objects;      /* buffers, streams, events, captures, modules */
};
gale_device *gale__device_hold(gale_device *device); /* released with gale_device_close */
/* The next device of the chain that this one was opened by, for work at which it failed with `why` and what
 * gale_error() says.  If there is none, or a fallback is an error, that failure is returned.  The
 * caller logs the step when the work goes on. */
gale_status gale__device_next(const gale_device *device, gale_status why, gale_device **out);
/* The shapes of mma.sync, as NVIDIA's cards have them since 8.0: m16n8k16, two of them side by side. */
void gale__caps_add_mma(gale_device_caps *caps);
void gale__caps_add_matrix(gale_device_caps *caps); /* 16 x 16 x 16 of f16 and bf16, in whatever order */
/* Opens one device by backend and index, no chain. */
gale_status gale__device_open_one(
    const gale__backend *backend, int index, const gale_device_options *options, gale_device **out);
/* Probes once per process and backend; the result stays owned by the registry. */
gale_status gale__backend_probe(const gale__backend *backend, const gale__probe **out);

/* "CUDA", "Vulkan": for messages. */
const char *gale__backend_label(const gale__backend *backend);
/* GALE_WATCHDOG_S, for the waits of backends.  A driver that runs on the CPU has more time: it compiles while a launch
 * is waited for, beside whatever else the processor does. */
uint64_t gale__watchdog_ns(bool software);
/* memcpy on all cores when it is large. */
void gale__copy_bytes(void *to, const void *from, size_t size);

/* Buffers: counted, since a view of a tensor may outlive its maker. */
gale_buffer *gale__buffer_hold(gale_buffer *buffer);
gale_status gale__buffer_import(gale_device *device, const gale__foreign *from, gale_buffer **out);
/* What other libraries call the buffer's memory; false: they cannot use it. */
bool gale__buffer_export(const gale_buffer *buffer, int *type, void **data, uint64_t *offset);
gale__ref gale__buffer_ref(const gale_buffer *buffer, size_t offset);

/* Pinned memory of the host, to be uploaded as it is; where caps.host_mapped says so, kernels read and write it too. */
/* Makes pinned memory ahead for so many streams that transfer a few MB each: milliseconds for each of them, in which
 * the driver does little else. */
void gale__staging_prepare(gale_device *device, int streams);
gale_status gale__pinned_create(gale_device *device, size_t size, gale__mem *out);
void gale__pinned_destroy(gale_device *device, gale__mem *mem);
gale_status gale__pinned_upload(gale_stream *stream, gale_buffer *to, const gale__mem *host, size_t size);

/* The front: validated, profiled. */
gale_status gale__module_build(gale_device *device, const gale__source *source, gale_module **out);
/* gale_kernel_get with the size of the parameter block, and of the work-group memory asked for at launch. */
gale_status gale__kernel_create(gale_module *module, const char *entry, const uint32_t group[3], uint32_t block_bytes,
    uint32_t shared_bytes, gale_kernel **out);
gale_status gale__launch_run(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch);
/* Whether launches in captures can be given other memory. */
bool gale__captures_change(const gale_device *device);
/* The launch captured last on a stream, for gale__capture_change; NULL: it cannot change. */
void *gale__capture_last(gale_stream *stream);
/* The same kernel with other memory, from the next replay on. */
gale_status gale__capture_change(
    gale_capture *capture, void *launched, gale_kernel *kernel, const gale__launch *launch);
/* A copy on one device between places already checked: what plans do. */
gale_status gale__copy_refs(gale_stream *stream, gale__ref to, gale__ref from, size_t size, const gale__tag *tag);
/* What the calling thread has copied so far, on all devices. */
typedef struct gale__copy_stats {
    uint64_t uploads, downloads, upload_bytes, download_bytes;
} gale__copy_stats;
void gale__copy_get_stats(gale__copy_stats *out);
/* After a failed wait: downloads in flight must not write to memory that the caller may free. */
void gale__stream_forget(gale_stream *stream);
gale_status gale__upload_tagged(
    gale_stream *stream, gale_buffer *to, size_t offset, const void *host, size_t size, const gale__tag *tag);

/* Test hook: make the n-th device allocation from now fail (0: never), or it and all after it. */
void gale__device_alloc_fail_at(uint64_t n);
void gale__device_alloc_fail_from(uint64_t n);
uint64_t gale__device_alloc_count(void);
#endif
