"""The settings of a pipeline, validated as a whole before anything starts. Imports neither Spark nor Great Expectations."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from lakehouse.settings import avro_schema, payload_schema, protobuf_schema
from lakehouse.settings.base import Flag, Model, SecretText, SettingError, Text, Whole, from_config_folder, nearest, setting
from lakehouse.settings.extractor import ROLES, Extractor
from lakehouse.settings.gate import Gate, UserExpectation
from lakehouse.settings.gold import Gold
from lakehouse.settings.kafka import Kafka
from lakehouse.settings.maintenance import Maintenance
from lakehouse.settings.policies import Policies
from lakehouse.settings.registry import Registry
from lakehouse.settings.secrets import HIDES_SECRETS, Secret, in_uri
from lakehouse.settings.watch import Alerts, Watch
from lakehouse.uri import AZURE_SCHEMES, GOOGLE_SCHEMES, STORE_SCHEMES, is_uri, scheme

__all__ = ["Extractor", "Gate", "Gold", "Kafka", "LakehouseSettings", "Maintenance", "Policies", "Registry", "Settings"]
__all__ += ["Alerts", "StorageSettings", "UserExpectation", "ValueFormat"]

SESSION_CATALOG = "spark_catalog"
"""Spark's name for the catalog of its session: a Hive Metastore, if it has one."""

_PRINCIPAL = ("tenant_id", "client_id", "client_secret")
_OF_AZURE = (*_PRINCIPAL, "account_key")
_STORES = {**dict.fromkeys(AZURE_SCHEMES, "Azure"), **dict.fromkeys(GOOGLE_SCHEMES, "Google's store")}
_MOST_CHARACTERS = 1_000_000
_IN_AZURE = re.compile(r"abfss?://[a-z0-9$][a-z0-9-]*@[A-Za-z0-9][A-Za-z0-9.-]*(/|$)")

Root = Annotated[str, StringConstraints(min_length=1), AfterValidator(from_config_folder), HIDES_SECRETS]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$"), HIDES_SECRETS]


class StorageSettings(Model):
    """The store of the root: S3, Azure or Google's. Missing keys are taken from the environment (`AWS_REGION`, ...)."""

    endpoint: Text | None = setting(None, "its URL, if it is not the cloud's own", "https://minio:9000")
    region: Text | None = setting(None, "its region", "eu-central-1")
    access_key_id: Text | None = setting(None, "the key's id, as a reference", "${env:LAKE_ACCESS_KEY_ID}")
    secret_access_key: SecretText | None = setting(None, "its secret, as a reference", "${env:LAKE_SECRET_ACCESS_KEY}")
    session_token: SecretText | None = setting(None, "the token of temporary credentials", "${env:LAKE_SESSION_TOKEN}")
    single_writer: Flag = setting(False, "commit without put-if-absent: only where nobody else ever writes", True)
    account_key: SecretText | None = setting(None, "Azure: the account's key, as a reference", "${env:LAKE_ACCOUNT_KEY}")
    tenant_id: Text | None = setting(None, "Azure: the tenant of a service principal", "${env:LAKE_TENANT_ID}")
    client_id: Text | None = setting(None, "Azure: the service principal", "${env:LAKE_CLIENT_ID}")
    client_secret: SecretText | None = setting(None, "Azure: its secret, as a reference", "${env:LAKE_CLIENT_SECRET}")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            next_step = "Give both as references, or neither: then the environment's or the machine's are used."
            raise SettingError("one of access_key_id and secret_access_key is given", "both, or neither", next_step)
        if self.endpoint is not None and not self.endpoint.startswith(("https://", "http://")):
            what, next_step = "this is no http or https URL", "Write it like https://minio:9000."
            raise SettingError(what, "a URL with its scheme", next_step, at=("endpoint",))
        given = [name for name in _OF_AZURE if getattr(self, name) is not None]
        if given and given not in (["account_key"], list(_PRINCIPAL)):
            expected = "account_key, or tenant_id, client_id and client_secret"
            next_step = "Give one of the two whole, or neither: then those of the environment are used."
            raise SettingError(f"{' and '.join(given)} given", expected, next_step)
        return self

    def strange_to(self, name: str) -> list[str]:
        """Return the keys given here that a store of that scheme does not have."""
        known = {"endpoint"}
        if name in AZURE_SCHEMES:
            known |= {*_OF_AZURE}
        elif name not in GOOGLE_SCHEMES:
            known = type(self).model_fields.keys() - _OF_AZURE
        return sorted(self.model_fields_set - known)


