import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/**
 * Copies a topic of Pulsar to one of Kafka, with the name of a message's producer and its sequence id as headers.
 *
 * <p>It says to Pulsar what it has copied once Kafka has acknowledged it. A copier that dies in between copies some messages again
 * when it starts anew: they bear the same numbers.
 */
public final class Copier {
    private static final int AT_ONCE = 5_000;
    private static final int PATIENCE_SECONDS = 30;

    /** Arguments: Pulsar's service URL, its topic, Kafka's bootstrap servers, its topic. It ends behind what was the last message when it began. */
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[2]);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                Consumer<byte[]> consumer = client.newConsumer()
                        .topic(arguments[1])
                        .subscriptionName("copier")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .receiverQueueSize(10_000)
                        .subscribe();
                KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            MessageId last = consumer.getLastMessageIds().get(0);
            boolean isLast = false;
            for (long nth = 1; !isLast; nth++) {
                Message<byte[]> message = consumer.receive(PATIENCE_SECONDS, TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException("Nothing came for " + PATIENCE_SECONDS + " s, before " + last);
                }
                isLast = message.getMessageId().compareTo(last) >= 0;
                producer.send(copy(message, arguments[3]), (sent, error) -> {
                    if (error != null) {
                        Runtime.getRuntime().halt(1); // what is not in Kafka is not acknowledged, and copied anew
                    }
                });
                if (isLast || nth % AT_ONCE == 0) {
                    producer.flush();
                    consumer.acknowledgeCumulative(message);
                    System.out.println(nth);
                }
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> copy(Message<byte[]> message, String topic) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, message.getPublishTime(),
                message.getKey().getBytes(StandardCharsets.UTF_8), message.getValue());
        record.headers().add("producer", message.getProducerName().getBytes(StandardCharsets.UTF_8));
        record.headers().add("seq", Long.toString(message.getSequenceId()).getBytes(StandardCharsets.US_ASCII));
        return record;
    }

    private Copier() {
    }
}
