"""The settings of a pipeline, validated as a whole before anything starts. `lakehouse.config.load` loads them.

Imports neither Spark nor Great Expectations: the command line uses it for `--help` and `config check`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from lakehouse.settings import avro_schema, payload_schema, protobuf_schema
from lakehouse.settings.base import Flag, Model, SecretText, Text, from_config_folder, is_uri, nearest, refusal
from lakehouse.settings.extractor import ROLES, Encoding, Extractor, Form
from lakehouse.settings.gate import Budget, Gate, Measure, Severity, UserExpectation
from lakehouse.settings.gold import OWN_TABLES, Gold, GoldModel
from lakehouse.settings.kafka import Kafka
from lakehouse.settings.maintenance import Maintenance
from lakehouse.settings.policies import Policies, TopicPolicies
from lakehouse.settings.registry import Registry
from lakehouse.settings.secrets import KEEP_SECRET, MASK_SECRET, Secret, in_uri
from lakehouse.settings.silver import Silver
from lakehouse.settings.watch import Alerts, Watch, Webhook
from lakehouse.uri import AZURE_SCHEMES, GOOGLE_SCHEMES, STORE_SCHEMES, scheme

__all__ = [
    "OWN_TABLES",
    "Alerts",
    "Budget",
    "Encoding",
    "Extractor",
    "Form",
    "Gate",
    "Gold",
    "GoldModel",
    "Kafka",
    "LakehouseSettings",
    "Maintenance",
    "Measure",
    "Policies",
    "Registry",
    "Settings",
    "Severity",
    "StorageSettings",
    "Topic",
    "TopicPolicies",
    "UserExpectation",
    "ValueFormat",
    "Watch",
    "Webhook",
]

SESSION_CATALOG = "spark_catalog"
"""Spark's name for the catalog of its session: a Hive Metastore, if it has one."""

_PRINCIPAL = ("tenant_id", "client_id", "client_secret")
_OF_AZURE = (*_PRINCIPAL, "account_key")
_STORES = {**dict.fromkeys(AZURE_SCHEMES, "Azure"), **dict.fromkeys(GOOGLE_SCHEMES, "Google's store")}
_MOST_CHARACTERS = 1_000_000
_DESCRIPTOR = (
    "the file that protoc writes with --include_imports and --descriptor_set_out, with at most 1,000,000 bytes of types"
)
_IN_AZURE = re.compile(r"abfss?://[a-z0-9$][a-z0-9-]*@[A-Za-z0-9][A-Za-z0-9.-]*(/|$)")

Root = Annotated[str, StringConstraints(min_length=1), AfterValidator(from_config_folder), KEEP_SECRET, MASK_SECRET]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$"), KEEP_SECRET, MASK_SECRET]


