// The autoencoders that init --data proposes, for every number of columns.
#include "cli/proposal.h"
#include "tests/cases.h"

#include <stdio.h>
#include <string.h>

#define FEWEST 2
#define MOST 1000

// Returns how many sizes the spec has.
static int read_sizes(const char *spec, unsigned sizes[5])
{
    return sscanf(spec, "mlp:%u-%u-%u-%u-%u,", &sizes[0], &sizes[1], &sizes[2], &sizes[3],
                  &sizes[4]);
}

CASE(test_the_middle_of_an_autoencoder_is_the_narrowest)
{
    static struct tern_model model;
    for (uint32_t features = FEWEST; features <= MOST; features++) {
        struct tern_proposal proposal = {.task = TERN_TASK_ANOMALY, .features = features};
        unsigned size[5];
        tern_proposal_choose_model(&proposal);
        assert_int_equal(read_sizes(proposal.model, size), 5);
        for (int i = 0; i < 5; i++) {
            assert_true(i == 2 || size[2] < size[i]);
        }
        assert_int_equal(size[2], features < 32 ? (features + 1) / 2 : 16);
        assert_true(size[0] == features && size[4] == features);
        assert_int_equal(tern_model_from_spec(&model, proposal.model), TERN_OK);
        assert_true(tern_proposal_fits_model(&proposal, &model));
    }
}
