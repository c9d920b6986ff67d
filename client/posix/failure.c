#include "posix/failure.h"

#include "util/utf8.h"
#include "wire/wire.h"
#include <stdio.h>
#include <string.h>

// Reads the sentence of an error reply; "" when the reply is not a Tern message.
static void read_sentence(const struct tern_response *response, char sentence[TERN_FAILURE_MAX])
{
    tern_Error error;
    sentence[0] = '\0';
    if (tern_wire_decode_error(response->body, response->body_len, &error) == TERN_OK) {
        snprintf(sentence, TERN_FAILURE_MAX, "%s", error.sentence);
        tern_utf8_show(sentence, strlen(sentence));
    }
}

const char *tern_failure_text(const struct tern_client *client, const struct tern_curl *curl,
                              enum tern_result result, char text[TERN_FAILURE_MAX])
{
    const struct tern_response *response = &client->response;
    const bool unreached = result == TERN_ERR_NETWORK || result == TERN_ERR_TLS;
    char sentence[TERN_FAILURE_MAX];
    if (unreached && tern_curl_why(curl)[0] != '\0') {
        snprintf(text, TERN_FAILURE_MAX, "%s", tern_curl_why(curl));
    } else if (!unreached && response->status >= 300) {
        read_sentence(response, sentence);
        snprintf(text, TERN_FAILURE_MAX, "it answered HTTP %d%s%.340s", response->status,
                 sentence[0] != '\0' ? ": " : "", sentence);
    } else {
        snprintf(text, TERN_FAILURE_MAX, "%s", tern_result_sentence(result));
    }
    return text;
}
