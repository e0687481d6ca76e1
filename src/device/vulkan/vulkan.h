/* Shared by the files of the Vulkan backend: the functions of libvulkan, loaded at run time, and the objects behind
 * gale_device, gale_stream, gale_event and gale_capture. */
#ifndef GALE_DEVICE_VULKAN_VULKAN_H
#define GALE_DEVICE_VULKAN_VULKAN_H
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>
#include "device/device.h"
#include "device/vulkan/matrix.h"

#define GALE__VK_QUEUES 8  /* most queues to take: each stream keeps to one */
#define GALE__VK_BATCHES 8 /* command buffers of a stream, each with a chunk of parameters */
#define GALE__VK_CHUNK 65536u
#define GALE__VK_WAITS 8   /* events a stream may wait for at once */
#define GALE__VK_HELD 64   /* of others that its submissions still wait for */
#define GALE__VK_PUSH 256u /* most bytes of push constants to use */

/* The functions by their own names: d->fn.vkQueueSubmit(...). */
typedef struct gale__vk {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
#define GLOBAL(name) PFN_##name name;
#define INSTANCE(name) PFN_##name name;
#define DEVICE(name) PFN_##name name;
#include "symbols.def"
} gale__vk;

/* Describes a failed call: "vkAllocateMemory of 12 bytes: VK_ERROR_OUT_OF_DEVICE_MEMORY (-2)". */
gale_status gale__vk_fail(VkResult error, const char *format, ...) GALE__PRINTF(2, 3);

typedef struct gale__vk_instance {
    gale__vk fn;
    VkInstance handle;
    VkDebugUtilsMessengerEXT messenger;
} gale__vk_instance;
/* GALE_NOT_FOUND without the library, GALE_UNSUPPORTED when it is too old, GALE_NO_DEVICE without a driver. */
gale_status gale__vk_instance_open(bool debug_layer, gale__vk_instance *out);
void gale__vk_instance_close(gale__vk_instance *instance);
const char *gale__vk_soname(void); /* "" while not loaded */

typedef struct gale__vk_features {
    VkPhysicalDeviceFeatures2 base;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceSubgroupSizeControlFeatures control;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic;
    gale__vk_matrix_features matrix;
    gale__vk_bf16_features bf16;
} gale__vk_features;

/* A physical device that can serve, and what to ask of it. */
typedef struct gale__vk_physical {
    VkPhysicalDevice handle;
    uint32_t version, family, n_queues, timestamp_bits;
    bool has_control, has_dot, has_atomic, has_budget, has_sm, has_matrix,
        has_bf16;               /* extensions, or the versions that took them in */
    const char *extensions[10]; /* to turn on */
    uint32_t n_extensions;
    gale__vk_features features; /* to turn on; linked by gale__vk_features_link */
    double timestamp_ns;        /* of one tick */
    uint32_t subgroup_min, subgroup_max;
    bool subgroup_settable;
    gale_device_info info;
} gale__vk_physical;
void gale__vk_features_link(gale__vk_physical *p, gale__vk_features *f);
/* Those that can serve, real ones before software; the reason in `why` when there is none.  gale__free the list. */
gale_status gale__vk_find(gale__vk_instance *instance, gale__probe *why, gale__vk_physical **out, int *count);
gale_status gale__vk_probe(gale__probe *out);
/* The heap that device memory comes from, as the driver sees it now. */
void gale__vk_heap(const gale__vk *fn, const gale__vk_physical *p, uint64_t *total, uint64_t *free_bytes);

typedef struct gale__vk_queue {
    VkQueue handle;
    gale__mutex lock; /* a queue takes one call at a time */
} gale__vk_queue;

typedef struct gale__vk_device {
    gale__vk fn;
    gale__vk_instance instance;
    gale__vk_physical physical;
    const char *name;
    VkDevice handle;
    VkPhysicalDeviceMemoryProperties memory;
    VkPipelineLayout layout; /* one for all kernels: no sets, push constants only */
    gale__vk_queue queues[GALE__VK_QUEUES];
    uint32_t n_queues, next_queue;
    gale__mutex lock; /* for the list of streams; taken before a stream's own */
    struct gale__vk_stream *streams;
    struct {
        VkPipeline copy, fill;
        bool wanted, tried;
        gale__mutex lock;
    } bulk; /* taken after a stream's */
} gale__vk_device;
static inline gale__vk_device *gale__vk_of(const gale_device *device) { return device->impl; }

gale_status gale__vk_device_open(gale_device *device);
void gale__vk_device_close(gale_device *device);

/* Memory.  Parameters are written by the host and read by kernels: near the device where the host can write there. */
typedef enum gale__vk_place { GALE__VK_DEVICE, GALE__VK_HOST, GALE__VK_PARAMS } gale__vk_place;
gale_status gale__vk_mem_alloc(gale__vk_device *d, gale__vk_place place, size_t size, gale__mem *out);
void gale__vk_mem_free(gale__vk_device *d, gale__mem *mem); /* nothing may be using it */
gale_status gale__vk_alloc(gale_device *device, gale__mem_kind kind, size_t size, gale__mem *out);
void gale__vk_free(gale_device *device, gale__mem *mem);
gale_status gale__vk_memory_info(gale_device *device, uint64_t *total, uint64_t *free_bytes);

/* A semaphore that counts; outlives its stream while an event or a capture refers to it. */
typedef struct gale__vk_timeline {
    VkSemaphore semaphore;
    _Atomic int refs;
} gale__vk_timeline;
void gale__vk_timeline_drop(gale__vk_device *d, gale__vk_timeline *t);
/* Waits under the watchdog. */
gale_status gale__vk_timeline_wait(gale__vk_device *d, gale__vk_timeline *t, uint64_t value);

