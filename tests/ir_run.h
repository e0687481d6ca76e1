/* Runs a kernel made as IR everywhere: text for NVRTC where its library is, SPIR-V through spirv-val where it is
 * installed, and on every device of every generating backend that this machine has. */
#ifndef GALE_TEST_IR_RUN_H
#define GALE_TEST_IR_RUN_H
#include "device/device.h"
#include "gale_built.h"
#include "kernel/ir/ir.h"
#include "kernel/print/print.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>
#ifdef GALE_HAVE_CUDA
#include "device/cuda/nvrtc.h"
#endif

/* What a full-featured device says of itself: for printing without one. */
static const gale_device_caps ir_full_caps = {
    .subgroup = 32,
    .group_max = 1024,
    .shared_bytes = 48 << 10,
    .push_bytes = 128,
    .f64 = true,
    .i64 = true,
    .subgroup_ops = true,
    .storage8 = true,
    .storage16 = true,
    .exact_division = true,
};

typedef struct ir_buffer {
    void *data;
    size_t size;
} ir_buffer; /* all are sent; those not readonly come back */
typedef struct ir_job {
    gale__ir *ir;
    ir_buffer buffers[8]; /* ir->n_pointers of them */
    uint32_t words[512];
    uint32_t groups[3];
    gale__matrix_map maps[GALE__LAUNCH_MAPS];                    /* ir->n_maps of them */
    bool (*check)(const struct ir_job *job, const char *device); /* looks at the buffers after a run */
    const void *user;
    bool narrow; /* as if the device had no 8- and 16-bit loads */
} ir_job;

static struct {
    const char *provider;
    int dialect; /* -1: SPIR-V; once the device is open, the one that it asks for */
} ir_targets[] = {
    {"opencl", GALE__DIALECT_OPENCL},
    {"vulkan", -1},
    {"cuda", GALE__DIALECT_CUDA},
    {"hip", GALE__DIALECT_HIP},
};
#define IR_TARGETS 4

/* Opened once; NULL and said aloud when it is not there. */
static inline gale_device *ir_device(int target)
{
    static gale_device *devices[IR_TARGETS];
    static bool tried[IR_TARGETS];
    if (!tried[target]) {
        gale_device_options options = GALE_DEVICE_OPTIONS;
        options.chain = ir_targets[target].provider;
        options.strict = true;
        tried[target] = true;
        if (gale_device_open(&options, &devices[target]) != GALE_OK) {
            devices[target] = NULL;
            printf("SKIP on %s: %s\n", ir_targets[target].provider, gale_error());
        } else {
            const gale_device_info *info = gale_device_get_info(devices[target]);
            gale__dialect dialect;
            printf("on %s: %s\n", ir_targets[target].provider, info->name);
            if (info->caps.dialect && CHECK_OK(gale__dialect_find(info->caps.dialect, &dialect)))
                ir_targets[target].dialect = (int)dialect;
        }
    }
    return devices[target];
}

static inline const char *ir_save(const char *name, const void *data, size_t size)
{
    static char path[256];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/gale_ir_%d_%s", folder ? folder : "/tmp", (int)getpid(), name);
    FILE *f = fopen(path, "wb");
    if (!f) return NULL;
    bool ok = fwrite(data, 1, size, f) == size;
    return fclose(f) == 0 && ok ? path : NULL;
}

static inline void ir_spirv_val(const gale__ir_words *w, const char *name)
{
    static int have = -1;
    if (have < 0) {
        have = system("spirv-val --version >/dev/null 2>&1") == 0;
        if (!have) printf("SKIP spirv-val: not installed\n");
    }
    if (!have) return;
    const char *path = ir_save("module.spv", w->words, w->count * 4);
    if (!CHECK(path != NULL)) return;
    char command[400];
    snprintf(command, sizeof command, "spirv-val --target-env vulkan1.2 %s", path);
    fflush(stdout);
    if (!CHECK(system(command) == 0)) printf("  in kernel %s, kept as %s\n", name, path);
    else unlink(path);
}

/* least: the newest card that the compiler must know. */
static inline void ir_nvrtc_for(const char *text, const char *name, const char *target, int least)
{
#ifdef GALE_HAVE_CUDA
    static int newest = -1;
    int archs[64], n = 64;
    if (newest < 0) {
        newest = gale__nvrtc_archs(archs, &n) == GALE_OK && n ? archs[n - 1] : 0;
        if (!newest) printf("SKIP NVRTC: %s\n", gale_error());
    }
    if (newest < least) return;
    gale__bytes binary = {0};
    if (!CHECK_OK(gale__nvrtc_compile_only(text, target, "-fmad=false", &binary)))
        printf("  in kernel %s:\n%.3000s\n", name, text);
    gale__bytes_finish(&binary);
#else
    (void)text, (void)name, (void)target, (void)least;
#endif
}
static inline void ir_nvrtc(const char *text, const char *name) { ir_nvrtc_for(text, name, "compute_80", 80); }

