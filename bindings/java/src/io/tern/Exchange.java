package io.tern;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * One exchange of the app's transport, in a thread of its own. So cancel() and an interrupt end the client's call although the
 * transport still waits, for example for an address that does not answer. Used by the thread that works, which also permits
 * each block of the request's body before the transport gets it.
 */
final class Exchange {
    private static final int BLOCK = 16384;
    private static final long LOOK_MS = 50;
    /** The transport has this long to end its exchange after cancel(). */
    private static final long GRACE_NS = 300_000_000L;
    private static final int ENDED = -1;
    static final String ABANDONED = "the app's transport did not end its exchange within 0.3 s of cancel(), so the client has left it";

    private final TernClient client;
    private final Transport transport;
    private final ExecutorService thread;
    private final BlockingQueue<Integer> signals = new LinkedBlockingQueue<>(); // ENDED, or bytes of the body that are sent
    private final Semaphore permits = new Semaphore(0);
    private final byte[] sends;
    private volatile int sent;
    private volatile boolean stopped; // the transport gets no further block
    private @Nullable Transport.Response response; // belongs to `thread`
    private boolean abandoned;
    private boolean interrupted;

    Exchange(TernClient client, Transport transport, byte[] sends) {
        this.client = client;
        this.transport = transport;
        this.sends = sends;
        thread = Executors.newSingleThreadExecutor(task -> {
            Thread made = new Thread(task, "tern-transport");
            made.setDaemon(true);
            return made;
        });
    }

    /** The request's body, which any other thread may read. */
    private final class Body extends InputStream {
        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
        }

        @Override
        public int read(byte[] to, int from, int most) throws IOException {
            int left = sends.length - sent;
            if (most == 0 || left == 0) {
                return most == 0 ? 0 : -1;
            }
            // Blocks end at multiples of BLOCK, and each but the first needs a permit.
            int room = BLOCK - sent % BLOCK;
            if (sent > 0 && room == BLOCK) {
                awaitPermit();
            }
            int size = Math.min(Math.min(most, left), room);
            System.arraycopy(sends, sent, to, from, size);
            sent += size;
            return size;
        }

        @Override
        public int available() {
            return Math.min(sends.length - sent, BLOCK - sent % BLOCK);
        }

        private void awaitPermit() throws IOException {
            try {
                if (!stopped) {
                    signals.add(sent);
                    permits.acquire();
                }
            } catch (InterruptedException interrupt) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("the sending of the request was interrupted");
            }
            if (stopped) {
                throw new IOException("the client has ended the request");
            }
        }
    }

    InputStream body() {
        return new Body();
    }

    Transport.Response send(Transport.Request request) throws Exception {
        try {
            return await(() -> {
                response = transport.exchange(request);
                return response;
            });
        } finally {
            client.maySend(sent);
        }
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
            stop();
            thread.shutdown();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void stop() {
        stopped = true;
        permits.release();
    }

    // Answers a transport that wants the next block.
    private void permit(int moved) {
        if (client.maySend(moved)) {
            permits.release();
        } else {
            stop();
            transport.cancel();
        }
    }

    private <T> T await(Callable<T> call) throws Exception {
        Future<T> done = thread.submit(() -> {
            try {
                return call.call();
            } finally {
                signals.add(ENDED);
            }
        });
        long runs = System.nanoTime(); // the last time without a cancel()
        boolean ended = false;
        for (;;) {
            try {
                Integer signal = ended ? Integer.valueOf(ENDED) : signals.poll(LOOK_MS, TimeUnit.MILLISECONDS);
                ended = signal != null && signal == ENDED;
                if (ended) {
                    return done.get();
                }
                if (signal != null && !stopped) {
                    permit(signal);
                }
                if (!stopped && !client.isCancelled()) {
                    runs = System.nanoTime();
                } else if (System.nanoTime() - runs >= GRACE_NS) {
                    abandoned = true;
                    stop();
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
