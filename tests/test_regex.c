/* Regular expressions: what RE2's syntax says matches, what it refuses, and that no pattern is slow (counted in states,
 * not by a clock). UTF-8 and the case of letters as well. */
#include "base/mem.h"
#include "base/regex.h"
#include "base/utf8.h"
#include "test.h"

typedef struct row {
    const char *pattern, *text;
    bool match;
} row;
static const row rows[] = {{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "ab", false}, {"a", "ba", false},
    {"abc", "abc", true}, {"a|b", "b", true}, {"a|b", "ab", false}, {"a|", "", true}, {"(a|bc)d", "bcd", true},
    {"x(?:a|b)*y", "xabbay", true}, {"a*", "", true}, {"a*", "aaaa", true}, {"a+", "", false}, {"a+", "aaa", true},
    {"a?b", "b", true}, {"a?b", "aab", false}, {"a*?b", "aaab", true}, {"a+?", "aa", true}, {"a??b", "ab", true},
    {"a{2}", "aa", true}, {"a{2}", "aaa", false}, {"a{2,}", "aaaa", true}, {"a{2,}", "a", false},
    {"a{1,3}", "aaa", true}, {"a{1,3}", "aaaa", false}, {"a{0}", "", true}, {"a{0,1}b", "b", true},
    {"(ab){2,3}?", "abab", true}, {"a{,3}", "a{,3}", true}, {"a{x", "a{x", true}, {"(?:a{0,2}){3}", "aaaaaa", true},
    {"(?:a{0,2}){3}", "aaaaaaa", false}, {"(a*)*", "aaa", true}, {"(a*)+b", "aab", true}, {"(|a)+", "aaa", true},
    {"()*", "", true}, {".", "x", true}, {".", "\n", false}, {"(?s).", "\n", true}, {".", "\xc3\xa9", true},
    {"..", "\xc3\xa9", false}, {".", "\xff", false}, {"[^a]", "\n", true}, {"[^a]", "\xff", false},
    {"[a-c]+", "abcba", true}, {"[a-c]", "d", false}, {"[^a-c]", "d", true}, {"[]a]", "]", true}, {"[^]a]", "]", false},
    {"[a-]", "-", true}, {"[-a]", "-", true}, {"[a\\-z]", "m", false}, {"[\\]x]", "]", true},
    {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true}, {"\\d+", "0123456789", true}, {"\\d", "a", false}, {"\\D", "a", true},
    {"\\D", "5", false}, {"\\w+", "aZ_9", true}, {"\\w", "\xc3\xa9", false}, {"\\W", "\xc3\xa9", true},
    {"\\s", "\f", true}, {"\\s", "\v", false}, {"\\S", " ", false}, {"[\\d\\s]+", "1 2", true}, {"[^\\d]", "1", false},
    {"[\\D]", "1", false}, {"[[:alpha:]]+", "abZ", true}, {"[[:^alpha:]]", "1", true}, {"[[:punct:]]+", "!\"#~", true},
    {"[[:xdigit:]]", "g", false}, {"[[:space:]]", "\v", true}, {"[[:digit:][:upper:]]+", "A1", true},
    {"[[:cntrl:]]", "\x1f", true}, {"[[:^cntrl:]]", "\x1f", false}, {"[[:^ascii:]]", "\xc3\xa9", true},
    {"[[:word:]]", "_", true}, {"^abc$", "abc", true}, {"a^b", "ab", false}, {"a$b", "ab", false},
    {"(?m)a$\\n^b", "a\nb", true}, {"a$\\n^b", "a\nb", false}, {"\\Aab\\z", "ab", true}, {"\\bab\\b", "ab", true},
    {"a\\bb", "ab", false}, {"a\\Bb", "ab", true}, {"a\\b \\bb", "a b", true}, {"(?i)abc", "aBC", true},
    {"(?i)[a-c]+", "ABC", true}, {"(?i)[^a]", "A", false}, {"(?i:a)b", "AB", false}, {"(?i:a)b", "Ab", true},
    {"(?i)\xc3\xa9", "\xc3\x89", true}, {"(?i)k", "\xe2\x84\xaa", true}, {"a(?i)b|c", "aB", true},
    {"a(?i)b|c", "C", true}, {"((?i)a)b", "aB", false}, {"(?i-i)a", "A", false}, {"(?P<year>\\d{4})", "2024", true},
    {"(?<y>a)", "a", true}, {"(?U)a+", "aa", true}, {"\\.", ".", true}, {"\\.", "x", false}, {"\\x41", "A", true},
    {"\\x{1F600}", "\xf0\x9f\x98\x80", true}, {"\\101", "A", true}, {"\\n\\t", "\n\t", true},
    {"\\Qa.b*\\E+", "a.b**", true}, {"\\Qa.b", "a.b", true}, {"\\Q(|)\\E|b", "(|)", true}, {"\\Q\\Ea", "a", true},
    {"\\Qa\\\\E+", "a\\\\", true}, {"\\/\\@\\_", "/@_", true}, {"[\\x41-\\x43]", "B", true},
    {"\\+?\\(\\d\\)", "+(3)", true}, {"\\pL+", "a\xc3\xa9\xe4\xb8\x80", true}, {"\\pL", "1", false},
    {"\\p{Lu}\\p{Ll}", "\xc3\x89\xc3\xa9", true}, {"\\p{Lu}", "\xc4\x81", false}, {"\\p{Lu}", "\xc4\x80", true},
    {"(?i)\\p{Lu}", "a", true}, {"\\PN", "a", true}, {"\\P{N}", "7", false}, {"\\p{^N}", "7", false},
    {"\\P{^N}", "7", true}, {"[\\p{N}x]+", "x7\xc2\xbd", true}, {"[^\\pL]", "a", false},
    {"\\p{Any}", "\xf4\x8f\xbf\xbf", true}, {" ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+", " \xe2\x80\xa6!", true},
    {"(?i:\\w+)@(gmail|yahoo)\\.com", "Some_1@yahoo.com", true},
    {"^[a-zA-Z0-9_.+-]+@(?:(?:[a-zA-Z0-9-]+\\.)?[a-zA-Z]+\\.)?(yahoo|gmail)\\.com$", "account@gmail.com", true},
    {"^[a-zA-Z0-9_.+-]+@(?:(?:[a-zA-Z0-9-]+\\.)?[a-zA-Z]+\\.)?(yahoo|gmail)\\.com$", "not email", false},
    {"www\\.[\\w.-]+\\.\\bcom\\b", "www.google.com", true}, {"www\\.[\\w.-]+\\.\\bcom\\b", "www.facebook.com", true},
    {"www\\.[\\w.-]+\\.\\bcom\\b", "www.bbc.co.uk", false}};

