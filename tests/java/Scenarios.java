import com.example.app.HttpsTransport;
import io.tern.Conditions;
import io.tern.Dataset;
import io.tern.Event;
import io.tern.Listener;
import io.tern.Model;
import io.tern.Nullable;
import io.tern.Prediction;
import io.tern.Round;
import io.tern.Task;
import io.tern.TernClient;
import io.tern.TernException;
import io.tern.Trainer;
import io.tern.Transport;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Programs of Java that test_java.py runs against an aggregator: Scenarios NAME SERVER CA FOLDER CODE ARGUMENT... */
public final class Scenarios {
    private static final int COLUMNS = 8;
    private static final int CLASSES = 3;

    private final String server;
    private final File ca;
    private final File folder;
    private final String code;
    private final String[] arguments;

    private Scenarios(String[] given) {
        server = given[1];
        ca = new File(given[2]);
        folder = new File(given[3]);
        code = given[4];
        arguments = java.util.Arrays.copyOfRange(given, 5, given.length);
    }

    public static void main(String[] given) throws Throwable {
        Scenarios scenarios = new Scenarios(given);
        switch (given[0]) {
        case "rounds":
            scenarios.rounds();
            break;
        case "cancel":
            scenarios.cancel();
            break;
        case "app":
            scenarios.app();
            break;
        case "predict":
            scenarios.predict();
            break;
        case "refused":
            scenarios.refused();
            break;
        case "upload":
            scenarios.upload();
            break;
        case "misuse":
            scenarios.misuse();
            break;
        default:
            throw new IllegalArgumentException("there is no scenario " + given[0]);
        }
        System.out.println("passed " + given[0]);
    }

    private static void check(boolean condition, Object why) {
        if (!condition) {
            throw new AssertionError(why);
        }
    }

    // A table whose last column is the label. direct: rows that the client uses without a copy.
    private static Dataset read(String file, boolean direct) throws IOException {
        List<String> lines = Files.readAllLines(Paths.get(file));
        int count = lines.size() - 1; // without the header
        FloatBuffer rows = direct
                ? ByteBuffer.allocateDirect(count * COLUMNS * 4).order(ByteOrder.nativeOrder()).asFloatBuffer()
                : FloatBuffer.allocate(count * COLUMNS);
        int[] labels = new int[count];
        for (int i = 0; i < count; i++) {
            String[] fields = lines.get(i + 1).split(",");
            for (int j = 0; j < COLUMNS; j++) {
                rows.put(Float.parseFloat(fields[j]));
            }
            labels[i] = Integer.parseInt(fields[COLUMNS]);
        }
        rows.flip();
        return Dataset.classes(rows, COLUMNS, CLASSES, labels);
    }

    private TernClient.Builder builder(String name) {
        return TernClient.builder(server, new File(folder, name)).ca(ca);
    }

    // --- Several clients in one process; test_java.py compares their rounds with those of tern-client

