package io.tern;

import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.net.SocketException;
import java.nio.FloatBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLHandshakeException;
import javax.net.ssl.SSLPeerUnverifiedException;

/**
 * One client of a federation. Its state is in one folder of the app; a process that dies continues the round at its next
 * start. Any thread may call it, one at a time; cancel() may come from any thread at any time.
 *
 * <pre>
 * try (TernClient client = TernClient.builder("https://tern.example:8443", folder).data(train, test).build()) {
 *     if (!client.isEnrolled()) {
 *         client.enroll(code);
 *     }
 *     Round round = client.runRound();
 * }
 * </pre>
 */
public final class TernClient implements AutoCloseable {
    private static final int OK = 0;
    private static final int AGAIN = 1;
    private static final long CONDITIONS_FRESH_NS = 1_000_000_000L;
    private static final long FINISHED_MS = 0xFFFFFFFFL; // nextMs() of a federation that has completed its rounds
    private static final int BLOCK = 16384;
    private static final int MAY_WORK = 1;
    private static final int METERED = 2;
    private static final int MAINS = 4;

    static {
        System.loadLibrary("ternjni");
        for (Event.Kind kind : Event.Kind.values()) {
            if (!kind.logName().equals(text(eventName(kind.ordinal())))) {
                throw new LinkageError("libternjni is not of this tern.jar's version: replace both together");
            }
        }
    }

    private final Builder made;
    private final ReentrantLock work = new ReentrantLock(); // held by the thread that works
    private final Object guard = new Object(); // protects handle and cancelled
    private long handle;
    private boolean cancelled;

    // All below belongs to the thread that holds `work`.
    private boolean enrolled;
    private boolean prepared;
    private @Nullable Model model;
    private @Nullable Model opened; // by the app's trainer
    private @Nullable FloatBuffer weights;
    private @Nullable FloatBuffer trained;
    private @Nullable Throwable thrown; // by the app, in a callback
    private @Nullable Conditions.State state;
    private long stateNs;
    private String blocked = "";
    private String transportWhy = "";
    private boolean abandoned; // the last exchange, after cancel()
    // The round in progress.
    private Round.Outcome outcome;
    private @Nullable Round.Outcome waiting; // of the call before
    private String failedWhy = ""; // of the last failed request or training
    private float loss;
    private boolean evaluated;
    private @Nullable Event last;

    private TernClient(Builder builder) throws TernException {
        made = builder;
        byte[][] texts = {bytes(builder.server), bytes(builder.state.getPath()), bytes(builder.name), bytes(builder.ca),
            bytes(builder.certificate), bytes(builder.key), bytes(builder.helperKey), bytes(builder.helperCode)};
        long[] numbers = {builder.budgetPerRound, builder.budgetPerMonth, builder.maxBatch, builder.maxLocalSteps,
            builder.evaluator ? 1 : 0, builder.transport != null ? 1 : 0, builder.trainer != null ? 1 : 0,
            builder.conditions != null ? 1 : 0};
        handle = open(texts, numbers);
        boolean opened = false;
        try {
            int result = identify(handle);
            enrolled = result == OK;
            if (!enrolled && !"not-found".equals(text(resultName(result)))) {
                throw failure(result);
            }
            opened = true;
        } finally {
            if (!opened) {
                free(handle);
            }
        }
    }

    /** server: "https://host:port". state: the client's own folder, which is made where it is missing. */
    public static Builder builder(String server, File state) {
        given(server, "server", "https://host:port");
        Objects.requireNonNull(state, "state is null");
        return new Builder(server, state);
    }

    // --- What apps call

    /** Returns whether this client has enrolled, now or in an earlier process. */
    public boolean isEnrolled() {
        work.lock();
        try {
            return enrolled;
        } finally {
            work.unlock();
        }
    }

