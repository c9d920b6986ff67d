package io.tern;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;
import java.util.Objects;

/**
 * Examples for the built-in models: rows of float32 features, with labels or with numbers to predict. A direct FloatBuffer in
 * native byte order is used where it is, and must not change while the client has it; any other is copied once.
 */
public final class Dataset {
    final FloatBuffer rows;
    final @Nullable ShortBuffer labels;
    final @Nullable FloatBuffer targets;
    // count, classes, height, width, channels
    final int[] shape;

    private Dataset(FloatBuffer rows, int classes, int height, int width, int channels, @Nullable int[] labels,
            @Nullable float[] targets) {
        Objects.requireNonNull(rows, "rows is null");
        long columns = (long) height * width * channels;
        if (height < 1 || width < 1 || channels < 1 || rows.remaining() == 0 || rows.remaining() % columns != 0) {
            throw new IllegalArgumentException("rows has " + rows.remaining() + " values, which is no multiple of " + height
                    + " x " + width + " x " + channels + ": give whole rows, and at least one");
        }
        int count = (int) (rows.remaining() / columns);
        this.rows = direct(rows);
        this.labels = shorts(labels, count, classes);
        this.targets = numbers(targets, count);
        shape = new int[] {count, classes, height, width, channels};
    }

    /** Rows of a table; labels[i] is the class of row i, from 0 to classes - 1. */
    public static Dataset classes(FloatBuffer rows, int columns, int classes, int[] labels) {
        Objects.requireNonNull(labels, "labels is null");
        return new Dataset(rows, classes, 1, columns, 1, labels, null);
    }

    /** Images, channels last. */
    public static Dataset images(FloatBuffer rows, int height, int width, int channels, int classes, int[] labels) {
        Objects.requireNonNull(labels, "labels is null");
        return new Dataset(rows, classes, height, width, channels, labels, null);
    }

    /** Rows of a table with one number to predict for each. */
    public static Dataset numbers(FloatBuffer rows, int columns, float[] targets) {
        Objects.requireNonNull(targets, "targets is null");
        return new Dataset(rows, 1, 1, columns, 1, null, targets);
    }

    /** Rows of a table without labels, for autoencoders and for predictions. */
    public static Dataset rows(FloatBuffer rows, int columns) {
        return new Dataset(rows, 1, 1, columns, 1, null, null);
    }

    /** Returns the number of examples. */
    public int count() {
        return shape[0];
    }

    static FloatBuffer floats(int count) {
        if (count > Integer.MAX_VALUE / Float.BYTES) {
            throw new IllegalArgumentException(count + " values are more than one buffer of Java holds");
        }
        return ByteBuffer.allocateDirect(count * Float.BYTES).order(ByteOrder.nativeOrder()).asFloatBuffer();
    }

    private static FloatBuffer direct(FloatBuffer given) {
        if (given.isDirect() && given.order() == ByteOrder.nativeOrder()) {
            return given.slice();
        }
        FloatBuffer copy = floats(given.remaining());
        copy.put(given.duplicate());
        copy.flip();
        return copy;
    }

    private static ShortBuffer shorts(@Nullable int[] labels, int count, int classes) {
        ByteBuffer memory = ByteBuffer.allocateDirect(count * Short.BYTES).order(ByteOrder.nativeOrder());
        ShortBuffer shorts = memory.asShortBuffer();
        if (labels == null) {
            return shorts; // all of class 0
        }
        if (labels.length != count || classes < 1 || classes > 65536) {
            throw new IllegalArgumentException(labels.length + " labels of " + classes + " classes for " + count
                    + " rows: give one label a row, and 1 to 65536 classes");
        }
        for (int i = 0; i < count; i++) {
            if (labels[i] < 0 || labels[i] >= classes) {
                throw new IllegalArgumentException(
                        "labels[" + i + "] is " + labels[i] + "; labels are from 0 to " + (classes - 1));
            }
            shorts.put(i, (short) labels[i]);
        }
        return shorts;
    }

    private static @Nullable FloatBuffer numbers(@Nullable float[] targets, int count) {
        if (targets == null) {
            return null;
        }
        if (targets.length != count) {
            throw new IllegalArgumentException(targets.length + " targets for " + count + " rows: give one a row");
        }
        return direct(FloatBuffer.wrap(targets));
    }
}
