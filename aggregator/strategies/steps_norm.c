#include "strategies/steps_norm.h"

#include <string.h>

// One step of u <- rho u - alpha d + 1, d <- d + u, with a gradient of 1 throughout, is a linear
// map of (d, u, 1). Its power, by squaring, takes 20 products for a million steps; a loop of so
// many, or pow(), whose last bit differs between libraries, is not needed.
enum { SIZE = 3 };

static void multiply(double a[SIZE][SIZE], double b[SIZE][SIZE], double product[SIZE][SIZE])
{
    double sums[SIZE][SIZE] = {{0.0}};
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            for (int k = 0; k < SIZE; k++) {
                sums[i][j] += a[i][k] * b[k][j];
            }
        }
    }
    memcpy(product, sums, sizeof sums);
}

static double distance(uint32_t steps, double rho, double alpha)
{
    double power[SIZE][SIZE] = {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}};
    double step[SIZE][SIZE] = {{1.0 - alpha, rho, 1.0}, {-alpha, rho, 1.0}, {0.0, 0.0, 1.0}};
    for (; steps > 0; steps /= 2) {
        if (steps % 2 == 1) {
            multiply(power, step, power);
        }
        multiply(step, step, step);
    }
    return power[0][2];
}

double tern_steps_norm(uint32_t steps, double rho, double alpha)
{
    if (!(rho > 0.0) && !(alpha > 0.0)) {
        return (double)steps;
    }
    double most = (double)steps / (1.0 - rho);
    double norm = distance(steps, rho, alpha < 1.0 ? alpha : 1.0);
    norm = norm < most ? norm : most;
    return norm > 1.0 ? norm : 1.0;
}