    /** Enrols with a join code. A new identity replaces an earlier one. */
    public void enroll(String code) throws TernException {
        given(code, "code", "a join code of tern-aggregator enroll-code");
        enter();
        try {
            int result = enroll(handle, bytes(code));
            throwPending();
            if (result != OK) {
                if (isCancel(result)) {
                    throw new TernException("cancelled", "enroll() was cancelled; whether the code is used up is unknown"
                            + (abandoned ? ". " + Exchange.ABANDONED : ""), null, 0);
                }
                throw failure(result);
            }
            enrolled = true;
            prepared = false;
            model = null;
        } finally {
            work.unlock();
        }
    }

    /** Returns the federation's model. Fetches its description, if it is not built in and not stored yet. */
    public Model model() throws TernException {
        enter();
        try {
            return build();
        } finally {
            work.unlock();
        }
    }

    /**
     * Takes part in one round: fetches what is missing of the model, trains and sends the update. Returns when the aggregator
     * has answered, has no task, or the client may not work. Repeats failed requests for ten seconds; then, or if the aggregator
     * wants a longer wait, the failure is thrown, and the next call tries at once.
     */
    public Round runRound() throws TernException {
        enter();
        try {
            if (!prepareRound()) {
                return new Round(Round.Outcome.CANCELLED, 0, Float.NaN, 0, 0, 0, null);
            }
            outcome = null;
            loss = Float.NaN;
            evaluated = false;
            last = null;
            state = null;
            Round early = early();
            if (early != null) {
                return early;
            }
            int ended = OK;
            try {
                advance();
            } finally {
                prepared = prepared && !isStopped(handle); // a client that has stopped restores its state at the next call
                ended = end(handle);
            }
            check(ended);
            return result();
        } finally {
            work.unlock();
        }
    }

    /**
     * Ends the call in progress within a second or, if none is, the next one: one call ends as cancelled. What was sent and
     * trained stays, and a later call continues there. May be called from any thread. An interrupt of the calling thread ends
     * the call, too; its flag stays set and ends each further call, until the app clears it by Thread.interrupted().
     */
    public void cancel() {
        synchronized (guard) {
            if (handle == 0) {
                return;
            }
            cancelled = true;
            cancel(handle);
            guard.notifyAll();
        }
        if (made.transport != null) {
            made.transport.cancel();
        }
    }

    /** Returns the values of the model that this client has: read-only, in the order of model().tensors. */
    public FloatBuffer weights() throws TernException {
        enter();
        try {
            prepare();
            return weights.asReadOnlyBuffer();
        } finally {
            work.unlock();
        }
    }

    /** Returns what the client's model predicts for rows of the federation's shape. The model must be a built-in one. */
    public Prediction predict(Dataset rows) throws TernException {
        Objects.requireNonNull(rows, "rows is null");
        enter();
        try {
            prepare();
            int[] labels = new int[rows.count()];
            float[] values = new float[rows.count()];
            float[] threshold = new float[1];
            check(predict(handle, rows, labels, values, threshold));
            boolean classes = !model.spec.contains(",loss=");
            return new Prediction(classes ? labels : null, values, threshold[0]);
        } finally {
            work.unlock();
        }
    }

    /** Returns all bytes on the wire since enrolment, both directions, headers included. */
    public long wireBytes() throws TernException {
        enter();
        try {
            prepare();
            return wireBytes(handle);
        } finally {
            work.unlock();
        }
    }

    /** Cancels the call in progress, waits for its end, and frees the client's memory. Its folder stays. */
    @Override
    public void close() {
        if (work.isHeldByCurrentThread()) {
            throw new IllegalStateException("close() was called in a callback of this client: call cancel() there");
        }
        cancel();
        work.lock();
        try {
            long freed = handle;
            synchronized (guard) {
                handle = 0;
            }
            if (freed != 0) {
                free(freed);
            }
        } finally {
            work.unlock();
        }
    }

    // --- Calls

