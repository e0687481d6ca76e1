/* Fetching by file URLs: a disk that is full, a part in use, digests; and catalogues from hostile hands.  tests/pull.py
 * has the network. */
#include "base/file.h"
#include "base/hash.h"
#include "jobs/models/catalogue.h"
#include "jobs/models/fetch.h"
#include "jobs/models/manifest.h"
#include "test.h"
#include <unistd.h>

static char folder[] = "/tmp/gale-fetch-XXXXXX", from[64], to[64], part[64], url[80], digest[65];
static char data[200000];

static bool set_up(void)
{
    static bool ready;
    if (ready) return true;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * i >> 3);
    if (!CHECK(mkdtemp(folder) != NULL)) return false;
    snprintf(from, sizeof from, "%s/from.onnx", folder);
    snprintf(to, sizeof to, "%s/to.onnx", folder);
    snprintf(part, sizeof part, "%s/to.onnx.part", folder);
    snprintf(url, sizeof url, "file://%s", from);
    gale__sha256_hex(data, sizeof data, digest);
    ready = CHECK_OK(gale__file_write(from, data, sizeof data));
    return ready;
}

static gale_status fetch(void) { return gale__fetch_run(&(gale__fetch){.url = url, .path = to, .sha256 = digest}); }

static bool is_whole(void)
{
    gale__bytes b = {0};
    bool whole = gale__file_read(to, 0, &b) == GALE_OK && b.size == sizeof data && !memcmp(b.data, data, b.size);
    gale__bytes_finish(&b);
    return whole && !gale__file_exists(part);
}

/* Every write in turn finds the disk full; what has come is kept, and the next attempt goes on from there. */
TEST(full_disk)
{
    if (!set_up()) return;
    gale_status status = fetch();
    if (status == GALE_UNSUPPORTED) SKIP("%s", gale_error());
    CHECK_OK(status);
    CHECK(is_whole());
    for (uint64_t n = 1; n < 100; n++) {
        unlink(to);
        gale__file_fail_at(n);
        status = fetch();
        gale__file_fail_at(0);
        if (status == GALE_OK) {
            CHECK(n > 2);
            break;
        }
        CHECK_EQ(status, GALE_IO);
        CHECK(strstr(gale_error(), "No space left") != NULL);
        CHECK(!gale__file_exists(to));
        CHECK_EQ(gale__file_exists(part), n > 1);
        CHECK_OK(fetch());
        CHECK(is_whole());
    }
    unlink(to);
}

static bool stop(void *user, uint64_t done, uint64_t total)
{
    (void)user, (void)total;
    return done == 0;
}

TEST(stopped)
{
    gale__file_out other = {.fd = -1};
    uint64_t have = 0;
    if (!set_up()) return;
    gale__fetch f = {.url = url, .path = to, .sha256 = digest, .progress = stop};
    gale_status status = gale__fetch_run(&f);
    if (status == GALE_UNSUPPORTED) SKIP("%s", gale_error());
    CHECK_EQ(status, GALE_CANCELLED);
    CHECK(!gale__file_exists(to));
    if (!CHECK_OK(gale__file_resume(to, &other, &have))) return;
    CHECK(have > 0);
    CHECK_FAILS(fetch(), IO);
    CHECK(strstr(gale_error(), "another process") != NULL);
    gale__file_keep(&other);
    CHECK_OK(fetch());
    CHECK(is_whole());
    unlink(to);
    f = (gale__fetch){.url = url, .path = to, .size_bytes = sizeof data + 1};
    CHECK_FAILS(gale__fetch_run(&f), MISMATCH);
    CHECK(!gale__file_exists(to) && !gale__file_exists(part));
    f.url = "file:///nowhere/at/all.onnx";
    CHECK_FAILS(gale__fetch_run(&f), NOT_FOUND);
    CHECK(!gale__file_exists(part));
}

/* A link in the part's place leads to something that is not ours. */
TEST(link)
{
    char victim[64];
    gale__bytes b = {0};
    if (!set_up()) return;
    snprintf(victim, sizeof victim, "%s/victim", folder);
    CHECK_OK(gale__file_write(victim, "mine", 4));
    CHECK(symlink(victim, part) == 0);
    CHECK(fetch() != GALE_OK);
    if (CHECK_OK(gale__file_read(victim, 0, &b))) CHECK_EQ(b.size, 4);
    gale__bytes_finish(&b);
    unlink(part);
    unlink(victim);
}

TEST(digest_of_a_model)
{
    gale__manifest m = {.sha256 = "", .path = "x.yml"};
    char beside[80], line[128], hex[65];
    if (!set_up()) return;
    CHECK_OK(gale__model_digest(from, &m, hex));
    CHECK_TEXT(hex, "");
    snprintf(beside, sizeof beside, "%s.sha256", from);
    snprintf(line, sizeof line, "%s  from.onnx\n", digest);
    CHECK_OK(gale__file_write(beside, line, strlen(line)));
    CHECK_OK(gale__model_digest(from, &m, hex));
    CHECK_TEXT(hex, digest);
    CHECK_OK(gale__file_write(beside, "nonsense", 8));
    CHECK_FAILS(gale__model_digest(from, &m, hex), FORMAT);
    m.sha256 = "12";
    CHECK_FAILS(gale__model_digest(from, &m, hex), FORMAT);
    m.sha256 = digest;
    CHECK_OK(gale__model_digest(from, &m, hex));
    unlink(beside);
}

TEST(catalogues)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"x", "list \"models\""},
        {"models: 5", "list \"models\""},
        {"- 5", "not a map"},
        {"- {url: u}", "has no name"},
        {"- {name: a}", "a: no url"},
        {"- {name: [], url: u}", "name is not a string"},
        {"- {name: a, url: u, sha256: 12}", "64 hexadecimal"},
        {"- {name: a, url: u, size: -1}", "size"},
        {"- {name: a, url: u, size: 1.5}", "size"},
        {"- {name: a, url: u, size: 1e300}", "size"},
        {"- {name: a", "line"},
    };
    gale__catalogue c = {0};
    const gale__offer *o = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!CHECK_FAILS(gale__catalogue_parse(rows[i].text, strlen(rows[i].text), &c), FORMAT) ||
            !CHECK(strstr(gale_error(), rows[i].why) != NULL))
            printf("  of: %s: %s\n", rows[i].text, gale_error());
    const char good[] = "models:\n  - {name: a, url: u}\n  - {name: b, url: v, size: 12, licence: MIT}\n";
    if (!CHECK_OK(gale__catalogue_parse(good, strlen(good), &c))) return;
    CHECK_FAILS(gale__catalogue_find(&c, "d", &o), NOT_FOUND);
    CHECK(strstr(gale_error(), "it has a, b") != NULL);
    if (CHECK_OK(gale__catalogue_find(&c, "b", &o)))
        CHECK(o->size_bytes == 12 && !o->sha256 && !strcmp(o->licence, "MIT"));
    gale__catalogue_finish(&c);
    for (uint64_t n = 1; n < 50; n++) {
        gale__alloc_fail_at(n);
        gale_status status = gale__catalogue_parse(good, strlen(good), &c);
        gale__alloc_fail_at(0);
        if (status == GALE_OK) break;
        CHECK_EQ(status, GALE_NO_MEMORY);
    }
    gale__catalogue_finish(&c);
}

TEST(tidy)
{
    if (!set_up()) return;
    unlink(from);
    CHECK(rmdir(folder) == 0);
}

TESTS(ROW(full_disk), ROW(stopped), ROW(link), ROW(digest_of_a_model), ROW(catalogues), ROW(tidy))
