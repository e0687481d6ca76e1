/* Words and their trigrams are hashed to 48 positions, with a sign; 16 more positions count classes of characters.
 * ASCII letters are converted to lower case; other bytes count as letters. */
#include "jobs/embed/heuristic.h"
#include "base/hash.h"
#include <math.h>
#include <string.h>

enum { HASHED = 48, COUNTED = 16, WORD = 64 };

static bool is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c >= 128;
}

static void add_hash(const char *at, size_t size, float weight, float *out)
{
    uint64_t hash = gale__hash(at, size, 64);
    out[hash % HASHED] += hash >> 63 ? -weight : weight;
}

static void add_word(const char *word, size_t size, float *out)
{
    add_hash(word, size, 1, out);
    for (size_t i = 0; i + 3 <= size; i++) add_hash(word + i, 3, 0.25f, out);
}

static int kind_of(unsigned char c)
{
    static const char marks[] = ":=/.,-_\"{}[]()";
    if (c >= '0' && c <= '9') return 0;
    if (c >= 'A' && c <= 'Z') return 1;
    if (c >= 'a' && c <= 'z') return 2;
    if (c == ' ' || c == '\t') return 3;
    if (c == '\n') return 4;
    if (c >= 128) return 5;
    const char *mark = c ? strchr(marks, c) : NULL;
    return mark ? 6 + (int)(mark - marks) / 2 : 13;
}

void gale__heuristic(const char *text, size_t size, bool normalize, float out[GALE__HEURISTIC_DIMS])
{
    char word[WORD];
    size_t length = 0, words = 0;
    float counts[COUNTED] = {0}, sum = 0;
    memset(out, 0, GALE__HEURISTIC_DIMS * sizeof *out);
    for (size_t i = 0; i <= size; i++) {
        unsigned char c = i < size ? (unsigned char)text[i] : ' ';
        if (i < size) counts[kind_of(c)]++;
        if (is_letter(c) && length < WORD) word[length++] = (char)(c >= 'A' && c <= 'Z' ? c | 32 : c);
        else if (length) {
            add_word(word, length, out);
            words++;
            length = 0;
        }
    }
    for (int i = 0; i < 14; i++) counts[i] = size ? 2 * counts[i] / (float)size : 0; /* shares */
    counts[14] = log1pf((float)size) / 4;
    counts[15] = log1pf((float)words) / 4;
    float scale = words ? 1 / sqrtf((float)words) : 0;
    for (int i = 0; i < HASHED; i++) out[i] *= scale;
    memcpy(out + HASHED, counts, sizeof counts);
    for (int i = 0; i < GALE__HEURISTIC_DIMS; i++) sum += out[i] * out[i];
    for (int i = 0; normalize && sum > 0 && i < GALE__HEURISTIC_DIMS; i++) out[i] /= sqrtf(sum);
}
