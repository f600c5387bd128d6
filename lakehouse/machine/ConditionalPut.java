package tidemark.storage;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes an object only if its name is free: a PUT with "If-None-Match: *", which S3 decides. Delta's own log store for S3
 * overwrites, so of two commits of one version the first is lost without an error.
 *
 * <p>Compiled by the compiler that Spark ships (Janino), which knows neither lambdas nor all of generics.
 */
final class ConditionalPut {

  private static final String ONLY_IF_ABSENT = "fs.option.create.conditional.overwrite";
  private static final Set PROVEN = Collections.synchronizedSet(new HashSet());

  private ConditionalPut() {}

  /**
   * Writes an object whose name must be free, after a check that the store keeps the condition.
   *
   * @throws org.apache.hadoop.fs.FileAlreadyExistsException another object has the name
   * @throws IOException the store does not keep the condition, or cannot be reached
   */
  static void write(FileSystem files, Path path, byte[] content) throws IOException {
    // Next to the table, not in it: a killed writer leaves its object, and Delta creates a table only in an empty folder.
    Path table = path.getParent().getParent();
    prove(files, table == null || table.getParent() == null ? path.getParent() : table.getParent());
    create(files, path, content);
  }

  static void overwrite(FileSystem files, Path path, byte[] content) throws IOException {
    OutputStream stream = files.create(path, true);
    stream.write(content);
    stream.close();
  }

  /**
   * If the answer to a PUT is lost, the client repeats it, and the store refuses it because of its own first one. So the content
   * is compared: a commit of Delta has a random id, an entry of a checkpoint the time of its planning.
   */
  private static void create(FileSystem files, Path path, byte[] content) throws IOException {
    // "overwrite" saves a HEAD before the PUT; the store keeps the condition.
    FSDataOutputStreamBuilder builder = files.createFile(path).overwrite(true);
    builder.must(ONLY_IF_ABSENT, true);
    try {
      OutputStream stream = (FSDataOutputStream) builder.build();
      stream.write(content);
      stream.close();
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

  /** Checks once per process and bucket that the store refuses a second object of one name. A broken connection proves nothing. */
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

  /** Whether an error of hadoop-aws says that the condition was not met. The compiler does not have that library. */
  private static boolean isOfCondition(Throwable error) {
    return "RemoteFileChangedException".equals(error.getClass().getSimpleName());
  }

  private static byte[] read(FileSystem files, Path path, int most) throws IOException {
    InputStream stream = files.open(path);
    try (stream) {
      return stream.readNBytes(most);
    }
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