    private void rounds() throws Throwable {
        int clients = Integer.parseInt(arguments[0]);
        List<TernClient> all = new ArrayList<>();
        for (int i = 1; i <= clients; i++) {
            Dataset data = read(arguments[i], i % 2 == 1);
            TernClient client = builder("client" + i).data(data, null).build();
            check(!client.isEnrolled(), "a new client has enrolled");
            client.enroll(code);
            check(client.isEnrolled(), "the client has not enrolled");
            all.add(client);
        }
        List<Throwable> failures = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (TernClient client : all) {
            Thread thread = new Thread(() -> untilFinished(client, failures));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (TernClient client : all) {
            check(client.wireBytes() > 1000, "bytes on the wire: " + client.wireBytes());
            client.close();
        }
        for (Throwable failure : failures) {
            throw failure;
        }
    }

    private static void untilFinished(TernClient client, List<Throwable> failures) {
        try {
            for (;;) {
                Round round = client.runRound();
                if (round.outcome == Round.Outcome.FINISHED) {
                    return;
                }
                if (round.outcome == Round.Outcome.WAITING) {
                    Thread.sleep(Math.min(round.waitMs, 100));
                } else {
                    check(round.outcome == Round.Outcome.ACCEPTED, round);
                    check(round.round > 0 && round.loss > 0 && round.updateBytes > 0
                            && round.wireBytes > round.updateBytes, round);
                }
            }
        } catch (Throwable failure) {
            synchronized (failures) {
                failures.add(failure);
            }
        }
    }

    // --- cancel() at random moments: what the rounds make is compared with an undisturbed run by test_java.py

    private void cancel() throws Throwable {
        int wanted = Integer.parseInt(arguments[1]);
        Random random = new Random(7);
        List<Long> delays = new ArrayList<>();
        int rounds = 0;
        try (TernClient client = builder("client").data(read(arguments[0], true), null).build()) {
            client.enroll(code);
            for (;;) {
                AtomicLong called = new AtomicLong();
                Thread other = new Thread(() -> {
                    try {
                        Thread.sleep(random.nextInt(60));
                        called.set(System.nanoTime());
                        client.cancel();
                    } catch (InterruptedException interrupt) {
                        throw new IllegalStateException(interrupt);
                    }
                });
                if (delays.size() < wanted) {
                    other.start();
                }
                Round round = client.runRound();
                long returned = System.nanoTime();
                other.join();
                rounds += round.outcome == Round.Outcome.ACCEPTED ? 1 : 0;
                if (round.outcome == Round.Outcome.FINISHED) {
                    break;
                }
                if (round.outcome == Round.Outcome.CANCELLED && called.get() != 0) {
                    delays.add(Math.max(0, returned - called.get()) / 1_000_000);
                } else if (round.outcome == Round.Outcome.WAITING) {
                    Thread.sleep(5);
                }
            }
        }
        check(delays.size() >= wanted, "only " + delays.size() + " calls were cancelled in " + rounds + " rounds");
        if (wanted == 0) {
            return; // the undisturbed run
        }
        Collections.sort(delays);
        long late = delays.get((delays.size() * 99 - 1) / 100);
        System.out.println(delays.size() + " cancelled; ms to the return: median " + delays.get(delays.size() / 2)
                + ", 99 of 100 " + late + ", longest " + delays.get(delays.size() - 1));
        check(late < 1000, "cancel() took " + late + " ms");
    }

    // --- An app's trainer and transport, and exceptions in all that an app supplies

    /** Softmax regression by SGD on all rows: loss falls, and weights are changed in the client's memory. */
    private static final class Softmax implements Trainer {
        private final float[] rows;
        private final int[] labels;
        private FloatBuffer weights;
        private FloatBuffer base;
        private Task task;
        private int done;
        private float loss;
        private String fails = "";
        private int opened;
        private int begun;
        private final Semaphore steps = new Semaphore(0);

        Softmax(String file) throws IOException {
            List<String> lines = Files.readAllLines(Paths.get(file));
            labels = new int[lines.size() - 1];
            rows = new float[labels.length * COLUMNS];
            for (int i = 0; i < labels.length; i++) {
                String[] fields = lines.get(i + 1).split(",");
                for (int j = 0; j < COLUMNS; j++) {
                    rows[i * COLUMNS + j] = Float.parseFloat(fields[j]);
                }
                labels[i] = Integer.parseInt(fields[COLUMNS]);
            }
        }

        @Override
        public void open(Model model) throws InterruptedException {
            opened++;
            if (fails.equals("open")) {
                throw new InterruptedException();
            }
            check(model.spec.equals("softmax:8-3") && model.count == 27 && model.trained == 27, model.spec);
            check(model.tensors.size() == 2 && model.tensors.get(0).name.equals("fc1.weight")
                    && model.tensors.get(0).dims[0] == CLASSES && model.tensors.get(0).dims[1] == COLUMNS
                    && model.tensors.get(1).offset == 24 && model.tensors.get(1).count == CLASSES, "tensors");
        }

        @Override
        public void begin(Task given, FloatBuffer from, FloatBuffer to) throws IOException {
            if (fails.equals("begin")) {
                throw new IOException("the training data is locked");
            }
            begun++;
            check(given.localSteps == 5 && given.batchSize == 48 && given.learningRate > 0 && given.momentum == 0.5f
                    && given.round > 0 && given.client == 1, "task");
            check(from.isReadOnly() && from.isDirect() && to.isDirect() && to.capacity() == 27, "buffers");
            check(from.duplicate().equals(to), "training begins elsewhere than at the base");
            task = given;
            base = from;
            weights = to;
            done = 0;
            loss = 0;
        }

        @Override
        public Result step() throws Exception {
            if (fails.equals("step")) {
                throw new StackOverflowError("deep");
            }
            if (fails.equals("sleep")) {
                steps.release();
                Thread.sleep(20000);
            }
            if (fails.equals("file")) {
                steps.release();
                while (!Thread.currentThread().isInterrupted()) {
                    Thread.onSpinWait();
                }
                throw new ClosedByInterruptException();
            }
            if (fails.equals("nan")) {
                fails = ""; // the client waits longer after each failure in a row
                weights.put(3, Float.NaN);
                return new Result(labels.length, 1, 0);
            }
            loss += train();
            done++;
            check(base.get(0) == base.get(0), "base");
            return done < task.localSteps ? null : new Result(labels.length, done, loss / done);
        }

        private float[] scores(FloatBuffer model, int row) {
            float[] scores = new float[CLASSES];
            float sum = 0;
            for (int c = 0; c < CLASSES; c++) {
                float score = model.get(24 + c);
                for (int j = 0; j < COLUMNS; j++) {
                    score += model.get(c * COLUMNS + j) * rows[row * COLUMNS + j];
                }
                scores[c] = (float) Math.exp(score);
                sum += scores[c];
            }
            for (int c = 0; c < CLASSES; c++) {
                scores[c] /= sum;
            }
            return scores;
        }

        private float train() {
            float[] gradient = new float[27];
            float sum = 0;
            for (int i = 0; i < labels.length; i++) {
                float[] scores = scores(weights, i);
                sum -= (float) Math.log(scores[labels[i]]);
                scores[labels[i]] -= 1;
                for (int c = 0; c < CLASSES; c++) {
                    gradient[24 + c] += scores[c] / labels.length;
                    for (int j = 0; j < COLUMNS; j++) {
                        gradient[c * COLUMNS + j] += scores[c] * rows[i * COLUMNS + j] / labels.length;
                    }
                }
            }
            for (int k = 0; k < 27; k++) {
                weights.put(k, weights.get(k) - task.learningRate * gradient[k]);
            }
            return sum / labels.length;
        }

        @Override
        public Evaluation evaluate(FloatBuffer model) {
            int right = 0;
            float sum = 0;
            for (int i = 0; i < labels.length; i++) {
                float[] scores = scores(model, i);
                int best = 0;
                for (int c = 1; c < CLASSES; c++) {
                    best = scores[c] > scores[best] ? c : best;
                }
                right += best == labels[i] ? 1 : 0;
                sum -= (float) Math.log(scores[labels[i]]);
            }
            return new Evaluation(labels.length, sum / labels.length, (float) right / labels.length);
        }
    }

    /** The transport of docs/examples, which fails when it is told to. */
    private static final class Carrier implements Transport {
        private final Transport trusting;
        private final Transport distrusting = new HttpsTransport(null); // the JDK's own trust lacks the test's CA
        private volatile String fails = "";
        private int exchanges;
        private SocketAddress silent;
        private final Semaphore waits = new Semaphore(0);
        private final Semaphore failed = new Semaphore(0);

        Carrier(File ca) throws Exception {
            KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
            trusted.load(null, null);
            try (InputStream in = Files.newInputStream(ca.toPath())) {
                trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
            }
            TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            managers.init(trusted);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, managers.getTrustManagers(), null);
            trusting = new HttpsTransport(context.getSocketFactory());
        }

        @Override
        public Response exchange(Request request) throws IOException {
            exchanges++;
            if (fails.equals("io")) {
                failed.release();
                throw new IOException("the airplane mode is on");
            }
            if (fails.equals("bug")) {
                throw new NullPointerException("a bug of the app");
            }
            if (fails.equals("silent")) {
                waits.release();
                try (Socket socket = new Socket()) {
                    socket.connect(silent, 20000);
                }
            }
            return (fails.equals("trust") ? distrusting : trusting).exchange(request);
        }

        @Override
        public void cancel() {
            trusting.cancel();
        }
    }

