/* Arguments of commands that turn texts into vectors. */
#ifndef GALE_CLI_ENCODER_ARGS_H
#define GALE_CLI_ENCODER_ARGS_H
#include "cli/args.h"
#include "cli/model_args.h"
#include "gale/embed.h"
#include "gale/text.h"

#define GALE__ARGS_ENCODER                                                                                             \
    {"model", 'm', GALE__ARG_FILE, "FOLDER|NAME", NULL, NULL,                                                          \
        "encoder folder (model.onnx or onnx/model.onnx, tokenizer.json), or its name in the models folder; "           \
        "heuristic: 64 numbers without a model"},                                                                      \
        {"level", 0, GALE__ARG_TEXT, "LEVEL", NULL, NULL,                                                              \
            "low, medium or high instead of a model: an encoder in the models folder; if it is missing, the next "     \
            "lower level is used",                                                                                     \
            "GALE_VECTOR_LEVEL"},                                                                                      \
        {"preset", 0, GALE__ARG_CHOICE, NULL, NULL, "dev|standard|high-value|high-throughput|edge",                    \
            "provider and level together: cpu and low, cuda and medium, tensorrt and high, tensorrt and low, cpu and " \
            "low"},                                                                                                    \
        {"pooling", 0, GALE__ARG_CHOICE, NULL, "auto", "auto|mean|cls|max|last|mean-sqrt|weighted|model",              \
            "how token vectors are combined; auto: as the folder says"},                                               \
        {"no-normalize", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "do not normalise vectors to length 1"},                 \
        {"dims", 0, GALE__ARG_INT, NULL, NULL, "1..1000000", "keep the first N numbers (Matryoshka)"},                 \
        {"max-length", 0, GALE__ARG_INT, "TOKENS", NULL, "1..1000000",                                                 \
            "truncate texts to N tokens, including special ones (default: as the folder says)"},                       \
        {"prompt", 0, GALE__ARG_TEXT, NULL, NULL, NULL, "text to prepend to every text", .empty = true},               \
        {"prompt-name", 0, GALE__ARG_TEXT, NULL, NULL, NULL, "prepend one of the folder's prompts, such as query",     \
            .empty = true},                                                                                            \
        {"model-file", 0, GALE__ARG_TEXT, "FILE", NULL, NULL,                                                          \
            "model file inside the folder, such as onnx/model_O3.onnx"},                                               \
        {"models", 0, GALE__ARG_FILE, "FOLDER", NULL, NULL, "models folder (default: ~/.local/share/gale/models)",     \
            "GALE_MODELS"},                                                                                            \
        GALE__ARG_PRECISION

/* A tokenizer by its path, or by the name of an encoder in the models folder. */
gale_status gale__open_tokenizer(const char *name, gale_tokenizer **out);
/* Whether a model, a level or a preset is given. */
bool gale__encoder_given(const gale__args *a);
/* The device: a preset's, unless a provider is named. */
gale_status gale__encoder_device(const gale__args *a, gale_device **out);
/* The same, or several that --provider joins with +: cuda:0+cuda:1, cuda:all, all.  Close them also after a failure. */
typedef struct gale__devices {
    gale_device *list[GALE_EMBED_DEVICES];
    int count;
} gale__devices;
gale_status gale__encoder_devices(const gale__args *a, gale__devices *out);
void gale__devices_close(gale__devices *d);
/* As the arguments say.  GALE_INVALID without a model. */
gale_status gale__encoder_open(const gale__args *a, gale_device *device, gale_packing packing, gale_embedder **out);
#endif
