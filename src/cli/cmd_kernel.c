/* gale kernel run: a user's own kernel, with buffers from and to .npy files. */
#include "cli/cli.h"
#include "base/npy.h"
#include "base/num.h"
#include "base/thread.h"
#include "gale/device.h"
#include <stdlib.h>
#include <string.h>

static const gale__arg args[] = {
    {"ACTION", 0, GALE__ARG_CHOICE, NULL, NULL, "run", "action", NULL, true},
    {"FILE", 0, GALE__ARG_FILE, NULL, NULL, NULL, "kernel source or binary: .cl .cu .hip .glsl .comp .spv .cubin .ptx",
        NULL, true},
    {"entry", 'e', GALE__ARG_TEXT, "NAME", "main", NULL, "entry point"},
    {"group", 'g', GALE__ARG_TEXT, "X,Y,Z", "1,1,1", NULL, "threads per work-group"},
    {"groups", 'G', GALE__ARG_TEXT, "X,Y,Z", "1,1,1", NULL, "work-groups"},
    {"buffer", 'b', GALE__ARG_TEXT, "FILE|TYPE:AxB", NULL, NULL,
        "the next buffer: an .npy file, or zeros of a type and shape such as f32:1024x4", NULL, false, true},
    {"word", 'w', GALE__ARG_TEXT, "N", NULL, NULL, "the next 32-bit parameter: 12, -3, 0xff, or 1.5f for a float", NULL,
        false, true},
    {"out", 'o', GALE__ARG_TEXT, "N=FILE", NULL, NULL, "write buffer N, counted from 0, to an .npy file", .many = true,
        .writes = true},
    GALE__ARG_OVERWRITE,
    {"options", 'O', GALE__ARG_TEXT, "TEXT", NULL, NULL, "compiler options"},
    {"repeat", 'r', GALE__ARG_INT, "N", "1", "1..1000000", "number of launches; the best and median time are printed"},
    GALE__ARGS_DEVICE,
    {0},
};

#define BUFFERS_MAX 64
#define WORDS_MAX 256

typedef struct job {
    const gale__args *args;
    gale_device *device;
    gale_stream *stream;
    gale_module *module;
    gale_kernel *kernel;
    gale_event *from, *to;
    gale__npy arrays[BUFFERS_MAX];
    gale_buffer *buffers[BUFFERS_MAX];
    int n_buffers, n_words;
    uint32_t words[WORDS_MAX], group[3], groups[3];
} job;

static gale_status parse_extents(const char *name, const char *text, uint32_t out[3])
{
    out[0] = out[1] = out[2] = 1;
    const char *p = text;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p || v < 1 || v > UINT32_MAX || *p == '-' || (*end && *end != ',')) break;
        out[i] = (uint32_t)v;
        if (!*end) return GALE_OK;
        p = end + 1;
    }
    return gale__fail(GALE_INVALID, "--%s: '%s' is not one to three numbers such as 16,16,1", name, text);
}

static gale_status parse_word(const char *text, uint32_t *out)
{
    size_t n = strlen(text);
    char *end;
    if (n > 1 && (text[n - 1] == 'f' || text[n - 1] == 'F') && strncmp(text, "0x", 2)) {
        float v = strtof(text, &end);
        if (end == text + n - 1) return memcpy(out, &v, 4), GALE_OK;
    } else {
        long long v = strtoll(text, &end, 0);
        if (!*end && v >= INT32_MIN && v <= UINT32_MAX) return *out = (uint32_t)v, GALE_OK;
    }
    return gale__fail(GALE_INVALID, "--word: '%s' is neither a 32-bit number nor a float such as 1.5f", text);
}

/* "f32:1024x4": zeros. */
static gale_status make_zeros(const char *text, gale__npy *out)
{
    const char *colon = strchr(text, ':');
    char name[32], *end;
    size_t bytes;
    if (!colon || colon - text >= (int)sizeof name)
        return gale__fail(
            GALE_INVALID, "--buffer: '%s' is neither an .npy file nor TYPE:SHAPE such as f32:1024x4", text);
    snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
    GALE_TRY(gale_type_parse(name, &out->type));
    bytes = gale_type_size(out->type);
    for (const char *p = colon + 1; out->rank < GALE_MAX_RANK; p = end + 1) {
        unsigned long long v = strtoull(p, &end, 10);
        if (end == p || (*end && *end != 'x') || gale__mul_size(bytes, (size_t)v, &bytes))
            return gale__fail(GALE_INVALID, "--buffer: '%s' is not a shape such as 1024x4", colon + 1);
        out->dims[out->rank++] = (int64_t)v;
        if (!*end) break;
    }
    out->data.data = gale__calloc(bytes ? bytes : 1, 1);
    out->data.size = bytes;
    return out->data.data ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status read_arguments(job *j)
{
    const char *text;
    GALE_TRY(parse_extents("group", gale__args_text(j->args, "group"), j->group));
    GALE_TRY(parse_extents("groups", gale__args_text(j->args, "groups"), j->groups));
    for (size_t i = 0; (text = gale__args_item(j->args, "word", i)); i++) {
        if (i == WORDS_MAX) return gale__fail(GALE_LIMIT, "--word: at most %d words are supported", WORDS_MAX);
        GALE_TRY(parse_word(text, &j->words[j->n_words]));
        j->n_words++;
    }
    for (size_t i = 0; (text = gale__args_item(j->args, "buffer", i)); i++) {
        if (i == BUFFERS_MAX) return gale__fail(GALE_LIMIT, "--buffer: at most %d buffers are supported", BUFFERS_MAX);
        gale__npy *n = &j->arrays[j->n_buffers++];
        size_t length = strlen(text);
        GALE_TRY(length > 4 && !strcmp(text + length - 4, ".npy") ? gale__npy_read(text, n) : make_zeros(text, n));
    }
    return GALE_OK;
}

static const struct {
    const char *suffix, *language;
} suffixes[] = {
    {".cl", "opencl"},
    {".cu", "cuda"},
    {".hip", "hip"},
    {".glsl", "glsl"},
    {".comp", "glsl"},
    {".spv", "spirv"},
    {".cubin", "binary"},
    {".ptx", "binary"},
    {".hsaco", "binary"},
};

static gale_status find_language(const char *path, const char **out)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (!strcmp(dot, suffixes[i].suffix)) return *out = suffixes[i].language, GALE_OK;
    return gale__fail(
        GALE_INVALID, "%s: unknown language; the name must end in .cl .cu .hip .glsl .comp .spv .cubin or .ptx", path);
}

