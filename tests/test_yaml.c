/* YAML, as far as it is read: what it means as JSON, what is refused, and that nothing breaks it. */
#include "base/yaml.h"
#include "test.h"

static void dump(const gale__json *n, gale__json_out *j)
{
    if (n->kind == GALE__JSON_NULL) gale__json_null(j);
    if (n->kind == GALE__JSON_BOOL) gale__json_bool(j, n->boolean);
    if (n->kind == GALE__JSON_NUMBER) gale__json_f64(j, n->number);
    if (n->kind == GALE__JSON_STRING) gale__json_string(j, n->string);
    if (n->kind < GALE__JSON_ARRAY) return;
    if (n->kind == GALE__JSON_ARRAY) gale__json_array(j);
    else gale__json_object(j);
    for (const gale__json *c = n->child; c; c = c->next) {
        if (n->kind == GALE__JSON_OBJECT) gale__json_key(j, c->key);
        dump(c, j);
    }
    gale__json_close(j, n->kind == GALE__JSON_ARRAY ? ']' : '}');
}

/* Both texts to the same writing: the second is JSON. */
static void means(const char *yaml, const char *json)
{
    gale__arena a = {0};
    gale__json *root[2] = {0};
    gale__str out[2] = {{0}};
    if (CHECK_OK(gale__yaml_parse(&a, yaml, strlen(yaml), &root[0])) &&
        CHECK_OK(gale__json_parse(&a, json, strlen(json), &root[1]))) {
        for (int i = 0; i < 2; i++) {
            gale__json_out j;
            gale__json_begin(&j, &out[i]);
            dump(root[i], &j);
        }
        if (!CHECK_TEXT(gale__str_text(&out[0]), gale__str_text(&out[1]))) printf("  of: %s\n", yaml);
    } else printf("  of: %s\n", yaml);
    gale__str_finish(&out[0]);
    gale__str_finish(&out[1]);
    gale__arena_finish(&a);
}

static void refused(const char *yaml, const char *why)
{
    gale__arena a = {0};
    gale__json *root = NULL;
    if (!CHECK_FAILS(gale__yaml_parse(&a, yaml, strlen(yaml), &root), FORMAT)) printf("  of: %s\n", yaml);
    else if (!CHECK(strstr(gale_error(), why) != NULL)) printf("  of: %s: %s\n", yaml, gale_error());
    gale__arena_finish(&a);
}

TEST(scalars)
{
    means("a: 1\nb: -2.5e3\nc: true\nd: ~\ne:\nf: text of words\ng: '1'\nh: \"x\\ty\\u00e9\"\n",
        "{\"a\":1,\"b\":-2500,\"c\":true,\"d\":null,\"e\":null,\"f\":\"text of "
        "words\",\"g\":\"1\",\"h\":\"x\\ty\\u00e9\"}");
    means("a: it's\nb: 'it''s'\nc: x#y # z\nd: http://a.b/c\ne: 1.2.3\nf: 2024-01-01\ng: 0x10\n",
        "{\"a\":\"it's\",\"b\":\"it's\",\"c\":\"x#y\",\"d\":\"http://a.b/"
        "c\",\"e\":\"1.2.3\",\"f\":\"2024-01-01\",\"g\":\"0x10\"}");
    means("just text", "\"just text\"");
    means("'a\n  b\n\n  c'", "\"a b\\nc\"");
    means("a: one\n  two\n  three\nb: 2", "{\"a\":\"one two three\",\"b\":2}");
    means("", "null");
    means("# only a comment\n", "null");
    means("\xef\xbb\xbf"
          "a: 1\r\nb: 2\r\n",
        "{\"a\":1,\"b\":2}");
}

TEST(nesting)
{
    means("a:\n  b:\n    c: 1\n  d: 2\ne: 3\n", "{\"a\":{\"b\":{\"c\":1},\"d\":2},\"e\":3}");
    means("- 1\n- a\n-\n- - x\n  - y\n- k: v\n  l: w\n", "[1,\"a\",null,[\"x\",\"y\"],{\"k\":\"v\",\"l\":\"w\"}]");
    means("a:\n- 1\n- 2\nb:\n  - 3\n", "{\"a\":[1,2],\"b\":[3]}");
    means("---\n# hello\na:   # a comment\n\n  b: 1\n\n...\nwhatever", "{\"a\":{\"b\":1}}");
    means("- name: x\n  list:\n    - 1\n  more: y\n- name: z",
        "[{\"name\":\"x\",\"list\":[1],\"more\":\"y\"},{\"name\":\"z\"}]");
    means("'quoted key': 1\n\"b\": 2", "{\"quoted key\":1,\"b\":2}");
}

