/* The run-time compilers, loaded when the first source has to be compiled: they are large, and a start with a warm
 * cache does not need them.  They stay loaded. */
#include "device/cuda/nvrtc.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 64
#define MAX_ARCHS 64

typedef struct rtc {
    const gale__cu_maker *maker;
    gale__dl *dl;
    int major, minor;
#define X(need, result, field, cuda, hip, args) result(*field) args;
#include "device/cuda/rtc.def"
#undef X
} rtc;

static const gale__cu_symbol symbols[] = {
#define X(need, result, field, cuda, hip, args) {GALE__CU_##need, {cuda, hip}, offsetof(rtc, field)},
#include "device/cuda/rtc.def"
#undef X
};

/* ---- opening ---- */

/* The names with the driver's major version first. */
static void order_names(const char *const *all, int driver_major, const char *out[32])
{
    char own[16];
    int n = 0;
    snprintf(own, sizeof own, ".so.%d", driver_major);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; all[i] && n < 31; i++)
            if ((strstr(all[i], own) != NULL) == (pass == 0)) out[n++] = all[i];
    out[n] = NULL;
}

static gale_status start(rtc *r, int driver_major)
{
    const gale__cu_maker *m = r->maker;
    const char *names[32];
    bool damaged;
    order_names(m->rtc_sonames, driver_major, names);
    gale_status status = gale__cu_open_library(m->rtc_library, names, &r->dl, &damaged);
    if (status == GALE_NOT_FOUND)
        return gale__fail_within(
            GALE_NOT_FOUND, "%s needs %s to compile kernels: %s", m->label, m->rtc_label, m->rtc_remedy);
    GALE_TRY(status);
    GALE_TRY(gale__cu_fill(r->dl, m->hip, symbols, sizeof symbols / sizeof *symbols, r));
    if (r->version(&r->major, &r->minor)) r->major = r->minor = 0;
    gale__log(GALE__DEBUG, "%s %d.%d from %s", m->rtc_label, r->major, r->minor, gale__dl_name(r->dl));
    return GALE_OK;
}

static gale__once once;
static gale__mutex lock;
static void init(void) { gale__mutex_init(&lock); }

static gale_status get_rtc(const gale__cu_maker *maker, int driver_major, const rtc **out)
{
    static rtc loaded[2];
    static bool ready[2];
    gale__once_run(&once, init);
    gale__mutex_lock(&lock);
    rtc *r = &loaded[maker->hip];
    gale_status status = GALE_OK;
    if (!ready[maker->hip]) {
        *r = (rtc){.maker = maker};
        status = start(r, driver_major);
        ready[maker->hip] = status == GALE_OK;
        if (status != GALE_OK && r->dl) gale__dl_close(&r->dl);
    }
    gale__mutex_unlock(&lock);
    if (status == GALE_OK) *out = r;
    return status;
}

/* ---- targets ---- */

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The compiler's list, oldest first; empty when it is too old to tell. */
static int list_archs(const rtc *r, int list[MAX_ARCHS])
{
    int count = 0;
    if (!r->arch_count || !r->archs || r->arch_count(&count) || count <= 0 || count > MAX_ARCHS || r->archs(list))
        return 0;
    qsort(list, (size_t)count, sizeof *list, by_number);
    return count;
}

gale_status gale__nvrtc_archs(int *list, int *count)
{
    const rtc *r;
    int all[MAX_ARCHS];
    GALE_TRY(get_rtc(&gale__cu_cuda, 0, &r));
    int n = list_archs(r, all);
    if (n > *count) n = *count;
    memcpy(list, all, (size_t)n * sizeof *list);
    *count = n;
    return GALE_OK;
}

gale_status gale__rtc_target(const gale__cu_maker *maker, int driver_major, int arch, char *target, size_t size)
{
    const rtc *r;
    int list[MAX_ARCHS], best = 0;
    if (maker->hip) {
        snprintf(target, size, "%s", "");
        return GALE_OK;
    }
    GALE_TRY(get_rtc(maker, driver_major, &r));
    int count = list_archs(r, list);
    for (int i = 0; i < count; i++)
        if (list[i] <= arch) best = list[i];
    if (count && !best)
        return gale__fail(GALE_UNSUPPORTED,
            "compute capability %d.%d is too old: NVRTC %d.%d supports %d.%d and newer; install an older NVRTC",
            arch / 10, arch % 10, r->major, r->minor, list[0] / 10, list[0] % 10);
    if (!count) best = arch;
    bool own = best == arch && r->code, sends = r->major > 12 || (r->major == 12 && r->minor > 0); /* st.async */
    /* sm_90a: with the instructions that only Hopper has */
    snprintf(target, size, "%s_%d%s", own ? "sm" : "compute", best, own && arch == 90 && sends ? "a" : "");
    return GALE_OK;
}

/* ---- compiling ---- */

