import org.apache.pulsar.PulsarClusterMetadataSetup;
import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;

/** ZooKeeper and two bookies: what Pulsar keeps its metadata and its records in. Runs until it is killed. */
public final class Storage {
    private static final int BOOKIES = 2;

    /** Arguments: ZooKeeper's port, a folder, the cluster's name. */
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        String folder = arguments[1];
        new LocalBookkeeperEnsemble(BOOKIES, port, 0, folder + "/zookeeper", folder + "/bookies", true, "127.0.0.1").start();
        String store = "zk:127.0.0.1:" + port;
        PulsarClusterMetadataSetup.main(new String[] {
            "--cluster", arguments[2], "--web-service-url", "http://127.0.0.1:1",
            "--metadata-store", store, "--configuration-metadata-store", store
        });
        System.out.println("bookies are there");
        Thread.currentThread().join();
    }

    private Storage() {
    }
}