class StorageSettings(Model):
    """The store of the root: S3, Azure or Google's. What is not given is taken from the environment (`AWS_REGION`, ...)."""

    endpoint: Text | None = Field(
        default=None, description="its URL, if it is not the cloud's own", examples=["https://minio:9000"]
    )
    region: Text | None = Field(default=None, description="its region", examples=["eu-central-1"])
    access_key_id: Text | None = Field(
        default=None, description="the key's id, as a reference", examples=["${env:LAKE_ACCESS_KEY_ID}"]
    )
    secret_access_key: SecretText | None = Field(
        default=None, description="its secret, as a reference", examples=["${env:LAKE_SECRET_ACCESS_KEY}"]
    )
    session_token: SecretText | None = Field(
        default=None, description="the token of temporary credentials", examples=["${env:LAKE_SESSION_TOKEN}"]
    )
    single_writer: Flag = Field(
        default=False, description="commit without put-if-absent: only where nobody else ever writes", examples=[True]
    )
    account_key: SecretText | None = Field(
        default=None, description="Azure: the storage account's key, as a reference", examples=["${env:LAKE_ACCOUNT_KEY}"]
    )
    tenant_id: Text | None = Field(
        default=None, description="Azure: the tenant of a service principal", examples=["${env:LAKE_TENANT_ID}"]
    )
    client_id: Text | None = Field(default=None, description="Azure: the service principal", examples=["${env:LAKE_CLIENT_ID}"])
    client_secret: SecretText | None = Field(
        default=None, description="Azure: its secret, as a reference", examples=["${env:LAKE_CLIENT_SECRET}"]
    )

    @model_validator(mode="after")
    def _is_whole(self) -> "StorageSettings":
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise refusal(
                "one of access_key_id and secret_access_key is given",
                expected="both, or neither",
                next_step="Give both as references, or neither: then the environment's or the machine's are used.",
            )
        if self.endpoint is not None and not self.endpoint.startswith(("https://", "http://")):
            raise refusal(
                "this is no http or https URL",
                expected="a URL with its scheme",
                next_step="Write it like https://minio:9000.",
                at=("endpoint",),
            )
        given = [name for name in _OF_AZURE if getattr(self, name) is not None]
        if given and given not in (["account_key"], list(_PRINCIPAL)):
            raise refusal(
                f"{' and '.join(given)} given",
                expected="account_key, or tenant_id, client_id and client_secret",
                next_step="Give one of the two whole, or neither: then those of the environment are used.",
            )
        return self

    def strange_to(self, name: str) -> list[str]:
        """The keys given here that a store of that scheme does not have."""
        if name in GOOGLE_SCHEMES:
            known = {"endpoint"}
        elif name in AZURE_SCHEMES:
            known = {"endpoint", *_OF_AZURE}
        else:
            known = set(type(self).model_fields).difference(_OF_AZURE)
        return sorted(self.model_fields_set - known)


