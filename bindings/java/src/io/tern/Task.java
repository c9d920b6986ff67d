package io.tern;

/** The settings of one local training, which the aggregator chose. */
public final class Task {
    /** A batch of this size means all examples. */
    public static final int ALL = Integer.MAX_VALUE;

    public final int round;
    public final int localSteps;
    public final int batchSize;
    public final float learningRate;
    public final float momentum;
    public final float weightDecay;
    /** FedProx: proxMu / 2 * |w - base|^2 is added to the loss. */
    public final float proxMu;
    /** Derive the batches from seed, round and client, so that a repeated task trains the same. */
    public final long seed;
    public final int client;

    Task(int round, int localSteps, int batchSize, float learningRate, float momentum, float weightDecay, float proxMu,
            long seed, int client) {
        this.round = round;
        this.localSteps = localSteps;
        this.batchSize = batchSize;
        this.learningRate = learningRate;
        this.momentum = momentum;
        this.weightDecay = weightDecay;
        this.proxMu = proxMu;
        this.seed = seed;
        this.client = client;
    }
}
