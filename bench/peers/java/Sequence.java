import java.nio.charset.StandardCharsets;

/** The sequence of a record: a number as text, in the header of that name. */
final class Sequence {
    static final String HEADER = "seq";

    private Sequence() {}

    static long of(byte[] header) {
        return Long.parseLong(new String(header, StandardCharsets.US_ASCII));
    }
}
