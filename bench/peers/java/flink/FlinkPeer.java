import java.nio.file.Path;
import java.util.Map;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Flink in this one process, exactly once from topic to topic. */
final class FlinkPeer {
    static final String CHECKPOINTS_MILLIS = "5000";
    /** Flink's default is longer than a broker allows by default. */
    static final String TRANSACTION_MILLIS = "600000";

    private FlinkPeer() {}

    public static void main(String[] arguments) throws Exception {
        Requests.serve(job -> {
            if (job.get("do").equals("run")) {
                HighestSequence.run(environment(job), job);
            }
        });
    }

    private static StreamExecutionEnvironment environment(Map<String, String> job) {
        var settings = new Configuration();
        settings.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        settings.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        var state = Path.of(job.get("work"), "state");
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, state.resolve("checkpoints").toUri().toString());
        settings.setString("state.backend.rocksdb.localdir", state.resolve("rocksdb").toString());
        settings.setString("execution.checkpointing.interval", CHECKPOINTS_MILLIS + " ms");
        var cores = Runtime.getRuntime().availableProcessors();
        var environment = StreamExecutionEnvironment.createLocalEnvironment(cores, settings);
        environment.getConfig().enableObjectReuse();
        return environment;
    }
}
