import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Keyed state: the highest sequence of each partition. A record is its partition, sequence header, key and value. */
final class HighestSequence extends KeyedProcessFunction<
        Integer, Tuple4<Integer, byte[], byte[], byte[]>, Tuple4<Integer, byte[], byte[], byte[]>> {
    private static final TypeInformation<Tuple4<Integer, byte[], byte[], byte[]>> RECORD =
            TypeInformation.of(new TypeHint<>() {});

    private transient ValueState<Long> highest;

    static void run(StreamExecutionEnvironment environment, Map<String, String> job) throws Exception {
        var source = KafkaSource.<Tuple4<Integer, byte[], byte[], byte[]>>builder()
                .setBootstrapServers(job.get("servers"))
                .setTopics(job.get("topic"))
                .setGroupId(job.get("output"))
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setDeserializer(new Reader())
                .build();
        var sink = KafkaSink.<Tuple4<Integer, byte[], byte[], byte[]>>builder()
                .setBootstrapServers(job.get("servers"))
                .setRecordSerializer(new Writer(job.get("output")))
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(job.get("output"))
                .setProperty("transaction.timeout.ms", FlinkPeer.TRANSACTION_MILLIS)
                .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source", RECORD)
                .keyBy(record -> record.f0)
                .process(new HighestSequence(), RECORD)
                .sinkTo(sink);
        environment.execute();
    }

    @Override
    public void open(OpenContext context) {
        highest = getRuntimeContext().getState(new ValueStateDescriptor<>("highest", Long.class));
    }

    @Override
    public void processElement(
            Tuple4<Integer, byte[], byte[], byte[]> record, Context context,
            Collector<Tuple4<Integer, byte[], byte[], byte[]>> kept) throws Exception {
        long sequence = Sequence.of(record.f1);
        Long before = highest.value();
        if (before == null || sequence > before) {
            highest.update(sequence);
            kept.collect(record);
        }
    }

    private static final class Reader implements KafkaRecordDeserializationSchema<Tuple4<Integer, byte[], byte[], byte[]>> {
        @Override
        public void deserialize(
                ConsumerRecord<byte[], byte[]> record, Collector<Tuple4<Integer, byte[], byte[], byte[]>> records) {
            var sequence = record.headers().lastHeader(Sequence.HEADER).value();
            records.collect(Tuple4.of(record.partition(), sequence, record.key(), record.value()));
        }

        @Override
        public TypeInformation<Tuple4<Integer, byte[], byte[], byte[]>> getProducedType() {
            return RECORD;
        }
    }

    private record Writer(String topic) implements KafkaRecordSerializationSchema<Tuple4<Integer, byte[], byte[], byte[]>> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                Tuple4<Integer, byte[], byte[], byte[]> record, KafkaSinkContext context, Long timestamp) {
            var message = new ProducerRecord<>(topic, null, timestamp, record.f2, record.f3);
            message.headers().add(Sequence.HEADER, record.f1);
            return message;
        }
    }
}
