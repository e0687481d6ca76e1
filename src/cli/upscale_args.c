/* The arguments of gale upscale. */
#include "cli/upscale_args.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "jobs/upscale/embedded.h"

const gale__arg gale__upscale_args[] = {
    {"INPUT", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "pictures, folders of pictures, or patterns such as '*.png'; -: standard input (output then goes to standard "
        "output by default)",
        NULL, true, true},
    {"recursive", 'r', GALE__ARG_FLAG, NULL, NULL, NULL, "include subfolders; --output-dir keeps their structure"},
    {"layer", 0, GALE__ARG_TEXT, NULL, NULL, NULL,
        "EXR: a part, a layer such as diffuse, PART.LAYER, or a channel (default: the main colours, as viewers show "
        "them); TIFF: page number"},
    {"model", 'm', GALE__ARG_FILE, "NAME|FILE", GALE__EMBEDDED_AUTO, NULL,
        "ONNX file, or a name in the models folder; its manifest NAME.yml is read if present. Built in: zoom2x (2x, "
        "for "
        "clean pictures), clean (1x, removes JPEG artefacts and noise), auto (zoom2x, after clean where a picture "
        "shows compression or noise)"},
    {"clean", 0, GALE__ARG_REAL, NULL, NULL, "0..1",
        "how much of the built-in cleaning is applied before the network; 0: none (default: with --model auto 1 for "
        "pictures that need it and for --scale 1, else 0)"},
    {"output", 'o', GALE__ARG_FILE, NULL, NULL, NULL,
        "output file, for a single input; - is standard output, in the format of --format or of the input. A number "
        "such as %04d in the name writes each frame of an animation to its own file",
        .writes = true},
    {"output-dir", 'O', GALE__ARG_FILE, "FOLDER", NULL, NULL, "output folder (default: beside the inputs)"},
    {"suffix", 0, GALE__ARG_TEXT, NULL, NULL, NULL,
        "added to file names; may be empty (default: '-' and the model's name)", NULL, false, false, true},
    {"format", 'f', GALE__ARG_TEXT, NULL, NULL, NULL,
        "png, jpeg, webp, tiff, exr ... (default: by the name of the output, else as the input)"},
    {"quality", 0, GALE__ARG_INT, NULL, "92", "1..100", "quality of JPEG, WebP and JPEG 2000"},
    {"lossless", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "WebP, JPEG 2000: lossless (default for lossless WebP input, unless --quality is given)"},
    {"scale", 's', GALE__ARG_REAL, NULL, NULL, "0.05..64",
        "enlarge by this factor (default: the network's scale); with --model auto, 1 only cleans"},
    {"width", 0, GALE__ARG_INT, NULL, NULL, "1..1000000", "pixels of the result (default: proportional to --height)"},
    {"height", 0, GALE__ARG_INT, NULL, NULL, "1..1000000", "pixels of the result (default: proportional to --width)"},
    {"tile", 0, GALE__ARG_INT, NULL, NULL, "0..65536",
        "pixels per tile; 0: the whole picture, or the largest tile that fits into memory (default: as the manifest "
        "says)"},
    {"overlap", 0, GALE__ARG_INT, NULL, NULL, "0..4096",
        "pixels shared by neighbouring tiles (default: as the manifest says)"},
    {"batch", 'b', GALE__ARG_INT, NULL, "1", "0..256", "tiles per run of the network; 0: as many as memory allows"},
    {"lanes", 0, GALE__ARG_INT, NULL, "0", "0..256",
        "concurrent runs, each on its own thread or stream; 0: as many as the device can use and memory allows"},
    {"control", 'c', GALE__ARG_TEXT, "NAME=VALUE", NULL, NULL,
        "set a control of the network, 0..1; `gale models info NAME` lists them", NULL, false, true},
    {"skip-existing", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "skip pictures whose result exists; several processes with this option share the work of a folder"},
    {"watch", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "keep watching the folders and process each new picture when it is complete; stop with Ctrl-C; needs "
        "--output-dir"},
    {"tolerant", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "accept damaged pictures: the missing part of a truncated JPEG is grey, and NaN or infinite samples become 0"},
    {"no-self-check", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "accept a result of a single colour"},
    {"report", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "write an HTML report with the first picture before and after, zoomable, and a table of all", .writes = true},
    {"models", 0, GALE__ARG_FILE, "FOLDER", NULL, NULL, "models folder (default: ~/.local/share/gale/models)",
        "GALE_MODELS"},
    GALE__ARG_PRECISION,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    GALE__ARG_JSON,
    {0},
};