/* Where commands are written, and parameters beside them. */
typedef struct gale__vk_recorder {
    VkCommandBuffer commands;
    VkPipeline bound;
    bool any; /* something stands before: the next command needs a barrier */
    const gale__mem *params;
    size_t params_at, params_end;
} gale__vk_recorder;

typedef struct gale__vk_capture {
    VkCommandPool pool;
    gale__vk_recorder rec;
    gale__mem **chunks; /* parameters, as many as it took */
    size_t n_chunks, capacity;
    gale__vk_timeline *timeline; /* the last replay */
    uint64_t value;
} gale__vk_capture;

typedef struct gale__vk_stream {
    gale__vk_device *device;
    gale__vk_timeline *timeline;
    gale__vk_queue *queue;
    VkCommandPool pool;
    struct {
        VkCommandBuffer commands;
        uint64_t value;
    } batches[GALE__VK_BATCHES];
    gale__mem params; /* a chunk for each batch */
    gale__vk_recorder rec;
    int at; /* the batch that rec writes to */
    bool open;
    uint32_t pending;   /* commands in it; a large transfer counts as many */
    uint64_t submitted; /* the timeline's value when all that was submitted is done */
    struct {
        gale__vk_timeline *timeline;
        uint64_t value;
    } waits[GALE__VK_WAITS];
    int n_waits;
    struct {
        gale__vk_timeline *timeline;
        uint64_t value;
    } held[GALE__VK_HELD]; /* submitted waits: until this stream's timeline is there */
    int n_held;
    gale__vk_capture *capture; /* being recorded */
    gale__mutex lock;          /* against memory being freed in another thread */
    struct gale__vk_stream *next;
} gale__vk_stream;
/* The caller holds the stream's lock for these three. */
gale_status gale__vk_command(
    gale__vk_stream *s, size_t params_bytes, gale__vk_recorder **out); /* room and order for one command */
gale_status gale__vk_command_done(gale__vk_stream *s, uint32_t weight);
gale_status gale__vk_submit(gale__vk_stream *s, VkCommandBuffer extra);
void gale__vk_barrier(gale__vk_device *d, VkCommandBuffer commands, bool host);
/* Bytes for parameters of the command begun last. */
void *gale__vk_params(gale__vk_recorder *rec, size_t bytes, gale__ref *where);
/* Waits for all streams, so that memory or a pipeline may go. */
void gale__vk_quiesce(gale__vk_device *d);

gale_status gale__vk_stream_create(gale_device *device, gale_stream *stream);
void gale__vk_stream_destroy(gale_stream *stream);
gale_status gale__vk_sync(gale_stream *stream);
gale_status gale__vk_upload(gale_stream *stream, gale__ref to, gale__ref host, size_t size);
gale_status gale__vk_download(gale_stream *stream, gale__ref from, gale__ref host, size_t size);
gale_status gale__vk_copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size);
gale_status gale__vk_fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes);

/* A large copy or fill inside the device as a kernel: how many bytes it takes over, 0 when it does not suit.  The
 * pattern is that of 8 bytes. */
size_t gale__vk_bulk_copy(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, gale__ref from, size_t size);
size_t gale__vk_bulk_fill(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, size_t size, uint64_t pattern);
void gale__vk_bulk_finish(gale__vk_device *d);

gale_status gale__vk_event_create(gale_device *device, gale_event *event);
void gale__vk_event_destroy(gale_event *event);
gale_status gale__vk_event_record(gale_event *event, gale_stream *stream);
gale_status gale__vk_event_wait(gale_event *event);
gale_status gale__vk_event_poll(gale_event *event, bool *reached);
gale_status gale__vk_stream_wait(gale_stream *stream, gale_event *event);
gale_status gale__vk_event_elapsed(gale_event *from, gale_event *to, double *time_us);

gale_status gale__vk_capture_begin(gale_stream *stream);
gale_status gale__vk_capture_end(gale_stream *stream, gale_capture *capture);
gale_status gale__vk_capture_replay(gale_stream *stream, gale_capture *capture);
void gale__vk_capture_destroy(gale_capture *capture);
void gale__vk_capture_free(gale__vk_device *d, gale__vk_capture *c);
gale_status gale__vk_capture_grow(gale__vk_device *d, gale__vk_capture *c);

gale_status gale__vk_build(gale_device *device, const gale__source *source, gale_module *module);
void gale__vk_unbuild(gale_module *module);
gale_status gale__vk_kernel(gale_module *module, gale_kernel *kernel);
void gale__vk_kernel_destroy(gale_kernel *kernel);
gale_status gale__vk_launch(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch);

/* GLSL of users to SPIR-V words (gale__free), with the compiler's message: through libshaderc, or where that cannot be
 * opened through a compiler that is a program. */
gale_status gale__vk_glsl(const char *text, size_t size, const char *options, uint32_t **words, size_t *count);
gale_status gale__vk_shaderc(const char *text, size_t size, const char *options, uint32_t **words,
    size_t *count); /* GALE_NOT_FOUND without it */
/* The next "-DNAME" or "-DNAME=VALUE" of the options, all that a GLSL compiler is told from outside; *any: there is
 * one. */
gale_status gale__vk_glsl_macro(const char **at, size_t *n, bool *any);
gale_status gale__vk_words_copy(const void *data, size_t size, uint32_t **words, size_t *count);
/* Finds a compute entry; with its local size, zeros where it is not fixed.  GALE_NOT_FOUND lists those there are. */
gale_status gale__vk_spirv_entry(const uint32_t *words, size_t count, const char *entry, uint32_t group[3]);
/* Bytes of the push constants that a module declares, up to the end of the last member; -1: not known. */
int gale__vk_spirv_push_bytes(const uint32_t *words, size_t count);
#endif
