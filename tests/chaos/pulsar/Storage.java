import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;

/** ZooKeeper and two bookies: what Pulsar keeps its metadata and its records in. Runs until it is killed. */
public final class Storage {
    private static final int BOOKIES = 2;

    /** Arguments: ZooKeeper's port, a folder. */
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        String folder = arguments[1];
        new LocalBookkeeperEnsemble(BOOKIES, port, 0, folder + "/zookeeper", folder + "/bookies", true, "127.0.0.1").start();
        System.out.println("bookies are there");
        Thread.currentThread().join();
    }

    private Storage() {
    }
}