class LakehouseSettings(Model):
    """Where the tables are: either folders under a root, or tables in a catalog's schema."""

    root: Root | None = Field(
        default=None,
        description="a folder or URI; relative to the config file's folder",
        examples=["./lakehouse"],
    )
    catalog: Identifier | None = Field(default=None, description="a catalog", examples=["main"])
    schema_: Identifier | None = Field(default=None, alias="schema", description="its schema", examples=["tidemark"])
    volume: Text | None = Field(
        default=None,
        validate_default=True,
        description="with a catalog: the folder for checkpoints and reports",
        examples=["/Volumes/main/tidemark/tidemark"],
    )
    storage: StorageSettings | None = Field(
        default=None,
        description="with tables in an object store: how they are reached",
        examples=[{"endpoint": "https://minio:9000"}],
    )
    metastore: Text | None = Field(
        default=None,
        description="with the catalog spark_catalog: its Hive Metastore, for sessions that Tidemark starts",
        examples=["thrift://metastore:9083"],
    )

    @field_validator("volume")
    @classmethod
    def _volume_of_catalog(cls, volume: str | None, info: ValidationInfo) -> str | None:
        catalog, schema = info.data.get("catalog"), info.data.get("schema_")
        if volume is None:
            return f"/Volumes/{catalog}/{schema}/tidemark" if catalog and schema else None
        if info.data.get("root"):
            raise refusal(
                "a volume beside a root",
                expected="volume only with catalog and schema",
                next_step="Remove volume: checkpoints and reports lie under the root.",
            )
        if not volume.startswith("/") and not is_uri(volume):
            raise refusal(
                "this is no absolute path",
                expected="an absolute path or URI",
                next_step="Write it like /Volumes/main/tidemark/tidemark.",
            )
        return volume

    @model_validator(mode="after")
    def _is_one_place(self) -> "LakehouseSettings":
        given = [key for key, value in (("root", self.root), ("catalog", self.catalog), ("schema", self.schema_)) if value]
        if given not in (["root"], ["catalog", "schema"]):
            raise refusal(
                f"only {given[0]} is given" if len(given) == 1 else f"{' and '.join(given) or 'nothing'} given together",
                expected="either root, or catalog and schema",
                next_step="Write {root: ./lakehouse} or {catalog: main, schema: tidemark}.",
            )
        uri, key = self.root or self.volume or "", "root" if self.root else "volume"
        place = scheme(uri)
        if odd := sorted({each for each in uri if each in "%\\" or not each.isprintable()}):
            raise refusal(
                f"the place has {' and '.join(map(repr, odd))} in its name",
                expected="a name without %, \\ and control characters: delta-rs reads them as other characters",
                next_step="Rename the folder, or choose another one.",
                at=(key,),
            )
        if in_uri(uri):
            raise refusal(
                "the URI holds a login",
                expected="a URI without one, and the credentials in lakehouse.storage as references",
                next_step="Write {root: s3://bucket/lake, storage: {access_key_id: '${env:LAKE_ACCESS_KEY_ID}', "
                "secret_access_key: '${env:LAKE_SECRET_ACCESS_KEY}'}}.",
                at=(key,),
            )
        if self.storage is not None and self.root is not None and place not in STORE_SCHEMES:
            raise refusal(
                "the root is in no object store",
                expected="storage only with a root in one: s3://, abfss:// or gs://",
                next_step="Remove storage, or name a root like s3://bucket/lake.",
                at=("storage",),
            )
        if self.storage is not None and (strange := self.storage.strange_to(place)):
            raise refusal(
                f"{' and '.join(strange)} given for a place in {_STORES.get(place, 'S3')}",
                expected="the keys of that store only",
                next_step="Remove them, or correct the root; see docs/configuration.md.",
                at=("storage",),
            )
        if place in AZURE_SCHEMES and not _IN_AZURE.match(uri):
            raise refusal(
                "this names no container and account",
                expected="abfss://container@account.dfs.core.windows.net/lake",
                next_step="Write the container before the @ and the account's host after it.",
                at=(key,),
            )
        if self.metastore is not None and (
            self.catalog != SESSION_CATALOG or not all(each.startswith("thrift://") for each in self.metastore.split(","))
        ):
            raise refusal(
                "this is no metastore of Spark's own catalog",
                expected=f"thrift://host:port, or several with commas between, with catalog: {SESSION_CATALOG}",
                next_step=f"Write {{catalog: {SESSION_CATALOG}, schema: tidemark, metastore: 'thrift://metastore:9083'}}.",
                at=("metastore",),
            )
        return self

    @property
    def keeps_files(self) -> bool:
        """Whether small files can be kept beside the tables: in a folder or a store (Azure: by credentials of the config)."""
        place, given = self.root or self.volume or "", self.storage
        if scheme(place) in AZURE_SCHEMES:
            return given is not None and (given.account_key or given.client_secret) is not None
        return place.startswith("file:") or scheme(place) in STORE_SCHEMES or (bool(place) and not is_uri(place))


def _avro_schema(given: str, info: ValidationInfo) -> str:
    """The schema, read from its file unless it is the text itself."""
    if given.lstrip().startswith(("{", "[")):
        return given
    file = Path(from_config_folder(given, info))
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_MOST_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise refusal(
            f"its file cannot be read: {why}",
            expected="the file of an Avro schema, or the schema itself",
            next_step="Name it relative to the config's folder, like incident.avsc.",
        ) from None
    if len(text) > _MOST_CHARACTERS:
        raise refusal("its file is too long", expected=f"at most {_MOST_CHARACTERS:,} characters", next_step="Name a schema's.")
    return text


