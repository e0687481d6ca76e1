/* The rows of a file of vectors that are nearest to the first one.
 *
 *     search VECTORS.npy */
#include <gale/search.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 3 };

int main(int argc, char **argv)
{
    gale_index *index = NULL;
    gale_index_info info;
    gale_hit hits[K];
    if (argc < 2) return fprintf(stderr, "usage: search VECTORS.npy\n"), 2;
    if (gale_index_open(argv[1], NULL, &index) != GALE_OK) return fprintf(stderr, "%s\n", gale_error()), 1;
    gale_index_get_info(index, &info);
    float *query = (float *)malloc((size_t)info.dims * sizeof *query);
    gale_status status = query ? gale_index_vector(index, 0, query) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale_index_search(index, query, 1, K, NULL, hits);
    if (status != GALE_OK) fprintf(stderr, "%s\n", gale_error());
    for (int i = 0; status == GALE_OK && i < K && hits[i].row >= 0; i++)
        printf("row %lld: %.4f\n", (long long)hits[i].row, (double)hits[i].score);
    free(query);
    gale_index_close(&index);
    return status != GALE_OK;
}
