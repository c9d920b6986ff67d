package io.tern;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The federation's model: tensors in one flat vector of float32 values. */
public final class Model {
    /** One tensor. */
    public static final class Tensor {
        public final String name;
        public final int[] dims;
        /** Index of the first value in the flat vector. */
        public final int offset;
        public final int count;

        Tensor(String name, int[] dims, int offset, int count) {
            this.name = name;
            this.dims = dims;
            this.offset = offset;
            this.count = count;
        }
    }

    /** For example "mlp:24-32-4", or "tensors:..." for an imported model. */
    public final String spec;
    /** Number of values of all tensors. */
    public final int count;
    /** Training changes the first values only; the others belong to frozen tensors. */
    public final int trained;
    public final List<Tensor> tensors;

    private final List<Tensor> added = new ArrayList<>();

    // The two below are called by libternjni, whose texts are UTF-8.
    private Model(byte[] spec, int count, int trained) {
        this.spec = new String(spec, StandardCharsets.UTF_8);
        this.count = count;
        this.trained = trained;
        tensors = Collections.unmodifiableList(added);
    }

    private void add(byte[] name, int[] dims, int offset, int size) {
        added.add(new Tensor(new String(name, StandardCharsets.UTF_8), dims, offset, size));
    }
}