def _descriptor(given: str, info: ValidationInfo) -> str:
    """The descriptor set as text, read from its file unless it is the text itself."""
    try:
        if given.startswith(protobuf_schema.AS_TEXT):
            found = protobuf_schema.read(given)
        else:
            with Path(from_config_folder(given, info)).open("rb") as opened:
                found = protobuf_schema.described(opened.read(protobuf_schema.MOST_BYTES + 1))
    except OSError as error:
        raise refusal(
            f"its file cannot be read: {error.strerror}",
            expected=_DESCRIPTOR,
            next_step="Name it relative to the config's folder, like incident.desc.",
        ) from None
    except protobuf_schema.ProtobufSchemaError as error:
        raise refusal(
            f"no descriptor set of Protobuf: {error}",
            expected=_DESCRIPTOR,
            next_step="Make it anew: protoc --include_imports --descriptor_set_out=incident.desc incident.proto",
        ) from None
    return f"{protobuf_schema.AS_TEXT}{found.text}"


class ValueFormat(Model):
    """How a record's value is decoded into the column `payload`."""

    format: Literal["text", "json", "avro", "protobuf"] = Field(description="text, json, avro or protobuf", examples=["json"])
    schema_: Text | None = Field(
        default=None,
        alias="schema",
        validate_default=True,
        description="the fields as Spark DDL; required for json, avro and protobuf",
        examples=['"id STRING, amount DOUBLE"'],
    )
    max_bytes: int = Field(
        default=16_777_216,
        ge=1,
        le=2_147_483_647,
        description="the longest value that is decoded; a longer one is kept as bytes, and counts as undecodable",
        examples=["1048576"],
    )
    undecodable: Literal["quarantine", "accept"] = Field(
        default="quarantine",
        description="what a record gets whose value is not of that format: quarantine or accept",
        examples=["accept"],
    )
    avro_schema: Annotated[Text, AfterValidator(_avro_schema)] | None = Field(
        default=None,
        description="for avro without a registry: the schema that all values were written with, or its file",
        examples=["incident.avsc"],
    )
    descriptor: Annotated[Text, AfterValidator(_descriptor)] | None = Field(
        default=None,
        description="for protobuf without a registry: the descriptor set that protoc writes, its file",
        examples=["incident.desc"],
    )
    message: Text | None = Field(
        default=None,
        description="for protobuf without a registry: the full name of the message that all values are",
        examples=["shop.Incident"],
    )
    registry: Registry | None = Field(
        default=None,
        description="for json, avro and protobuf: the schema registry, if each value begins with the id of its schema",
        examples=["{url: https://registry.example.org:8081}"],
    )

    @field_validator("schema_")
    @classmethod
    def _goes_with_format(cls, schema: str | None, info: ValidationInfo) -> str | None:
        decoded = info.data.get("format")
        if (decoded in {"json", "avro", "protobuf"} and schema is None) or (decoded == "text" and schema is not None):
            raise refusal(
                f"{decoded} without a schema" if schema is None else "text with a schema",
                expected="a schema for json, avro and protobuf, none for text",
                next_step='Write {format: json, schema: "id STRING, amount DOUBLE"} or {format: text}.',
            )
        if schema is not None:
            try:
                fields = payload_schema.parse(schema)
            except payload_schema.SchemaError as error:
                raise refusal(error.what, expected=error.expected, next_step=error.next_step) from None
            if decoded in {"avro", "protobuf"} and (odd := list(payload_schema.odd_names(fields))):
                raise refusal(
                    f"{odd[0]!r} is no name of a field in {str(decoded).capitalize()}",
                    expected="letters of a to z, digits and _",
                    next_step="Write the fields as the values' own schema names them.",
                )
        return schema

    @model_validator(mode="after")
    def _says_how_it_is_written(self) -> "ValueFormat":
        given = [name for name in ("avro_schema", "descriptor", "message", "registry") if getattr(self, name) is not None]
        known: dict[str, list[list[str]]] = {
            "text": [[]],
            "json": [[], ["registry"]],
            "avro": [["avro_schema"], ["registry"]],
            "protobuf": [["descriptor", "message"], ["registry"]],
        }
        wanted = known[self.format]
        if given not in wanted:
            lacks = " nor ".join(" and ".join(each) for each in wanted)
            raise refusal(
                f"{self.format} with {' and '.join(given) or f'neither {lacks}'}",
                expected="avro_schema or registry for avro, descriptor and message or registry for protobuf, registry or "
                "nothing for json, nothing for text",
                next_step="Keep registry where each value begins with the id of its schema, and avro_schema, or descriptor and "
                "message, where none does.",
            )
        if self.avro_schema is not None and self.schema_ is not None:
            wrong = avro_schema.misfit(self.avro_schema, payload_schema.parse(self.schema_))
            if wrong is not None:
                raise refusal(
                    f"no value of avro_schema can be decoded into the fields of schema: {wrong}",
                    expected="fields that the values have, of types that hold what was written",
                    next_step="Correct one of the two; docs/formats.md has the types.",
                    at=("avro_schema",),
                )
        if self.descriptor is not None and self.message is not None and self.schema_ is not None:
            wrong = protobuf_schema.misfit(self.descriptor, self.message, payload_schema.parse(self.schema_))
            if wrong is not None:
                raise refusal(
                    f"no value can be decoded by descriptor and message into the fields of schema: {wrong}",
                    expected="a message of the descriptor set, with fields of types that hold what was written",
                    next_step="Correct one of the three; docs/formats.md has the types.",
                    at=("message",),
                )
        return self


