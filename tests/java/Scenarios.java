import io.tern.Dataset;
import io.tern.Event;
import io.tern.Round;
import io.tern.TernClient;
import io.tern.TernException;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;

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
}
