/* Tokenizers: every kind of part against values of the reference library, damaged files, options, threads, and memory
 * that runs out at every place. */
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "gale/text.h"
#include "test.h"

typedef struct text_row {
    const char *text;
    size_t size;
    const char *tokens, *decoded;
} text_row;
typedef struct row {
    const char *name, *json;
    text_row text; /* a tokenizer or a text */
} row;
static const row rows[] = {
#define TOKENIZER(name, ...) {name, __VA_ARGS__, {0}},
#define TEXT(text, tokens, decoded) {NULL, NULL, {text, sizeof text - 1, tokens, decoded}},
#define TEXT_WITH_ZERO TEXT
#include "text_cases.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static void describe(const gale_encoding *e, gale__str *out)
{
    for (size_t i = 0; i < e->count; i++) {
        gale__str_addf(out, "%s%u:%u-%u:", i ? " " : "", e->ids[i], e->ranges[i].begin, e->ranges[i].end);
        if (e->words[i] < 0) gale__str_add(out, ".");
        else gale__str_addf(out, "%d", e->words[i]);
    }
}

/* Bert's tokenizer without accents, which needs no library. */
static const char plain[] =
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"strip_accents\":false,\"lowercase\":true},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"type\":\"BertProcessing\","
    "\"sep\":[\"[SEP]\",23],\"cls\":[\"[CLS]\",22]},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
    "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"hello\":1,"
    "\"world\":2,\"##s\":3,\"##ing\":4,\"run\":5,\"!\":14,\",\":15,\"h\u00e9llo\":16,\"[CLS]\":22,\"[SEP]\":23}}}";

static gale_status open_text(const char *json, gale_tokenizer **out)
{
    return gale_tokenizer_open_memory(json, strlen(json), out);
}

/* A build without utf8proc or PCRE2 says which of them a tokenizer needs. */
static bool is_built_without(gale_status status)
{
    return status == GALE_UNSUPPORTED && strstr(gale_error(), "does not include") &&
           strstr(gale_error(), "install lib");
}

TEST(cases)
{
    gale_tokenizer *t = NULL;
    gale_encoder *e = NULL;
    const char *name = "", *text;
    size_t size;
    for (size_t i = 0; i < ROWS; i++) {
        const row *r = rows + i;
        gale_encoding tokens;
        gale__str is = {0};
        if (r->name) {
            gale_encoder_destroy(&e);
            gale_tokenizer_destroy(&t);
            name = r->name;
            gale_status status = open_text(r->json, &t);
            if (is_built_without(status)) continue;
            if (CHECK_OK(status)) CHECK_OK(gale_encoder_create(t, &e));
            continue;
        }
        if (!e || !CHECK_OK(gale_tokenizer_encode(t, e, r->text.text, r->text.size, NULL, 0, NULL, &tokens))) continue;
        describe(&tokens, &is);
        if (!CHECK_TEXT(gale__str_text(&is), r->text.tokens)) printf("    %s: '%s'\n", name, r->text.text);
        gale__str_finish(&is);
        CHECK_OK(gale_tokenizer_decode(t, e, tokens.ids, tokens.count, GALE_DECODE_SPECIAL, &text, &size));
        if (!CHECK_TEXT(text, r->text.decoded)) printf("    %s: '%s' decoded\n", name, r->text.text);
    }
    gale_encoder_destroy(&e);
    gale_tokenizer_destroy(&t);
    CHECK_EQ(gale__alloc_live(), 0);
}

/* The same encoder again: what it remembers changes nothing. */
TEST(remembers)
{
    gale_tokenizer *t = NULL;
    gale_encoder *e = NULL;
    gale_encoding a;
    gale__str first = {0}, again = {0};
    if (!CHECK_OK(open_text(plain, &t)) || !CHECK_OK(gale_encoder_create(t, &e))) return;
    for (int i = 0; i < 3; i++) {
        again.length = 0;
        CHECK_OK(gale_tokenizer_encode(t, e, "Hello, worlds runing!", 21, NULL, 0, NULL, &a));
        describe(&a, i ? &again : &first);
        if (i) CHECK_TEXT(gale__str_text(&again), gale__str_text(&first));
    }
    gale__alloc_fail_at(0);
    CHECK_OK(gale_tokenizer_encode(t, e, "Hello worlds, runing", 20, NULL, 0, NULL, &a));
    CHECK_EQ(gale__alloc_count(), 0); /* nothing is allocated for a text that is not longer */
    gale__str_finish(&first);
    gale__str_finish(&again);
    gale_encoder_destroy(&e);
    gale_tokenizer_destroy(&t);
}

TEST(options)
{
    gale_tokenizer *t = NULL;
    gale_encoder *e = NULL;
    gale_encoding a;
    gale_tokenizer_info info;
    if (!CHECK_OK(open_text(plain, &t)) || !CHECK_OK(gale_encoder_create(t, &e))) return;
    gale_encode_options o = {.no_special = true};
    CHECK_OK(gale_tokenizer_encode(t, e, "hello [CLS]", 11, NULL, 0, &o, &a));
    CHECK_EQ(a.count, 4); /* [ and ] are unknown, as is cls */
    o = (gale_encode_options){.max_length = 3};
    CHECK_OK(gale_tokenizer_encode(t, e, "hello world", 11, NULL, 0, &o, &a));
    CHECK_EQ(a.count, 3);
    CHECK_EQ(a.ids[2], 23);
    o = (gale_encode_options){.max_length = 1};
    CHECK_FAILS(gale_tokenizer_encode(t, e, "hello", 5, NULL, 0, &o, &a), INVALID);
    o = (gale_encode_options){.pad_length = 6};
    CHECK_OK(gale_tokenizer_encode(t, e, "hello", 5, NULL, 0, &o, &a));
    CHECK(a.count == 6 && a.mask[2] && !a.mask[3] && a.special[5]);
    CHECK_OK(gale_tokenizer_encode(t, e, "hello", 5, "world", 5, NULL, &a));
    CHECK(a.count == 5 && a.type_ids[1] == 0 && a.type_ids[3] == 1 && a.type_ids[4] == 1);
    gale_tokenizer_get_info(t, &info);
    CHECK_TEXT(info.model, "WordPiece");
    CHECK(info.special_count == 2 && info.special_count_of_pair == 3 && !info.pads);
    gale_encoder_destroy(&e);
    gale_tokenizer_destroy(&t);
}

TEST(vocabulary)
{
    gale_tokenizer *t = NULL;
    uint32_t id = 0;
    const char *token;
    size_t size;
    if (!CHECK_OK(open_text(plain, &t))) return;
    CHECK_OK(gale_tokenizer_find(t, "##ing", 5, &id));
    CHECK_EQ(id, 4);
    CHECK_OK(gale_tokenizer_token(t, 4, &token, &size));
    CHECK_TEXT(token, "##ing");
    CHECK_FAILS(gale_tokenizer_find(t, "zebra", 5, &id), NOT_FOUND);
    CHECK_FAILS(gale_tokenizer_token(t, 999, &token, &size), NOT_FOUND);
    CHECK_EQ(gale_tokenizer_size(t), 24);
    gale_tokenizer_destroy(&t);
}

/* Bytes that are not UTF-8 become U+FFFD, a longest broken sequence at a time. */
TEST(broken_utf8)
{
    static const char json[] =
        "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"\\ufffd\":1,"
        "\"a\":2}},\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":1}}";
    static const struct {
        const char *text, *tokens;
    } cases[] = {{"a\xff", "2:0-1:0 1:1-2:1"},
        {"\xe2\x82"
         "a",
            "1:0-1:0 2:1-2:1"},
        {"\xed\xa0\x80", "1:0-1:0 1:1-2:1 1:2-3:2"}, {"\xf0\x9f\x98", "1:0-1:0"}, {"\xc0\xaf", "1:0-1:0 1:1-2:1"},
        {"\xf4\x90\x80\x80", "1:0-1:0 1:1-2:1 1:2-3:2 1:3-4:3"}};
    gale_tokenizer *t = NULL;
    gale_encoder *e = NULL;
    if (!CHECK_OK(open_text(json, &t)) || !CHECK_OK(gale_encoder_create(t, &e))) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gale_encoding a;
        gale__str is = {0};
        CHECK_OK(gale_tokenizer_encode(t, e, cases[i].text, strlen(cases[i].text), NULL, 0, NULL, &a));
        describe(&a, &is);
        CHECK_TEXT(gale__str_text(&is), cases[i].tokens);
        gale__str_finish(&is);
    }
    gale_encoder_destroy(&e);
    gale_tokenizer_destroy(&t);
}

