import java.io.PrintStream;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;

/** Writes the number of every record of a topic, in the order in which Pulsar has them, a line each. */
public final class PulsarReader {
    private static final int PATIENCE_SECONDS = 30;

    /** Arguments: service URL, topic, file. */
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                Reader<byte[]> reader = client.newReader()
                        .topic(arguments[1])
                        .startMessageId(MessageId.earliest)
                        .receiverQueueSize(10_000)
                        .create();
                PrintStream file = new PrintStream(arguments[2], "US-ASCII")) {
            MessageId last = reader.getLastMessageIds().get(0);
            Message<byte[]> message;
            do {
                message = reader.readNext(PATIENCE_SECONDS, TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException("Nothing came for " + PATIENCE_SECONDS + " s, before " + last);
                }
                file.write(message.getValue());
                file.write('\n');
            } while (message.getMessageId().compareTo(last) < 0);
        }
    }

    private PulsarReader() {
    }
}
