// Prints the bytes of the built-in trainer and its data, which are subtracted from a client's peak memory.
#include "data/source.h"
#include "trainer/trainer.h"
#include <stdio.h>

static size_t bytes_of(const struct tern_dataset *data)
{
    size_t value = data->bytes != NULL ? 1 : sizeof(float);
    return data->count * ((size_t)data->feature_count * value + sizeof(uint16_t));
}

int main(int argc, char **argv)
{
    static struct tern_data data;
    static struct tern_model model;
    char why[TERN_DATA_WHY_MAX] = "";
    if (argc != 3) {
        fprintf(stderr, "usage: bench-trainer-size MODEL DATA\n");
        return 2;
    }
    if (tern_model_from_spec(&model, argv[1]) != TERN_OK ||
        tern_dataset_open(argv[2], NULL, &data, why) != TERN_OK) {
        fprintf(stderr, "bench-trainer-size: the model or the data could not be opened: %s\n", why);
        return 1;
    }
    const struct tern_builtin_config config = {.model = &model,
                                               .train = tern_view_all(&data.train),
                                               .test = tern_view_all(&data.test),
                                               .max_batch = 32};
    printf("%zu %zu\n",
           tern_builtin_trainer_bound(&config) + bytes_of(&data.train) + bytes_of(&data.test),
           (size_t)model.count * sizeof(float));
    tern_data_close(&data);
    return 0;
}
