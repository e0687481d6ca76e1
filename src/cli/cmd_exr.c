/* gale exr: the table of arguments, and which action is whose. */
#include "cli/cmd_exr.h"
#include <string.h>

static const gale__arg args[] = {
    {"ACTION", 0, GALE__ARG_CHOICE, NULL, NULL,
        "info|convert|thumbs|sheet|stats|histogram|layers|depth|diff|mip|denoise",
        "info: what is in a file; convert: to pictures for screens; thumbs: small pictures of a folder; sheet: all of "
        "them on one picture or page (-o FILE.png or FILE.html); stats: numbers of each channel; histogram: the same "
        "with bins, and as a picture with -o; layers: list, --split or --merge; depth: Z as grey; diff: two files; "
        "mip: levels into a tiled file; denoise: the noise of renderers taken away",
        NULL, true},
    {"INPUT", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "EXR files, folders of them, or patterns such as 'shot*.exr'; folders give what ends in .exr", NULL, true,
        true},
    {"recursive", 'r', GALE__ARG_FLAG, NULL, NULL, NULL, "folders: also those inside"},
    {"layer", 'l', GALE__ARG_TEXT, NULL, NULL, NULL,
        "a part, a layer such as diffuse, PART.LAYER, a view or a channel; default: the colours that viewers show "
        "first"},
    {"output", 'o', GALE__ARG_FILE, NULL, NULL, NULL, "where the only picture goes", .writes = true},
    {"output-dir", 'O', GALE__ARG_FILE, "FOLDER", NULL, NULL, "where pictures go; default: beside the inputs"},
    {"suffix", 0, GALE__ARG_TEXT, NULL, NULL, NULL, "added to names; default: none, for thumbs -thumb", NULL, false,
        false, true},
    {"format", 'f', GALE__ARG_TEXT, NULL, NULL, NULL, "png, jpeg, webp, tiff, exr ...; default: png, for thumbs jpeg"},
    {"quality", 0, GALE__ARG_INT, NULL, "92", "1..100", "of JPEG and WebP"},
    {"bits", 0, GALE__ARG_CHOICE, NULL, "8", "8|16", "of a sample; 16 for PNG and TIFF"},
    {"light", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "convert: samples as they are, in place of pictures for screens: to TIFF or PFM as half or float, to EXR with "
        "all parts and channels, --compression and --tile; so it is for --format exr"},
    {"tone", 0, GALE__ARG_CHOICE, NULL, "linear", "linear|aces|reinhard|filmic|hable|local", "tone map"},
    {"exposure", 'e', GALE__ARG_REAL, "EV", "0", "-64..64", "stops brighter or darker, before the tone map"},
    {"gamma", 0, GALE__ARG_REAL, NULL, NULL, "0.1..10", "a power in place of the sRGB curve"},
    {"radius", 0, GALE__ARG_REAL, "PIXELS", NULL, "1..4096",
        "tone map local: of the surroundings; default: 1/32 of the longer side"},
    {"size", 0, GALE__ARG_INT, NULL, NULL, "1..1000000",
        "pixels of the longer side, at most; default: as it is, for thumbs 256"},
    {"width", 0, GALE__ARG_INT, NULL, NULL, "1..1000000",
        "pixels of the result; the height follows unless given as well"},
    {"height", 0, GALE__ARG_INT, NULL, NULL, "1..1000000",
        "pixels of the result; the width follows unless given as well"},
    {"filter", 0, GALE__ARG_CHOICE, NULL, "triangle", "triangle|box|cubic|mitchell|lanczos", "for another size"},
    {"full", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "for another size: decode level 0 also where the file has a smaller one"},
    {"no-alpha", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "pictures without alpha, over black"},
    {"file-colours", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "leave the file's chromaticities alone"},
    {"lut", 0, GALE__ARG_FILE, "FILE.cube", NULL, NULL, "a 3D table of colours, applied to encoded colours at the end"},
    {"dither", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "noise of one level in place of bands"},
    {"columns", 0, GALE__ARG_INT, NULL, NULL, "1..1000", "sheet: pictures in a row; default: about as many as rows"},
    {"split", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "layers: write each as an EXR of its own"},
    {"merge", 0, GALE__ARG_FILE, NULL, NULL, NULL, "layers: write the first parts of all files as parts of this one",
        .writes = true},
    {"compression", 0, GALE__ARG_CHOICE, NULL, "zip", "none|rle|zips|zip|piz|pxr24|b44|b44a",
        "of EXR files that are written"},
    {"reduce", 0, GALE__ARG_CHOICE, NULL, "average", "average|brightest|darkest", "mip: what four pixels become"},
    {"rip", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "mip: rip levels, which halve the axes one by one"},
    {"round-up", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "mip: extents of levels are rounded up, with edges clamped"},
    {"tile", 0, GALE__ARG_INT, NULL, NULL, "8..4096",
        "pixels of a tile; default: 64 for mip, 512 for denoise, none for convert --format exr"},
    {"weights", 0, GALE__ARG_FILE, "FILE|FOLDER", NULL, NULL,
        "denoise: a .tza file of Open Image Denoise, or the folder with rt_hdr.tza and rt_hdr_alb_nrm.tza"},
    {"albedo", 0, GALE__ARG_TEXT, "LAYER", NULL, NULL, "denoise: default: looked for by the usual names; '' for none",
        NULL, false, false, true},
    {"normal", 0, GALE__ARG_TEXT, "LAYER", NULL, NULL, "denoise: likewise", NULL, false, false, true},
    {"jobs", 0, GALE__ARG_INT, "N", NULL, "1..256", "files at once; default: as many as there are cores"},
    {"memory", 0, GALE__ARG_INT, "MB", NULL, "1..16777216",
        "for pictures on their way; default: half of the machine's"},
    {"shard", 0, GALE__ARG_TEXT, "K/N", NULL, NULL,
        "the K-th of N machines: every N-th file; auto: by MPI's or Slurm's variables"},
    {"watch", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "convert, thumbs: go on looking for files, and take each when it is complete; Ctrl-C ends"},
    {"skip-existing", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "leave pictures that are there already: resumes a run"},
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    GALE__ARG_JSON,
    {0},
};