def _refuse_key(given: Any) -> Any:
    if given == "key" or (isinstance(given, dict) and "key" in given):
        raise refusal(
            "the record key cannot be the sequence: ever-new keys scatter a stream over the partitions, and its order is lost",
            expected="a sequence in a header or in the value; the key says whose record it is, and so its partition",
            next_step="Put the sequence into a header ({header: seq}) or into the value ({json: $.seq}).",
            at=("key",) if isinstance(given, dict) else (),
        )
    return given


def _refuse_offset(extractor: Extractor) -> Extractor:
    if extractor.form == "offset":
        raise refusal(
            "the Kafka offset is no producer and no epoch: it is new with every record",
            expected="header, value, json, field, bytes or custom",
            next_step="Leave the key out where producers are not told apart; offset works as sequence only.",
            at=("offset",),
        )
    return extractor


NotOffset = Annotated[Extractor, AfterValidator(_refuse_offset)]


class Topic(Model):
    """How the records of one topic are read. What is missing is as at the top; a null that is written takes it away."""

    sequence: Annotated[Extractor, BeforeValidator(_refuse_key)] | None = Field(
        default=None, description="where the sequence of the topic's records is", examples=["{json: $.id}"]
    )
    producer: NotOffset | None = Field(
        default=None, description="their producer; null for none", examples=["{header: producer}"]
    )
    epoch: NotOffset | None = Field(default=None, description="their epoch; null for none", examples=["{header: epoch}"])
    value: ValueFormat | None = Field(
        default=None,
        description="how their values are decoded; a key of it that is missing is as in value, null decodes none",
        examples=['{schema: "id STRING"}'],
    )

    @property
    def given(self) -> dict[str, Any]:
        """What the topic has of its own. Every topic has a sequence: a null there is as if it were missing."""
        names = [name for name in type(self).model_fields if name in self.model_fields_set]
        return {name: each for name in names if (each := getattr(self, name)) is not None or name != "sequence"}


def _pipeline_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name):
        raise refusal(
            "this is no name of a pipeline",
            expected="at most 100 letters, digits and _ . -, not starting with a point or hyphen",
            next_step="For example pipeline: incidents",
        )
    return name


