/* Downloads.  libcurl is loaded only when something is downloaded: most uses of gale never need it, and it depends on
 * many libraries. */
#include "jobs/models/fetch.h"
#include "base/file.h"
#include "base/hash.h"
#include "device/library.h"
#include "gale_built.h"
#include "jobs/models/curl_names.h"
#include <stdio.h>
#include <string.h>

bool gale__sha256_read(const char *text, char hex[65]) { return gale__hex_read(text, 64, hex); }

gale_status gale__file_sha256(const char *path, char hex[65], uint64_t *size_bytes)
{
    gale__file_map map = {.fd = -1};
    gale__sha s;
    GALE_TRY(gale__file_map_open(path, &map));
    gale__sha256_init(&s);
    gale_status status = gale__file_map_hash(&map, &s, hex);
    if (size_bytes && status == GALE_OK) *size_bytes = map.size;
    gale__file_map_close(&map);
    return status;
}

#ifdef GALE_HAVE_CURL
enum { SLOW_BYTES = 1, SLOW_SECONDS = 60, CONNECT_SECONDS = 30, REDIRECTS_MOST = 10 };

static const char *const sonames[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so", NULL};
static const char *const symbols[] = {"curl_global_init", "curl_easy_init", "curl_easy_setopt", "curl_easy_perform",
    "curl_easy_getinfo", "curl_easy_cleanup", "curl_easy_strerror"};
static struct {
    CURLcode (*global_init)(long flags);
    CURL *(*init)(void);
    CURLcode (*set)(CURL *handle, CURLoption option, ...);
    CURLcode (*perform)(CURL *handle);
    CURLcode (*info)(CURL *handle, CURLINFO what, ...);
    void (*cleanup)(CURL *handle);
    const char *(*text)(CURLcode code);
} curl;
static gale__library library = {sonames, symbols, sizeof symbols / sizeof *symbols, &curl, "it is too old", NULL};

typedef struct transfer {
    const gale__fetch *fetch;
    gale__file_out out;
    uint64_t begun, have;
    gale_status status;
} transfer;

static size_t receive(char *data, size_t size, size_t count, void *user)
{
    transfer *t = user;
    size_t n = size * count;
    if (t->fetch->size_bytes && (t->have > t->fetch->size_bytes || n > t->fetch->size_bytes - t->have))
        t->status = gale__fail(GALE_MISMATCH, "%s: larger than the expected %llu bytes", t->fetch->url,
            (unsigned long long)t->fetch->size_bytes);
    else t->status = gale__file_add(&t->out, data, n);
    if (t->status != GALE_OK) return 0;
    t->have += n;
    return n;
}

static int show(void *user, int64_t total, int64_t now, int64_t up_total, int64_t up_now)
{
    transfer *t = user;
    (void)up_total, (void)up_now, (void)now;
    uint64_t all = total > 0 ? t->begun + (uint64_t)total : t->fetch->size_bytes;
    return t->fetch->progress && !t->fetch->progress(t->fetch->user, t->have, all);
}

static void set_up(void *h, transfer *t, char *reason)
{
    const struct {
        CURLoption which;
        long value;
    } numbers[] = {{CURLOPT_FOLLOWLOCATION, 1}, {CURLOPT_MAXREDIRS, REDIRECTS_MOST}, {CURLOPT_FAILONERROR, 1},
        {CURLOPT_NOSIGNAL, 1}, {CURLOPT_NOPROGRESS, 0}, {CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS},
        {CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES}, {CURLOPT_LOW_SPEED_TIME, SLOW_SECONDS},
        {CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS | CURLPROTO_FILE},
        {CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS}}; /* a server may not send us to files of ours */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) curl.set(h, numbers[i].which, numbers[i].value);
    curl.set(h, CURLOPT_URL, t->fetch->url);
    curl.set(h, CURLOPT_USERAGENT, "gale");
    curl.set(h, CURLOPT_ERRORBUFFER, reason);
    curl.set(h, CURLOPT_WRITEFUNCTION, receive);
    curl.set(h, CURLOPT_WRITEDATA, t);
    curl.set(h, CURLOPT_XFERINFOFUNCTION, show);
    curl.set(h, CURLOPT_XFERINFODATA, t);
    curl.set(h, CURLOPT_RESUME_FROM_LARGE, (int64_t)t->begun);
}