TEST(brackets)
{
    means("a: [1, 'two', [3], {b: 4}]\nc: {}\nd: []", "{\"a\":[1,\"two\",[3],{\"b\":4}],\"c\":{},\"d\":[]}");
    means("a: {x: 1, y: text of words, z: , w}\n", "{\"a\":{\"x\":1,\"y\":\"text of words\",\"z\":null,\"w\":null}}");
    means("a: [\n  1, # one\n  2,\n]\nb: {\n  c: 3\n}\n", "{\"a\":[1,2],\"b\":{\"c\":3}}");
    means("{\"json\": [true, null, \"x\"], \"n\": -1.5}", "{\"json\":[true,null,\"x\"],\"n\":-1.5}");
}

TEST(text_blocks)
{
    means("a: |\n  one\n   two\n\n  three\nb: 1", "{\"a\":\"one\\n two\\n\\nthree\\n\",\"b\":1}");
    means("a: >\n  one\n  two\n\n  three\n", "{\"a\":\"one two\\nthree\\n\"}");
    means("a: >-\n  one\n  two\nb: |-\n  x\n", "{\"a\":\"one two\",\"b\":\"x\"}");
    means("- |\n  x\n- y", "[\"x\\n\",\"y\"]");
}

TEST(manifest)
{
    means("name: zoom\nparams:\n  scale_factor: 2\ncontrol:\n  defaults: [0.0, 0.5]\n  parameters:\n    - {name: "
          "deblur, description: blur to undo, index: 0}\n    - name: denoise\n      index: 1\n",
        "{\"name\":\"zoom\",\"params\":{\"scale_factor\":2},\"control\":{\"defaults\":[0,0.5],\"parameters\":[{"
        "\"name\":\"deblur\",\"description\":\"blur to undo\",\"index\":0},{\"name\":\"denoise\",\"index\":1}]}}");
}

TEST(refusals)
{
    refused("a: 1\n\tb: 2", "line 2: tabs are");
    refused("a: 1\na: 2", "duplicate");
    refused("{a: 1, a: 2}", "duplicate");
    refused("a: [1, 2", "unclosed bracket");
    refused("a: 'x", "unterminated");
    refused("a: *x", "'*'");
    refused("a: &x 1", "'&'");
    refused("a: !!int 1", "'!'");
    refused("a: 1\n  b: 2", "indented");
    refused("a:\n    b: 1\n  c: 2", "indentation");
    refused("a: 1\nwords", "colon");
    refused("a: [1] 2", "'2'");
    refused("? a\n: b", "");
    refused("a: \"\\q\"", "escape");
    refused("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "deep");
}

/* Every prefix, and many changed bytes, of a text with everything in it. */
TEST(hostile)
{
    static const char all[] = "---\na: [1, {b: 'c''d', \"e\\x41\": ~}] # x\nlist:\n- - 1\n  -\n- k: >-\n    text\n    "
                              "more\n\n  l: |\n   x\nz:\n  y: plain\n    goes on\n...\n";
    uint32_t seed = 1;
    for (size_t n = 0; n <= sizeof all - 1; n++)
        for (int k = 0; k < 60; k++) {
            gale__arena a = {0};
            gale__json *root = NULL;
            char *copy = malloc(n ? n : 1);
            memcpy(copy, all, n);
            for (int i = 0; i < k % 4 && n; i++) {
                seed = seed * 1664525u + 1013904223u;
                copy[(seed >> 8) % n] = "\n\t :-#'\"[]{},|>&x\0"[(seed >> 4) % 19];
            }
            gale__yaml_parse(&a, copy, n, &root);
            gale__arena_finish(&a);
            free(copy);
        }
    for (uint64_t n = 1; n; n++) {
        gale__arena a = {0};
        gale__json *root = NULL;
        gale__alloc_fail_at(n);
        gale_status status = gale__yaml_parse(&a, all, sizeof all - 1, &root);
        bool reached = gale__alloc_count() >= n;
        gale__alloc_fail_at(0);
        gale__arena_finish(&a);
        if (!reached) break;
        CHECK_EQ(status, GALE_NO_MEMORY);
    }
    CHECK_EQ(gale__alloc_live(), 0);
}

TESTS(ROW(scalars), ROW(nesting), ROW(brackets), ROW(text_blocks), ROW(manifest), ROW(refusals), ROW(hostile))