typedef struct option_list {
    char *text;
    const char *items[MAX_OPTIONS];
    int count;
} option_list;

/* Splits at blanks, in a copy; the target comes first unless the caller names one. */
static gale_status split_options(const char *target, const char *options, option_list *out)
{
    size_t length = strlen(options), room = length + strlen(target) + 32;
    bool named = strstr(options, "-arch") || strstr(options, "--gpu-architecture") || !*target;
    out->text = gale__alloc(room);
    if (!out->text) return GALE_NO_MEMORY;
    if (named) memcpy(out->text, options, length + 1);
    else snprintf(out->text, room, "--gpu-architecture=%s %s", target, options);
    for (char *at = out->text, *save = NULL, *word; (word = strtok_r(at, " \t\n", &save)); at = NULL) {
        if (out->count == MAX_OPTIONS) return gale__fail(GALE_LIMIT, "more than %d compiler options", MAX_OPTIONS);
        out->items[out->count++] = word;
    }
    return GALE_OK;
}

static void add_log(const rtc *r, void *program, gale__str *out)
{
    size_t size = 0;
    if (r->log_size(program, &size) || size <= 1) return;
    char *text = gale__alloc(size + 1);
    if (!text) return;
    text[size] = 0;
    if (!r->log(program, text)) gale__str_add(out, text);
    gale__free(text);
}

/* A log line each, since the log cuts lines that are too long. */
static void log_lines(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        gale__log(GALE__DEBUG, "| %.*s", n > 4000 ? 4000 : (int)n, text);
        text += n + (text[n] != 0);
    }
}

static gale_status take_code(const rtc *r, void *program, gale__bytes *out)
{
    size_t size = 0;
    int code = r->code_size ? r->code_size(program, &size) : 0;
    bool ptx = !code && !size && r->ptx_size;
    if (ptx) code = r->ptx_size(program, &size);
    if (code || !size)
        return gale__fail(GALE_BUILD, "%s produced no code: %s", r->maker->rtc_label, r->error_text(code));
    gale__bytes bytes = {gale__alloc(size + 1), size};
    if (!bytes.data) return GALE_NO_MEMORY;
    ((char *)bytes.data)[size] = 0; /* PTX is text */
    code = ptx ? r->ptx(program, bytes.data) : r->code(program, bytes.data);
    if (code) {
        gale__bytes_finish(&bytes);
        return gale__fail(GALE_BUILD, "%s produced no code: %s", r->maker->rtc_label, r->error_text(code));
    }
    *out = bytes;
    return GALE_OK;
}

static gale_status compile(const rtc *r, const char *text, const option_list *options, gale__bytes *out)
{
    void *program = NULL;
    gale__str log = {0};
    int code = r->create(&program, text, "kernel.cu", 0, NULL, NULL);
    if (code)
        return gale__fail(code == 1 ? GALE_NO_MEMORY : GALE_BUILD, "%s: %s", r->maker->rtc_label, r->error_text(code));
    uint64_t begin = gale__time_ns();
    code = r->compile(program, options->count, options->items);
    if (code || gale__log_on(GALE__DEBUG)) add_log(r, program, &log);
    if (gale__log_on(GALE__DEBUG)) {
        gale__log(GALE__DEBUG, "%s: %zu bytes of source in %.1f ms", r->maker->rtc_label, strlen(text),
            (double)(gale__time_ns() - begin) / 1e6);
        for (int i = 0; i < options->count; i++) gale__log(GALE__DEBUG, "option %s", options->items[i]);
        log_lines(gale__str_text(&log));
    }
    gale_status status;
    if (code)
        status = gale__fail(code == 1 ? GALE_NO_MEMORY : GALE_BUILD, "%s: %s\n%s", r->maker->rtc_label,
            r->error_text(code), gale__str_text(&log));
    else status = take_code(r, program, out);
    gale__str_finish(&log);
    r->destroy(&program);
    return status;
}

gale_status gale__rtc_compile(const gale__cu_maker *maker, int driver_major, bool ours, const char *text,
    const char *target, const char *options, gale__bytes *out)
{
    const rtc *r;
    option_list list = {0};
    GALE_TRY(get_rtc(maker, driver_major, &r));
    gale_status status = split_options(target, options, &list);
    /* Saves a fifth of the time, and a second cache beside ours.  Older ones do not know the options. */
    if (ours && !maker->hip && 100 * r->major + r->minor >= 1209 && list.count <= MAX_OPTIONS - 2) {
        list.items[list.count++] = "--minimal";
        list.items[list.count++] = "--no-cache";
    }
    if (status == GALE_OK) status = compile(r, text, &list, out);
    gale__free(list.text);
    return status;
}

gale_status gale__nvrtc_compile_only(const char *text, const char *target, const char *options, gale__bytes *out)
{
    return gale__rtc_compile(&gale__cu_cuda, 0, true, text, target, options, out);
}
