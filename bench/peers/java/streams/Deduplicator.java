import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;

/** Forwards a record whose sequence is above all that its partition had before, and drops any other. */
final class Deduplicator implements FixedKeyProcessor<byte[], byte[], byte[]> {
    static final String STORE = "highest";

    private final AtomicLongArray taken;
    private FixedKeyProcessorContext<byte[], byte[]> context;
    private KeyValueStore<Integer, Long> highest;

    /** @param taken where each partition's next offset is noted, so that the benchmark knows when all is taken in. */
    Deduplicator(AtomicLongArray taken) {
        this.taken = taken;
    }

    @Override
    public void init(FixedKeyProcessorContext<byte[], byte[]> context) {
        this.context = context;
        this.highest = context.getStateStore(STORE);
    }

    @Override
    public void process(FixedKeyRecord<byte[], byte[]> record) {
        var place = context.recordMetadata().orElseThrow();
        long sequence = Sequence.of(record.headers().lastHeader(Sequence.HEADER).value());
        Long before = highest.get(place.partition());
        if (before == null || sequence > before) {
            highest.put(place.partition(), sequence);
            context.forward(record);
        }
        taken.lazySet(place.partition(), place.offset() + 1);
    }
}
