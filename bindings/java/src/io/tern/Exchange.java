package io.tern;

import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * One exchange of the app's transport, in a thread of its own. So cancel() and an interrupt end the client's call although the
 * transport still waits, for example for an address that does not answer. Used by the thread that works.
 */
final class Exchange {
    private static final long LOOK_MS = 50;
    /** The transport has this long to end its exchange after cancel(). */
    private static final long GRACE_NS = 300_000_000L;
    static final String ABANDONED = "the app's transport did not end its exchange within 0.3 s of cancel(), so the client has left it";

    private final TernClient client;
    private final ExecutorService thread;
    private @Nullable Transport.Response response; // belongs to `thread`
    private boolean abandoned;
    private boolean interrupted;

    Exchange(TernClient client) {
        this.client = client;
        thread = Executors.newSingleThreadExecutor(task -> {
            Thread made = new Thread(task, "tern-transport");
            made.setDaemon(true);
            return made;
        });
    }

    Transport.Response send(Transport transport, Transport.Request request) throws Exception {
        return await(() -> {
            response = transport.exchange(request);
            return response;
        });
    }

    /** Reads a block of the response's body; negative: its end. */
    int read(byte[] block) throws Exception {
        return await(() -> response.body.read(block));
    }

    boolean isAbandoned() {
        return abandoned;
    }

    /** Closes the response: at once, or when an abandoned transport returns. */
    void end() throws Exception {
        Callable<Void> close = () -> {
            if (response != null) {
                response.close();
            }
            return null;
        };
        try {
            if (abandoned) {
                thread.submit(close);
            } else {
                await(close);
            }
        } finally {
            thread.shutdown();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private <T> T await(Callable<T> call) throws Exception {
        Future<T> done = thread.submit(call);
        long runs = System.nanoTime(); // the last time without a cancel()
        for (;;) {
            try {
                return done.get(LOOK_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException waits) {
                if (!client.isCancelled()) {
                    runs = System.nanoTime();
                } else if (System.nanoTime() - runs >= GRACE_NS) {
                    abandoned = true;
                    done.cancel(true);
                    throw new IOException(ABANDONED);
                }
            } catch (InterruptedException interrupt) {
                interrupted = true;
                client.cancel();
            } catch (ExecutionException failed) {
                if (failed.getCause() instanceof Error) {
                    throw (Error) failed.getCause();
                }
                throw (Exception) failed.getCause();
            }
        }
    }
}