/* *again: the server cannot go on in the middle, or the part does not fit: from the beginning, then. */
static gale_status judge(transfer *t, CURLcode c, long response, const char *reason, bool *again)
{
    const char *kept = t->have ? "; the partial download is kept, run the same command again to resume" : "";
    if (t->status != GALE_OK)
        return t->status == GALE_IO ? gale__fail_within(t->status, "%s", t->fetch->url) : t->status;
    if (c == CURLE_ABORTED_BY_CALLBACK) return gale__fail(GALE_CANCELLED, "%s: cancelled%s", t->fetch->url, kept);
    *again = t->begun && (c == CURLE_RANGE_ERROR || c == CURLE_BAD_DOWNLOAD_RESUME ||
                             (c == CURLE_HTTP_RETURNED_ERROR && response == 416));
    if (c == CURLE_OK || *again) return GALE_OK;
    if (c == CURLE_FILE_COULDNT_READ_FILE || c == CURLE_REMOTE_FILE_NOT_FOUND ||
        (c == CURLE_HTTP_RETURNED_ERROR && (response == 404 || response == 410)))
        return gale__fail(GALE_NOT_FOUND, "%s: not found (%s)", t->fetch->url, reason);
    return gale__fail(GALE_IO, "%s: %s%s", t->fetch->url, reason, kept);
}

static gale_status attempt(transfer *t, bool *again)
{
    char reason[256] = ""; /* libcurl's own size of such texts */
    long response = 0;
    void *h = curl.init();
    if (!h) return gale__fail(GALE_NO_MEMORY, "cannot start libcurl");
    t->begun = t->have;
    set_up(h, t, reason);
    CURLcode c = curl.perform(h);
    curl.info(h, CURLINFO_RESPONSE_CODE, &response);
    curl.cleanup(h);
    return judge(t, c, response, *reason ? reason : curl.text(c), again);
}

static gale_status check(const transfer *t)
{
    char hex[65];
    if (t->fetch->size_bytes && t->have != t->fetch->size_bytes)
        return gale__fail(GALE_MISMATCH, "%s: has %llu bytes instead of the expected %llu", t->fetch->url,
            (unsigned long long)t->have, (unsigned long long)t->fetch->size_bytes);
    if (!t->fetch->sha256) return GALE_OK;
    GALE_TRY(gale__file_sha256(t->out.name, hex, NULL));
    if (gale__text_equal_nocase(hex, t->fetch->sha256)) return GALE_OK;
    return gale__fail(GALE_MISMATCH, "%s: wrong file: its SHA-256 is %s, not %s", t->fetch->url, hex, t->fetch->sha256);
}

static gale_status restart(transfer *t)
{
    t->have = 0;
    t->status = GALE_OK;
    return gale__file_restart(&t->out);
}

/* A part from an earlier time may be of another file: when it does not come out right, all of it is fetched once more.
 */
static gale_status fetch_and_check(transfer *t)
{
    bool resumed = t->have > 0, again = false;
    gale_status status = GALE_OK;
    if (!t->fetch->size_bytes || t->have != t->fetch->size_bytes) status = attempt(t, &again);
    if (status == GALE_OK && !again) status = check(t);
    if (!again && !(resumed && status == GALE_MISMATCH)) return status;
    GALE_TRY(restart(t));
    GALE_TRY(attempt(t, &again));
    return check(t);
}

gale_status gale__fetch_run(const gale__fetch *f)
{
    transfer t = {.fetch = f};
    if (gale__library_load(&library) != GALE_OK)
        return gale__fail_within(GALE_UNSUPPORTED, "downloading needs libcurl (Debian: libcurl4t64 or libcurl4)");
    if (curl.global_init(3) != CURLE_OK) return gale__fail(GALE_UNSUPPORTED, "cannot start libcurl");
    GALE_TRY(gale__file_resume(f->path, &t.out, &t.have));
    gale_status status = fetch_and_check(&t);
    if (status == GALE_OK) return gale__file_end(&t.out);
    if (status == GALE_MISMATCH || !t.have) gale__file_drop(&t.out);
    else gale__file_keep(&t.out);
    return status;
}
#else
gale_status gale__fetch_run(const gale__fetch *f)
{
    return gale__fail(GALE_UNSUPPORTED,
        "%s: this build of gale cannot download; rebuild it with -Dcurl=auto, or download the file by other means",
        f->url);
}
#endif
