// Files of other formats are named, and CSV text that looks a little like them is not.
#include "hosted/csv.h"
#include "tests/cases.h"
#include <string.h>

static const char *name(const void *bytes, size_t len)
{
    return tern_other_format(bytes, len);
}

#define NAME(text) name(text, sizeof(text) - 1)

static void assert_named(const char *said, const char *part)
{
    assert_non_null(said);
    assert_non_null(strstr(said, part));
}

CASE(arrays_name_the_source_that_reads_them)
{
    static const char npz[] =
        "PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\24\0x.npy\1\0";
    assert_named(NAME(npz), "NumPy arrays, not CSV text: a client reads it by data.source = npz:");
    assert_named(NAME("\x93NUMPY\1\0v\0"), "data.source = npy:FOLDER");
    assert_named(NAME("\0\0\x08\3\0\0\xEA\x60"), "data.source = idx:FOLDER");
}

CASE(tables_of_other_programs_are_named)
{
    static const char xlsx[] =
        "PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\23\0\0\0[Content_Types].xml";
    static const char zip[] = "PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.csv";
    assert_named(NAME(xlsx), "a spreadsheet");
    assert_named(NAME(zip), "unpack it");
    assert_named(NAME("PAR1\25\4\25\0\1"), "Parquet");
    assert_named(NAME("SQLite format 3\0"), "sqlite3 -header -csv");
    assert_named(NAME("{\"temp\": 1, \"state\": \"ok\"}"), "JSON");
    assert_named(NAME("<!DOCTYPE html>\n<html>"), "a web page");
    assert_named(NAME("@RELATION iris\n"), "ARFF");
    assert_named(NAME("\x80\4\x95\0"), "pickle");
    assert_null(NAME("PK\3")); // cut short
    assert_named(NAME("PK\3\4"), "ZIP");
}

CASE(text_is_no_other_format)
{
    assert_null(NAME("PAR1,PAR2,state\n1,2,ok\n"));
    assert_null(NAME("BZh1;x\n"));
    assert_null(NAME("MATLAB run,x\n"));
    assert_null(NAME("\"a\",\"b\"\n"));
    assert_null(NAME("0,0,8,3\n"));
    assert_null(NAME(""));
}
