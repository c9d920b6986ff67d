// The lists of strategies and of their parameters. A new strategy is a row here and a struct tern_strategy in a file of
// this folder. A new parameter is a row here, from which its key of the spec string, --settings, the messages about
// mistakes and the column of a round follow.
#ifndef TERN_STRATEGY_LIST_H
#define TERN_STRATEGY_LIST_H

// FIRST(name) is the default strategy, NEXT(name) another one. Each is a struct tern_strategy of the name
// tern_strategy_<name>.
#define TERN_STRATEGIES(FIRST, NEXT)                                                               \
    FIRST(fedavgm)                                                                                 \
    NEXT(fednova)                                                                                  \
    NEXT(fedavg)                                                                                   \
    NEXT(fedprox)                                                                                  \
    NEXT(fedadam)                                                                                  \
    NEXT(fedadagrad)                                                                               \
    NEXT(fedyogi)                                                                                  \
    NEXT(fedmedian)                                                                                \
    NEXT(fedtrimmedavg)                                                                            \
    NEXT(krum)                                                                                     \
    NEXT(multikrum)                                                                                \
    NEXT(fedbuff)                                                                                  \
    NEXT(qsvrg)

// Parameters of the strategies' arithmetic. Each is stored with its round, and is a key of the spec string:
//   WHOLE(NAME, name, least, most, preset, meaning)
//   YES_NO(NAME, name, preset, meaning)
//   GIVEN(NAME, name, least, most): no key; training or the round gives it
// or_zero: 0, below the least, is allowed as well and stands for "without a bound".
#define TERN_STRATEGY_PARAMETER_LIST(NUMBER, WHOLE, YES_NO, GIVEN)                                 \
    YES_NO(                                                                                        \
        NORMALISE, normalise, 1,                                                                   \
        "whether updates are normalised, so that more local steps give a client no more weight")   \
    GIVEN(LOCAL_MOMENTUM, local_momentum, 0.0, 0.9999) /* rho of the clients' SGD */               \
    NUMBER(PROX_MU, prox_mu, 0, 1000, false, 0.01,                                                 \
           "weight of the proximal term of local training")                                        \
    NUMBER(SERVER_MOMENTUM, server_momentum, 0, 0.9999, false, 0.5, "momentum of the server")      \
    NUMBER(BETA1, beta1, 0, 0.9999, false, 0.9,                                                    \
           "weight of the old value in the running mean of changes")                               \
    NUMBER(BETA2, beta2, 0, 0.9999, false, 0.99,                                                   \
           "weight of the old value in the running mean of squared changes")                       \
    NUMBER(TAU, tau, 0.000001, 1000, false, 0.001, "least divisor of a step; smaller adapts more") \
    NUMBER(TRIM, trim, 0, 0.49, false, 0.2,                                                        \
           "fraction of the updates that is left out at each end of the sorted values of a "       \
           "coordinate")                                                                           \
    NUMBER(ATTACKERS, attackers, 0, 0.49, false, 0.2,                                              \
           "fraction of a round's updates that may come from attackers; with f attackers, "        \
           "rounded down, a round needs at least 2 f + 3 updates")                                 \
    WHOLE(                                                                                         \
        STALENESS_MAX, staleness_max, 0, 1000000, 10,                                              \
        "most versions that a late update may be behind the newest; older updates are given back") \
    NUMBER(SCALE_MAX, scale_max, 1, 4000, true, 2,                                                 \
           "largest factor by which normalising scales up an update with fewer local steps; 0 = "  \
           "no limit, as in the paper")                                                            \
    NUMBER(NORM_BOUND, norm_bound, 1, 4000, true, 3,                                               \
           "largest Euclidean norm of an update after normalising, in multiples of the median "    \
           "norm of its round; a larger update is scaled down to it; 0 = no limit")                \
    NUMBER(EXAMPLES_BOUND, examples_bound, 1, 4000, true, 16,                                      \
           "most examples that an update counts for, in multiples of the median that its round's " \
           "clients report, if three or more report; 0 = as many as it reports, up to "            \
           "limits.num_examples")                                                                  \
    WHOLE(EPOCH_STEPS, epoch_steps, 3, 1000000, 50,                                                \
          "T, the number of models in an epoch, whose mean starts the next epoch; an epoch has T " \
          "- 1 rounds, one for the full gradient and T - 2 that use it; by the paper's theorem, "  \
          "T is of the order of L / l (smoothness over strong convexity) and train.learning_rate " \
          "of the order of 1 / L; a change takes effect with the next epoch")                      \
    GIVEN(EPOCH_STEP, epoch_step, 0.0, 1e6) /* rounds of the epoch before this one */

#endif
