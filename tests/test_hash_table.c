/* Hash tables: texts, pairs and numbers as keys, many of them, equal hashes, hostile ones, and memory that runs out. */
#include "test.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/hash_table.h"

/* A set of texts as callers keep it: the items in an array, the table finds them. */
typedef struct words {
    char (*items)[16];
    size_t count, capacity;
    gale__hash_table table;
} words;

static uint64_t hash_of(const char *word) { return gale__hash(word, strlen(word), 0); }

static int64_t find(const words *w, const char *word)
{
    gale__hash_table_probe probe = gale__hash_table_look(hash_of(word));
    for (int64_t i; (i = gale__hash_table_next(&w->table, &probe)) >= 0;)
        if (!strcmp(w->items[i], word)) return i;
    return -1;
}

static gale_status add(words *w, const char *word)
{
    GALE_TRY(gale__grow((void **)&w->items, &w->capacity, w->count + 1, sizeof *w->items));
    GALE_TRY(gale__hash_table_add(&w->table, hash_of(word), (uint32_t)w->count));
    snprintf(w->items[w->count++], sizeof *w->items, "%s", word);
    return GALE_OK;
}

static void finish(words *w)
{
    gale__free(w->items);
    gale__hash_table_finish(&w->table);
}

TEST(texts)
{
    words w = {0};
    char word[16];
    int wrong = 0;
    CHECK_EQ(find(&w, "w1"), -1);
    for (int i = 0; i < 20000; i++) {
        snprintf(word, sizeof word, "w%d", i * 7919 % 100003);
        wrong += find(&w, word) != -1;
        CHECK_OK(add(&w, word));
        wrong += find(&w, word) != i;
    }
    for (int i = 0; i < 20000; i++) {
        snprintf(word, sizeof word, "w%d", i * 7919 % 100003);
        wrong += find(&w, word) != i;
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(find(&w, ""), -1);
    CHECK_OK(add(&w, ""));
    CHECK_EQ(find(&w, ""), 20000);
    CHECK_EQ(w.table.count, 20001);
    CHECK(2 * w.table.count <= w.table.size && !(w.table.size & (w.table.size - 1)));
    finish(&w);
    CHECK_EQ(w.table.size, 0);
}

static int64_t find_u64(const gale__hash_table *t, const uint64_t *keys, uint64_t key)
{
    gale__hash_table_probe probe = gale__hash_table_look(gale__hash(&key, sizeof key, 0));
    for (int64_t i; (i = gale__hash_table_next(t, &probe)) >= 0;)
        if (keys[i] == key) return i;
    return -1;
}

/* Pairs of small numbers, as tokenizers merge them, differ in few bits. */
TEST(numbers)
{
    static uint64_t keys[64 * 64];
    gale__hash_table t = {0};
    int wrong = 0, n = 0;
    for (uint64_t left = 0; left < 64; left++)
        for (uint64_t right = 0; right < 64; right++) {
            keys[n] = left << 32 | right;
            wrong += find_u64(&t, keys, keys[n]) != -1;
            CHECK_OK(gale__hash_table_add(&t, gale__hash(&keys[n], sizeof *keys, 0), (uint32_t)n));
            n++;
        }
    for (int i = 0; i < n; i++) wrong += find_u64(&t, keys, keys[i]) != i;
    CHECK_EQ(wrong, 0);
    CHECK_EQ(find_u64(&t, keys, 64), -1);
    gale__hash_table_finish(&t);
}

TEST(equal_hashes)
{
    gale__hash_table t = {0};
    int64_t sum = 0, i;
    int seen = 0;
    for (uint32_t n = 0; n < 100; n++) CHECK_OK(gale__hash_table_add(&t, 12345, n));
    gale__hash_table_probe probe = gale__hash_table_look(12345);
    for (; (i = gale__hash_table_next(&t, &probe)) >= 0; seen++) sum += i;
    CHECK_EQ(seen, 100);
    CHECK_EQ(sum, 4950);
    gale_status status = GALE_OK;
    uint32_t n = 100;
    for (; status == GALE_OK && n < 10000; n++) status = gale__hash_table_add(&t, 12345, n);
    CHECK_EQ(status, GALE_LIMIT);
    CHECK(n > 1000 && strstr(gale_error(), "collide"));
    gale__hash_table_finish(&t);
}

TEST(reserved)
{
    gale__hash_table t = {0};
    CHECK_OK(gale__hash_table_reserve(&t, 1000));
    size_t size = t.size;
    for (uint32_t i = 0; i < 1000; i++) CHECK_OK(gale__hash_table_add(&t, gale__hash(&i, sizeof i, 0), i));
    CHECK_EQ(t.size, size);
    CHECK_OK(gale__hash_table_reserve(&t, 10));
    CHECK_EQ(t.size, size);
    gale__hash_table_finish(&t);
}

/* A failed addition changes nothing. */
TEST(faults)
{
    int64_t live = gale__alloc_live();
    words w = {0};
    char word[16];
    int failed = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(word, sizeof word, "%d", i);
        gale__alloc_fail_at(1);
        gale_status status = add(&w, word);
        gale__alloc_fail_at(0);
        if (status == GALE_OK) continue;
        failed++;
        CHECK_EQ(status, GALE_NO_MEMORY);
        CHECK_EQ(find(&w, word), -1);
        while (add(&w, word) != GALE_OK) {
        }
    }
    CHECK(failed >= 5);
    for (int i = 0; i < 1000; i++) {
        snprintf(word, sizeof word, "%d", i);
        CHECK_EQ(find(&w, word), i);
    }
    finish(&w);
    CHECK_EQ(gale__alloc_live(), live);
}

TESTS(ROW(texts), ROW(numbers), ROW(equal_hashes), ROW(reserved), ROW(faults))
