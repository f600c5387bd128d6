import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

/** Sends numbers as key, value and sequence id, as fast as it can, and keeps what became of each. */
public final class PulsarSender {
    private static final byte ACKNOWLEDGED = 1;
    private static final byte REFUSED = 2;

    /** Arguments: service URL, topic, producer's name, first number, records, records sent before the first flush, where to say so, open, file. */
    public static void main(String[] arguments) throws Exception {
        int first = Integer.parseInt(arguments[3]);
        int records = Integer.parseInt(arguments[4]);
        int flushed = Integer.parseInt(arguments[5]);
        int told = Integer.parseInt(arguments[6]);
        int most = Integer.parseInt(arguments[7]);
        Semaphore open = new Semaphore(most);
        byte[] fates = new byte[records];
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                Producer<byte[]> producer = client.newProducer()
                        .topic(arguments[1])
                        .producerName(arguments[2])
                        .sendTimeout(0, TimeUnit.SECONDS) // it sends again until it is answered: deduplication asks for that
                        .maxPendingMessages(most)
                        .create()) {
            for (int nth = 0; nth < records; nth++) {
                int place = nth;
                String number = Integer.toString(first + nth);
                open.acquire();
                producer.newMessage()
                        .key(number)
                        .value(number.getBytes(StandardCharsets.US_ASCII))
                        .sequenceId(first + nth)
                        .sendAsync()
                        .whenComplete((sent, error) -> {
                            fates[place] = error == null ? ACKNOWLEDGED : REFUSED;
                            open.release();
                        });
                if (nth + 1 == flushed) {
                    producer.flush();
                }
                if (nth + 1 == told) {
                    System.out.println("sent " + told);
                    System.out.flush();
                }
            }
            open.acquire(most);
        }
        Files.write(Path.of(arguments[8]), fates);
    }

    private PulsarSender() {
    }
}