    // Advances the client until the call has an outcome.
    private void advance() throws TernException {
        while (outcome == null) {
            if (Thread.currentThread().isInterrupted()) {
                cancel(handle); // which the step reports and forgets, with an earlier cancel()
            }
            int result = step(handle);
            throwPending();
            if (isCancel(result)) {
                outcome = Round.Outcome.CANCELLED;
            } else if (outcome != null) {
                return;
            } else if (result != OK && result != AGAIN) {
                throw isStopped(handle) ? failure(result) : gaveUp(result);
            } else if (result == AGAIN) {
                long ms = nextMs(handle);
                if (ms == FINISHED_MS) {
                    outcome = Round.Outcome.FINISHED;
                } else {
                    pause(ms);
                }
            }
        }
    }

    private TernException gaveUp(int result) {
        TernException failure = failure(result);
        return new TernException(failure.result(), failedWhy + ": " + failure.getMessage(), null,
                failure.isRetryable() ? nextMs(handle) : TernException.NEVER);
    }

    private static void atLeastZero(long value, String name) {
        if (value < 0) {
            throw new IllegalArgumentException(name + " is " + value + ": give 0, which means no limit, or more");
        }
    }

    private static void given(String value, String name, String remedy) {
        Objects.requireNonNull(value, name + " is null");
        if (value.isEmpty()) {
            throw new IllegalArgumentException(name + " is empty: give " + remedy);
        }
    }

    private void enter() {
        if (work.isHeldByCurrentThread()) {
            throw new IllegalStateException("the client was called in one of its own callbacks: return first");
        }
        work.lock();
        if (handle == 0) {
            work.unlock();
            throw new IllegalStateException("the client is closed: build another");
        }
        thrown = null;
    }

    // Notes the end of a call that cancel() has ended.
    private boolean isCancel(int result) {
        if (result == OK || result == AGAIN || !"cancelled".equals(text(resultName(result)))) {
            return false;
        }
        synchronized (guard) {
            cancelled = false;
        }
        return true;
    }

    // Waits until the client has something to do, cancel() or an interrupt.
    private void pause(long ms) {
        long end = System.nanoTime() + ms * 1_000_000L;
        synchronized (guard) {
            try {
                for (long left = ms; left > 0 && !cancelled; left = (end - System.nanoTime()) / 1_000_000L) {
                    guard.wait(left);
                }
            } catch (InterruptedException interrupt) {
                Thread.currentThread().interrupt();
            }
        }
    }

    // Returns what the last call has returned, if the aggregator or a budget still wants the client to wait.
    private @Nullable Round early() {
        long ms = nextMs(handle);
        boolean waits = waiting == Round.Outcome.WAITING || waiting == Round.Outcome.BUDGET;
        waiting = waits && ms > 0 && ms != FINISHED_MS && !isCancelled() ? waiting : null;
        return waiting != null ? new Round(waiting, 0, Float.NaN, 0, 0, ms, "the time that the last call gave has not passed") : null;
    }

    private Round result() {
        waiting = outcome;
        if (outcome == Round.Outcome.PAUSED) {
            return new Round(outcome, 0, loss, 0, 0, nextMs(handle), blocked);
        }
        if (outcome == Round.Outcome.CANCELLED && abandoned) {
            return new Round(outcome, 0, loss, 0, 0, 0, Exchange.ABANDONED);
        }
        boolean uploaded = last != null && last.kind == Event.Kind.UPLOADED;
        return new Round(outcome, uploaded ? last.round : 0, loss, uploaded ? last.bytes : 0,
                uploaded ? last.roundBytes : 0, last != null ? last.waitMs : 0, last != null ? last.why : null);
    }

    private Model build() throws TernException {
        if (!enrolled) {
            throw new TernException("bad-state", "the client has not enrolled: call enroll() with a join code first", null);
        }
        if (model == null) {
            check(build(handle));
            model = modelOf(handle);
        }
        return model;
    }