/* The number of a word among those of a table. */
static int find_word(const char *word, const char *(*name)(int))
{
    for (int i = 0; name(i); i++)
        if (!strcmp(name(i), word)) return i;
    return -1;
}

gale_status gale__exr_look_args(const gale__args *a, gale_exr_look *out)
{
    int tone = find_word(gale__args_text(a, "tone"), gale_exr_tone_name),
        filter = find_word(gale__args_text(a, "filter"), gale_exr_filter_name);
    if (tone < 0 || filter < 0) return gale__fail(GALE_INVALID, "no such tone map or filter");
    *out = (gale_exr_look){.layer = gale__args_text(a, "layer"),
        .tone = (gale_exr_tone)tone,
        .filter = (gale_exr_filter)filter,
        .exposure = gale__args_real(a, "exposure"),
        .gamma = gale__args_given(a, "gamma") ? gale__args_real(a, "gamma") : 0,
        .radius = gale__args_given(a, "radius") ? gale__args_real(a, "radius") : 0,
        .width = gale__args_int(a, "width"),
        .height = gale__args_int(a, "height"),
        .side = gale__args_int(a, "size"),
        .lut = gale__args_text(a, "lut"),
        .file_colours = gale__args_flag(a, "file-colours"),
        .no_alpha = gale__args_flag(a, "no-alpha"),
        .dither = gale__args_flag(a, "dither"),
        .bits = strcmp(gale__args_text(a, "bits"), "16") ? 8 : 16,
        .full = gale__args_flag(a, "full")};
    return GALE_OK;
}

gale_status gale__exr_inputs(const gale__args *a, gale__inputs *in, size_t *failed)
{
    const char *argument;
    in->only = "exr";
    for (size_t i = 0; (argument = gale__args_item(a, "INPUT", i)); i++) {
        gale_status status = gale__inputs_add(in, argument, gale__args_flag(a, "recursive"));
        if (status == GALE_NO_MEMORY) return status;
        if (status != GALE_OK && failed) gale__report(status), ++*failed;
    }
    if (failed) *failed += in->unread;
    gale__error_clear();
    return GALE_OK;
}

static int run(const gale__args *a)
{
    const char *action = gale__args_text(a, "ACTION");
    static const struct {
        const char *name;
        int (*run)(const gale__args *a);
    } actions[] = {{"info", gale__exr_info}, {"sheet", gale__exr_contact_sheet}, {"depth", gale__exr_depth_view},
        {"diff", gale__exr_diff}, {"layers", gale__exr_layer_list}, {"mip", gale__exr_mip_file},
        {"denoise", gale__exr_denoise_file}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(action, actions[i].name)) return actions[i].run(a);
    if (!strcmp(action, "stats") || !strcmp(action, "histogram")) return gale__exr_stats(a, *action == 'h');
    return gale__exr_batch(a, !strcmp(action, "thumbs"));
}

const gale__command gale__command_exr = {
    .args = args,
    .run = run,
    .about = "OpenEXR pictures in bulk: scan lines and tiles, all parts, views and layers, mip and rip levels, deep "
             "pictures flattened. Light becomes a picture for screens in one pass on any device: the file's colours to "
             "sRGB, exposure, tone map, curve, rounding. Another size is computed from linear values. Folders are "
             "worked on by all cores at once; a damaged file is reported and passed over.",
    .examples =
        "  gale exr sheet shots --tone aces -o sheet.html          # a page with all of them\n"
        "  gale exr diff before.exr after.exr -o where.png         # numbers, and a picture of the differences\n"
        "  gale exr mip texture.exr --rip -o texture-rip.exr\n"
        "  gale exr info render.exr                                # parts, channels, attributes\n"
        "  gale exr convert render.exr --tone aces -o render.png\n"
        "  gale exr thumbs shots --recursive --output-dir small    # a folder; again with --skip-existing after "
        "an interruption\n"
        "  gale exr convert shots -O out --format jpeg --layer diffuse --exposure 1.5",
};
