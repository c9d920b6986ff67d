package io.tern;

/** What a model predicts for the rows of a Dataset, in their order. */
public final class Prediction {
    /** The class of each row; null: the model predicts numbers. */
    public final @Nullable int[] labels;
    /** The probability of each label, or each predicted number, or an autoencoder's error for each row. */
    public final float[] values;
    /** The error above which a row is an anomaly; 0: the model is no autoencoder. */
    public final float threshold;

    Prediction(@Nullable int[] labels, float[] values, float threshold) {
        this.labels = labels;
        this.values = values;
        this.threshold = threshold;
    }
}
