package tidemark.storage;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

// Compiled by the compiler that Spark ships (Janino), which knows neither lambdas nor all of generics.

/** Hadoop's local file system, without a `chmod` process for each file, which it starts if it has no native library. */
public class LocalFiles extends LocalFileSystem {

  public LocalFiles() {
    super(new RawLocalFiles());
  }
}

class RawLocalFiles extends RawLocalFileSystem {

  public void setPermission(Path path, FsPermission permission) throws IOException {
    Object view = Files.getFileAttributeView(this.pathToFile(path).toPath(), PosixFileAttributeView.class);
    if (view == null || permission.getStickyBit()) {
      super.setPermission(path, permission);
    } else {
      ((PosixFileAttributeView) view).setPermissions(PosixFilePermissions.fromString(permission.toString()));
    }
  }

  public FileStatus getFileLinkStatus(Path path) throws IOException {
    boolean isLink = Files.isSymbolicLink(this.pathToFile(path).toPath());
    return isLink ? super.getFileLinkStatus(path) : this.getFileStatus(path);
  }
}

/**
 * Delta's log in a local folder: of several writers of one version exactly one succeeds; the others see its commit and try the
 * next. Delta's own log store checks for the version and then renames: the later of two writers overwrites the other's commit.
 *
 * <p>A commit is written under another name and linked to its version: the system refuses a link with a name that exists. On a
 * file system without links, such as some network shares, the commit is renamed as Delta does.
 */
public class LinkingLogStore extends HadoopFileSystemLogStore {

  public LinkingLogStore(Configuration configuration) {
    super(configuration);
  }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
    if (overwrite.booleanValue()) {
      this.writeWithRename(path, actions, overwrite, configuration);
      return;
    }
    FileSystem files = path.getFileSystem(configuration);
    if (!files.exists(path.getParent())) { // a local file system would create it
      throw new FileNotFoundException(path.getParent().toString());
    }
    Path own = this.createTempPath(path);
    try {
      OutputStream stream = files.create(own, false);
      try (stream) {
        while (actions.hasNext()) {
          stream.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
          stream.write('\n');
        }
      }
      link(local(own), local(path));
      if (files instanceof ChecksumFileSystem) {
        ChecksumFileSystem summed = (ChecksumFileSystem) files;
        replace(local(summed.getChecksumFile(own)), local(summed.getChecksumFile(path)));
      }
    } finally {
      files.delete(own, false);
    }
  }

  /** Lists a log's files from one on. Hadoop reads the status of every file, in each of several listings of a run. */
  public Iterator listFrom(Path path, Configuration configuration) throws IOException {
    FileSystem files = path.getFileSystem(configuration);
    Path folder = path.getParent();
    String[] names = local(folder).toFile().list();
    if (names == null) {
      throw new FileNotFoundException(folder.toString());
    }
    Arrays.sort(names);
    List found = new ArrayList();
    for (String name : names) {
      Path file = new Path(null, null, name);
      if (name.compareTo(path.getName()) < 0 || ChecksumFileSystem.isChecksumFile(file)) {
        continue;
      }
      try {
        found.add(files.getFileStatus(new Path(folder, file)));
      } catch (FileNotFoundException goneSince) {
        continue;
      }
    }
    return found.iterator();
  }

  public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
    return Boolean.FALSE;
  }

  private static void link(java.nio.file.Path own, java.nio.file.Path version) throws IOException {
    try {
      Files.createLink(version, own);
    } catch (FileAlreadyExistsException taken) {
      throw taken;
    } catch (UnsupportedOperationException hasNoLinks) {
      Files.move(own, version);
    } catch (java.nio.file.FileSystemException hasNoLinks) {
      Files.move(own, version);
    }
  }

  /** Moves a checksum to its commit, which is read without one until then. */
  private static void replace(java.nio.file.Path own, java.nio.file.Path there) throws IOException {
    try {
      Files.move(own, there, StandardCopyOption.REPLACE_EXISTING);
    } catch (NoSuchFileException notWritten) {
      return;
    }
  }

  private static java.nio.file.Path local(Path path) {
    return new java.io.File(path.toUri().getPath()).toPath();
  }
}

/**
 * Writes an object only if its name is free: a PUT with "If-None-Match: *", which S3 decides. Delta's own log store for S3
 * overwrites, so of two commits of one version the first is lost without an error.
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
    try {
      create(files, probe, new byte[] {1});
      create(files, probe, new byte[] {2});
    } catch (org.apache.hadoop.fs.FileAlreadyExistsException taken) {
      // By name: the compiler does not have hadoop-aws.
      if (!"RemoteFileChangedException".equals(taken.getCause().getClass().getSimpleName())) {
        throw (IOException) taken.getCause();
      }
      PROVEN.add(files.getUri());
      return;
    } finally {
      files.delete(probe, false);
    }
    throw new IOException(
        "TIDEMARK_NO_PUT_IF_ABSENT: the object store overwrites an object although it was told not to: " + files.getUri());
  }

  private static byte[] read(FileSystem files, Path path, int most) throws IOException {
    InputStream stream = files.open(path);
    try (stream) {
      return stream.readNBytes(most);
    }
  }
}

/** Delta's log on S3: of several writers of one version exactly one succeeds; the others see its commit and try the next. */
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

/** The checkpoint of a streaming query on S3: of two queries that plan the same batch one succeeds. Elsewhere it is Spark's own. */
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