class Settings(Model):
    """All settings of one pipeline."""

    pipeline: Annotated[str, AfterValidator(_pipeline_name), KEEP_SECRET, MASK_SECRET] = Field(
        description="the pipeline's name, also the idempotency key of its writes", examples=["incidents"]
    )
    kafka: Kafka = Field(
        description="where the records come from", examples=["{bootstrap_servers: localhost:9092, topics: [incidents]}"]
    )
    lakehouse: LakehouseSettings = Field(description="where the tables are", examples=["{root: ./lakehouse}"])
    sequence: Annotated[Extractor, BeforeValidator(_refuse_key)] = Field(
        description="where a record's sequence is: one of header, value, json, field, bytes, offset, custom",
        examples=["{header: seq}"],
    )
    producer: NotOffset | None = Field(default=None, description="a record's producer", examples=["{header: producer}"])
    epoch: NotOffset | None = Field(default=None, description="a record's epoch", examples=["{header: epoch}"])
    value: ValueFormat | None = Field(
        default=None, validate_default=True, description="how values are decoded", examples=["{format: text}"]
    )
    topics: dict[str, Topic] = Field(
        default={},
        description="single topics that are read otherwise",
        examples=["{orders: {sequence: {json: $.id}}}"],
    )
    policies: Policies = Field(
        default_factory=Policies, description="what happens to records that are not simply new", examples=["{late: accept}"]
    )
    silver: Silver = Field(
        default_factory=Silver,
        description="how much of Bronze a load of Silver takes",
        examples=["{max_records_per_load: 5000000}"],
    )
    gate: Gate = Field(default_factory=Gate, description="what a load must hold to reach Gold", examples=["{data_docs: true}"])
    gold: Gold = Field(
        default_factory=Gold, description="what is published beside the built-in tables", examples=["{models: []}"]
    )
    maintenance: Maintenance = Field(
        default_factory=Maintenance,
        description="how long old versions stay, and how large files get",
        examples=["{retain_hours: 336}"],
    )
    watch: Watch = Field(
        default_factory=Watch, description="metrics and alerts; off unless named", examples=["{metrics_file: tidemark.prom}"]
    )

    @field_validator("value")
    @classmethod
    def _fields_are_of_a_schema(cls, value: ValueFormat | None, info: ValidationInfo) -> ValueFormat | None:
        _require_fields(value, {name: info.data.get(name) for name in ROLES})
        return value

    @field_validator("topics", mode="before")
    @classmethod
    def _inherit_value(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict):
            if isinstance(given, list):
                raise refusal(
                    "a list of topics stands here",
                    expected="a mapping: how single topics are read that are read otherwise",
                    next_step="It belongs elsewhere: kafka.topics. Here stands for example {orders: {sequence: {json: $.id}}}.",
                )
            return given
        top = info.data.get("value")
        inherited = {} if top is None else {type(top).key_of(name): getattr(top, name) for name in top.model_fields_set}
        return {topic: _over(inherited, own) for topic, own in given.items()}

    @field_validator("topics")
    @classmethod
    def _fit_the_rest(cls, topics: dict[str, Topic], info: ValidationInfo) -> dict[str, Topic]:
        _require_read(topics, info)
        for topic, own in topics.items():
            of_topic = {name: info.data.get(name) for name in (*ROLES, "value")} | own.given
            value = of_topic.pop("value")
            _require_fields(value, of_topic, at=(topic,))
        top = info.data.get("value")
        known = next(((key, value.registry) for key, value in _values(top, topics) if value.registry is not None), None)
        for topic, own in topics.items():
            registry = None if own.value is None else own.value.registry
            if known is not None and registry is not None and not registry.is_same_as(known[1]):
                raise refusal(
                    f"it is another registry than that of {known[0]}",
                    expected="one registry for all topics; only undecodable_ids may differ",
                    next_step="Make a pipeline for each registry, with a root of its own.",
                    at=(topic, "value", "registry"),
                )
        read = info.data["kafka"].topics if "kafka" in info.data else ()
        formats = {topic: topics[topic].given.get("value", top) if topic in topics else top for topic in read}
        if topics and None in formats.values() and any(each is not None and each.format == "text" for each in formats.values()):
            raise refusal(
                "some topics are decoded into text, and others not at all",
                expected="text in all topics, or in none; topics of which nothing is decoded only beside such with fields",
                next_step="Decode all as text, or make a pipeline of its own for those topics: without fields, a null payload "
                "would say that a value could not be decoded.",
            )
        try:
            _payload(top, topics)
        except payload_schema.SchemaError as error:
            raise refusal(error.what, expected=error.expected, next_step=error.next_step) from None
        return topics

    @field_validator("watch")
    @classmethod
    def _state_has_a_place(cls, watch: Watch, info: ValidationInfo) -> Watch:
        place = info.data.get("lakehouse")
        if watch.is_on and watch.state_file is None and place is not None and not place.keeps_files:
            raise refusal(
                "what a run leaves for the next one cannot be kept beside these tables, which only the session reaches",
                expected="state_file beside it",
                next_step="Name a file that stays from run to run: watch: {state_file: /var/lib/tidemark/incidents.json}.",
            )
        return watch

    @field_validator("policies")
    @classmethod
    def _topics_are_of_kafka(cls, policies: Policies, info: ValidationInfo) -> Policies:
        _require_read(policies.topics, info, at=("topics",))
        return policies

    def of_topic(self, topic: str) -> "Settings":
        """The settings as they are for the records of one topic: without `topics`, with what the topic has of its own."""
        own = self.topics.get(topic)
        return self.model_copy(update={"topics": {}, **(own.given if own else {})})

    @property
    def payload(self) -> payload_schema.Type | None:
        """The type of the column `payload`, with the fields of all topics; None if no value is decoded."""
        return _payload(self.value, self.topics)

    @property
    def registry(self) -> Registry | None:
        """The schema registry; None if no value is behind the id of a schema."""
        return next((value.registry for _, value in _values(self.value, self.topics) if value.registry is not None), None)