#define MODEL "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0}}"
TEST(refuses)
{
    static const struct {
        const char *json, *part; /* part: what the message has to name */
        gale_status status;
    } cases[] = {{"", "JSON", GALE_FORMAT}, {"[1]", "not a JSON object", GALE_FORMAT}, {"{}", "model", GALE_FORMAT},
        {"{\"model\":{\"type\":\"Magic\"}}", "Magic", GALE_UNSUPPORTED},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Magic\"}}", "Magic", GALE_UNSUPPORTED},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Magic\"}}", "Magic", GALE_UNSUPPORTED},
        {"{" MODEL ",\"post_processor\":{\"type\":\"Magic\"}}", "Magic", GALE_UNSUPPORTED},
        {"{" MODEL ",\"decoder\":{\"type\":\"Magic\"}}", "Magic", GALE_UNSUPPORTED},
        {"{" MODEL ",\"version\":\"2.0\"}", "2.0", GALE_UNSUPPORTED},
        {"{" MODEL ",\"truncation\":{\"max_length\":-1}}", "max_length", GALE_FORMAT},
        {"{" MODEL ",\"added_tokens\":[{\"id\":1}]}", "content", GALE_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "'b'", GALE_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "rule 1", GALE_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}", "dropout", GALE_UNSUPPORTED},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":4294967295}}}", "vocab", GALE_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"a\",0]]}}", "unk_id", GALE_FORMAT},
        {"\n\x12\x0a\x05<unk>\x15", "not a SentencePiece model", GALE_FORMAT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gale_tokenizer *t = NULL;
        gale_status status = open_text(cases[i].json, &t);
        if (!CHECK_EQ(status, cases[i].status) || !CHECK(strstr(gale_error(), cases[i].part) != NULL))
            printf("    %s: %s\n", cases[i].json, gale_error());
        CHECK(t == NULL);
        gale_tokenizer_destroy(&t);
    }
    CHECK_EQ(gale__alloc_live(), 0);
}

