package tidemark.formats;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.DescriptorProtos;
import com.google.protobuf.Descriptors;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import com.google.protobuf.MessageLite;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;
import org.apache.avro.io.Encoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;

/**
 * A Spark function that converts a Protobuf value to Avro of the wanted fields, by a plan of
 * `tidemark.extras.formats.protobuf_schema`, which decides the fields' types. Returns null for bytes that are no such message. An id
 * that the plan lacks is an error: it must never count as undecodable.
 *
 * <p>Compiled by the compiler that Spark ships (Janino), which knows neither lambdas nor all of generics.
 */
public class ProtobufToAvro implements UDF2 {

  /** The plan of each array, by identity: all rows of a task have the same array. */
  private static final Map PLANS = Collections.synchronizedMap(new WeakHashMap());

  public Object call(Object value, Object given) throws Exception {
    if (value == null) {
      return null;
    }
    Plan plan = (Plan) PLANS.get(given);
    if (plan == null) {
      plan = new Plan(new DataInputStream(new ByteArrayInputStream((byte[]) given)));
      PLANS.put(given, plan);
    }
    return plan.avro((byte[]) value);
  }
}

/** A Spark function that returns the path of a value's message in its schema's file, such as "0" or "2.0"; null without a prefix. */
public class ProtobufMessagePath implements UDF1 {

  public Object call(Object value) throws Exception {
    Prefix prefix = value == null ? null : Prefix.of((byte[]) value);
    return prefix == null ? null : prefix.path;
  }
}

/** The prefix of a value: a zero, the schema's id in four bytes, and the indexes of the message in the schema's file. */
final class Prefix {

  private static final int ID_END = 5;
  private static final int MOST_INDEXES = 100;

  final Long id;
  String path; // the indexes with dots between them; null if they cannot be read
  int end;

  private Prefix(byte[] value) {
    this.id = Long.valueOf(ByteBuffer.wrap(value, 1, ID_END - 1).getInt() & 0xffffffffL);
    try {
      CodedInputStream in = CodedInputStream.newInstance(value, ID_END, value.length - ID_END);
      int count = in.readSInt32();
      if (count >= 0 && count <= MOST_INDEXES) {
        StringBuilder read = new StringBuilder(count == 0 ? "0" : ""); // a count of zero stands for the first message
        for (int i = 0; i < count; i++) {
          read.append(i == 0 ? "" : ".").append(in.readSInt32());
        }
        this.path = read.toString();
        this.end = ID_END + in.getTotalBytesRead();
      }
    } catch (IOException isNone) {
      this.path = null;
    }
  }

  static Prefix of(byte[] value) {
    return value.length >= ID_END && value[0] == 0 ? new Prefix(value) : null;
  }
}

/** How values are read: their descriptors, and the Avro schema to write. */
final class Plan {

  private static final int MOST_ITEMS = 1000000;
  private static final int WEIGHT = 4; // of a message, an enum's value and an unknown field: each may be an object of some hundred bytes

  private final Schema target;
  private final String only; // the path of the message of all values; empty if each value has a prefix
  private final Map files = new HashMap(); // the file of each id; of values without a prefix under -1; null decodes nothing
  private final Map misfits = new HashMap(); // of each id: the paths of messages that are not decoded
  private final Map forms = new ConcurrentHashMap(); // by id and path

  Plan(DataInputStream in) throws IOException {
    this.target = new Schema.Parser().parse(text(in));
    Descriptors.FileDescriptor[] sets = new Descriptors.FileDescriptor[in.readInt()];
    for (int i = 0; i < sets.length; i++) {
      sets[i] = file(bytes(in));
    }
    this.only = text(in);
    int count = in.readInt();
    for (int i = 0; i < count; i++) {
      Long id = Long.valueOf(in.readLong());
      int set = in.readInt();
      this.files.put(id, set < 0 ? null : sets[set]);
      Set paths = new HashSet();
      int more = in.readInt();
      for (int j = 0; j < more; j++) {
        paths.add(text(in));
      }
      this.misfits.put(id, paths);
    }
  }

  private static byte[] bytes(DataInputStream in) throws IOException {
    byte[] found = new byte[in.readInt()];
    in.readFully(found);
    return found;
  }

  private static String text(DataInputStream in) throws IOException {
    return new String(bytes(in), StandardCharsets.UTF_8);
  }

