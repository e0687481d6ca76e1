/* Every CUDA kernel that `gale check` generates compiles, on a machine without a device: the cases run on the null
 * device with the capabilities of an NVIDIA card, the texts it is given to build are kept, each once, and NVRTC
 * compiles them. */
#include "test.h"
#include "base/hash.h"
#include "device/cuda/nvrtc.h"
#include "device/null/null.h"
#include "device/registry.h"
#include "jobs/selftest/check.h"
#include "nvidia_caps.h"
#include "program_graphs.h"

typedef struct kernel_text {
    char *text;
    size_t head;
    uint64_t hash, head_hash;
} kernel_text; /* head: bytes before the kernel itself */
typedef struct kernel_list {
    kernel_text *items;
    size_t count, capacity, seen;
    bool failed;
} kernel_list;
static kernel_list all;

static void keep(void *user, const char *text, size_t size)
{
    kernel_list *l = user;
    uint64_t hash = gale__hash(text, size, 3);
    l->seen++;
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].hash == hash) return;
    if (gale__grow((void **)&l->items, &l->capacity, l->count + 1, sizeof *l->items) != GALE_OK) l->failed = true;
    else if (!(l->items[l->count].text = gale__alloc(size + 1))) l->failed = true;
    else {
        kernel_text *k = &l->items[l->count++];
        memcpy(k->text, text, size);
        k->text[size] = 0;
        k->hash = hash;
        const char *body = strstr(k->text, "struct P_"); /* where the parameters of the kernel are declared */
        k->head = body ? (size_t)(body - k->text) : 0;
        l->failed |= !body;
        k->head_hash = gale__hash(text, k->head, 4);
    }
}

static gale_device *open_nvidia(void)
{
    gale_device *device = NULL;
    gale_device_caps caps = nvidia;
    caps.corners = false; /* its instructions came with 8.0, and these kernels are compiled for older cards, too */
    gale__null_set_caps(&caps);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &device));
    gale__null_set_caps(NULL);
    return device;
}

/* The network with all its gradients, as it is and with the driver's own functions. */
static void make_network(gale_device *device, bool fast)
{
    gale_graph *graph = NULL;
    gale_program *program = NULL;
    gale_program_options options = {.fast = fast};
    gale_tensor *in[4] = {0}, *out[4] = {0};
    if (CHECK_OK(pg_network(true, &graph)) && CHECK_OK(gale_program_create(graph, device, &options, &program)) &&
        CHECK_OK(pg_network_inputs(NULL, 3, in)))
        CHECK_OK(gale_program_run(program, in, out, GALE_RUN_ON_HOST));
    for (int i = 0; i < 4; i++) gale_tensor_destroy(&in[i]), gale_tensor_destroy(&out[i]);
    gale_program_destroy(&program);
    gale_graph_destroy(&graph);
}

static void generate(void)
{
    gale__arena arena = {0};
    gale_check_options options = {.all = true};
    gale_check_device result = {.name = "nvidia"};
    gale__check check = {.options = &options, .arena = &arena, .out = &result};
    gale_device *device = open_nvidia();
    if (!device || all.count) return;
    gale__null_set_sink(keep, &all);
    CHECK_OK(gale__check_cases(&check, device)); /* what it computes is of no interest: null computes nothing */
    for (size_t i = 0; i < result.n_skips; i++)
        printf("not generated: %s: %s\n", result.skips[i].name, result.skips[i].text);
    for (int fast = 0; fast < 2; fast++) make_network(device, fast);
    gale__null_set_sink(NULL, NULL);
    CHECK(!all.failed);
    gale__arena_finish(&arena);
    gale_device_close(&device);
}

TEST(kernels_are_generated)
{
    generate();
    printf("%zu kernels, %zu of them different\n", all.seen, all.count);
    CHECK(all.count > 300);
    size_t matrix = 0;
    for (size_t i = 0; i < all.count; i++) matrix += strstr(all.items[i].text, "mma.sync") != NULL;
    CHECK(matrix >= 3);
}

/* Kernels with the same head go together into texts, since the head takes the compiler longer than most kernels. */
enum { PACK = 24 };
typedef struct pack {
    const kernel_text *kernels[PACK];
    int n;
} pack;
typedef struct job {
    char target[16];
    pack *packs;
    size_t n_packs;
    _Atomic int bad;
} job;

/* Matrix units and copies beside the threads came with 8.0. */
static bool compiles_for(const kernel_text *k, int arch) { return arch >= 80 || !strstr(k->text, "mma.sync"); }

static bool joins(const pack *p, const kernel_text *k)
{
    return p->n < PACK && p->kernels[0]->head_hash == k->head_hash;
}

/* One in `stride` of the kernels. */
static size_t make_packs(job *j, int arch, size_t stride)
{
    size_t taken = 0;
    for (size_t i = (size_t)arch % stride; i < all.count; i += stride) {
        if (!compiles_for(&all.items[i], arch)) continue;
        taken++;
        size_t p = j->n_packs;
        while (p > 0 && !joins(&j->packs[p - 1], &all.items[i])) p--;
        pack *to = &j->packs[p ? p - 1 : j->n_packs++];
        to->kernels[to->n++] = &all.items[i];
    }
    return taken;
}

static gale_status compile(const char *text, const char *target)
{
    gale__bytes code = {0};
    gale_status status = gale__nvrtc_compile_only(text, target, "--fmad=false", &code);
    if (status == GALE_OK && code.size < 100) status = gale__fail(GALE_BUILD, "no code came out");
    gale__bytes_finish(&code);
    return status;
}

static void compile_pack(void *arg, size_t i, int worker)
{
    job *j = arg;
    const pack *p = &j->packs[i];
    gale__str text = {0};
    (void)worker;
    gale__str_add_n(&text, p->kernels[0]->text, p->kernels[0]->head);
    for (int k = 0; k < p->n; k++) gale__str_add(&text, p->kernels[k]->text + p->kernels[k]->head);
    if (compile(gale__str_text(&text), j->target) != GALE_OK) /* which one was it? */
        for (int k = 0; k < p->n; k++)
            if (compile(p->kernels[k]->text, j->target) != GALE_OK && j->bad++ < 3)
                printf("FAIL %s: %s\n%s\n", j->target, gale_error(), p->kernels[k]->text);
    gale__str_finish(&text);
}

static void compile_for(int arch, size_t stride)
{
    job j = {.packs = gale__calloc(all.count + 1, sizeof(pack))};
    if (!CHECK(j.packs != NULL)) return;
    snprintf(j.target, sizeof j.target, "sm_%d", arch);
    size_t n = make_packs(&j, arch, stride);
    uint64_t begin = gale__time_ns();
    gale__parallel(j.n_packs, compile_pack, &j);
    printf("%s: %zu kernels of %zu in %zu texts, %.1f s\n", j.target, n, all.count, j.n_packs,
        (double)(gale__time_ns() - begin) / 1e9);
    CHECK_EQ(j.bad, 0);
    gale__free(j.packs);
}

TEST(kernels_compile)
{
    int list[64], count = 64;
    if (gale__nvrtc_archs(list, &count) != GALE_OK || !count) SKIP("%s", gale_error());
    generate();
    for (int i = 0; i < count; i++) {
        /* all for one target, a spread of them for the others: what differs between targets is few instructions */
        bool main_one = list[i] == 90, spread = i == 0 || i == count - 1 || list[i] == 80;
        if (main_one || spread) compile_for(list[i], (main_one ? 1 : 4) * (test_brief() ? 12 : 1));
    }
    gale__parallel_finish();
}

TESTS(ROW(kernels_are_generated), ROW(kernels_compile))