    private void prepare() throws TernException {
        Model built = build();
        if (prepared) {
            return;
        }
        if (weights == null || weights.capacity() != built.count) {
            weights = Dataset.floats(built.count);
            trained = made.trainer != null ? Dataset.floats(built.count) : null;
        }
        if (made.trainer != null && opened != built) {
            try {
                made.trainer.open(built);
                opened = built;
            } catch (Exception e) {
                if (isInterrupt(e)) {
                    throw new TernException("cancelled", "the thread was interrupted while the trainer opened the model", e, 0);
                }
                throw new TernException("model-mismatch", "the trainer refuses the model \"" + built.spec + "\": " + e, e);
            }
        }
        int result = restore(handle, weights, trained, made.train, made.test);
        throwPending();
        check(result);
        prepared = true;
    }

    // Returns false if cancel() has ended the fetching of the model's description.
    private boolean prepareRound() throws TernException {
        try {
            prepare();
            return true;
        } catch (TernException failure) {
            if (failure.result().equals("cancelled")) {
                return false;
            }
            throw failure;
        }
    }

    private void check(int result) throws TernException {
        if (result != OK) {
            isCancel(result);
            throw failure(result);
        }
    }

    private TernException failure(int result) {
        String name = text(resultName(result));
        boolean unreached = name.equals("network") || name.equals("tls");
        return new TernException(name, unreached && !transportWhy.isEmpty() ? transportWhy : text(why(handle, result)),
                null, againMs(handle, result));
    }

    // Throws what the app has thrown in a callback.
    private void throwPending() throws TernException {
        Throwable pending = thrown;
        thrown = null;
        if (pending == null) {
            return;
        }
        if (pending instanceof RuntimeException) {
            throw (RuntimeException) pending;
        }
        if (pending instanceof Error) {
            throw (Error) pending;
        }
        if (pending instanceof TernException) {
            throw (TernException) pending;
        }
        throw new TernException("trainer", "the trainer failed; the aggregator gets the reason with the next request: " + pending,
                pending, nextMs(handle));
    }

    private void keep(Throwable failure) {
        if (thrown == null) {
            thrown = failure;
        } else {
            thrown.addSuppressed(failure);
        }
    }

    // --- Called by libternjni. None of these throws: what the app throws is kept, and the call in progress throws it.

    private void onEvent(int kind, int result, int[] numbers, long[] sizes, float eventLoss, float accuracy,
            boolean duplicate, @Nullable byte[] why) {
        if (kind >= Event.Kind.values().length) {
            return; // of a later libternjni
        }
        try {
            Event event = new Event(kind, text(resultName(result)), numbers, sizes, eventLoss, accuracy, duplicate,
                    why != null ? text(why) : null);
            detectEnd(event, result);
            if (made.listener != null) {
                made.listener.onEvent(event);
            }
        } catch (Throwable failure) {
            keep(failure);
        }
    }

    private void end(Event event, Round.Outcome how) {
        if (outcome == null) {
            outcome = how;
            last = event;
        }
    }

    private void detectEnd(Event event, int result) {
        switch (event.kind) {
        case TRAINED:
            loss = event.loss;
            break;
        case UPLOADED:
            end(event, event.result.equals("ok") ? Round.Outcome.ACCEPTED
                    : event.result.equals("late") ? Round.Outcome.LATE : Round.Outcome.REFUSED);
            break;
        case EVALUATED:
            evaluated = event.round == 0;
            break;
        case TASK:
            if (evaluated) { // the answer to the check-in that has reported the evaluation
                end(event, Round.Outcome.EVALUATED);
            }
            break;
        case WAITING:
            end(event, evaluated ? Round.Outcome.EVALUATED : Round.Outcome.WAITING);
            break;
        case FINISHED:
            end(event, evaluated ? Round.Outcome.EVALUATED : Round.Outcome.FINISHED);
            break;
        case BUDGET:
            end(event, Round.Outcome.BUDGET);
            break;
        case PAUSED:
            end(event, Round.Outcome.PAUSED);
            break;
        case FAILURE:
            failedWhy = event.why;
            break;
        default:
            break;
        }
    }

    boolean isCancelled() {
        synchronized (guard) {
            return cancelled;
        }
    }

