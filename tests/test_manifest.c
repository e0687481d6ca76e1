/* Manifests of models: what is read, what is refused and by what name, controls, and a folder with a broken one in it.
 */
#include "base/file.h"
#include "jobs/models/manifest.h"
#include "test.h"
#include <unistd.h>

static int warnings;
static void count_warnings(void *user, int level, const char *line)
{
    (void)user, (void)line;
    warnings += level == GALE__WARN;
}

static gale_status parse(const char *text, gale__manifest *m)
{
    return gale__manifest_parse(text, strlen(text), "file", m);
}

static const char zoom[] =
    "name: zoom\ndescription: Doubles.\nsource: ours\nparams:\n  scale_factor: 2\n  tile_size: 128\n  tile_overlap: "
    "16\ncontrol:\n  size: 3\n  defaults: [0.0, 0.5, 1]\n  parameters:\n"
    "    - {name: deblur, description: blur to undo, index: 0}\n    - {name: deartifact, index: 2}\n";

TEST(reads)
{
    gale__manifest m;
    if (!CHECK_OK(parse(zoom, &m))) return;
    CHECK_TEXT(m.name, "zoom");
    CHECK_TEXT(m.description, "Doubles.");
    CHECK(m.scale == 2 && m.tile == 128 && m.overlap == 16 && m.multiple == 0 && m.low == 0 && m.high == 1);
    CHECK(m.control_count == 3 && m.named_count == 2 && m.defaults[1] == 0.5f && m.controls[1].index == 2);
    CHECK_TEXT(m.controls[0].description, "blur to undo");
    gale__manifest_finish(&m);
    if (!CHECK_OK(parse("{\"params\": {\"layout\": \"NHWC\", \"colours\": \"bgr\", \"range\": [-1, 1], \"multiple\": "
                        "64, \"padding\": \"reflect\"}}",
            &m)))
        return;
    CHECK_TEXT(m.name, "file");
    CHECK(m.scale == 0 && m.tile == 256 && m.overlap == 32 && m.layout == GALE__MANIFEST_LAYOUT_NHWC &&
          m.colours == GALE__COLOURS_BGR && m.low == -1 && m.multiple == 64 && m.padding == GALE__PAD_REFLECT);
    gale__manifest_finish(&m);
    if (CHECK_OK(parse("name: 4\nparams: {tile_size: 16}", &m))) {
        CHECK_TEXT(m.name, "4");
        CHECK(m.overlap < 16);
    }
    gale__manifest_finish(&m);
}

TEST(refuses)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"- a list", "map"},
        {"name: [1]", "name"},
        {"params: 5", "params"},
        {"params: {scale_factor: 0}", "scale_factor is 0"},
        {"params: {scale_factor: 1.5}", "not an integer"},
        {"params: {tile_size: 64, tile_overlap: 64}", "is too large for"},
        {"params: {layout: chw}", "layout"},
        {"params: {range: [1, 0]}", "range"},
        {"params: {range: 255}", "range"},
        {"params: {mean: [1, 2, 3, 4, 5]}", "mean"},
        {"params: {std: [1, 0]}", "std"},
        {"control: {size: 2, defaults: [1]}", "1 defaults for a size of 2"},
        {"control: {defaults: [1]}", "size"},
        {"control: {size: 1, parameters: [{index: 0}]}", "no name"},
        {"control: {size: 1, parameters: [{name: a, index: 1}]}", "index is 1"},
        {"control: {size: 2, parameters: [{name: a, index: 0}, {name: b, index: 0}]}", "the same"},
        {"control: {size: 1, defaults: [x]}", "not a number"},
        {"control: {size: 1, parameters: [{name: a}, {name: b}]}", "2 parameters"},
        {"name: 'x", "line 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale__manifest m;
        if (!CHECK_FAILS(parse(rows[i].text, &m), FORMAT) || !CHECK(strstr(gale_error(), rows[i].why) != NULL))
            printf("  of: %s: %s\n", rows[i].text, gale_error());
    }
    gale__manifest m;
    warnings = 0;
    gale_log_set(count_warnings, NULL, GALE__WARN);
    if (CHECK_OK(parse("name: a\nparams: {tile_sise: 3}\nauthor: b", &m))) gale__manifest_finish(&m);
    gale_log_set(NULL, NULL, GALE__WARN);
    CHECK_EQ(warnings, 2);
}

