import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.state.Stores;

/** Kafka Streams with a store of the highest sequence of each partition. The one argument is the processing guarantee. */
final class StreamsPeer {
    private static final Duration CLOSE = Duration.ofSeconds(60);
    private static final int LOOK_MILLIS = 5;

    private final String guarantee;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    private StreamsPeer(String guarantee) {
        this.guarantee = guarantee;
    }

    public static void main(String[] arguments) throws Exception {
        var peer = new StreamsPeer(arguments[0]);
        Requests.serve(peer::run);
    }

    private void run(Map<String, String> job) throws Exception {
        if (job.get("do").equals("run")) {
            takeInAll(job);
        }
    }

    /** Returns when every record that the topic has now is taken in, flushed and committed. */
    private void takeInAll(Map<String, String> job) throws Exception {
        var ends = partitions(job);
        var taken = new AtomicLongArray(ends.size());
        try (var streams = start(job, taken)) {
            while (!ends.entrySet().stream().allMatch(end -> taken.get(end.getKey()) >= end.getValue())) {
                if (failure.get() != null) {
                    throw new IllegalStateException(failure.get());
                }
                Thread.sleep(LOOK_MILLIS);
            }
            if (!streams.close(CLOSE)) {
                throw new IllegalStateException("not closed within " + CLOSE);
            }
        }
    }

    private KafkaStreams start(Map<String, String> job, AtomicLongArray taken) {
        var streams = new KafkaStreams(topology(job, taken), settings(job));
        streams.setUncaughtExceptionHandler(error -> {
            failure.set(error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        return streams;
    }

    private static Topology topology(Map<String, String> job, AtomicLongArray taken) {
        var builder = new StreamsBuilder();
        // With its cache, the store's log gets a record per partition and commit, not one per record.
        builder.addStateStore(
                Stores.keyValueStoreBuilder(
                                Stores.persistentKeyValueStore(Deduplicator.STORE), Serdes.Integer(), Serdes.Long())
                        .withCachingEnabled());
        FixedKeyProcessorSupplier<byte[], byte[], byte[]> deduplicator = () -> new Deduplicator(taken);
        builder.stream(job.get("topic"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .processValues(deduplicator, Deduplicator.STORE)
                .to(job.get("output"), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        return builder.build();
    }

    private Properties settings(Map<String, String> job) {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, job.get("output") + "-app");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.get("servers"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(job.get("work"), "state").toString());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Runtime.getRuntime().availableProcessors());
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        return settings;
    }

    /** The end of each partition by now. */
    private static Map<Integer, Long> partitions(Map<String, String> job) throws Exception {
        var topic = job.get("topic");
        try (var admin = Admin.create(Map.of("bootstrap.servers", job.get("servers")))) {
            var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            var asked = new HashMap<TopicPartition, OffsetSpec>();
            described.partitions().forEach(each -> asked.put(new TopicPartition(topic, each.partition()), OffsetSpec.latest()));
            var ends = new HashMap<Integer, Long>();
            admin.listOffsets(asked).all().get().forEach((place, found) -> ends.put(place.partition(), found.offset()));
            return ends;
        }
    }
}
