package io.tern;

import java.nio.FloatBuffer;

/**
 * Trains and evaluates the model by the app's own framework. All calls come from the thread that called runRound(). Buffers
 * are direct, in native byte order, and share memory with the client: nothing is copied.
 */
public interface Trainer {
    /** Called once, before the first task. Throw an exception if this is not the model that the trainer can train. */
    default void open(Model model) throws Exception {
    }

    /**
     * Starts a task. base: the global model, read-only. weights: the values to start from, which the steps change in place.
     * Both are valid until the task ends or another begins.
     */
    void begin(Task task, FloatBuffer base, FloatBuffer weights) throws Exception;

    /**
     * Trains one local step. Returns null while steps remain, and the result after the last one. cancel() takes effect
     * between steps, so a step should take less than a second.
     */
    @Nullable
    Result step() throws Exception;

    /** Evaluates the weights on data that is not trained on. Null: there is no such data. */
    default @Nullable Evaluation evaluate(FloatBuffer weights) throws Exception {
        return null;
    }

    /** The result of a task. */
    final class Result {
        /** Examples of the local data set: the client's weight in the average. */
        public final int numExamples;
        public final int localSteps;
        /** Mean loss of the steps. */
        public final float loss;

        public Result(int numExamples, int localSteps, float loss) {
            this.numExamples = numExamples;
            this.localSteps = localSteps;
            this.loss = loss;
        }
    }

    /** The result of an evaluation. */
    final class Evaluation {
        public final int numExamples;
        /** Mean loss of the examples. */
        public final float loss;
        /** Fraction of correct predictions, 0 to 1; NaN: the model predicts no classes. */
        public final float accuracy;

        public Evaluation(int numExamples, float loss, float accuracy) {
            this.numExamples = numExamples;
            this.loss = loss;
            this.accuracy = accuracy;
        }
    }
}