TEST(empty)
{
    static const char *const texts[] = {"", "# nothing yet\n", "{}", "---\n"};
    for (int i = 0; i < 4; i++) {
        gale__manifest m;
        if (!CHECK_OK(gale__manifest_parse(texts[i], strlen(texts[i]), "net", &m))) continue;
        CHECK(m.absent && m.tile == GALE__TILE_USUAL && !strcmp(m.name, "net"));
        gale__manifest_finish(&m);
    }
}

TEST(controls)
{
    gale__manifest m;
    float v[3];
    if (!CHECK_OK(parse(zoom, &m))) return;
    CHECK_OK(gale__manifest_set_controls(&m, NULL, 0, v));
    CHECK(v[0] == 0 && v[1] == 0.5f && v[2] == 1);
    CHECK_OK(gale__manifest_set_controls(&m, (const char *[]){"Deblur=0.7", "1=0.25", "deartifact=-3"}, 3, v));
    CHECK(v[0] == 0.7f && v[1] == 0.25f && v[2] == 0);
    CHECK_OK(gale__manifest_set_controls(&m, (const char *[]){"0.1,0.2,0.3"}, 1, v));
    CHECK(v[2] == 0.3f);
    CHECK_FAILS(gale__manifest_set_controls(&m, (const char *[]){"0.1,0.2"}, 1, v), INVALID);
    CHECK_FAILS(gale__manifest_set_controls(&m, (const char *[]){"0.1,0.2,0.3,0.4"}, 1, v), INVALID);
    CHECK_FAILS(gale__manifest_set_controls(&m, (const char *[]){"sharpen=1"}, 1, v), INVALID);
    CHECK(strstr(gale_error(), "deblur, deartifact") != NULL);
    CHECK_FAILS(gale__manifest_set_controls(&m, (const char *[]){"deblur=much"}, 1, v), INVALID);
    CHECK_FAILS(gale__manifest_set_controls(&m, (const char *[]){"3=1"}, 1, v), INVALID);
    gale__manifest_finish(&m);
    CHECK_OK(parse("name: plain", &m));
    CHECK_FAILS(gale__manifest_set_controls(&m, (const char *[]){"1"}, 1, v), INVALID);
    gale__manifest_finish(&m);
}

TEST(folder)
{
    static const struct {
        const char *name, *text;
    } files[] = {{"a.onnx", ""}, {"b.onnx", ""}, {"b.yml", "name: [broken"}, {"c.onnx", ""},
        {"c.yaml", "name: see\nparams: {scale_factor: 4}"}, {"d.txt", ""}};
    char folder[] = "/tmp/gale-manifest-XXXXXX", path[256];
    gale__model_entry *list = NULL;
    size_t count = 0;
    if (!CHECK(mkdtemp(folder) != NULL)) return;
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        CHECK_OK(gale__file_write(path, files[i].text, strlen(files[i].text)));
    }
    warnings = 0;
    gale_log_set(count_warnings, NULL, GALE__WARN);
    if (CHECK_OK(gale__models_list(folder, &list, &count)) && CHECK_EQ(count, 4)) {
        CHECK_TEXT(list[0].manifest.name, "zoom2x"); /* the embedded ones come first */
        CHECK_TEXT(list[1].manifest.name, "clean");
        CHECK_TEXT(list[2].manifest.name, "a");
        CHECK_TEXT(list[3].manifest.name, "see");
        CHECK(!list[0].path && list[0].manifest.scale == 2 && list[2].path);
        CHECK(!list[1].path && list[1].manifest.scale == 1);
        CHECK(!list[2].manifest.path && list[3].manifest.scale == 4 && strstr(list[3].manifest.path, "c.yaml"));
        gale__models_finish(&list, count);
    }
    gale_log_set(NULL, NULL, GALE__WARN);
    CHECK_EQ(warnings, 1);
    for (uint64_t n = 1; n; n++) { /* without memory it is an error, not a shorter list */
        gale__alloc_fail_at(n);
        gale_status status = gale__models_list(folder, &list, &count);
        bool reached = gale__alloc_count() >= n;
        gale__alloc_fail_at(0);
        if (status == GALE_OK) gale__models_finish(&list, count);
        if (!reached) break;
        CHECK_EQ(status, GALE_NO_MEMORY);
    }
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        CHECK_OK(gale__file_remove(path));
    }
    rmdir(folder);
    CHECK_FAILS(gale__models_list(folder, &list, &count), NOT_FOUND);
    CHECK_EQ(gale__alloc_live(), 0);
}

TESTS(ROW(reads), ROW(refuses), ROW(empty), ROW(controls), ROW(folder))
