/* The actions of `gale exr`, each in its own file. */
#ifndef GALE_CLI_CMD_EXR_H
#define GALE_CLI_CMD_EXR_H
#include "cli/cli.h"
#include "gale/exr.h"
#include "jobs/batch/inputs.h"

/* Each returns an exit code. */
int gale__exr_info(const gale__args *a);
int gale__exr_batch(const gale__args *a, bool thumbs);
int gale__exr_contact_sheet(const gale__args *a);
int gale__exr_stats(const gale__args *a, bool histogram);
int gale__exr_depth_view(const gale__args *a);
int gale__exr_diff(const gale__args *a);
int gale__exr_layer_list(const gale__args *a);
int gale__exr_denoise_file(const gale__args *a);
int gale__exr_mip_file(const gale__args *a);

/* With --json: INPUT and the file made of it, with what denoising did (else NULL).  Without, nothing. */
gale_status gale__exr_tell_made(const gale__args *a, const char *output, const gale_exr_denoise_report *denoised);
/* What the arguments say of the look.  GALE_INVALID for a word that is none. */
gale_status gale__exr_look_args(const gale__args *a, gale_exr_look *out);
/* This machine's number and that of all, from --shard; unchanged without. */
gale_status gale__exr_shard(const gale__args *a, int *shard, int *shards);
/* Files, folders and patterns of INPUT; folders give what ends in .exr.  `failed` counts arguments that gave
 * none, which are reported; NULL: they are passed over. */
gale_status gale__exr_inputs(const gale__args *a, gale__inputs *in, size_t *failed);
#endif
