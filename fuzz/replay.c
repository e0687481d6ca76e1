/* A fuzzer without an engine: runs it over the files of folders, and over damaged copies of them, so that the tests
 * replay what fuzzing has found.
 *
 *     fuzz_NAME FOLDER... */
#include "base/file.h"
#include "fuzz.h"
#include <string.h>

enum { COPIES = 40, GROWN = 1 << 16 };
static int runs;
#pragma weak LLVMFuzzerCustomMutator

/* Read by the address sanitizer: sizes that no machine has are refused, as they are without it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
{
    static unsigned at;
    (void)most;
    at++;
    if (size) data[at * 7919u % size] ^= (uint8_t)(1 << at % 8);
    return size;
}

/* Mutants of mutants, with the fuzzer's own idea of what to change. */
static void replay_mutants(const uint8_t *file, size_t size, int count)
{
    uint8_t *data = malloc(GROWN);
    size_t n = 0;
    for (int k = 0; size <= GROWN && k < count; k++, runs++) {
        if (k % 10 == 0) memcpy(data, file, n = size);
        n = LLVMFuzzerCustomMutator(data, n, GROWN, (unsigned)(k + 1));
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, data, n);
        LLVMFuzzerTestOneInput(copy, n);
        free(copy);
    }
    free(data);
}

static uint8_t *read_file(const char *path, size_t *size)
{
    gale__bytes file = {0};
    if (gale__file_read(path, 0, &file) != GALE_OK) {
        printf("FAIL %s\n", gale_error());
        exit(1);
    }
    uint8_t *copy = malloc(file.size ? file.size : 1); /* not ours: fuzzers look at what is live */
    memcpy(copy, file.data, file.size);
    *size = file.size;
    gale__bytes_finish(&file);
    return copy;
}

static void replay(const char *path)
{
    size_t whole;
    uint64_t random = 1;
    uint8_t *file = read_file(path, &whole);
    for (int k = 0; k < COPIES; k++, runs++) {
        size_t size = k % 8 == 7 ? whole * (size_t)k / COPIES : whole;
        uint8_t *copy = malloc(size ? size : 1); /* exactly so large: a sanitizer sees the first byte behind it */
        memcpy(copy, file, size);
        for (int flips = k % 4; flips-- && size;) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            copy[(random >> 33) % size] ^= (uint8_t)(1 << (random >> 29 & 7));
        }
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
    }
    if (LLVMFuzzerCustomMutator) replay_mutants(file, whole, COPIES);
    free(file);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        gale__file_info *found = NULL;
        size_t n = 0, count;
        if (gale__folder_list(argv[i], &found, &n) != GALE_OK) return printf("FAIL %s\n", gale_error()), 1;
        char(*names)[1024] = calloc(n + 1, sizeof *names);
        for (count = 0; count < n; count++) snprintf(names[count], sizeof *names, "%s/%s", argv[i], found[count].name);
        gale__folder_list_free(&found, n);
        for (size_t k = 0; k < count; k++) replay(names[k]);
        free(names);
    }
    printf("%d runs\n%d passed, %d failed, 0 skipped\n", runs, runs > 0, runs == 0);
    return runs == 0;
}