    // afresh: a transfer is in progress, which a change must end.
    private int mayWork(boolean afresh) {
        try {
            long now = System.nanoTime();
            if (afresh || state == null || now - stateNs >= CONDITIONS_FRESH_NS) {
                state = made.conditions.read();
                stateNs = now;
            }
            blocked = made.unmet(state);
            if (!blocked.isEmpty() && outcome == null) {
                outcome = Round.Outcome.PAUSED; // no event comes where an earlier call began the pause
            }
            return (blocked.isEmpty() ? MAY_WORK : 0) | (state.unmetered ? 0 : METERED) | (state.charging ? MAINS : 0);
        } catch (Throwable failure) {
            keep(failure);
            blocked = "the app could not tell the device's state";
            return METERED;
        }
    }

    private byte[] blockedWhy() {
        return bytes(blocked);
    }

    // Returns whether an interrupt has ended the trainer's method. The round is then cancelled; the trainer may have changed a part
    // of the weights, so the next call begins the task again. Keeps any other failure.
    private boolean endsByInterrupt(Throwable failure) {
        if (!isInterrupt(failure)) {
            keep(failure);
            return false;
        }
        outcome = Round.Outcome.CANCELLED;
        prepared = false;
        return true;
    }

    // Returns whether an interrupt has ended a method of the app, and keeps the thread's flag.
    private static boolean isInterrupt(Throwable failure) {
        boolean flagged = Thread.currentThread().isInterrupted() && failure instanceof Exception;
        if (flagged || failure instanceof InterruptedException) {
            Thread.currentThread().interrupt();
            return true;
        }
        return false;
    }

    private boolean beginTraining(int[] numbers, float[] rates, long seed) {
        try {
            Task task = new Task(numbers[0], numbers[1], numbers[2], rates[0], rates[1], rates[2], rates[3], seed, numbers[3]);
            made.trainer.begin(task, weights.asReadOnlyBuffer(), trained.duplicate());
            return true;
        } catch (Throwable failure) {
            return endsByInterrupt(failure);
        }
    }

    // Returns OK, AGAIN, or -1 for a failure; result: examples and steps.
    private int stepTraining(int[] result, float[] meanLoss) {
        try {
            Trainer.Result done = made.trainer.step();
            if (done == null) {
                return AGAIN;
            }
            result[0] = done.numExamples;
            result[1] = done.localSteps;
            meanLoss[0] = done.loss;
            return OK;
        } catch (Throwable failure) {
            return endsByInterrupt(failure) ? AGAIN : -1;
        }
    }

    // Returns OK, AGAIN for no data, or -1 for a failure; figures: loss and accuracy.
    private int evaluateWeights(int[] examples, float[] figures) {
        try {
            Trainer.Evaluation done = made.trainer.evaluate(weights.asReadOnlyBuffer());
            if (done == null) {
                return AGAIN;
            }
            examples[0] = done.numExamples;
            figures[0] = done.loss;
            figures[1] = done.accuracy;
            return OK;
        } catch (Throwable failure) {
            return endsByInterrupt(failure) ? AGAIN : -1;
        }
    }

    // Returns OK, the error of receive(), -1: no whole response arrived, or -2: the server could not be verified.
    private int exchange(byte[] method, byte[] path, @Nullable byte[] token, byte[] body, long rangeFrom, int timeoutMs) {
        transportWhy = "";
        abandoned = false;
        Exchange exchange = new Exchange(this, made.transport, body);
        Transport.Request request = new Transport.Request(text(method), made.server + text(path),
                token != null ? text(token) : null, exchange.body(), body.length, rangeFrom, timeoutMs);
        try {
            try {
                Transport.Response response = exchange.send(request);
                byte[] block = new byte[BLOCK];
                int result = receive(handle, response.status, seconds(response.retryAfter), block, 0);
                for (int got = exchange.read(block); result == OK && got >= 0; got = exchange.read(block)) {
                    result = receive(handle, response.status, -1, block, got);
                }
                return result;
            } finally {
                abandoned = exchange.isAbandoned();
                exchange.end();
            }
        } catch (IOException broken) {
            transportWhy = broken.toString();
            return isRefusal(broken) ? -2 : -1;
        } catch (Throwable failure) {
            transportWhy = failure.toString();
            keep(failure);
            return -1;
        }
    }