def _require_read(topics: Mapping[str, Any], info: ValidationInfo, at: tuple[str, ...] = ()) -> None:
    """Raise if settings are for a topic that is not read."""
    read = info.data["kafka"].topics if "kafka" in info.data else ()
    for topic in topics if read else ():
        if topic not in read:
            near = nearest(topic, [known for known in read if not isinstance(known, Secret)])
            raise refusal(
                "kafka.topics does not name this topic",
                expected="a topic of kafka.topics",
                next_step=f"Did you mean {near}?" if near else "Add it to kafka.topics, or remove it here.",
                at=(*at, topic),
            )


def _require_fields(value: ValueFormat | None, extractors: Mapping[str, Extractor | None], at: tuple[str, ...] = ()) -> None:
    """Raise if a field is read of values that are neither Avro nor Protobuf."""
    read = [name for name, given in extractors.items() if given is not None and given.field_path]
    if read and (value is None or value.format not in {"avro", "protobuf"}):
        raise refusal(
            f"{read[0]} is read from a field of an Avro or Protobuf value, and values are neither",
            expected="value: {format: avro, ...} or value: {format: protobuf, ...}",
            next_step="Write json for a path into JSON, or say how the values are written.",
            at=at,
        )


def _over(inherited: Mapping[str, Any], own: Any) -> Any:
    """A topic with the keys of `value` that it does not name."""
    value = own.get("value") if isinstance(own, dict) else None
    return {**own, "value": {**inherited, **value}} if isinstance(value, dict) else own


def _values(value: ValueFormat | None, topics: Mapping[str, Topic]) -> list[tuple[str, ValueFormat]]:
    """How values are decoded, each with the key that says so."""
    own = [(f"topics.{topic}.value", each.value) for topic, each in topics.items()]
    return [(key, each) for key, each in (("value", value), *own) if each is not None]


def _payload(value: ValueFormat | None, topics: Mapping[str, Topic]) -> payload_schema.Type | None:
    own = [(key, payload_schema.of(each.schema_)) for key, each in _values(None, topics)]
    return payload_schema.union(payload_schema.of(value.schema_) if value else None, own)