static gale_status build(job *j)
{
    const char *path = gale__args_text(j->args, "FILE"), *language = NULL;
    gale__bytes source = {0};
    GALE_TRY(find_language(path, &language));
    GALE_TRY(gale__file_read(path, (size_t)64 << 20, &source));
    gale_status status = gale_module_create(
        j->device, language, source.data, source.size, gale__args_text(j->args, "options"), &j->module);
    gale__bytes_finish(&source);
    if (status != GALE_OK) return gale__fail_within(status, "%s", path);
    return gale_kernel_get(j->module, gale__args_text(j->args, "entry"), j->group, &j->kernel);
}

static gale_status upload(job *j)
{
    for (int i = 0; i < j->n_buffers; i++) {
        GALE_TRY(gale_buffer_create(j->device, j->arrays[i].data.size, &j->buffers[i]));
        GALE_TRY(gale_upload(j->stream, j->buffers[i], 0, j->arrays[i].data.data, j->arrays[i].data.size));
    }
    return GALE_OK;
}

static gale_status launch(job *j)
{
    int64_t repeat = gale__args_int(j->args, "repeat");
    double *times = gale__calloc((size_t)repeat, sizeof *times);
    gale_status status = times ? GALE_OK : GALE_NO_MEMORY;
    for (int64_t i = 0; i < repeat && status == GALE_OK; i++) {
        GALE_GO(gale_event_record(j->from, j->stream));
        GALE_GO(gale_kernel_launch(j->stream, j->kernel, j->groups, j->buffers, j->n_buffers, j->words, j->n_words));
        GALE_GO(gale_event_record(j->to, j->stream));
        GALE_GO(gale_event_elapsed(j->from, j->to, &times[i]));
    }
    if (status != GALE_OK) goto done;
    qsort(times, (size_t)repeat, sizeof *times, gale__by_value);
    fprintf(stderr, "%s on %s: best %.2f us, median %.2f us\n", gale__args_text(j->args, "entry"),
        gale_device_get_info(j->device)->name, times[0], times[repeat / 2]);
done:
    gale__free(times);
    return status;
}

static gale_status write_out(job *j, const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (end == text || *end != '=' || !end[1]) return gale__fail(GALE_INVALID, "--out: '%s' is not N=FILE", text);
    if (n >= (unsigned long)j->n_buffers)
        return gale__fail(GALE_INVALID, "--out: no buffer %lu; there are %d", n, j->n_buffers);
    gale__npy *a = &j->arrays[n];
    GALE_TRY(gale_download(j->stream, j->buffers[n], 0, a->data.data, a->data.size));
    GALE_TRY(gale_stream_sync(j->stream));
    return gale__npy_write(end + 1, a->type, a->rank, a->dims, a->data.data);
}

static gale_status work(job *j)
{
    const char *text;
    GALE_TRY(gale_device_open(NULL, &j->device));
    GALE_TRY(gale_stream_create(j->device, &j->stream));
    GALE_TRY(gale_event_create(j->device, &j->from));
    GALE_TRY(gale_event_create(j->device, &j->to));
    GALE_TRY(build(j));
    GALE_TRY(upload(j));
    GALE_TRY(launch(j));
    for (size_t i = 0; (text = gale__args_item(j->args, "out", i)); i++) GALE_TRY(write_out(j, text));
    return gale_stream_sync(j->stream);
}

static int run(const gale__args *a)
{
    static job j;
    j = (job){.args = a};
    gale_status status = read_arguments(&j);
    int code = status == GALE_INVALID ? gale__usage("kernel", "kernel: %s", gale_error())
                                      : gale__report(status == GALE_OK ? work(&j) : status);
    gale_kernel_destroy(&j.kernel);
    gale_module_destroy(&j.module);
    gale_event_destroy(&j.from);
    gale_event_destroy(&j.to);
    gale_stream_destroy(&j.stream);
    for (int i = 0; i < j.n_buffers; i++) {
        gale_buffer_destroy(&j.buffers[i]);
        gale__npy_finish(&j.arrays[i]);
    }
    gale_device_close(&j.device);
    return code;
}

const gale__command gale__command_kernel = {
    .args = args,
    .run = run,
    .about = "Builds a kernel from source, SPIR-V or a binary, launches it and writes the requested buffers. Pointer "
             "parameters come first, in the order of --buffer, then 32-bit words in the order of --word. If it does "
             "not compile, the compiler's message is shown.",
    .examples =
        "  gale kernel run scale.cl --provider opencl --entry scale --group 64 --groups 16 --buffer x.npy --word 2.5f "
        "--out 0=y.npy\n"
        "  gale kernel run fill.cu --provider cuda --entry fill --groups 8 --group 128 --buffer f32:1024 --out 0=y.npy",
};