  /** The last file of a descriptor set, which depends on the others; null if it is invalid: then nothing is decoded by it. */
  private static Descriptors.FileDescriptor file(byte[] set) throws IOException {
    Map known = new HashMap();
    Descriptors.FileDescriptor last = null;
    try {
      for (Object each : DescriptorProtos.FileDescriptorSet.parseFrom(set).getFileList()) {
        DescriptorProtos.FileDescriptorProto file = (DescriptorProtos.FileDescriptorProto) each;
        Descriptors.FileDescriptor[] others = new Descriptors.FileDescriptor[file.getDependencyCount()];
        for (int i = 0; i < others.length; i++) {
          others[i] = (Descriptors.FileDescriptor) known.get(file.getDependency(i));
        }
        last = Descriptors.FileDescriptor.buildFrom(file, others);
        known.put(file.getName(), last);
      }
    } catch (Descriptors.DescriptorValidationException refused) {
      return null;
    } catch (RuntimeException refused) {
      return null;
    }
    return last;
  }

  byte[] avro(byte[] value) throws IOException {
    if (!this.only.isEmpty()) {
      return this.avro(value, 0, this.form(Long.valueOf(-1L), this.only));
    }
    Prefix prefix = Prefix.of(value);
    if (prefix == null) {
      return null;
    }
    if (!this.files.containsKey(prefix.id)) {
      throw new IllegalStateException("No schema was asked for the id " + prefix.id);
    }
    return prefix.path == null ? null : this.avro(value, prefix.end, this.form(prefix.id, prefix.path));
  }

  private byte[] avro(byte[] value, int start, Form form) {
    if (form == null) {
      return null;
    }
    try {
      int length = value.length - start;
      CodedInputStream in = CodedInputStream.newInstance(value, start, length);
      if (length > MOST_ITEMS / WEIGHT && left(in, form.type, MOST_ITEMS, 0) < 0) {
        return null;
      }
      DynamicMessage.Builder found = DynamicMessage.newBuilder(form.type);
      // By the interface that declares it: the class has it four times, and Janino fails by the order in which a JVM lists them.
      ((MessageLite.Builder) found).mergeFrom(value, start, length);
      if (!found.isInitialized()) {
        return null;
      }
      ByteArrayOutputStream out = new ByteArrayOutputStream(length + 16);
      Encoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
      form.write(found.buildPartial(), encoder);
      encoder.flush();
      return out.toByteArray();
    } catch (IOException isNone) {
      return null;
    } catch (ArithmeticException isTooLarge) {
      return null;
    }
  }

  /** How a message is written; null if its file has no such message, or it is not decoded. Any path may come from a producer. */
  private Form form(Long id, String path) {
    String key = id + ":" + path;
    Form found = (Form) this.forms.get(key);
    Descriptors.FileDescriptor file = (Descriptors.FileDescriptor) this.files.get(id);
    if (found != null || file == null || ((Set) this.misfits.get(id)).contains(path)) {
      return found;
    }
    List types = file.getMessageTypes();
    Descriptors.Descriptor type = null;
    for (String index : path.split("\\.")) {
      int nth = Integer.parseInt(index);
      if (nth < 0 || nth >= types.size()) {
        return null;
      }
      type = (Descriptors.Descriptor) types.get(nth);
      types = type.getNestedTypes();
    }
    found = new Form(type, this.target);
    this.forms.put(key, found);
    return found;
  }

  /** How many more fields and items a message may have; negative if it has too many. */
  private static int left(CodedInputStream in, Descriptors.Descriptor type, int most, int level) throws IOException {
    int left = most;
    while (left >= 0 && level <= 100) { // what is nested deeper is refused by the parser
      int tag = in.readTag();
      int wire = tag & 7;
      if (tag == 0 || wire == 4) {
        return left;
      }
      Descriptors.FieldDescriptor field = type == null ? null : type.findFieldByNumber(tag >>> 3);
      left -= weight(field);
      boolean isMessage = field != null && field.getJavaType() == Descriptors.FieldDescriptor.JavaType.MESSAGE;
      Descriptors.Descriptor inner = isMessage ? field.getMessageType() : null;
      if (wire == 3) {
        left = left(in, inner, left, level + 1);
      } else if (wire == 2) {
        int before = in.pushLimit(in.readRawVarint32());
        if (isMessage) {
          left = left(in, inner, left, level + 1);
        } else if (field != null && field.isPackable()) {
          left -= items(in, field) * weight(field);
        }
        in.skipRawBytes(in.getBytesUntilLimit());
        in.popLimit(before);
      } else {
        in.skipField(tag);
      }
    }
    return left;
  }

