// Takes part in a federation on data of its own: docs/MOBILE.md goes through it.
//   javac -cp tern.jar Join.java
//   java -cp tern.jar:. -Djava.library.path=. Join https://localhost:8443 ca.crt CODE
import io.tern.Dataset;
import io.tern.Round;
import io.tern.TernClient;
import java.io.File;
import java.nio.FloatBuffer;

public final class Join {
    public static void main(String[] given) throws Exception {
        FloatBuffer rows = FloatBuffer.wrap(new float[] {0.9f, 0.1f, 0.2f, 0.8f, 0.7f, 0.3f, 0.1f, 0.9f});
        Dataset data = Dataset.classes(rows, 2, 2, new int[] {0, 1, 0, 1}); // 4 rows of 2 columns
        try (TernClient client = TernClient.builder(given[0], new File("join-state")).ca(new File(given[1]))
                .data(data, null).listener(event -> System.out.println(event)).build()) {
            if (!client.isEnrolled()) {
                client.enroll(given[2]);
            }
            Round round = client.runRound();
            while (round.outcome != Round.Outcome.FINISHED) {
                Thread.sleep(round.waitMs); // an app ends here, and runs one round the next night
                round = client.runRound();
            }
            System.out.println("bytes since enrolment: " + client.wireBytes());
        }
    }
}
