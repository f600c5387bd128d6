package tidemark.storage;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
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
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local file system, without the processes that it starts where it has no native library: `chmod` for each file. */
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
 * Delta's log in a local folder: of several writers of one version exactly one succeeds, the others see its commit and try the
 * next. Delta's own log store looks whether the version is there and then renames, which overwrites: of two writers who looked
 * at the same time the first one's commit is lost without a word.
 *
 * <p>The commit is written under a name of its own, and linked to its version: the system refuses a link under a name that is
 * taken. Where it has no links, as on some network shares, the commit is renamed as Delta does.
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
    if (!files.exists(path.getParent())) { // which a local file system would make
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

  /**
   * The files of a log from one on. Hadoop looks at every file of the folder, and leaves out those below afterwards. A log of a
   * thousand commits, of four files each, is listed several times in each run.
   */
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

  /** Moves a checksum to its commit; until then, and where a writer dies before it, the commit is read without one. */
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