  private static int weight(Descriptors.FieldDescriptor field) {
    Descriptors.FieldDescriptor.JavaType type = field == null ? null : field.getJavaType();
    boolean isObject = type == Descriptors.FieldDescriptor.JavaType.MESSAGE || type == Descriptors.FieldDescriptor.JavaType.ENUM;
    return isObject || field == null ? WEIGHT : 1;
  }

  private static int items(CodedInputStream in, Descriptors.FieldDescriptor field) throws IOException {
    String type = field.getType().name();
    if (type.endsWith("FIXED64") || type.equals("DOUBLE")) {
      return in.getBytesUntilLimit() / 8;
    }
    if (type.endsWith("FIXED32") || type.equals("FLOAT")) {
      return in.getBytesUntilLimit() / 4;
    }
    int items = 0;
    while (in.getBytesUntilLimit() > 0) {
      items += in.readRawByte() >= 0 ? 1 : 0;
    }
    return items;
  }
}

/** A message as an Avro record of the wanted fields: a field that it does not have is null, and so is one that is not set. */
final class Form {

  final Descriptors.Descriptor type;
  private final boolean[] isMark; // of a value that was decoded
  private final Value[] values; // null for a field that the message does not have

  Form(Descriptors.Descriptor type, Schema target) {
    this.type = type;
    List wanted = target.getFields();
    this.isMark = new boolean[wanted.size()];
    this.values = new Value[wanted.size()];
    for (int i = 0; i < this.values.length; i++) {
      Schema.Field field = (Schema.Field) wanted.get(i);
      this.isMark[i] = field.schema().getType() != Schema.Type.UNION;
      Descriptors.FieldDescriptor found = this.isMark[i] ? null : type.findFieldByName(field.name());
      this.values[i] = found == null ? null : new Value(found, (Schema) field.schema().getTypes().get(1), found.isRepeated());
    }
  }

  void write(Message message, Encoder out) throws IOException {
    for (int i = 0; i < this.values.length; i++) {
      Value value = this.values[i];
      if (this.isMark[i]) {
        out.writeBoolean(false);
      } else if (value == null || (value.field.hasPresence() && !message.hasField(value.field))) {
        out.writeIndex(0);
      } else {
        out.writeIndex(1);
        value.write(message.getField(value.field), out);
      }
    }
  }
}

/** How what a field holds is written. */
final class Value {

  private static final long MICROS = 1000000L;
  private static final int NANOS = 1000000000;

  final Descriptors.FieldDescriptor field;
  private final Schema target;
  private final int scale;
  private final boolean isUnsigned;
  private Value key; // of a map
  private Value item; // of an array or map
  private Form form; // of a message
  private Value inner; // of a wrapper
  private Descriptors.FieldDescriptor seconds; // of a timestamp
  private Descriptors.FieldDescriptor nanos;

  Value(Descriptors.FieldDescriptor field, Schema target, boolean isRepeated) {
    this.field = field;
    this.target = target;
    this.scale = target.getObjectProp("scale") instanceof Number ? ((Number) target.getObjectProp("scale")).intValue() : 0;
    this.isUnsigned = field.getType().name().startsWith("U") || field.getType().name().startsWith("FIXED");
    if (isRepeated && field.isMapField()) {
      this.key = new Value(part(field, 1), Schema.create(Schema.Type.STRING), false);
      this.item = new Value(part(field, 2), (Schema) target.getValueType().getTypes().get(1), false);
    } else if (isRepeated) {
      this.item = new Value(field, (Schema) target.getElementType().getTypes().get(1), false);
    } else if (field.getJavaType() != Descriptors.FieldDescriptor.JavaType.MESSAGE) {
      return;
    } else if (target.getType() == Schema.Type.RECORD) {
      this.form = new Form(field.getMessageType(), target);
    } else if (target.getLogicalType() != null && "timestamp-micros".equals(target.getLogicalType().getName())) {
      this.seconds = part(field, 1);
      this.nanos = part(field, 2);
    } else {
      this.inner = new Value(part(field, 1), target, false);
    }
  }

