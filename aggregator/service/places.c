#include "service/places.h"

#include <string.h>

void places_init(struct places *places)
{
    memset(places, 0, sizeof *places);
    pthread_mutex_init(&places->lock, NULL);
}

void places_free(struct places *places)
{
    tern_blob_release(places->blob);
    pthread_mutex_destroy(&places->lock);
}

void places_set(struct places *places, uint32_t round, struct tern_blob *blob)
{
    pthread_mutex_lock(&places->lock);
    struct tern_blob *old = places->blob;
    places->round = round;
    places->blob = blob;
    pthread_mutex_unlock(&places->lock);
    tern_blob_release(old);
}

struct tern_blob *places_of(struct places *places, uint32_t round)
{
    struct tern_blob *blob = NULL;
    pthread_mutex_lock(&places->lock);
    if (places->blob != NULL && places->round == round) {
        blob = tern_blob_share(places->blob);
    }
    pthread_mutex_unlock(&places->lock);
    return blob;
}
