/* Names of libcurl, which is opened at run time.  They come from its own header where that is installed; else those
 * that gale uses are declared here, with the numbers of its binary interface, which it has kept since version 7, so
 * that fetching models needs nothing to build. */
#ifndef GALE_JOBS_CURL_NAMES_H
#define GALE_JOBS_CURL_NAMES_H
#include "gale_built.h"
#ifdef GALE_HAVE_CURL_H
#define CURL_DISABLE_DEPRECATION /* of options whose successors are newer than the libraries that we open */
#include <curl/curl.h>
#else
typedef void CURL;
typedef enum CURLcode {
    CURLE_OK = 0,
    CURLE_HTTP_RETURNED_ERROR = 22,
    CURLE_RANGE_ERROR = 33,
    CURLE_BAD_DOWNLOAD_RESUME = 36,
    CURLE_FILE_COULDNT_READ_FILE = 37,
    CURLE_ABORTED_BY_CALLBACK = 42,
    CURLE_REMOTE_FILE_NOT_FOUND = 78
} CURLcode;
typedef enum CURLoption {
    CURLOPT_LOW_SPEED_LIMIT = 19,
    CURLOPT_LOW_SPEED_TIME = 20,
    CURLOPT_NOPROGRESS = 43,
    CURLOPT_FAILONERROR = 45,
    CURLOPT_FOLLOWLOCATION = 52,
    CURLOPT_MAXREDIRS = 68,
    CURLOPT_CONNECTTIMEOUT = 78,
    CURLOPT_NOSIGNAL = 99,
    CURLOPT_PROTOCOLS = 181,
    CURLOPT_REDIR_PROTOCOLS = 182,
    CURLOPT_WRITEDATA = 10001,
    CURLOPT_URL = 10002,
    CURLOPT_ERRORBUFFER = 10010,
    CURLOPT_USERAGENT = 10018,
    CURLOPT_XFERINFODATA = 10057,
    CURLOPT_WRITEFUNCTION = 20011,
    CURLOPT_XFERINFOFUNCTION = 20219,
    CURLOPT_RESUME_FROM_LARGE = 30116
} CURLoption;
typedef enum CURLINFO { CURLINFO_RESPONSE_CODE = 0x200002 } CURLINFO;
enum { CURLPROTO_HTTP = 1, CURLPROTO_HTTPS = 2, CURLPROTO_FILE = 1 << 10 };
#endif
#endif