  private static Descriptors.FieldDescriptor part(Descriptors.FieldDescriptor field, int number) {
    return field.getMessageType().findFieldByNumber(number);
  }

  void write(Object value, Encoder out) throws IOException {
    if (this.key != null) {
      this.writeMap((List) value, out);
    } else if (this.item != null) {
      this.writeList((List) value, out);
    } else if (this.form != null) {
      this.form.write((Message) value, out);
    } else if (this.seconds != null) {
      out.writeLong(this.micros((Message) value));
    } else if (this.inner != null) {
      this.inner.write(((Message) value).getField(this.inner.field), out);
    } else {
      this.writeScalar(value, out);
    }
  }

  private void writeList(List values, Encoder out) throws IOException {
    out.writeArrayStart();
    out.setItemCount(values.size());
    for (Object each : values) {
      out.startItem();
      out.writeIndex(1);
      this.item.write(each, out);
    }
    out.writeArrayEnd();
  }

  private void writeMap(List entries, Encoder out) throws IOException {
    Map last = new LinkedHashMap(); // of a key that stands twice the last value counts
    for (Object each : entries) {
      Message entry = (Message) each;
      last.put(this.key.text(entry.getField(this.key.field)), entry.getField(this.item.field));
    }
    out.writeMapStart();
    out.setItemCount(last.size());
    for (Object each : last.entrySet()) {
      Map.Entry entry = (Map.Entry) each;
      out.startItem();
      out.writeString((String) entry.getKey());
      out.writeIndex(1);
      this.item.write(entry.getValue(), out);
    }
    out.writeMapEnd();
  }

  private void writeScalar(Object value, Encoder out) throws IOException {
    Schema.Type type = this.target.getType();
    if (type == Schema.Type.STRING) {
      out.writeString(this.text(value));
    } else if (type == Schema.Type.BOOLEAN) {
      out.writeBoolean(((Boolean) value).booleanValue());
    } else if (type == Schema.Type.INT) {
      out.writeInt(((Integer) value).intValue());
    } else if (type == Schema.Type.LONG) {
      out.writeLong(this.number(value));
    } else if (type == Schema.Type.FLOAT) {
      out.writeFloat(((Float) value).floatValue());
    } else if (type == Schema.Type.DOUBLE) {
      out.writeDouble(value instanceof Integer ? (double) this.number(value) : ((Number) value).doubleValue());
    } else if (value instanceof ByteString) {
      out.writeBytes(((ByteString) value).toByteArray());
    } else {
      out.writeBytes(this.whole(value).multiply(BigInteger.TEN.pow(this.scale)).toByteArray());
    }
  }

  /** A whole number; one above 2^63-1 is none that a long holds. */
  private long number(Object value) {
    long found = ((Number) value).longValue();
    if (this.isUnsigned && value instanceof Integer) {
      return found & 0xffffffffL;
    }
    if (this.isUnsigned && found < 0) {
      throw new ArithmeticException();
    }
    return found;
  }

  private BigInteger whole(Object value) {
    if (value instanceof Integer) {
      return BigInteger.valueOf(this.number(value));
    }
    long large = ((Long) value).longValue();
    BigInteger found = BigInteger.valueOf(large);
    return this.isUnsigned && large < 0 ? found.add(BigInteger.ONE.shiftLeft(64)) : found;
  }

  /** A text, the name of an enum's value, or digits: of a number, and of a value that the enum does not name. */
  private String text(Object value) {
    if (value instanceof Descriptors.EnumValueDescriptor) {
      Descriptors.EnumValueDescriptor named = (Descriptors.EnumValueDescriptor) value;
      return named.getIndex() < 0 ? Integer.toString(named.getNumber()) : named.getName();
    }
    boolean isWhole = value instanceof Integer || value instanceof Long;
    return isWhole ? this.whole(value).toString() : value.toString();
  }

  /** Microseconds since 1970: what is below one is cut off. */
  private long micros(Message moment) {
    int fraction = ((Integer) moment.getField(this.nanos)).intValue();
    if (fraction < 0 || fraction >= NANOS) {
      throw new ArithmeticException();
    }
    long whole = Math.multiplyExact(((Long) moment.getField(this.seconds)).longValue(), MICROS);
    return Math.addExact(whole, (long) (fraction / 1000));
  }
}