class LakehouseSettings(Model):
    """Where the tables are: either folders under a root, or tables in a catalog's schema."""

    root: Root | None = setting(None, "a folder or URI; relative to the config file's folder", "./lakehouse")
    catalog: Identifier | None = setting(None, "a catalog: letters, digits, _ and -", "main")
    schema_: Identifier | None = Field(
        default=None, alias="schema", description="its schema, as catalog", examples=["tidemark"]
    )
    volume: Text | None = setting(
        None, "with a catalog: the folder for checkpoints and reports", "/Volumes/main/tidemark/tidemark", validate_default=True
    )
    storage: StorageSettings | None = setting(None, "how an object store is reached", {"endpoint": "https://minio:9000"})
    metastore: Text | None = setting(None, "with spark_catalog: its Hive Metastore", "thrift://metastore:9083")

    @field_validator("volume")
    @classmethod
    def _volume_of_catalog(cls, volume: str | None, info: ValidationInfo) -> str | None:
        catalog, schema = info.data.get("catalog"), info.data.get("schema_")
        if volume is None:
            return f"/Volumes/{catalog}/{schema}/tidemark" if catalog and schema else None
        if info.data.get("root"):
            next_step = "Remove volume: checkpoints and reports lie under the root."
            raise SettingError("both a volume and a root", "volume only with catalog and schema", next_step)
        if not volume.startswith("/") and not is_uri(volume):
            next_step = "Write it like /Volumes/main/tidemark/tidemark."
            raise SettingError("this is no absolute path", "an absolute path or URI", next_step)
        return volume

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        given = [key for key, value in (("root", self.root), ("catalog", self.catalog), ("schema", self.schema_)) if value]
        if given not in (["root"], ["catalog", "schema"]):
            what = f"only {given[0]} is given" if len(given) == 1 else f"{' and '.join(given) or 'nothing'} given together"
            next_step = "Write {root: ./lakehouse} or {catalog: main, schema: tidemark}."
            raise SettingError(what, "either root, or catalog and schema", next_step)
        uri, key = self.root or self.volume or "", "root" if self.root else "volume"
        place = scheme(uri)
        if odd := sorted({each for each in uri if each in "%\\" or not each.isprintable()}):
            what = f"the place has {' and '.join(map(repr, odd))} in its name"
            expected = "a name without %, \\ and control characters: delta-rs reads them as other characters"
            raise SettingError(what, expected, "Rename the folder, or choose another one.", at=(key,))
        if in_uri(uri):
            expected = "a URI without one, and the credentials in lakehouse.storage as references"
            next_step = (
                "Write {root: s3://bucket/lake, storage: {access_key_id: '${env:ID}', secret_access_key: '${env:KEY}'}}."
            )
            raise SettingError("the URI holds a login", expected, next_step, at=(key,))
        if self.storage is not None and self.root is not None and place not in STORE_SCHEMES:
            expected = "storage only with a root in one: s3://, abfss:// or gs://"
            next_step = "Remove storage, or name a root like s3://bucket/lake."
            raise SettingError("the root is in no object store", expected, next_step, at=("storage",))
        if self.storage is not None and (strange := self.storage.strange_to(place)):
            what = f"{' and '.join(strange)} given for a place in {_STORES.get(place, 'S3')}"
            next_step = "Remove them, or correct the root; see docs/configuration.md."
            raise SettingError(what, "the keys of that store only", next_step, at=("storage",))
        if place in AZURE_SCHEMES and not _IN_AZURE.match(uri):
            expected = "abfss://container@account.dfs.core.windows.net/lake"
            next_step = "Write the container before the @ and the account's host after it."
            raise SettingError("this names no container and account", expected, next_step, at=(key,))
        servers = [] if self.metastore is None else self.metastore.split(",")
        if servers and (self.catalog != SESSION_CATALOG or not all(each.startswith("thrift://") for each in servers)):
            expected = f"thrift://host:port, or several with commas between, with catalog: {SESSION_CATALOG}"
            next_step = f"Write {{catalog: {SESSION_CATALOG}, schema: tidemark, metastore: 'thrift://metastore:9083'}}."
            raise SettingError("this is no metastore of Spark's own catalog", expected, next_step, at=("metastore",))
        return self

    @property
    def keeps_files(self) -> bool:
        """Whether small files can be kept next to the tables: in a folder or a store (Azure: by credentials of the config)."""
        place, given = self.root or self.volume or "", self.storage
        if scheme(place) in AZURE_SCHEMES:
            return given is not None and (given.account_key or given.client_secret) is not None
        return place.startswith("file:") or scheme(place) in STORE_SCHEMES or (bool(place) and not is_uri(place))


