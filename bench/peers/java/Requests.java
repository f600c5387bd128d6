import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Answers jobs until the standard input ends: a line of name=value parts each, answered by a line of JSON. */
final class Requests {
    interface Work {
        void run(Map<String, String> job) throws Exception;
    }

    private Requests() {}

    static void serve(Work work) throws IOException {
        var answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err); // libraries print what they like; answers stay alone
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(work, line));
        }
        System.exit(0); // whatever threads a library left behind
    }

    private static String answer(Work work, String line) {
        var job = new HashMap<String, String>();
        for (var part : line.split("\t")) {
            var pair = part.split("=", 2);
            job.put(pair[0], pair[1]);
        }
        try {
            work.run(job);
            return "{}";
        } catch (Exception error) {
            error.printStackTrace();
            return "{\"error\": " + quoted(error.toString()) + "}";
        }
    }

    private static String quoted(String text) {
        var escaped = text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}+", " ");
        return '"' + escaped + '"';
    }
}
