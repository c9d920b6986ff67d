// The lists of strategies and of their parameters. A new strategy is a row here and a struct
// tern_strategy in a file of this folder; a new parameter is a row here and a setting of its name:
// the table, --help, the sentences that list what is allowed, a round's row and the reading of
// settings follow.
#ifndef TERN_STRATEGY_LIST_H
#define TERN_STRATEGY_LIST_H

// FIRST is the default; each is tern_strategy_<name>.
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

// Numbers that a strategy's arithmetic depends on, kept with each round:
//   NUMBER(NAME of TERN_STRATEGY_NAME, name in a round's row, least, most, or_zero, section, key)
//   YES_NO(NAME, name, section, key)
//   OPENED(NAME, name, least, most): no setting; each round has its own when it opens
// or_zero: 0, below the least, is allowed as well and stands for "none". section.key: the setting.
//
// normalise        0 or 1: divide by the norm of a_i (steps_norm.h)
// local_momentum   rho of the clients' SGD, which a_i depends on
// prox_mu          of the clients' proximal term, likewise
// server_momentum  beta of FedAvgM
// trim             share of the updates cut off on each side
// attackers        share of the updates that come from attackers, at most
// staleness_max    versions
// norm_bound       no update counts for more than this times the middle one; 0: without a bound
// examples_bound   no update counts for more examples than this times the middle claim; 0: without a bound
// scale_max        normalising, no update is scaled up by more than this; 0: without a bound
// epoch_steps      T of qsvrg: iterates whose mean is the next anchor
// epoch_step       rounds of the epoch before this one
#define TERN_STRATEGY_PARAMETER_LIST(NUMBER, YES_NO, OPENED)                                       \
    YES_NO(NORMALISE, normalise, strategy, normalise)                                              \
    NUMBER(LOCAL_MOMENTUM, local_momentum, 0.0, 0.9999, false, train, momentum)                    \
    NUMBER(PROX_MU, prox_mu, 0.0, 1e3, false, strategy, prox_mu)                                   \
    NUMBER(SERVER_MOMENTUM, server_momentum, 0.0, 0.9999, false, strategy, server_momentum)        \
    NUMBER(BETA1, beta1, 0.0, 0.9999, false, strategy, beta1)                                      \
    NUMBER(BETA2, beta2, 0.0, 0.9999, false, strategy, beta2)                                      \
    NUMBER(TAU, tau, 1e-9, 1e3, false, strategy, tau)                                              \
    NUMBER(TRIM, trim, 0.0, 0.49, false, strategy, trim)                                           \
    NUMBER(ATTACKERS, attackers, 0.0, 0.49, false, strategy, attackers)                            \
    NUMBER(STALENESS_MAX, staleness_max, 0.0, 1e6, false, strategy, staleness_max)                 \
    NUMBER(SCALE_MAX, scale_max, 1.0, 1e6, true, strategy, scale_max)                              \
    NUMBER(NORM_BOUND, norm_bound, 1.0, 1e6, true, strategy, norm_bound)                           \
    NUMBER(EXAMPLES_BOUND, examples_bound, 1.0, 1e6, true, strategy, examples_bound)               \
    NUMBER(EPOCH_STEPS, epoch_steps, 3.0, 1e6, false, strategy, epoch_steps)                       \
    OPENED(EPOCH_STEP, epoch_step, 0.0, 1e6)

#endif
