package tidemark.storage;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes an object only if its name is free: a PUT with "If-None-Match: *", which S3 decides. Delta's own log store for S3
 * writes whatever is there, so of two commits of one version the first is lost without a word.
 *
 * <p>Compiled by the compiler that Spark ships (Janino), which knows neither lambdas nor all of generics.
 */
final class ConditionalPut {

  private static final String ONLY_IF_ABSENT = "fs.option.create.conditional.overwrite";
  private static final Set PROVEN = Collections.synchronizedSet(new HashSet());

  private ConditionalPut() {}

  /**
   * Writes an object whose name must be free.
   *
   * <p>Where the answer to a PUT is lost, the client sends it again and is told that the object is there: its own. So what is
   * there is compared. A commit of Delta's holds a random id, an entry of a checkpoint the time at which it was planned.
   *
   * @throws org.apache.hadoop.fs.FileAlreadyExistsException another one is there
   * @throws IOException the store does not keep the condition, or cannot be reached
   */
  static void write(FileSystem files, Path path, byte[] content) throws IOException {
    prove(files, besideTable(path));
    create(files, path, content);
  }

  /**
   * The folder of a table, for an object that is no part of it: Delta makes a table only where nothing is, and whoever is killed
   * leaves his object there.
   */
  private static Path besideTable(Path entry) {
    Path table = entry.getParent().getParent();
    return table == null || table.getParent() == null ? entry.getParent() : table.getParent();
  }

  /** Writes an object, whatever is there. */
  static void overwrite(FileSystem files, Path path, byte[] content) throws IOException {
    OutputStream stream = files.create(path, true);
    stream.write(content);
    stream.close();
  }

  private static void create(FileSystem files, Path path, byte[] content) throws IOException {
    try {
      put(files, path, content);
    } catch (IOException refused) {
      if (!files.exists(path)) {
        throw refused;
      }
      if (!Arrays.equals(content, read(files, path, content.length + 1))) {
        IOException taken = new org.apache.hadoop.fs.FileAlreadyExistsException(path.toString());
        taken.initCause(refused);
        throw taken;
      }
    }
  }

  /** Sees, once in a process and bucket, that the store refuses a second object of one name. A broken connection proves nothing. */
  private static void prove(FileSystem files, Path folder) throws IOException {
    if (PROVEN.contains(files.getUri())) {
      return;
    }
    Path probe = new Path(folder, ".tidemark-" + UUID.randomUUID().toString());
    boolean isRefused = false;
    try {
      create(files, probe, new byte[] {1});
      create(files, probe, new byte[] {2});
    } catch (org.apache.hadoop.fs.FileAlreadyExistsException taken) {
      if (!isOfCondition(taken.getCause())) {
        throw (IOException) taken.getCause();
      }
      isRefused = true;
    } finally {
      files.delete(probe, false);
    }
    if (!isRefused) {
      throw new IOException(
          "TIDEMARK_NO_PUT_IF_ABSENT: the object store overwrites an object although it was told not to: " + files.getUri());
    }
    PROVEN.add(files.getUri());
  }

  /** Whether an error says that the condition was not met: of hadoop-aws, which is not there when this is compiled. */
  private static boolean isOfCondition(Throwable error) {
    return "RemoteFileChangedException".equals(error.getClass().getSimpleName());
  }

  private static void put(FileSystem files, Path path, byte[] content) throws IOException {
    // "overwrite" saves a HEAD before the PUT; the condition is the store's to keep.
    FSDataOutputStreamBuilder builder = files.createFile(path).overwrite(true);
    builder.must(ONLY_IF_ABSENT, true);
    OutputStream stream = (FSDataOutputStream) builder.build();
    stream.write(content);
    stream.close();
  }

  private static byte[] read(FileSystem files, Path path, int most) throws IOException {
    byte[] found = new byte[most];
    int count = 0;
    FSDataInputStream stream = files.open(path);
    try {
      int more = stream.read(found, 0, most);
      while (more > 0) {
        count += more;
        more = stream.read(found, count, most - count);
      }
    } finally {
      stream.close();
    }
    return Arrays.copyOf(found, count);
  }
}

/** Delta's log on S3: of several writers of one version exactly one succeeds, the others see its commit and try the next. */
public class ConditionalLogStore extends HadoopFileSystemLogStore {

  public ConditionalLogStore(Configuration configuration) {
    super(configuration);
  }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      lines.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
      lines.write('\n');
    }
    FileSystem files = path.getFileSystem(configuration);
    if (overwrite.booleanValue()) {
      ConditionalPut.overwrite(files, path, lines.toByteArray());
      return;
    }
    try {
      ConditionalPut.write(files, path, lines.toByteArray());
    } catch (org.apache.hadoop.fs.FileAlreadyExistsException taken) {
      IOException known = new java.nio.file.FileAlreadyExistsException(path.toString()); // the one that Delta knows
      known.initCause(taken);
      throw known;
    }
  }

  public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
    return Boolean.FALSE;
  }
}

/** The checkpoint of a streaming query on S3: of two queries that plan the same batch one succeeds. Elsewhere as Spark's own. */
public class ConditionalCheckpoints extends FileSystemBasedCheckpointFileManager {

  private final boolean isHere;

  public ConditionalCheckpoints(Path path, Configuration configuration) throws IOException {
    super(path, configuration);
    this.isHere = "s3a".equals(this.fs().getScheme());
  }

  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrites) {
    return this.isHere ? new Entry(this.fs(), path, overwrites) : super.createAtomic(path, overwrites);
  }
}

/** A file of a checkpoint, kept in memory until it is whole. */
class Entry extends CheckpointFileManager.CancellableFSDataOutputStream {

  private final FileSystem files;
  private final Path path;
  private final boolean overwrites;
  private boolean isEnded = false;

  Entry(FileSystem files, Path path, boolean overwrites) {
    super(new ByteArrayOutputStream());
    this.files = files;
    this.path = path;
    this.overwrites = overwrites;
  }

  public void cancel() {
    this.isEnded = true;
  }

  public void close() throws IOException {
    if (this.isEnded) {
      return;
    }
    this.isEnded = true;
    byte[] content = ((ByteArrayOutputStream) this.underlyingStream()).toByteArray();
    if (this.overwrites) {
      ConditionalPut.overwrite(this.files, this.path, content);
    } else {
      ConditionalPut.write(this.files, this.path, content);
    }
  }
}