TEST(matches)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale__regex *r = NULL;
        if (!CHECK_OK(gale__regex_create(rows[i].pattern, &r))) continue;
        bool match = gale__regex_full_match(r, rows[i].text, strlen(rows[i].text));
        if (!CHECK(match == rows[i].match)) printf("    '%s' on '%s'\n", rows[i].pattern, rows[i].text);
        CHECK_EQ(
            gale__regex_full_match(r, rows[i].text, strlen(rows[i].text)), match); /* and again: nothing is left over */
        gale__regex_destroy(&r);
    }
}

TEST(refused)
{
    static const char *const bad[] = {"(", ")", "(a", "a)", "[", "[a", "[z-a]", "[a-\\d]", "*", "a**", "a*{2}", "a|*",
        "(?", "(?x)", "(?P<>a)", "(?P<a", "(?=a)", "\\", "\\1", "\\8", "\\y", "\\Z", "a{1001}", "a{2,1}", "\\xg",
        "\\x{110000}", "\\x{}", "[[:none:]]", "[\\b]", "\xff", "[\xff]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gale__regex *r = NULL;
        if (!CHECK_EQ(gale__regex_create(bad[i], &r), GALE_FORMAT)) printf("    '%s'\n", bad[i]);
        gale__regex_destroy(&r);
    }
    gale__regex *r = NULL;
    CHECK_FAILS(gale__regex_create("\\p{Greek}", &r), UNSUPPORTED);
    CHECK_FAILS(gale__regex_create("\\p", &r), UNSUPPORTED);
    CHECK_FAILS(gale__regex_create("\\p{L", &r), FORMAT);
    CHECK_FAILS(gale__regex_create("((a{100}){100}){100}", &r), LIMIT);
    CHECK_FAILS(gale__regex_create("(((((){1000}){1000}){1000}){1000}){1000}", &r), LIMIT);
    char deep[2001];
    memset(deep, '(', 1000);
    memset(deep + 1000, ')', 1000);
    deep[2000] = 0;
    CHECK_FAILS(gale__regex_create(deep, &r), FORMAT);
    CHECK(r == NULL);
}

/* The first match, and of those that begin there the longest; what lies before counts for \\b and ^. */
TEST(found)
{
    static const struct {
        const char *pattern, *text;
        int from, begin, end; /* begin -1: none */
    } finds[] = {
        {"[a-z]+", "12 abc de", 0, 3, 6},
        {"[a-z]+", "12 abc de", 6, 7, 9},
        {"[a-z]+", "12 abc de", 9, -1, 0},
        {"a|ab|abc", "xabcd", 0, 1, 4},
        {"abcd|c", "abce", 0, 2, 3},
        {"x*", "aaxx", 0, 2, 4},
        {"x*", "aa", 0, -1, 0},
        {"\\bab", "cab ab", 1, 4, 6},
        {"^a", "aa", 1, -1, 0},
        {"a+?", "baaa", 0, 1, 4},
        {".", "\xc3\xbcx", 0, 0, 2},
        {"\\b\\w", "\xc3\xbcx", 2, 2, 3},
    };
    for (size_t i = 0; i < sizeof finds / sizeof *finds; i++) {
        gale__regex *r = NULL;
        size_t begin = 0, end = 0;
        if (!CHECK_OK(gale__regex_create(finds[i].pattern, &r))) continue;
        bool any = gale__regex_find(r, finds[i].text, strlen(finds[i].text), (size_t)finds[i].from, &begin, &end);
        if (!CHECK_EQ(any, finds[i].begin >= 0) ||
            (any && (!CHECK_EQ((int)begin, finds[i].begin) || !CHECK_EQ((int)end, finds[i].end))))
            printf("  %s in '%s'\n", finds[i].pattern, finds[i].text);
        gale__regex_destroy(&r);
    }
}