    /** A listener that answers no more connections: its queue is full. */
    private static final class Silent implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"));
        private final List<SocketChannel> queue = new ArrayList<>();

        Silent() throws Exception {
            boolean full = false;
            for (int i = 0; i < 16 && !full; i++) {
                SocketChannel next = SocketChannel.open();
                queue.add(next);
                next.configureBlocking(false);
                next.connect(listener.getLocalSocketAddress());
                for (int waited = 0; waited < 10 && !next.finishConnect(); waited++) {
                    Thread.sleep(20);
                }
                full = !next.isConnected();
            }
            check(full, "the queue takes " + queue.size() + " connections");
        }

        @Override
        public void close() throws IOException {
            for (SocketChannel one : queue) {
                one.close();
            }
            listener.close();
        }
    }

    // Cancels what waits for a connection, and returns the milliseconds from cancel() to the return.
    private static long cancelled(TernClient client, Semaphore waits, Callable<?> call) throws Exception {
        AtomicLong called = new AtomicLong();
        Thread other = new Thread(() -> {
            try {
                waits.acquire();
                Thread.sleep(50); // into connect()
            } catch (InterruptedException interrupt) {
                throw new IllegalStateException(interrupt);
            }
            called.set(System.nanoTime());
            client.cancel();
        });
        other.start();
        call.call();
        long returned = System.nanoTime();
        other.join();
        return (returned - called.get()) / 1_000_000;
    }

    // HttpsTransport cannot end its connecting: the client leaves it, and works on afterwards.
    private void unanswered(TernClient client, Carrier carrier) throws Exception {
        List<Long> ms = new ArrayList<>();
        try (Silent silent = new Silent()) {
            Semaphore waits = new Semaphore(0);
            HttpsTransport https = new HttpsTransport(null);
            Transport transport = new Transport() {
                @Override
                public Response exchange(Request request) throws IOException {
                    waits.release();
                    return https.exchange(request);
                }

                @Override
                public void cancel() {
                    https.cancel();
                }
            };
            String url = "https://127.0.0.1:" + silent.listener.getLocalPort();
            try (TernClient other = TernClient.builder(url, new File(folder, "unanswered")).data(read(arguments[0], true), null)
                    .transport(transport).build()) {
                for (int i = 0; i < 3; i++) {
                    ms.add(cancelled(other, waits, () -> expect(TernException.class, "has left it", () -> {
                        other.enroll(code);
                        return null;
                    })));
                }
            }
            carrier.silent = silent.listener.getLocalSocketAddress();
            carrier.fails = "silent";
            ms.add(cancelled(client, carrier.waits, () -> {
                Round round = client.runRound();
                check(round.outcome == Round.Outcome.CANCELLED && round.why.contains("has left it"), round);
                return null;
            }));
            carrier.fails = "";
        }
        check(Collections.max(ms) < 1000, "cancel() while nothing answers took " + ms + " ms");
        accepted(client);
    }

    private static <T extends Throwable> T expect(Class<T> kind, String words, Callable<?> call) {
        try {
            Object value = call.call();
            throw new AssertionError("no " + kind.getSimpleName() + " but " + value);
        } catch (Throwable thrown) {
            if (!kind.isInstance(thrown) || !String.valueOf(thrown.getMessage()).contains(words)) {
                throw new AssertionError("no " + kind.getSimpleName() + " with \"" + words + "\"", thrown);
            }
            return kind.cast(thrown);
        }
    }

    private static String listenerFails = "";
    private static String conditionsFail = "";
    private static final Conditions.State IDEAL = new Conditions.State(true, true, true, 50, 2);
    private static Conditions.State state = IDEAL;

    private void app() throws Throwable {
        Softmax trainer = new Softmax(arguments[0]);
        Carrier carrier = new Carrier(ca);
        List<Event> events = new ArrayList<>();
        TernClient[] self = new TernClient[1];
        TernClient.Builder builder = builder("app").name("phone \u00e9 \ud83d\udcf1").trainer(trainer).transport(carrier)
                .conditions(() -> {
                    if (conditionsFail.equals("throw")) {
                        throw new IllegalStateException("the battery has no driver");
                    }
                    return state;
                }).onlyWhile(true, true, true).minBattery(50).maxHeat(2).listener(event -> {
                    events.add(event);
                    if (event.kind.logName().equals(listenerFails)) {
                        throw new UnsupportedOperationException("the listener has a bug");
                    }
                    if (listenerFails.equals("call") && event.kind == Event.Kind.TASK) {
                        self[0].cancel();
                        expect(IllegalStateException.class, "callbacks", () -> self[0].runRound());
                        self[0].close();
                    }
                });
        try (TernClient client = builder.build()) {
            self[0] = client;
            carrier.fails = "trust";
            TernException untrusted = expect(TernException.class, "PKIX", () -> {
                client.enroll(code);
                return null;
            });
            check(!untrusted.isRetryable(), untrusted);
            carrier.fails = "";
            client.enroll(code);
            check(events.stream().anyMatch(event -> event.kind == Event.Kind.ENROLLED), events);
            failing(client, trainer, carrier, events);
            unanswered(client, carrier);
            interrupted(client, trainer, events);
            interruptedWait(client, carrier);
            float first = accepted(client).loss;
            float last = accepted(client).loss;
            check(events.get(events.size() - 1).kind != Event.Kind.TASK, "the last call has taken a task that it did not train");
            check(trainer.opened == 1, "open() was called " + trainer.opened + " times");
            check(last < first, "the loss does not fall: " + first + " " + last);
            check(client.wireBytes() > 2000 && carrier.exchanges > 8, "bytes " + client.wireBytes());
            FloatBuffer weights = client.weights();
            check(weights.isReadOnly() && weights.capacity() == 27 && weights.get(0) != 0, "weights");
            check(events.stream().anyMatch(event -> event.kind == Event.Kind.EVALUATED && event.accuracy > 0.5), events);
            Prediction made = client.predict(read(arguments[0], false));
            for (int i = 0; i < trainer.labels.length; i++) {
                float score = trainer.scores(weights, i)[made.labels[i]];
                check(score > 1.0f / CLASSES && Math.abs(score - made.values[i]) < 1e-5f, "row " + i + ": " + made.values[i]);
            }
        }
    }

    private static Round accepted(TernClient client) throws Exception {
        for (int i = 0; i < 500; i++) {
            Round round = client.runRound();
            if (round.outcome == Round.Outcome.ACCEPTED) {
                return round;
            }
            check(round.outcome == Round.Outcome.WAITING, round);
            Thread.sleep(10);
        }
        throw new AssertionError("no round in 500 calls");
    }

    // A call must fail as it should within some calls: until then the aggregator may have no task, or a round that has begun ends.
    private static <T extends Throwable> T fails(Class<T> kind, String words, TernClient client) {
        return expect(kind, words, () -> {
            Round round = client.runRound();
            for (int i = 0; i < 500 && (round.outcome == Round.Outcome.WAITING
                    || round.outcome == Round.Outcome.ACCEPTED); i++) {
                Thread.sleep(10);
                round = client.runRound();
            }
            return round;
        });
    }

    private static void paused(TernClient client, Conditions.State now, String why) throws TernException {
        state = now;
        Round round = client.runRound();
        check(round.outcome == Round.Outcome.PAUSED && round.why.equals(why), "not \"" + why + "\" but " + round);
    }

    private static void failing(TernClient client, Softmax trainer, Carrier carrier, List<Event> events) throws Exception {
        // Each is thrown by the call in progress, and the client works on afterwards.
        listenerFails = "task";
        fails(UnsupportedOperationException.class, "a bug", client);
        listenerFails = "call";
        fails(IllegalStateException.class, "close() was called in a callback", client);
        listenerFails = "";
        Round cancelled = client.runRound(); // the listener's cancel() is kept: another exception had ended its call
        check(cancelled.outcome == Round.Outcome.CANCELLED, cancelled);
        conditionsFail = "throw";
        fails(IllegalStateException.class, "no driver", client);
        conditionsFail = "";
        paused(client, new Conditions.State(false, true, true, 50, 2), "the device is not charging");
        paused(client, new Conditions.State(true, false, true, 50, 2), "the link is metered");
        paused(client, new Conditions.State(true, true, false, 50, 2), "the device is in use");
        paused(client, new Conditions.State(true, true, true, 49, 2), "the battery has 49 %; 50 are required");
        paused(client, new Conditions.State(true, true, true, -1, 2), "the battery has -1 %; 50 are required");
        paused(client, new Conditions.State(true, true, true, 50, 3), "the device is hot (thermal status 3)");
        paused(client, new Conditions.State(true, true, true, 50, -1), "the device is hot (thermal status -1)");
        state = IDEAL;
        trainer.fails = "begin";
        TernException failure = fails(TernException.class, "the training data is locked", client);
        check(failure.result().equals("trainer") && failure.getCause() instanceof IOException, failure);
        trainer.fails = "step";
        fails(StackOverflowError.class, "deep", client);
        trainer.fails = "nan";
        while (events.stream().noneMatch(event -> event.kind == Event.Kind.FAILURE && event.result.equals("non-finite"))) {
            try {
                client.runRound();
            } catch (TernException second) { // in a row, with the failures above
                check(second.result().equals("non-finite") && second.isRetryable(), second);
            }
            Thread.sleep(10);
        }
        trainer.fails = "";
        accepted(client);
        offline(client, carrier);
        carrier.fails = "bug";
        fails(NullPointerException.class, "a bug of the app", client);
        carrier.fails = "";
        accepted(client);
    }

    // Without a network the first call repeats its request for ten seconds, later calls do not, and the time to come back grows.
    // With a network again, a call works at once.
    private static void offline(TernClient client, Carrier carrier) throws Exception {
        carrier.fails = "io";
        TernException failure = expect(TernException.class, "airplane", () -> {
            client.enroll("aaaa-bbbb-cccc-dddd");
            return null;
        });
        check(failure.isRetryable() && failure.waitMs() > 0, failure);
        long wait = 0;
        for (int call = 0; call < 6; call++) {
            int before = carrier.exchanges;
            long started = System.nanoTime();
            failure = fails(TernException.class, "airplane", client);
            long ms = (System.nanoTime() - started) / 1_000_000;
            check(failure.result().equals("network") && failure.isRetryable(), failure);
            int made = carrier.exchanges - before;
            check(call == 0 ? made == 4 || made == 5 : made == 1, "call " + call + " made " + made);
            check(ms < (call == 0 ? 10_500 : 500), "call " + call + " took " + ms + " ms");
            wait = Math.max(wait, failure.waitMs());
        }
        check(wait > 8000, "after six failures in a row the time to come back is " + wait + " ms");
        carrier.fails = "";
        long started = System.nanoTime();
        accepted(client);
        check(System.nanoTime() - started < 5_000_000_000L, "the call waited for the time that the last failure gave");
    }

    // An interrupt while the trainer works cancels the call, reports no failure, and the task begins again.
    private static void interrupted(TernClient client, Softmax trainer, List<Event> events) throws Exception {
        for (String how : new String[] {"sleep", "file"}) {
            trainer.fails = how;
            trainer.steps.drainPermits();
            events.clear();
            Thread caller = Thread.currentThread();
            Thread other = new Thread(() -> {
                trainer.steps.acquireUninterruptibly();
                caller.interrupt();
            });
            other.start();
            Round round = client.runRound();
            for (int i = 0; i < 500 && round.outcome == Round.Outcome.WAITING; i++) {
                Thread.sleep(10);
                round = client.runRound();
            }
            check(Thread.interrupted(), "the interrupt is lost");
            other.join();
            check(round.outcome == Round.Outcome.CANCELLED, round);
            check(events.stream().noneMatch(event -> event.kind == Event.Kind.FAILURE), events);
            trainer.fails = "";
            int begun = trainer.begun;
            accepted(client);
            check(trainer.begun > begun, "the task did not begin again");
        }
    }

    // An interrupt while the client waits to repeat a request cancels this call, and no other.
    private static void interruptedWait(TernClient client, Carrier carrier) throws Exception {
        carrier.fails = "io";
        Thread caller = Thread.currentThread();
        carrier.failed.drainPermits();
        Thread other = new Thread(() -> {
            carrier.failed.acquireUninterruptibly();
            try {
                Thread.sleep(100); // into the wait of about a second
            } catch (InterruptedException interrupt) {
                throw new IllegalStateException(interrupt);
            }
            caller.interrupt();
        });
        other.start();
        Round round = client.runRound();
        for (int i = 0; i < 500 && round.outcome == Round.Outcome.WAITING; i++) {
            Thread.sleep(10);
            round = client.runRound();
        }
        check(Thread.interrupted(), "the interrupt is lost");
        other.join();
        check(round.outcome == Round.Outcome.CANCELLED, round);
        carrier.fails = "";
        accepted(client);
    }

    // --- Failures that pass by themselves, and others

    private static TernException enrolFails(TernClient.Builder builder, String result, long waitMs) throws Exception {
        try (TernClient client = builder.build()) {
            TernException failure = expect(TernException.class, "", () -> {
                client.enroll("aaaa-bbbb-cccc-dddd");
                return null;
            });
            check(failure.result().equals(result), failure.result() + ", not " + result + ": " + failure);
            check(failure.isRetryable() == waitMs > 0 && failure.waitMs() == Math.max(0, waitMs),
                    result + ": wait " + failure.waitMs() + ", not " + waitMs);
            return failure;
        }
    }

    private void refused() throws Throwable {
        Dataset data = read(arguments[0], true);
        String busy = arguments[1];
        String resets = arguments[2];
        File other = new File(arguments[3]);
        for (boolean own : new boolean[] {false, true}) {
            enrolFails(at(busy, ca, own).data(data, null), "busy", 30000);
            enrolFails(at(resets, ca, own).data(data, null), "network", 1000);
            enrolFails(at(server, other, own).data(data, null), "tls", -1);
        }
        try (TernClient client = builder("columns").data(data, null).build()) {
            expect(TernException.class, "HTTP 401", () -> {
                client.enroll("aaaa-bbbb-cccc-dddd");
                return null;
            });
            TernException argument = expect(TernException.class, "the join code is longer", () -> {
                client.enroll("a".repeat(300));
                return null;
            });
            check(argument.result().equals("bad-argument") && !argument.isRetryable(), argument);
            client.enroll(code);
            TernException config = expect(TernException.class, "statistics.columns", () -> {
                while (client.runRound().outcome == Round.Outcome.WAITING) {
                    Thread.sleep(10);
                }
                return null;
            });
            check(config.result().equals("config") && !config.isRetryable() && config.waitMs() == 0, config + " " + config.waitMs());
        }
        interruptedOpening();
    }

    private TernClient.Builder at(String url, File trusted, boolean own) throws Exception {
        TernClient.Builder builder = TernClient.builder(url, new File(folder, "refused")).ca(trusted);
        return own ? builder.transport(new Carrier(trusted)) : builder;
    }

    private void interruptedOpening() throws Exception {
        Softmax trainer = new Softmax(arguments[0]);
        trainer.fails = "open";
        try (TernClient client = builder("opening").trainer(trainer).build()) {
            client.enroll(code);
            Round round = client.runRound();
            check(round.outcome == Round.Outcome.CANCELLED && Thread.interrupted(), round);
            trainer.fails = "";
            client.weights();
            check(trainer.opened == 2, "the trainer was not opened again");
        }
    }

    // --- A long update by an app's transport, while the device's state changes

    private void upload() throws Throwable {
        List<Event> events = new ArrayList<>();
        AtomicInteger reads = new AtomicInteger(-1); // since the update was encoded; negative: not counted
        try (TernClient client = builder("upload").data(read(arguments[0], true), null).transport(new Carrier(ca))
                .conditions(() -> {
                    boolean metered = reads.get() >= 0 && reads.incrementAndGet() > 2;
                    return new Conditions.State(true, !metered, true, 50, 2);
                }).onlyWhile(false, true, false).listener(event -> {
                    events.add(event);
                    if (event.kind == Event.Kind.ENCODED) {
                        reads.set(0);
                    }
                }).build()) {
            client.enroll(code);
            long before = client.wireBytes();
            Round round = client.runRound();
            check(round.outcome == Round.Outcome.PAUSED && round.why.equals("the link is metered"), round);
            long sent = client.wireBytes() - before;
            check(sent > 16384 && sent < 65536, "the update went on for " + sent + " bytes");
            reads.set(-1);
            events.clear();
            round = client.runRound();
            check(round.outcome == Round.Outcome.ACCEPTED && round.updateBytes > 400000, round);
            check(events.stream().anyMatch(event -> event.kind == Event.Kind.PROGRESS && event.up
                    && event.bytes == event.bytesTotal && event.bytes > 400000), events);
        }
    }

    // --- Predictions of models of numbers, computed a second time here from the client's weights

    private void predict() throws Throwable {
        boolean reconstructs = arguments[1].equals("reconstruction");
        Dataset classes = read(arguments[0], true);
        FloatBuffer rows = FloatBuffer.allocate(classes.count() * COLUMNS);
        float[] sums = new float[classes.count()];
        List<String> lines = Files.readAllLines(Paths.get(arguments[0]));
        for (int i = 0; i < sums.length; i++) {
            for (int j = 0; j < COLUMNS; j++) {
                float value = Float.parseFloat(lines.get(i + 1).split(",")[j]);
                rows.put(value);
                sums[i] += value / 4;
            }
        }
        rows.flip();
        Dataset data = reconstructs ? Dataset.rows(rows, COLUMNS) : Dataset.numbers(rows, COLUMNS, sums);
        try (TernClient client = builder("client").data(data, null).build()) {
            client.enroll(code);
            accepted(client);
            Prediction made = client.predict(Dataset.rows(rows, COLUMNS));
            check(made.labels == null && made.values.length == sums.length, "labels");
            check(reconstructs == made.threshold > 0, "threshold " + made.threshold);
            FloatBuffer weights = client.weights();
            for (int i = 0; i < sums.length; i++) {
                double expected = reconstructs ? error(weights, rows, i) : output(weights, rows, i, 0, COLUMNS);
                check(Math.abs(expected - made.values[i]) < 1e-4 * (1 + Math.abs(expected)),
                        "row " + i + ": " + made.values[i] + ", not " + expected);
            }
            expect(TernException.class, "does not take rows of 1x3x1",
                    () -> client.predict(Dataset.rows(FloatBuffer.allocate(6), 3)));
        }
    }

    // One dense layer; the biases are behind the weights.
    private static double output(FloatBuffer weights, FloatBuffer rows, int row, int unit, int biases) {
        double sum = weights.get(biases + unit);
        for (int j = 0; j < COLUMNS; j++) {
            sum += (double) weights.get(unit * COLUMNS + j) * rows.get(row * COLUMNS + j);
        }
        return sum;
    }

    private static double error(FloatBuffer weights, FloatBuffer rows, int row) {
        double sum = 0;
        for (int j = 0; j < COLUMNS; j++) {
            double off = output(weights, rows, row, j, COLUMNS * COLUMNS) - rows.get(row * COLUMNS + j);
            sum += off * off / COLUMNS;
        }
        return sum;
    }

    // --- Calls that cannot work: each is refused with what to do

    private void misuse() throws Throwable {
        Dataset data = read(arguments[0], true);
        TernClient closed; // closing it twice is allowed
        try (TernClient client = builder("misuse").data(data, data).listener(event -> {
            if (event.kind.logName().equals(listenerFails)) {
                throw new UnsupportedOperationException("the listener has a bug");
            }
        }).build()) {
            expect(TernException.class, "has not enrolled", client::runRound);
            TernException refused = expect(TernException.class, "", () -> {
                client.enroll("aaaa-bbbb-cccc-dddd");
                return null;
            });
            check(refused.result().equals("unauthorized") && refused.getMessage().contains("HTTP 4"), refused);
            expect(TernException.class, "", () -> builder("misuse").data(data, null).build());
            client.enroll(code);
            client.cancel();
            check(client.runRound().outcome == Round.Outcome.CANCELLED, "cancel() before a call is lost");
            Thread.currentThread().interrupt();
            Round interrupted = client.runRound();
            check(Thread.interrupted(), "the interrupt is lost after " + interrupted);
            accepted(client);
            accepted(client); // at once, not after the time to come back of the last answer, which had no task
            listenerFails = "uploaded";
            fails(UnsupportedOperationException.class, "a bug", client);
            listenerFails = "";
            accepted(client); // at once
            client.cancel();
            check(client.runRound().outcome == Round.Outcome.CANCELLED, "cancel() is lost");
            accepted(client); // at once
            closed = client;
            closed.close();
            client.cancel();
            expect(IllegalStateException.class, "is closed", client::runRound);
        }
        // The folder is the client: another process continues it.
        Dataset wrong = Dataset.rows(FloatBuffer.allocate(6), 3);
        try (TernClient client = builder("misuse").data(wrong, null).build()) {
            check(client.isEnrolled(), "the identity is lost");
            TernException refused = expect(TernException.class, "softmax:8-3", client::runRound);
            check(refused.result().equals("model-mismatch"), refused);
        }
        expect(TernException.class, "/nonexistent.crt",
                () -> builder("other").ca(new File("/nonexistent.crt")).data(data, null).build());
        expect(TernException.class, "https://host:port",
                () -> TernClient.builder("http://localhost", new File(folder, "other")).data(data, null).build());
        expect(TernException.class, "87 characters", () -> builder("other").data(data, null).secure("abc", "code").build());
        expect(TernException.class, "63 bytes", () -> builder("other").data(data, null).name("n".repeat(64)).build());
        expect(IllegalArgumentException.class, "either data()", () -> builder("other").build());
        expect(IllegalArgumentException.class, "conditions()",
                () -> builder("other").data(data, null).onlyWhile(true, false, false).build());
        expect(IllegalArgumentException.class, "whole rows", () -> Dataset.rows(FloatBuffer.allocate(7), 3));
        expect(IllegalArgumentException.class, "labels[1] is 2",
                () -> Dataset.classes(FloatBuffer.allocate(6), 3, 2, new int[] {0, 2}));
        expect(IllegalArgumentException.class, "perMonth is -1", () -> builder("other").budget(0, -1));
        expect(IllegalArgumentException.class, "value is -1", () -> builder("other").maxLocalSteps(-1));
        arguments(data);
        System.gc();
    }

    // Every public method and constructor names the argument that is null or an empty text.
    private void arguments(Dataset data) throws Throwable {
        TernClient.Builder builder = builder("arguments");
        int seen = 0;
        try (TernClient client = builder("arguments").data(data, null).build()) {
            Object[] samples = {client, builder, data, "text", folder, FloatBuffer.allocate(1), new int[1], new float[1],
                new HttpsTransport(null), new Softmax(arguments[0]), (Listener) event -> { }, (Conditions) () -> IDEAL,
                new ByteArrayInputStream(new byte[1])};
            for (String name : arguments[1].split(",")) {
                Class<?> type = Class.forName(name);
                if (type.isInterface() || !Modifier.isPublic(type.getModifiers())) {
                    continue; // the app implements the interfaces
                }
                List<Executable> all = new ArrayList<>(List.of(type.getConstructors()));
                all.addAll(List.of(type.getDeclaredMethods()));
                for (Executable one : all) {
                    seen += Modifier.isPublic(one.getModifiers()) && !type.isEnum() ? arguments(one, samples) : 0;
                }
            }
        }
        check(seen >= 23, seen + " arguments were tried");
    }

    private static Object sample(Class<?> type, Object[] samples) {
        for (Object sample : samples) {
            if (type.isInstance(sample)) {
                return sample;
            }
        }
        return type == boolean.class ? false : type == long.class ? (Object) 1L : type == float.class ? (Object) 1f : (Object) 1;
    }

    private static int arguments(Executable call, Object[] samples) throws Exception {
        Parameter[] parameters = call.getParameters();
        List<String> names = new ArrayList<>();
        for (int i = 0; i < parameters.length; i++) {
            if (parameters[i].getType().isPrimitive() || parameters[i].isAnnotationPresent(Nullable.class)) {
                continue;
            }
            Object[] given = new Object[parameters.length];
            for (int j = 0; j < given.length; j++) {
                given[j] = j == i ? null : sample(parameters[j].getType(), samples);
            }
            String sentence = refusal(call, given, samples, NullPointerException.class);
            check(sentence.matches("[a-zA-Z]+ is null") && !names.contains(sentence), call + " said " + sentence);
            names.add(sentence);
            if (parameters[i].getType() == String.class && !call.getName().equals("name")) {
                given[i] = "";
                String empty = refusal(call, given, samples, IllegalArgumentException.class);
                check(empty.startsWith(sentence.replace("null", "empty: give ")), call + " said " + empty);
            }
        }
        return names.size();
    }

    private static String refusal(Executable call, Object[] given, Object[] samples, Class<?> kind) throws Exception {
        try {
            Object made = call instanceof Method
                    ? ((Method) call).invoke(sample(call.getDeclaringClass(), samples), given)
                    : ((Constructor<?>) call).newInstance(given);
            throw new AssertionError(call + " took null or \"\" and returned " + made);
        } catch (InvocationTargetException thrown) {
            check(kind.isInstance(thrown.getCause()), call + " threw " + thrown.getCause());
            return thrown.getCause().getMessage();
        }
    }
}
