/* gale exr: the table of arguments, and the dispatch of actions. */
#include "cli/cmd_exr.h"
#include <string.h>

static const gale__arg args[] = {
    {"ACTION", 0, GALE__ARG_CHOICE, NULL, NULL,
        "info|convert|thumbs|sheet|stats|histogram|layers|depth|diff|mip|denoise",
        "info: contents of a file; convert: pictures for display; thumbs: thumbnails of a folder; sheet: all files on "
        "one picture or page (-o FILE.png or FILE.html); stats: statistics of each channel; histogram: the same with "
        "bins, drawn with -o; layers: list, --split or --merge; depth: Z as grey; diff: compare two files; mip: write "
        "a tiled file with levels; denoise: remove render noise",
        NULL, true},
    {"INPUT", 0, GALE__ARG_FILE, NULL, NULL, NULL, "EXR files, folders of them, or patterns such as 'shot*.exr'", NULL,
        true, true},
    {"recursive", 'r', GALE__ARG_FLAG, NULL, NULL, NULL, "include subfolders"},
    {"layer", 'l', GALE__ARG_TEXT, NULL, NULL, NULL,
        "a part, a layer such as diffuse, PART.LAYER, a view or a channel (default: the main colours, as viewers show "
        "them)"},
    {"output", 'o', GALE__ARG_FILE, NULL, NULL, NULL, "output file, for a single input", .writes = true},
    {"output-dir", 'O', GALE__ARG_FILE, "FOLDER", NULL, NULL, "output folder (default: beside the inputs)"},
    {"suffix", 0, GALE__ARG_TEXT, NULL, NULL, NULL, "added to file names (default: none; thumbs: -thumb)", NULL, false,
        false, true},
    {"format", 'f', GALE__ARG_TEXT, NULL, NULL, NULL, "png, jpeg, webp, tiff, exr ... (default: png; thumbs: jpeg)"},
    {"quality", 0, GALE__ARG_INT, NULL, "92", "1..100", "quality of JPEG and WebP"},
    {"bits", 0, GALE__ARG_CHOICE, NULL, "8", "8|16", "bits per sample; 16 for PNG and TIFF"},
    {"light", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "convert: write samples unchanged instead of pictures for display: TIFF or PFM as half or float, EXR with all "
        "parts and channels (--compression, --tile); implied by --format exr"},
    {"tone", 0, GALE__ARG_CHOICE, NULL, "linear", "linear|aces|reinhard|filmic|hable|local", "tone map"},
    {"exposure", 'e', GALE__ARG_REAL, "EV", "0", "-64..64", "stops brighter or darker, before the tone map"},
    {"gamma", 0, GALE__ARG_REAL, NULL, NULL, "0.1..10", "use a power instead of the sRGB curve"},
    {"radius", 0, GALE__ARG_REAL, "PIXELS", NULL, "1..4096",
        "tone map local: radius of the neighbourhood (default: 1/32 of the longer side)"},
    {"size", 0, GALE__ARG_INT, NULL, NULL, "1..1000000",
        "maximum pixels of the longer side (default: unchanged; thumbs: 256)"},
    {"width", 0, GALE__ARG_INT, NULL, NULL, "1..1000000", "pixels of the result (default: proportional to --height)"},
    {"height", 0, GALE__ARG_INT, NULL, NULL, "1..1000000", "pixels of the result (default: proportional to --width)"},
    {"filter", 0, GALE__ARG_CHOICE, NULL, "triangle", "triangle|box|cubic|mitchell|lanczos", "filter for resizing"},
    {"full", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "resizing: decode level 0 even if the file has a smaller level"},
    {"no-alpha", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "pictures without alpha, over black"},
    {"file-colours", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "ignore the file's chromaticities"},
    {"lut", 0, GALE__ARG_FILE, "FILE.cube", NULL, NULL, "1D or 3D lookup table, applied to encoded colours at the end"},
    {"dither", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "add noise of one level to avoid banding"},
    {"columns", 0, GALE__ARG_INT, NULL, NULL, "1..1000", "sheet: pictures per row (default: about as many as rows)"},
    {"split", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "layers: write each layer to a separate EXR file"},
    {"merge", 0, GALE__ARG_FILE, NULL, NULL, NULL, "layers: combine the first parts of all files into this one",
        .writes = true},
    {"compression", 0, GALE__ARG_CHOICE, NULL, "zip", "none|rle|zips|zip|piz|pxr24|b44|b44a|dwaa|dwab",
        "compression of written EXR files"},
    {"reduce", 0, GALE__ARG_CHOICE, NULL, "average", "average|brightest|darkest", "mip: how four pixels are combined"},
    {"rip", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "mip: write rip levels, which halve the axes separately"},
    {"round-up", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "mip: round sizes of levels up, with edges clamped"},
    {"tile", 0, GALE__ARG_INT, NULL, NULL, "8..4096",
        "pixels per tile (default: mip 64, denoise 512, convert --format exr none)"},
    {"weights", 0, GALE__ARG_FILE, "FILE|FOLDER", NULL, NULL,
        "denoise: a .tza file of Open Image Denoise, or the folder with rt_hdr.tza and rt_hdr_alb_nrm.tza"},
    {"albedo", 0, GALE__ARG_TEXT, "LAYER", NULL, NULL,
        "denoise: layer with the albedo (default: found by the usual names); '': none", NULL, false, false, true},
    {"normal", 0, GALE__ARG_TEXT, "LAYER", NULL, NULL,
        "denoise: layer with the normals (default: found by the usual names); '': none", NULL, false, false, true},
    {"jobs", 0, GALE__ARG_INT, "N", NULL, "1..256", "files processed at once (default: number of cores)"},
    {"memory", 0, GALE__ARG_INT, "MB", NULL, "1..16777216",
        "memory for pictures in flight (default: half of the machine's memory)"},
    {"shard", 0, GALE__ARG_TEXT, "K/N", NULL, NULL,
        "process every N-th file, as machine K of N; auto: K and N from MPI or Slurm"},
    {"watch", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "convert, thumbs: keep watching for new files and process each when it is complete; stop with Ctrl-C"},
    {"skip-existing", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "skip outputs that already exist; resumes an interrupted run"},
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
    if (tone < 0 || filter < 0) return gale__fail(GALE_INVALID, "unknown tone map or filter");
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
    .about =
        "Processes OpenEXR files in bulk: scan lines and tiles, all parts, views and layers, mip and rip levels, "
        "deep pictures flattened. Pictures for display are computed in one pass on any device: colour conversion "
        "to sRGB, exposure, tone map, curve, rounding. Resizing works on linear values. Folders are processed on "
        "all cores; a damaged file is reported and skipped. With --strict, convert and thumbs fail if pixels would be "
        "computed on the host although no provider was requested; stats and histogram, if samples would be counted "
        "there.",
    .examples =
        "  gale exr info render.exr                                # parts, channels, attributes\n"
        "  gale exr convert render.exr --tone aces -o render.png\n"
        "  gale exr thumbs shots --recursive --output-dir small    # a folder; add --skip-existing to resume\n"
        "  gale exr sheet shots --tone aces -o sheet.html          # a page with all of them\n"
        "  gale exr convert shots -O out --format jpeg --layer diffuse --exposure 1.5\n"
        "  gale exr diff before.exr after.exr -o where.png         # statistics, and a picture of the differences\n"
        "  gale exr mip texture.exr --rip -o texture-rip.exr",
};