/* (x+x+)+y and (a?){n}a{n} take backtracking matchers exponential time. */
TEST(linear)
{
    static const char *const patterns[] = {
        "(x+x+)+y", "(?:x?){50}x{50}", "(x*)*(x*)*(x*)*y", "(?:(?:x{1,30}){1,30})*z"};
    char text[20000];
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        gale__regex *r = NULL;
        if (!CHECK_OK(gale__regex_create(patterns[i], &r))) continue;
        size_t length = gale__regex_size(r) > 200 ? 2000 : sizeof text;
        CHECK(!gale__regex_full_match(r, text, length));
        CHECK(gale__regex_steps(r) <= (length + 1) * gale__regex_size(r));
        size_t begin, end;
        CHECK(!gale__regex_find(r, text, length, 0, &begin, &end) || patterns[i][3] == 'x');
        CHECK(gale__regex_steps(r) <= 2 * (length + 1) * gale__regex_size(r));
        gale__regex_destroy(&r);
    }
}

TEST(allocations_fail)
{
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1;; n++) {
        gale__regex *r = NULL;
        gale__alloc_fail_at(n);
        gale_status status = gale__regex_create("(?i)([a-z0-9xyz!?]+|b{2,5})*\\d", &r);
        gale__alloc_fail_at(0);
        gale__regex_destroy(&r);
        CHECK_EQ(gale__alloc_live(), live);
        if (status == GALE_OK) break;
        if (!CHECK_EQ(status, GALE_NO_MEMORY) || !CHECK(n < 1000)) break;
    }
}

TEST(categories)
{
    static const struct {
        int32_t c;
        gale__category want;
    } chars[] = {{0, GALE__Cc}, {' ', GALE__Zs}, {'A', GALE__Lu}, {'z', GALE__Ll}, {'_', GALE__Pc}, {0x100, GALE__Lu},
        {0x101, GALE__Ll}, {0x136, GALE__Lu}, {0x1c5, GALE__Lt}, {0x300, GALE__Mn}, {0x660, GALE__Nd},
        {0x2028, GALE__Zl}, {0x20ac, GALE__Sc}, {0x4e2d, GALE__Lo}, {0xd800, GALE__Cs}, {0xe000, GALE__Co},
        {0x1f600, GALE__So}, {0x378, GALE__Cn}, {0x10ffff, GALE__Cn}};
    for (size_t i = 0; i < sizeof chars / sizeof *chars; i++) CHECK_EQ(gale__char_category(chars[i].c), chars[i].want);
    CHECK_EQ(gale__category_mask("Lu", 2), 1u << GALE__Lu);
    CHECK_EQ(gale__category_mask("Z", 1), 1u << GALE__Zl | 1u << GALE__Zp | 1u << GALE__Zs);
    CHECK(!gale__category_mask("", 0) && !gale__category_mask("cL", 2) && !gale__category_mask("Lul", 3));
}

TEST(letters)
{
    static const int32_t pairs[][2] = {{'a', 'A'}, {0xe9, 0xc9}, {0xff, 0x178}, {0x3c9, 0x3a9}, {0x44f, 0x42f},
        {0x101, 0x100}, {0x10428, 0x10400}, {0x1e01, 0x1e00}, {0x24d0, 0x24b6}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int32_t low = pairs[i][0], high = pairs[i][1];
        CHECK_EQ(gale__char_upper(low), high);
        CHECK_EQ(gale__char_lower(high), low);
        CHECK_EQ(gale__char_upper(high), high);
        CHECK_EQ(gale__char_lower(low), low);
    }
    CHECK_EQ(gale__char_upper(0xdf), 0xdf);
    CHECK_EQ(gale__char_upper(0x17f), 'S');
    CHECK_EQ(gale__char_lower(0x4e00), 0x4e00);
    CHECK_EQ(gale__char_upper(0x10ffff), 0x10ffff);
    for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
        char text[4];
        if (c >= 0xd800 && c < 0xe000) continue;
        const char *at = text, *end = gale__utf8_put(text, c);
        if (!CHECK_EQ(gale__utf8_take(&at, end), c) || !CHECK(at == end)) break;
    }
}

TESTS(ROW(matches), ROW(found), ROW(refused), ROW(linear), ROW(allocations_fail), ROW(letters), ROW(categories))
