// report fairness: how evenly rounds fell on the clients. Called by verb_report.c.
#ifndef TERN_REPORT_FAIRNESS_H
#define TERN_REPORT_FAIRNESS_H

#include "hosted/cli.h"

// Prints one row per client and the sums, as a table, CSV (--csv) or JSON; returns the exit code.
int tern_report_fairness(struct tern_cli *cli);

#endif