static inline gale_status ir_build_for(
    gale_device *device, const gale_device_caps *caps, const gale__ir *ir, int dialect, gale_module **out)
{
    gale__str text = {0};
    gale__ir_words words = {0};
    gale__source source = {.options = dialect == GALE__DIALECT_CUDA ? "-fmad=false" : "", .ours = true};
    gale_status status;
    if (dialect < 0) {
        status = gale__ir_print_spirv(ir, caps, &words);
        source.code = GALE__CODE_SPIRV, source.data = words.words, source.size = words.count * 4;
    } else {
        status = gale__ir_print_c(&ir, 1, (gale__dialect)dialect, caps, &text);
        source.code = GALE__CODE_TEXT, source.data = text.text, source.size = text.length;
    }
    if (status == GALE_OK) status = gale__module_build(device, &source, out);
    if (status == GALE_BUILD && dialect >= 0) printf("%.4000s\n", gale__str_text(&text));
    gale__str_finish(&text);
    gale__ir_words_finish(&words);
    return status;
}

static inline gale_status ir_build(gale_device *device, const gale__ir *ir, int dialect, gale_module **out)
{
    return ir_build_for(device, &gale_device_get_info(device)->caps, ir, dialect, out);
}

static inline gale_status ir_launch(gale_device *device, gale_module *module, const ir_job *job, void *const *results)
{
    const gale__ir *ir = job->ir;
    gale_stream *stream = NULL;
    gale_kernel *kernel = NULL;
    gale_buffer *buffers[8] = {0};
    gale__ref refs[8];
    gale_status status;
    GALE_GO(gale_stream_create(device, &stream));
    GALE_GO(gale__kernel_create(module, ir->name, ir->group, (uint32_t)(8 * ir->n_pointers + 4 * ir->n_words),
        gale__ir_launch_bytes(ir), &kernel));
    for (int i = 0; i < ir->n_pointers; i++) {
        GALE_GO(gale_buffer_create(device, job->buffers[i].size, &buffers[i]));
        GALE_GO(gale_upload(stream, buffers[i], 0, job->buffers[i].data, job->buffers[i].size));
        refs[i] = gale__buffer_ref(buffers[i], 0);
    }
    gale__launch launch = {.n_refs = ir->n_pointers,
        .n_words = ir->n_words,
        .n_maps = ir->n_maps,
        .refs = refs,
        .words = job->words,
        .maps = job->maps};
    memcpy(launch.groups, job->groups, sizeof launch.groups);
    memcpy(launch.group, ir->group, sizeof launch.group);
    GALE_GO(gale__launch_run(stream, kernel, &launch));
    for (int i = 0; i < ir->n_pointers; i++)
        if (!(ir->readonly >> i & 1)) GALE_GO(gale_download(stream, buffers[i], 0, results[i], job->buffers[i].size));
    GALE_GO(gale_stream_sync(stream));
done:
    for (int i = 0; i < ir->n_pointers; i++) gale_buffer_destroy(&buffers[i]);
    gale_kernel_destroy(&kernel);
    gale_stream_destroy(&stream);
    return status;
}

/* The kernel starts from the job's own buffers on each device; check sees what came back in their place. */
static inline void ir_run_on(const ir_job *job, int target)
{
    gale_device *device = ir_device(target);
    gale_module *module = NULL;
    if (!device) return;
    ir_job back = *job;
    void *results[8] = {0};
    for (int i = 0; i < job->ir->n_pointers; i++) {
        if (job->ir->readonly >> i & 1) continue;
        results[i] = malloc(job->buffers[i].size);
        back.buffers[i].data = results[i];
    }
    gale_device_caps caps = gale_device_get_info(device)->caps;
    if (job->narrow) caps.storage8 = caps.storage16 = false;
    gale_status status = ir_build_for(device, &caps, job->ir, ir_targets[target].dialect, &module);
    if (status == GALE_UNSUPPORTED) {
        printf("SKIP %s on %s: %s\n", job->ir->name, ir_targets[target].provider, gale_error());
    } else if (test_check_ok(status, ir_targets[target].provider, 0, job->ir->name)) {
        if (test_check_ok(ir_launch(device, module, job, results), ir_targets[target].provider, 0, job->ir->name))
            CHECK(job->check(&back, ir_targets[target].provider));
    }
    gale_module_destroy(&module);
    for (int i = 0; i < 8; i++) free(results[i]);
}

/* The kernel is finished with it. */
static inline void ir_run(ir_job *job)
{
    const gale__ir *ir = job->ir;
    gale__str text = {0};
    gale__ir_words words = {0};
    if (CHECK_OK(gale__ir_validate(ir))) {
        if (CHECK_OK(gale__ir_print_c(&ir, 1, GALE__DIALECT_CUDA, &ir_full_caps, &text))) ir_nvrtc(text.text, ir->name);
        gale_status status = gale__ir_print_spirv(ir, &ir_full_caps, &words);
        if (status != GALE_UNSUPPORTED && CHECK_OK(status)) ir_spirv_val(&words, ir->name);
        for (int i = 0; i < IR_TARGETS; i++) ir_run_on(job, i);
    }
    gale__str_finish(&text);
    gale__ir_words_finish(&words);
    gale__ir_finish(job->ir);
}

static inline void ir_close_devices(void)
{
    for (int i = 0; i < IR_TARGETS; i++) {
        gale_device *device = ir_device(i);
        gale_device_close(&device);
    }
}
#endif