/* Expressions run compiled: one that needs more stack than that has is interpreted, and one that would never end stops
 * at the limit of steps. */
TEST(expressions)
{
#define SPLIT_BY(regex)                                                                \
    "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex \
    "\"},\"behavior\":\"Isolated\",\"invert\":false}}"
    static const char *const json[2] = {SPLIT_BY("(?:(a)|b)*c"), SPLIT_BY("(?:a|aa)+[cd]")};
    static char text[20000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 ? 'b' : 'a';
    text[sizeof text - 1] = 'c';
    for (int i = 0; i < 2; i++) {
        gale_tokenizer *t = NULL;
        gale_encoder *e = NULL;
        gale_encoding a;
        gale_status status = open_text(json[i], &t);
        if (is_built_without(status)) SKIP("built without PCRE2");
        if (i) memset(text, 'a', sizeof text);
        if (!CHECK_OK(status) || !CHECK_OK(gale_encoder_create(t, &e))) break;
        status = gale_tokenizer_encode(t, e, text, i ? 200 : sizeof text, NULL, 0, NULL, &a);
        if (i) CHECK_FAILS(status, LIMIT);
        else if (CHECK_OK(status)) CHECK_EQ(a.count, 1);
        gale_encoder_destroy(&e);
        gale_tokenizer_destroy(&t);
    }
}

static void encode_in_thread(void *arg)
{
    const gale_tokenizer *t = arg;
    gale_encoder *e = NULL;
    gale_encoding a;
    if (gale_encoder_create(t, &e) != GALE_OK) return;
    for (int i = 0; i < 200; i++) {
        if (gale_tokenizer_encode(t, e, "Hello WORLDs, runing!", 21, NULL, 0, NULL, &a) != GALE_OK || a.count != 9)
            test_bad++;
        if (gale_tokenizer_encode(t, e, "H\xc3\xa9llo", 6, NULL, 0, NULL, &a) != GALE_OK || a.count != 3) test_bad++;
    }
    gale_encoder_destroy(&e);
}

TEST(threads)
{
    gale_tokenizer *t = NULL;
    gale__thread *threads[3] = {NULL};
    if (!CHECK_OK(open_text(plain, &t))) return;
    for (int i = 0; i < 3; i++) CHECK_OK(gale__thread_start(encode_in_thread, t, &threads[i]));
    for (int i = 0; i < 3; i++) gale__thread_join(&threads[i]);
    gale_tokenizer_destroy(&t);
}

/* Opens, encodes and decodes; nothing may be left whichever allocation fails. */
static gale_status use(size_t first)
{
    gale_tokenizer *t = NULL;
    gale_encoder *e = NULL;
    gale_encoding a;
    const char *text;
    size_t size;
    gale_status status = open_text(rows[first].json, &t);
    if (status == GALE_OK) status = gale_encoder_create(t, &e);
    for (size_t i = first + 1; i < ROWS && !rows[i].name && status == GALE_OK; i++) {
        status = gale_tokenizer_encode(t, e, rows[i].text.text, rows[i].text.size, NULL, 0, NULL, &a);
        if (status == GALE_OK) status = gale_tokenizer_decode(t, e, a.ids, a.count, 0, &text, &size);
    }
    gale_encoder_destroy(&e);
    gale_tokenizer_destroy(&t);
    return status;
}

TEST(allocation_faults)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (!rows[i].name) continue;
        for (uint64_t n = 1; n < 5000; n++) {
            gale__alloc_fail_at(n);
            gale_status status = use(i);
            bool reached = gale__alloc_count() >= n;
            gale__alloc_fail_at(0);
            if (!CHECK_EQ(gale__alloc_live(), 0)) printf("    %s, allocation %d\n", rows[i].name, (int)n);
            if (is_built_without(status)) break;
            if (!reached && !CHECK_OK(status)) break;
            if (!reached) break;
            if (status != GALE_OK && !CHECK_EQ(status, GALE_NO_MEMORY))
                printf("    %s: %s\n", rows[i].name, gale_error());
        }
    }
}

TESTS(ROW(cases), ROW(remembers), ROW(options), ROW(vocabulary), ROW(broken_utf8), ROW(refuses), ROW(expressions),
    ROW(threads), ROW(allocation_faults))
