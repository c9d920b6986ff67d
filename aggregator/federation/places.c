#include "federation/places.h"

#include <string.h>

void tern_places_init(struct tern_places *places)
{
    memset(places, 0, sizeof *places);
    pthread_mutex_init(&places->lock, NULL);
}

void tern_places_free(struct tern_places *places)
{
    tern_blob_release(places->blob);
    pthread_mutex_destroy(&places->lock);
}

void tern_places_set(struct tern_places *places, uint32_t round, struct tern_blob *blob)
{
    pthread_mutex_lock(&places->lock);
    struct tern_blob *old = places->blob;
    places->round = round;
    places->blob = blob;
    pthread_mutex_unlock(&places->lock);
    tern_blob_release(old);
}

struct tern_blob *tern_places_of(struct tern_places *places, uint32_t round)
{
    struct tern_blob *blob = NULL;
    pthread_mutex_lock(&places->lock);
    if (places->blob != NULL && places->round == round) {
        blob = tern_blob_share(places->blob);
    }
    pthread_mutex_unlock(&places->lock);
    return blob;
}