    // Returns whether TLS has refused the server or this client, and not merely lost the connection. A JDK reports both by
    // SSLHandshakeException; Android's TLS names a lost connection by its message alone.
    private static boolean isRefusal(IOException failure) {
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            if (cause instanceof EOFException || cause instanceof SocketException) {
                return false;
            }
        }
        String why = String.valueOf(failure.getMessage());
        boolean isCut = why.contains("Connection closed by peer") || why.contains("I/O error during system call");
        return !isCut && (failure instanceof SSLHandshakeException || failure instanceof SSLPeerUnverifiedException);
    }

    // Notes the bytes of the request's body that are sent, and returns whether the exchange may go on.
    boolean maySend(int moved) {
        return maySend(handle, moved);
    }

    private void closeTransport() {
        try {
            made.transport.close();
        } catch (Throwable failure) {
            keep(failure);
        }
    }

    private static int seconds(@Nullable String retryAfter) {
        try {
            return retryAfter != null ? Math.max(0, Integer.parseInt(retryAfter.trim())) : 0;
        } catch (NumberFormatException aDate) {
            return 0;
        }
    }

    // --- libternjni. Texts are UTF-8.

    private native long open(byte[][] texts, long[] numbers) throws TernException;

    private native int identify(long handle);

    private native int enroll(long handle, byte[] code);

    private native int build(long handle);

    private native int restore(long handle, FloatBuffer weights, @Nullable FloatBuffer trained, @Nullable Dataset train,
            @Nullable Dataset test);

    private native int predict(long handle, Dataset rows, int[] labels, float[] values, float[] threshold);

    private native int step(long handle);

    private native int end(long handle);

    private static native long againMs(long handle, int result);

    private static native boolean isStopped(long handle);

    private native boolean maySend(long handle, int moved);

    private native int receive(long handle, int status, int retryAfterSeconds, byte[] block, int len);

    private native void cancel(long handle);

    private native byte[] why(long handle, int result);

    private native Model modelOf(long handle);

    private static native long nextMs(long handle);

    private static native long wireBytes(long handle);

    private native void free(long handle);

    private static native byte[] resultName(int result);

    private static native byte[] eventName(int kind);

    private static @Nullable byte[] bytes(@Nullable String text) {
        return text != null ? text.getBytes(StandardCharsets.UTF_8) : null;
    }

    private static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    // --- The builder

    /** Collects what a client needs. */
    public static final class Builder {
        private final String server;
        private final File state;
        private String name = "";
        private @Nullable String ca;
        private @Nullable String certificate;
        private @Nullable String key;
        private @Nullable String helperKey;
        private @Nullable String helperCode;
        private long budgetPerRound;
        private long budgetPerMonth;
        private int maxBatch = 32;
        private int maxLocalSteps;
        private boolean evaluator;
        private @Nullable Transport transport;
        private @Nullable Trainer trainer;
        private @Nullable Dataset train;
        private @Nullable Dataset test;
        private @Nullable Listener listener;
        private @Nullable Conditions conditions;
        private boolean needsCharging;
        private boolean needsUnmetered;
        private boolean needsIdle;
        private int minBattery = -1;
        private int maxHeat = Integer.MAX_VALUE;

        private Builder(String server, File state) {
            this.server = server.endsWith("/") ? server.substring(0, server.length() - 1) : server;
            this.state = state;
        }

        /** Name that the operator sees, at most 63 bytes. */
        public Builder name(String value) {
            Objects.requireNonNull(value, "value is null");
            name = value;
            return this;
        }

        /** File of the trusted CAs in PEM, for the built-in transport. Android needs it; Linux has its own. */
        public Builder ca(File value) {
            Objects.requireNonNull(value, "value is null");
            ca = value.getPath();
            return this;
        }

        /** Certificate of this client and its key in PEM, for the built-in transport. */
        public Builder certificate(File value, File privateKey) {
            Objects.requireNonNull(value, "value is null");
            Objects.requireNonNull(privateKey, "privateKey is null");
            certificate = value.getPath();
            key = privateKey.getPath();
            return this;
        }

        /** Masks all updates: the key that `tern-helper status` prints, and a join code of the helper. */
        public Builder secure(String key, String code) {
            given(key, "key", "the key that tern-helper status prints");
            given(code, "code", "a join code of the helper");
            helperKey = key;
            helperCode = code;
            return this;
        }

        /** Bytes on the wire, both directions; 0: no limit. */
        public Builder budget(long perRound, long perMonth) {
            atLeastZero(perRound, "perRound");
            atLeastZero(perMonth, "perMonth");
            budgetPerRound = perRound;
            budgetPerMonth = perMonth;
            return this;
        }

        /** Trains a built-in model on these examples; test: not trained on, may be null. */
        public Builder data(Dataset trainOn, @Nullable Dataset testOn) {
            Objects.requireNonNull(trainOn, "trainOn is null");
            train = trainOn;
            test = testOn;
            return this;
        }

        /** Trains by the app's own framework in place of data(). */
        public Builder trainer(Trainer value) {
            Objects.requireNonNull(value, "value is null");
            trainer = value;
            return this;
        }

        /** Most local steps of a round; 0: as many as the aggregator asks for. */
        public Builder maxLocalSteps(int value) {
            atLeastZero(value, "value");
            maxLocalSteps = value;
            return this;
        }

        /** Enrols as an evaluator, which evaluates every version and never trains. */
        public Builder evaluator(boolean value) {
            evaluator = value;
            return this;
        }

        /** Carries requests by the app's HTTP stack in place of the built-in one. */
        public Builder transport(Transport value) {
            Objects.requireNonNull(value, "value is null");
            transport = value;
            return this;
        }

        public Builder listener(Listener value) {
            Objects.requireNonNull(value, "value is null");
            listener = value;
            return this;
        }

        /** Source of the device's state, which the methods below need. */
        public Builder conditions(Conditions value) {
            Objects.requireNonNull(value, "value is null");
            conditions = value;
            return this;
        }

        /** Works only while all that are true here hold. */
        public Builder onlyWhile(boolean charging, boolean unmetered, boolean idle) {
            needsCharging = charging;
            needsUnmetered = unmetered;
            needsIdle = idle;
            return this;
        }

        /** Works only with at least this charge in percent. An unknown charge is too low. */
        public Builder minBattery(int percent) {
            minBattery = percent;
            return this;
        }

        /** Works only up to this thermal status. An unknown status is too high. */
        public Builder maxHeat(int status) {
            maxHeat = status;
            return this;
        }

        /** Opens the folder, and sends nothing. */
        public TernClient build() throws TernException {
            boolean conditional = needsCharging || needsUnmetered || needsIdle || minBattery >= 0
                    || maxHeat != Integer.MAX_VALUE;
            if (conditional && conditions == null) {
                throw new IllegalArgumentException("conditions() is missing: it tells the state that the builder requires");
            }
            if ((trainer != null) == (train != null || test != null)) {
                throw new IllegalArgumentException("give either data() for a built-in model, or a trainer()");
            }
            return new TernClient(this);
        }

        private String unmet(Conditions.State now) {
            return needsCharging && !now.charging ? "the device is not charging"
                    : needsUnmetered && !now.unmetered ? "the link is metered"
                    : needsIdle && !now.idle ? "the device is in use"
                    : now.battery < minBattery ? "the battery has " + now.battery + " %; " + minBattery + " are required"
                    : maxHeat != Integer.MAX_VALUE && (now.heat < 0 || now.heat > maxHeat)
                            ? "the device is hot (thermal status " + now.heat + ")"
                            : "";
        }
    }
}
