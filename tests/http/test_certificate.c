// When certificates begin and end, on machines of any width.
#include "http/certificate.h"
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// 2020-01-01 00:00:00 to 2060-03-01 12:34:56, beyond what 32 bits of seconds hold.
static const char TO_2060[] = "-----BEGIN CERTIFICATE-----\n"
                              "MIIBEDCBuAIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcN\n"
                              "MjAwMTAxMDAwMDAwWhgPMjA2MDAzMDExMjM0NTZaMBQxEjAQBgNVBAMMCWxvY2Fs\n"
                              "aG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABC4Eta1SZCTF09zlWmd1diC4\n"
                              "FIF4eSIjcO8BNQovMgka9IFk6Xo1VmOFScmLFXEQ0dKPL1tu2iW5LdVPUoczD9Ew\n"
                              "CgYIKoZIzj0EAwIDRwAwRAIgVtWUWECu2yeB4g51hdC1PqQl5zo0nHe1nsHVGEUH\n"
                              "lZsCIFSO0P0u1/wmqXQi8RAekUjD6h7n65FXL1BChAB4hNPf\n"
                              "-----END CERTIFICATE-----\n";

// 2024-02-29 00:00:01 to 2070-01-01 00:00:00.
static const char FROM_LEAP_DAY[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBETCBuAIBAzAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcN\n"
    "MjQwMjI5MDAwMDAxWhgPMjA3MDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxvY2Fs\n"
    "aG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABC4Eta1SZCTF09zlWmd1diC4\n"
    "FIF4eSIjcO8BNQovMgka9IFk6Xo1VmOFScmLFXEQ0dKPL1tu2iW5LdVPUoczD9Ew\n"
    "CgYIKoZIzj0EAwIDSAAwRQIhAIZM5mXAScG7DJiOcQCbvjkTcEJ9CS3Nibuv/mHr\n"
    "gXfpAiAKEpNhIGaNR0CyFvFUGvfPoCWW9hzf+KFWXGWUVdkzNQ==\n"
    "-----END CERTIFICATE-----\n";

static enum tern_result times_of(const char *text, struct tern_certificate *times)
{
    char path[] = "/tmp/tern-certificate-XXXXXX";
    char why[256];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    const enum tern_result result = tern_certificate_read(path, times, why);
    unlink(path);
    return result;
}

CASE(test_times)
{
    struct tern_certificate times;
    assert_int_equal(times_of(TO_2060, &times), TERN_OK);
    assert_true(times.begins_s == 1577836800u && times.ends_s == 2845370096u);
    assert_int_equal(times_of(FROM_LEAP_DAY, &times), TERN_OK);
    assert_true(times.begins_s == 1709164801u && times.ends_s == 3155760000u);
}

CASE(test_chain_lasts_as_long_as_all_of_it)
{
    struct tern_certificate times;
    char chain[sizeof TO_2060 + sizeof FROM_LEAP_DAY];
    snprintf(chain, sizeof chain, "%s%s", FROM_LEAP_DAY, TO_2060);
    assert_int_equal(times_of(chain, &times), TERN_OK);
    assert_true(times.begins_s == 1709164801u && times.ends_s == 2845370096u);
}

CASE(test_what_is_no_certificate)
{
    struct tern_certificate times;
    char why[256];
    assert_int_equal(times_of("no certificate", &times), TERN_ERR_CONFIG);
    assert_int_equal(times_of("", &times), TERN_ERR_CONFIG);
    assert_int_equal(tern_certificate_read("/nowhere/server.crt", &times, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "/nowhere/server.crt cannot be read"));
}