def _avro_schema(given: str, info: ValidationInfo) -> str:
    """Return the schema, read from its file unless it is the text itself."""
    if given.lstrip().startswith(("{", "[")):
        return given
    try:
        with Path(from_config_folder(given, info)).open(encoding="utf-8") as opened:
            text = opened.read(_MOST_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        what = f"its file cannot be read: {error.strerror if isinstance(error, OSError) else 'no UTF-8'}"
        next_step = "Name it relative to the config's folder, like incident.avsc."
        raise SettingError(what, "the file of an Avro schema, or the schema itself", next_step) from None
    if len(text) > _MOST_CHARACTERS:
        raise SettingError("its file is too long", f"at most {_MOST_CHARACTERS:,} characters", "Name a schema's.")
    return text


def _descriptor(given: str, info: ValidationInfo) -> str:
    """Return the descriptor set as text, read from its file unless it is the text itself."""
    expected = "the file that protoc writes with --include_imports and --descriptor_set_out"
    try:
        if given.startswith(protobuf_schema.AS_TEXT):
            found = protobuf_schema.read(given)
        else:
            with Path(from_config_folder(given, info)).open("rb") as opened:
                found = protobuf_schema.described(opened.read(protobuf_schema.MOST_BYTES + 1))
    except OSError as error:
        next_step = "Name it relative to the config's folder, like incident.desc."
        raise SettingError(f"its file cannot be read: {error.strerror}", expected, next_step) from None
    except protobuf_schema.ProtobufSchemaError as error:
        next_step = "Compile it again: protoc --include_imports --descriptor_set_out=incident.desc incident.proto"
        raise SettingError(f"no descriptor set of Protobuf: {error}", expected, next_step) from None
    return f"{protobuf_schema.AS_TEXT}{found.text}"


_DECODERS: dict[str, list[list[str]]] = {
    "text": [[]],
    "json": [[], ["registry"]],
    "avro": [["avro_schema"], ["registry"]],
    "protobuf": [["descriptor", "message"], ["registry"]],
}
"""By format: the keys that say how values are written, in each of the ways that there are."""


class ValueFormat(Model):
    """How a record's value is decoded into the column `payload`."""

    format: Literal["text", "json", "avro", "protobuf"] = setting(..., "text, json, avro or protobuf", "json")
    schema_: Text | None = Field(
        default=None,
        alias="schema",
        validate_default=True,
        description="the fields as Spark DDL; required for json, avro and protobuf",
        examples=['"id STRING, amount DOUBLE"'],
    )
    max_bytes: Annotated[int, Field(ge=1, le=2_147_483_647)] = setting(
        16_777_216, "the longest value that is decoded; a longer one is kept as bytes, and counts as undecodable", "1048576"
    )
    undecodable: Literal["quarantine", "accept"] = setting("quarantine", "what a value of no such format gets", "accept")
    avro_schema: Annotated[Text, AfterValidator(_avro_schema)] | None = setting(
        None, "for avro without a registry: the schema that all values were written with, or its file", "incident.avsc"
    )
    descriptor: Annotated[Text, AfterValidator(_descriptor)] | None = setting(
        None, "for protobuf without a registry: the descriptor set that protoc writes, its file", "incident.desc"
    )
    message: Text | None = setting(None, "for protobuf without a registry: the full name of the message", "shop.Incident")
    registry: Registry | None = setting(None, "the registry of the values' schemas", "{url: https://registry.example.org:8081}")

    @field_validator("schema_")
    @classmethod
    def _goes_with_format(cls, schema: str | None, info: ValidationInfo) -> str | None:
        decoded = info.data.get("format")
        if decoded is not None and (decoded == "text") != (schema is None):
            what = f"{decoded} without a schema" if schema is None else "text with a schema"
            next_step = 'Write {format: json, schema: "id STRING, amount DOUBLE"} or {format: text}.'
            raise SettingError(what, "a schema for json, avro and protobuf, none for text", next_step)
        fields = payload_schema.of(schema)
        if decoded in {"avro", "protobuf"} and (odd := list(payload_schema.odd_names(fields))):
            what = f"{odd[0]!r} is no name of a field in {str(decoded).capitalize()}"
            next_step = "Write the fields as the values' own schema names them."
            raise SettingError(what, "letters of a to z, digits and _", next_step)
        return schema

    @model_validator(mode="after")
    def _says_how_it_is_written(self) -> Self:
        given = [name for name in ("avro_schema", "descriptor", "message", "registry") if getattr(self, name) is not None]
        if given not in _DECODERS[self.format]:
            lacks = " nor ".join(" and ".join(each) for each in _DECODERS[self.format])
            raise SettingError(
                f"{self.format} with {' and '.join(given) or f'neither {lacks}'}",
                "registry, else avro_schema for avro, descriptor and message for protobuf, nothing for json; nothing for text",
                "Keep registry if each value begins with an id, and avro_schema, or descriptor and message, where none does.",
            )
        wanted = payload_schema.of(self.schema_)
        wrong = self.avro_schema and avro_schema.misfit(self.avro_schema, wanted)
        if self.descriptor and self.message:
            wrong = protobuf_schema.misfit(self.descriptor, self.message, wanted)
        if wrong:
            key = "message" if self.message else "avro_schema"
            what = f"no value of {key} can be decoded into the fields of schema: {wrong}"
            expected = "fields that the values have, of types that hold what was written"
            next_step = "Correct one of the two; docs/formats.md has the types."
            raise SettingError(what, expected, next_step, at=(key,))
        return self


def _refuse_key(given: Any) -> Any:
    if given == "key" or (isinstance(given, dict) and "key" in given):
        what = "the record key cannot be the sequence: new keys scatter a stream over the partitions, and its order is lost"
        expected, at = "a sequence in a header or in the value", ("key",) if isinstance(given, dict) else ()
        next_step = "Put the sequence into a header ({header: seq}) or into the value ({json: $.seq})."
        raise SettingError(what, expected, next_step, at=at)
    return given


def _refuse_offset(extractor: Extractor) -> Extractor:
    if extractor.form == "offset":
        what = "the Kafka offset is no producer and no epoch: it is new with every record"
        next_step = "Leave the key out if records have no producer; offset works as sequence only."
        raise SettingError(what, "header, value, json, field, bytes or custom", next_step, at=("offset",))
    return extractor


NotKey = Annotated[Extractor, BeforeValidator(_refuse_key)]
NotOffset = Annotated[Extractor, AfterValidator(_refuse_offset)]


class Topic(Model):
    """How the records of one topic are read. A missing key is as at the top; an explicit null removes it."""

    sequence: NotKey | None = setting(None, "where the sequence of the topic's records is", "{json: $.id}")
    producer: NotOffset | None = setting(None, "their producer; null for none", "{header: producer}")
    epoch: NotOffset | None = setting(None, "their epoch; null for none", "{header: epoch}")
    value: ValueFormat | None = setting(None, "their format; missing keys are as in value", '{schema: "id STRING"}')

    @property
    def given(self) -> dict[str, Any]:
        """The topic's own settings. Every topic has a sequence, so a null there counts as missing."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {name: each for name, each in own.items() if each is not None or name != "sequence"}


PipelineName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"), HIDES_SECRETS]


class Silver(Model):
    """How much of Bronze a load of Silver takes."""

    max_records_per_load: Whole | None = setting(20_000_000, "above it, a load is split; null for any number", "5000000")


class Settings(Model):
    """All settings of one pipeline."""

    pipeline: PipelineName = setting(..., "its name: a letter, digit or _, then up to 99 of these, . or -", "incidents")
    kafka: Kafka = setting(..., "where the records come from", "{bootstrap_servers: localhost:9092, topics: [incidents]}")
    lakehouse: LakehouseSettings = setting(..., "where the tables are", "{root: ./lakehouse}")
    sequence: NotKey = setting(..., "one of header, value, json, field, bytes, offset, custom", "{header: seq}")
    producer: NotOffset | None = setting(None, "a record's producer", "{header: producer}")
    epoch: NotOffset | None = setting(None, "a record's epoch", "{header: epoch}")
    value: ValueFormat | None = setting(None, "how values are decoded", "{format: text}", validate_default=True)
    topics: dict[str, Topic] = setting({}, "the settings of single topics", "{orders: {sequence: {json: $.id}}}")
    policies: Policies = setting(Policies, "what happens to records that are not simply new", "{late: accept}")
    silver: Silver = setting(Silver, "how much of Bronze a load of Silver takes", "{max_records_per_load: 5000000}")
    gate: Gate = setting(Gate, "what a load must hold to reach Gold", "{data_docs: true}")
    gold: Gold = setting(Gold, "what is published in addition to the built-in tables", "{models: []}")
    maintenance: Maintenance = setting(Maintenance, "how long old versions stay, how large files get", "{retain_hours: 336}")
    watch: Watch = setting(Watch, "metrics and alerts; off unless named", "{metrics_file: tidemark.prom}")

    @field_validator("value")
    @classmethod
    def _fields_are_of_a_schema(cls, value: ValueFormat | None, info: ValidationInfo) -> ValueFormat | None:
        _require_values_with_fields(value, info.data)
        return value

    @field_validator("topics", mode="before")
    @classmethod
    def _inherit_value(cls, given: Any, info: ValidationInfo) -> Any:
        if isinstance(given, list):
            next_step = "It belongs elsewhere: kafka.topics. Write this key like {orders: {sequence: {json: $.id}}}."
            raise SettingError("this is a list of topics", "a mapping: the settings of single topics", next_step)
        if not isinstance(given, dict):
            return given
        top = info.data.get("value")
        inherited = {} if top is None else {type(top).key_of(name): getattr(top, name) for name in top.model_fields_set}
        found = dict(given)
        for topic, own in given.items():
            value = own.get("value") if isinstance(own, dict) else None
            if isinstance(value, dict):
                found[topic] = {**own, "value": {**inherited, **value}}
        return found

    @field_validator("topics")
    @classmethod
    def _fit_the_rest(cls, topics: dict[str, Topic], info: ValidationInfo) -> dict[str, Topic]:
        _require_read_topics(topics, info)
        top, read = info.data.get("value"), _read_topics(info)
        known = next(((key, each.registry) for key, each in _values(top, topics) if each.registry is not None), None)
        for topic, own in topics.items():
            of_topic = {**info.data, **own.given}
            _require_values_with_fields(of_topic.get("value"), of_topic, at=(topic,))
            registry = None if own.value is None else own.value.registry
            if known is not None and registry is not None and not registry.is_same_as(known[1]):
                what, expected = f"it is another registry than that of {known[0]}", "one registry, up to undecodable_ids"
                next_step = "Make a pipeline for each registry, with a root of its own."
                raise SettingError(what, expected, next_step, at=(topic, "value", "registry"))
        values = [topics[topic].given.get("value", top) if topic in topics else top for topic in read]
        if topics and None in values and any(each is not None and each.format == "text" for each in values):
            # Without fields, a null payload would say that a value could not be decoded.
            what, expected = "some topics are decoded into text, and others not at all", "text in all topics, or in none"
            raise SettingError(what, expected, "Decode all as text, or make a pipeline of its own for those topics.")
        _payload(top, topics)
        return topics

    @field_validator("watch")
    @classmethod
    def _state_has_a_place(cls, watch: Watch, info: ValidationInfo) -> Watch:
        place = info.data.get("lakehouse")
        if watch.is_on and watch.state_file is None and place is not None and not place.keeps_files:
            what = "only Spark reaches these tables, so their place cannot hold what a run keeps for the next one"
            next_step = "Name a file that stays from run to run: watch: {state_file: /var/lib/tidemark/incidents.json}."
            raise SettingError(what, "state_file as well", next_step)
        return watch

    @field_validator("policies")
    @classmethod
    def _topics_are_of_kafka(cls, policies: Policies, info: ValidationInfo) -> Policies:
        _require_read_topics(policies.topics, info, at=("topics",))
        return policies

    def of_topic(self, topic: str) -> "Settings":
        """Return the settings for the records of one topic: without `topics`, with the topic's own."""
        own = self.topics.get(topic)
        return self.model_copy(update={"topics": {}, **(own.given if own else {})})

    @property
    def payload(self) -> payload_schema.Type | None:
        """The type of the column `payload`, with the fields of all topics; None if no value is decoded."""
        return _payload(self.value, self.topics)

    @property
    def registry(self) -> Registry | None:
        """The schema registry; None if no value begins with the id of a schema."""
        return next((value.registry for _, value in _values(self.value, self.topics) if value.registry is not None), None)


def _read_topics(info: ValidationInfo) -> tuple[str, ...]:
    return info.data["kafka"].topics if "kafka" in info.data else ()


def _require_read_topics(topics: Mapping[str, Any], info: ValidationInfo, at: tuple[str, ...] = ()) -> None:
    read = _read_topics(info)
    for topic in topics if read else ():
        if topic not in read:
            near = nearest(topic, [known for known in read if not isinstance(known, Secret)])
            next_step = f"Did you mean {near}?" if near else "Add it to kafka.topics, or remove it here."
            raise SettingError("kafka.topics does not name this topic", "one of its topics", next_step, at=(*at, topic))


def _require_values_with_fields(value: ValueFormat | None, settings: Mapping[str, Any], at: tuple[str, ...] = ()) -> None:
    read = [name for name in ROLES if (given := settings.get(name)) is not None and given.field_path]
    if read and (value is None or value.format not in {"avro", "protobuf"}):
        what = f"{read[0]} is read from a field of an Avro or Protobuf value, and values are neither"
        next_step = "Write json for a path into JSON, or say how the values are written."
        raise SettingError(what, "value: {format: avro, ...} or value: {format: protobuf, ...}", next_step, at=at)


def _values(value: ValueFormat | None, topics: Mapping[str, Topic]) -> list[tuple[str, ValueFormat]]:
    """Return how values are decoded, each after its key in the config."""
    own = [(f"topics.{topic}.value", each.value) for topic, each in topics.items()]
    return [(key, each) for key, each in (("value", value), *own) if each is not None]


def _payload(value: ValueFormat | None, topics: Mapping[str, Topic]) -> payload_schema.Type | None:
    own = [(key, payload_schema.of(each.schema_)) for key, each in _values(None, topics)]
    return payload_schema.union(payload_schema.of(value.schema_) if value else None, own)
