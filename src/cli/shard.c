/* --shard auto: the variables that Open MPI, MPICH and Intel MPI, MVAPICH and Slurm set for each process.  A batch
 * script of Slurm has SLURM_PROCID and SLURM_NTASKS too, but it is a single process: the number of tasks of a step is
 * what srun alone sets. */
#include "cli/shard.h"
#include "base/error.h"
#include "base/str.h"
#include <stdlib.h>

static bool number_of(const char *name, int64_t *out)
{
    const char *text = getenv(name);
    return text && gale__text_to_i64(text, out);
}

/* Tasks are numbered as the user likes: those from MIN to MAX in steps are all that can be counted. */
static gale_status shard_of_array(int64_t *shard, int64_t *shards)
{
    int64_t id, count, least, most, step;
    if (!number_of("SLURM_ARRAY_TASK_ID", &id) || !number_of("SLURM_ARRAY_TASK_COUNT", &count) || count < 2)
        return GALE_OK;
    if (!number_of("SLURM_ARRAY_TASK_MIN", &least) || !number_of("SLURM_ARRAY_TASK_MAX", &most) ||
        !number_of("SLURM_ARRAY_TASK_STEP", &step) || step < 1 || id < least || id > most ||
        most - least != (count - 1) * step || (id - least) % step)
        return gale__fail(GALE_INVALID,
            "--shard auto: the %lld tasks of this Slurm array are not numbered in equal steps; submit them with "
            "--array=1-%lld, or use --shard K/N",
            (long long)count, (long long)count);
    *shard = (id - least) / step, *shards = count;
    return GALE_OK;
}

gale_status gale__shard_auto(int64_t *shard, int64_t *shards)
{
    static const char *const pairs[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"},
        {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
    *shard = *shards = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && *shards < 2; i++) {
        int64_t k = 0, n = 0;
        if (!getenv(pairs[i][0]) || !getenv(pairs[i][1])) continue;
        if (!number_of(pairs[i][0], &k) || !number_of(pairs[i][1], &n) || k < 0 || k >= n || n > 1000000)
            return gale__fail(GALE_INVALID, "--shard auto: %s=%s is not a number below %s=%s; use --shard K/N",
                pairs[i][0], getenv(pairs[i][0]), pairs[i][1], getenv(pairs[i][1]));
        *shard = k, *shards = n;
    }
    return *shards < 2 ? shard_of_array(shard, shards) : GALE_OK;
}
