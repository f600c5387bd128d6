import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends numbers as key and value, as fast as it can or at a rate, and keeps what became of each. */
public final class Sender {
    private static final byte ACKNOWLEDGED = 1;
    private static final byte REFUSED = 2;

    /** Arguments: properties, topic, first number, records, records sent before the first flush, where to say so, open, rate, file. */
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        String topic = arguments[1];
        int first = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[3]);
        int flushed = Integer.parseInt(arguments[4]);
        int told = Integer.parseInt(arguments[5]);
        Semaphore open = new Semaphore(Integer.parseInt(arguments[6]));
        double rate = Double.parseDouble(arguments[7]);
        byte[] fates = new byte[records];
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            long started = 0;
            for (int nth = 0; nth < records; nth++) {
                int place = nth;
                byte[] number = Integer.toString(first + nth).getBytes(StandardCharsets.US_ASCII);
                open.acquire();
                try {
                    producer.send(new ProducerRecord<>(topic, 0, number, number), (sent, error) -> {
                        fates[place] = error == null ? ACKNOWLEDGED : REFUSED;
                        open.release();
                    });
                } catch (KafkaException error) {
                    fates[place] = REFUSED;
                    open.release();
                }
                if (nth + 1 == flushed) {
                    producer.flush();
                    started = System.nanoTime();
                }
                if (nth + 1 == told) {
                    System.out.println("sent " + told);
                    System.out.flush();
                }
                if (rate > 0 && nth > flushed) {
                    long ahead = started + (long) ((nth - flushed) / rate * 1e9) - System.nanoTime();
                    if (ahead > 1_000_000) {
                        Thread.sleep(ahead / 1_000_000);
                    }
                }
            }
            producer.flush();
        }
        Files.write(Path.of(arguments[8]), fates);
    }

    private Sender() {
    }
}
