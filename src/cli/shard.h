/* Which part of a job this process does, where a starter runs several of them. */
#ifndef GALE_CLI_SHARD_H
#define GALE_CLI_SHARD_H
#include "gale/base.h"

/* Number of this process, from 0, and of all, as mpirun, srun or an array of Slurm says; 0 of 0: none of them started
 * it.  An array counts where its tasks are single processes. */
gale_status gale__shard_auto(int64_t *shard, int64_t *shards);
#endif
