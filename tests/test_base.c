/* The base room. */
#include "test.h"
#include "base/error.h"

TEST(errors)
{
    CHECK_EQ(gale__fail(GALE_IO, "%s: gone", "a.txt"), GALE_IO);
    CHECK_TEXT(gale_error(), "a.txt: gone");
    gale__fail_within(GALE_IO, "loading %d", 3);
    CHECK_TEXT(gale_error(), "loading 3: a.txt: gone");
    gale__error_clear();
    CHECK_TEXT(gale_error(), "");
    CHECK_TEXT(gale_status_text(GALE_NO_MEMORY), "out of memory");
    CHECK_TEXT(gale_status_text((gale_status)99), "unknown status");
    CHECK_TEXT(gale_version(), "0.1.0");
}

TESTS(ROW(errors))
