import java.util.Map;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** Flink SQL's idiom: the first row of each record by ROW_NUMBER. */
final class FirstRow {
    private FirstRow() {}

    static void run(StreamExecutionEnvironment environment, Map<String, String> job) throws Exception {
        var tables = StreamTableEnvironment.create(environment);
        tables.executeSql(
                table("source", job, job.get("topic"), "`partition` INT METADATA VIRTUAL, arrived AS PROCTIME()",
                        "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"));
        tables.executeSql(
                table("sink", job, job.get("output"), "",
                        "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '" + job.get("output") + "',"
                        + " 'properties.transaction.timeout.ms' = '" + FlinkPeer.TRANSACTION_MILLIS + "'"));
        tables.executeSql(
                "INSERT INTO sink SELECT `key`, `value`, headers FROM ("
                + " SELECT *, ROW_NUMBER() OVER (PARTITION BY `partition`, headers['" + Sequence.HEADER + "']"
                + " ORDER BY arrived) AS nth FROM source) WHERE nth = 1")
            .await();
    }

    private static String table(String name, Map<String, String> job, String topic, String columns, String options) {
        return "CREATE TABLE " + name + " (`key` BYTES, `value` BYTES,"
                + " headers MAP<STRING NOT NULL, BYTES> METADATA" + (columns.isEmpty() ? "" : ", " + columns) + ")"
                + " WITH ('connector' = 'kafka', 'topic' = '" + topic + "',"
                + " 'properties.bootstrap.servers' = '" + job.get("servers") + "',"
                + " 'key.format' = 'raw', 'key.fields' = 'key', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY', "
                + options + ")";
    }
}
