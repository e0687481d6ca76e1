/* The arguments of gale upscale. */
#include "cli/upscale_args.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "jobs/upscale/embedded.h"

const gale__arg gale__upscale_args[] = {
    {"INPUT", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "pictures to enlarge or restore, folders of them, or patterns such as '*.png'; - is standard input, and then "
        "standard output unless -o or -O says otherwise",
        NULL, true, true},
    {"recursive", 'r', GALE__ARG_FLAG, NULL, NULL, NULL,
        "folders: also those inside; --output-dir gets the same folders"},
    {"layer", 0, GALE__ARG_TEXT, NULL, NULL, NULL,
        "of EXR: a part, a layer such as diffuse, PART.LAYER, or a channel; the colours that viewers show first unless "
        "given; of TIFF: the number of a page"},
    {"model", 'm', GALE__ARG_FILE, "NAME|FILE", GALE__EMBEDDED_USUAL, NULL,
        "ONNX file, or a name in the folder of models; its manifest NAME.yml is read where there is one; zoom2x is "
        "inside the program"},
    {"output", 'o', GALE__ARG_FILE, NULL, NULL, NULL,
        "where the only picture goes; - is standard output, in the format of --format or of the input; with a number "
        "such "
        "as %04d in the name, frames of an animation go into files of their own",
        .writes = true},
    {"output-dir", 'O', GALE__ARG_FILE, "FOLDER", NULL, NULL, "where pictures go; beside the inputs unless given"},
    {"suffix", 0, GALE__ARG_TEXT, NULL, NULL, NULL,
        "added to names; '-' and the model's name unless given; may be empty", NULL, false, false, true},
    {"format", 'f', GALE__ARG_TEXT, NULL, NULL, NULL,
        "png, jpeg, webp, tiff, exr ...; what the name of the result says unless given, and where that says nothing, "
        "as the input"},
    {"quality", 0, GALE__ARG_INT, NULL, "92", "1..100", "of JPEG, WebP and JPEG 2000, which lose something"},
    {"lossless", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "WebP and JPEG 2000: lose nothing; so is a WebP that loses nothing itself, unless --quality is given"},
    {"scale", 's', GALE__ARG_REAL, NULL, NULL, "0.05..64", "times as large; the network's own scale unless given"},
    {"width", 0, GALE__ARG_INT, NULL, NULL, "1..1000000",
        "pixels of the result; the height follows unless given as well"},
    {"height", 0, GALE__ARG_INT, NULL, NULL, "1..1000000",
        "pixels of the result; the width follows unless given as well"},
    {"tile", 0, GALE__ARG_INT, NULL, NULL, "0..65536",
        "pixels of a tile; 0: the whole picture, or the largest tile that memory holds; the manifest's unless given"},
    {"overlap", 0, GALE__ARG_INT, NULL, NULL, "0..4096", "pixels that tiles share; the manifest's unless given"},
    {"batch", 'b', GALE__ARG_INT, NULL, "1", "0..256", "tiles in one run of the network; 0: by memory"},
    {"lanes", 0, GALE__ARG_INT, NULL, "0", "0..256",
        "runs side by side, each with a thread or a stream of its own; 0: as many as the device has use for and memory "
        "holds"},
    {"control", 'c', GALE__ARG_TEXT, "NAME=VALUE", NULL, NULL,
        "a control of the network, 0..1; `gale models info NAME` lists them", NULL, false, true},
    {"skip-existing", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "leave pictures that are there already; several processes with it share a folder's work"},
    {"watch", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "go on until interrupted: pictures that appear in the folders are taken when they are complete; needs "
        "--output-dir"},
    {"tolerant", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "take damaged pictures as far as they go: a truncated JPEG is grey where it ends, and samples that are "
        "infinite "
        "or no numbers are 0"},
    {"no-self-check", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "take a result of one colour for a result"},
    {"report", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "write a page (HTML) with the first picture before and after at full resolution, to zoom into, and a table of "
        "all",
        .writes = true},
    {"models", 0, GALE__ARG_FILE, "FOLDER", NULL, NULL, "the folder of models; ~/.local/share/gale/models unless given",
        "GALE_MODELS"},
    GALE__ARG_PRECISION,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    GALE__ARG_JSON,
    {0},
};
