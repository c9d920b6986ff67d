// Draws digits (client/data/generated.h) into a folder as the four IDX files that a trainer of the
// user's can read: digits_to_idx FOLDER SEED TRAIN TEST. Each seed is another client's data.
#include "data/generated.h"

#include <stdio.h>
#include <stdlib.h>

#define SIZE 16

static void put_be32(uint32_t value, FILE *file)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                              (uint8_t)value};
    fwrite(bytes, sizeof bytes, 1, file);
}

static FILE *open_idx(const char *folder, const char *part, const char *kind)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s-%s-ubyte", folder, part, kind);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static void write_part(const char *folder, const char *name, bool test, uint64_t seed,
                       uint32_t count)
{
    uint8_t image[SIZE * SIZE];
    FILE *images = open_idx(folder, name, "images-idx3");
    FILE *labels = open_idx(folder, name, "labels-idx1");
    put_be32(0x0803, images);
    put_be32(count, images);
    put_be32(SIZE, images);
    put_be32(SIZE, images);
    put_be32(0x0801, labels);
    put_be32(count, labels);
    for (uint32_t i = 0; i < count; i++) {
        fputc(tern_digits_draw(seed, test, i, SIZE, image), labels);
        fwrite(image, sizeof image, 1, images);
    }
    fclose(images);
    fclose(labels);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: digits_to_idx FOLDER SEED TRAIN TEST\n");
        return 2;
    }
    const uint64_t seed = strtoull(argv[2], NULL, 10);
    write_part(argv[1], "train", false, seed, (uint32_t)strtoul(argv[3], NULL, 10));
    write_part(argv[1], "t10k", true, seed, (uint32_t)strtoul(argv[4], NULL, 10));
    return 0;
}
