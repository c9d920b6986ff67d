// A program that embeds libtern and knows nothing but what was installed.
#include <stdio.h>
#include <tern/client.h>
#include <tern/codec/codec.h>
#include <tern/version.h>

int main(void)
{
    struct tern_codec codec;
    char spec[TERN_CODEC_SPEC_MAX];
    if (tern_codec_parse("3lc:s=1.5", &codec, NULL) != TERN_OK) {
        return 1;
    }
    tern_codec_format(&codec, spec);
    printf("%s %s %s\n", TERN_VERSION, spec, tern_result_name(TERN_ERR_LATE));
    return 0;
}
