"""The settings of a pipeline, validated as a whole before anything starts."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from lakehouse.settings import formats, payload_schema
from lakehouse.settings.base import Flag, Model, SecretText, SettingError, Text, Whole, from_config_folder, nearest, setting
from lakehouse.settings.extractor import IN_VALUE, ROLES, Extractor, Form, NoSequence
from lakehouse.settings.gate import Gate, UserExpectation
from lakehouse.settings.gold import Gold
from lakehouse.settings.kafka import Kafka, is_web_address
from lakehouse.settings.policies import Policies
from lakehouse.settings.secrets import HIDES_SECRETS, Secret, in_uri
from lakehouse.settings.watch import Alerts, Watch
from lakehouse.uri import AZURE_SCHEMES, GOOGLE_SCHEMES, STORE_SCHEMES, is_uri, scheme

__all__ = ["Extractor", "Gate", "Gold", "Kafka", "LakehouseSettings", "Maintenance", "Policies", "Registry", "Settings"]
__all__ += ["Alerts", "StorageSettings", "UserExpectation", "ValueFormat"]

SESSION_CATALOG = "spark_catalog"  # Spark's own: a Hive Metastore, if the session has one
_SAFE_HOURS = 168  # Delta's minimum: below it, an active reader or writer may lose files that it uses

_PRINCIPAL = ("tenant_id", "client_id", "client_secret")
_OF_AZURE = (*_PRINCIPAL, "account_key")
_STORES = {**dict.fromkeys(AZURE_SCHEMES, "Azure"), **dict.fromkeys(GOOGLE_SCHEMES, "Google's store")}
_IN_AZURE = re.compile(r"abfss?://[a-z0-9$][a-z0-9-]*@[A-Za-z0-9][A-Za-z0-9.-]*(/|$)")

Root = Annotated[str, StringConstraints(min_length=1), AfterValidator(from_config_folder), HIDES_SECRETS]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$"), HIDES_SECRETS]


class StorageSettings(Model):
    """The store of the root: S3, Azure or Google's. Missing keys come from the environment (`AWS_REGION`, ...)."""

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
    def _require_whole_credentials(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise SettingError("one key of two is set", "access_key_id and secret_access_key, or neither", "Set both, or none.")
        if self.endpoint is not None and not self.endpoint.startswith(("https://", "http://")):
            example = "Write it like https://minio:9000."
            raise SettingError("this is no URL", "a URL with http:// or https://", example, at=("endpoint",))
        given = [name for name in _OF_AZURE if getattr(self, name) is not None]
        if given and given not in (["account_key"], list(_PRINCIPAL)):
            expected = "account_key, or tenant_id, client_id and client_secret"
            raise SettingError(f"{' and '.join(given)} given", expected, "Or set none, to use those of the environment.")
        return self

    def unknown_to(self, name: str) -> list[str]:
        """Return the keys set here that a store of that scheme does not have."""
        of_s3 = type(self).model_fields.keys() - _OF_AZURE
        of_store = {*_OF_AZURE, "endpoint"} if name in AZURE_SCHEMES else {"endpoint"} if name in GOOGLE_SCHEMES else of_s3
        return sorted(self.model_fields_set - of_store)


class LakehouseSettings(Model):
    """Where the tables are: in folders under a root, or in a catalog's schema."""

    root: Root | None = setting(None, "a folder or URI; relative to the config file's folder", "./lakehouse")
    catalog: Identifier | None = setting(None, "a catalog: letters, digits, _ and -", "main")
    schema_: Identifier | None = setting(None, "its schema: letters, digits, _ and -", "tidemark", alias="schema")
    volume: Text | None = setting(None, "its folder for reports", "/Volumes/main/tidemark/tidemark", validate_default=True)
    storage: StorageSettings | None = setting(None, "how an object store is reached", {"endpoint": "https://minio:9000"})
    metastore: Text | None = setting(None, "with spark_catalog: its Hive Metastore", "thrift://metastore:9083")

    @field_validator("volume")
    @classmethod
    def _fill_volume(cls, volume: str | None, info: ValidationInfo) -> str | None:
        catalog, schema = info.data.get("catalog"), info.data.get("schema_")
        if volume is None:
            return f"/Volumes/{catalog}/{schema}/tidemark" if catalog and schema else None
        if info.data.get("root"):
            raise SettingError("both a volume and a root", "volume only with catalog and schema", "Remove volume.")
        if not volume.startswith("/") and not is_uri(volume):
            example = "Write it like /Volumes/main/tidemark/tidemark."
            raise SettingError("this is no absolute path", "an absolute path or URI", example)
        return volume

    @model_validator(mode="after")
    def _require_one_place(self) -> Self:
        given = [key for key, value in (("root", self.root), ("catalog", self.catalog), ("schema", self.schema_)) if value]
        if given not in (["root"], ["catalog", "schema"]):
            what = f"{' and '.join(given) or 'nothing'} given"
            next_step = "Write {root: ./lakehouse} or {catalog: main, schema: tidemark}."
            raise SettingError(what, "either root, or catalog and schema", next_step)
        uri, key = self.root or self.volume or "", "root" if self.root else "volume"
        place = scheme(uri)
        if odd := sorted({each for each in uri if each in "%\\" or not each.isprintable()}):  # delta-rs would decode these
            what = f"the name contains {' and '.join(map(repr, odd))}"
            raise SettingError(what, "a name without %, \\ and control characters", "Rename the folder.", at=(key,))
        if in_uri(uri):
            next_step = "Write storage: {access_key_id: '${env:ID}', secret_access_key: '${env:KEY}'}."
            raise SettingError("the URI holds a login", "the credentials in lakehouse.storage", next_step, at=(key,))
        if self.storage is not None and self.root is not None and place not in STORE_SCHEMES:
            expected, next_step = "storage only with s3://, abfss:// or gs://", "Remove storage, or correct the root."
            raise SettingError("the root is in no object store", expected, next_step, at=("storage",))
        if self.storage is not None and (unknown := self.storage.unknown_to(place)):
            what = f"{' and '.join(unknown)} given for a place in {_STORES.get(place, 'S3')}"
            raise SettingError(what, "only keys of that store", "Remove them, or correct the root.", at=("storage",))
        if place in AZURE_SCHEMES and not _IN_AZURE.match(uri):
            expected = "abfss://container@account.dfs.core.windows.net/lake"
            raise SettingError("this names no container and account", expected, "Write it like that.", at=(key,))
        servers = [] if self.metastore is None else self.metastore.split(",")
        if servers and (self.catalog != SESSION_CATALOG or not all(each.startswith("thrift://") for each in servers)):
            expected = f"thrift://host:port, several separated by commas, with catalog: {SESSION_CATALOG}"
            raise SettingError("this is no metastore of that catalog", expected, "Write it like that.", at=("metastore",))
        return self

    @property
    def keeps_files(self) -> bool:
        """Whether Tidemark can keep small files next to the tables. In Azure, this needs credentials in the config."""
        place, given = self.root or self.volume or "", self.storage
        if scheme(place) in AZURE_SCHEMES:
            return given is not None and (given.account_key or given.client_secret) is not None
        return place.startswith("file:") or scheme(place) in STORE_SCHEMES or (bool(place) and not is_uri(place))


def _check_registry_url(text: str) -> str:
    if not is_web_address(text):
        expected = "a URL that starts with https:// or http://, of another host than a link-local one"
        raise SettingError("this is no address of a server", expected, "Write it like https://registry.example.org:8081.")
    if in_uri(text):
        next_step = "Write username and password as references: password: ${env:REGISTRY_PASSWORD}."
        raise SettingError("the URL has a password", "username and password as keys of their own", next_step)
    return text.rstrip("/")


File = Annotated[Text, AfterValidator(from_config_folder)]


class Registry(Model):
    """A schema registry of Confluent's protocol: its presence says that each value has the prefix of the wire format."""

    url: Annotated[str, AfterValidator(_check_registry_url), HIDES_SECRETS] = setting(
        ..., "its address", "https://registry.example.org:8081"
    )
    username: Text | None = setting(None, "for basic auth: the user", "${env:REGISTRY_USER}")
    password: SecretText | None = setting(None, "its password, as a reference", "${env:REGISTRY_PASSWORD}")
    ca: File | None = setting(None, "a file of certificates to check the registry's by", "/etc/ssl/registry-ca.pem")
    cert: File | None = setting(None, "a client certificate's file", "/etc/ssl/client.pem")
    key: File | None = setting(None, "the file of its key", "/etc/ssl/client.key")
    undecodable_ids: tuple[Annotated[int, Field(strict=True, ge=0, lt=2**32)], ...] = setting(
        (), "ids that no schema has: values with them are undecodable", "[4711]"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for one, other in (("password", "username"), ("key", "cert")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise SettingError(f"{one} without {other}", "both, or neither", f"Add {other}.", at=(one,))
        return self


_DECODERS: dict[formats.Format, list[list[str]]] = {
    "text": [[]],
    "json": [[], ["registry"]],
    "avro": [["avro_schema"], ["registry"]],
    "protobuf": [["descriptor", "message"], ["registry"]],
}
"""The combinations of keys that say how the values of a format are written."""


class ValueFormat(Model):
    """How a record's value is decoded into the column `payload`."""

    format: formats.Format = setting(..., "text, json, avro or protobuf", "json")
    schema_: Text | None = setting(
        None, "the fields as Spark DDL; none for text", '"id STRING, amount DOUBLE"', alias="schema", validate_default=True
    )
    max_bytes: Annotated[int, Field(ge=1, le=2_147_483_647)] = setting(16_777_216, "the longest decodable value", "1048576")
    undecodable: formats.Undecodable = setting("quarantine", "what an undecodable value gets", "accept")
    tombstones: Literal["keep", "skip"] | None = setting(None, "what a record without a value gets", "keep")
    avro_schema: Text | None = setting(None, "the values' Avro schema", "incident.avsc")
    descriptor: Text | None = setting(None, "a descriptor set", "incident.desc")
    message: Text | None = setting(None, "for protobuf without a registry: the full name of the message", "shop.Incident")
    registry: Registry | None = setting(None, "the registry of the values' schemas", "{url: https://registry.example.org:8081}")

    @field_validator("schema_")
    @classmethod
    def _require_schema_of_format(cls, schema: str | None, info: ValidationInfo) -> str | None:
        decoded = info.data.get("format")
        if decoded is not None and (decoded == "text") != (schema is None):
            what = f"{decoded} without a schema" if schema is None else "text with a schema"
            next_step = 'Write {format: json, schema: "id STRING, amount DOUBLE"} or {format: text}.'
            raise SettingError(what, "a schema for json, avro and protobuf, none for text", next_step)
        fields = payload_schema.of(schema)
        if decoded in formats.EXTRAS and (odd := list(payload_schema.odd_names(fields))):
            what = f"{odd[0]!r} is no name of a field in {str(decoded).capitalize()}"
            raise SettingError(what, "letters a to z, digits and _", "Write the fields as the values' own schema names them.")
        return schema

    @field_validator("avro_schema", "descriptor")
    @classmethod
    def _is_schema(cls, given: str | None, info: ValidationInfo) -> str | None:
        if given is None:
            return None
        return formats.schemas("avro" if info.field_name == "avro_schema" else "protobuf").content(given, info)

    @model_validator(mode="after")
    def _require_decoder(self) -> Self:
        given = [name for name in ("avro_schema", "descriptor", "message", "registry") if getattr(self, name) is not None]
        if given not in _DECODERS[self.format]:
            lacks = " nor ".join(" and ".join(each) for each in _DECODERS[self.format])
            raise SettingError(
                f"{self.format} with {' and '.join(given) or f'neither {lacks}'}",
                "registry, else avro_schema for avro, descriptor and message for protobuf, nothing for json; nothing for text",
                "Keep registry if each value begins with an id, and avro_schema, or descriptor and message, where none does.",
            )
        wrong = formats.schemas(self.format).validate(self) if self.format in formats.EXTRAS else None
        if wrong is not None:
            key = "message" if self.message else "avro_schema"
            what = f"no value of {key} can be decoded into the fields of schema: {wrong}"
            raise SettingError(what, "fields that fit", "Correct one of the two; docs/formats.md has the types.", at=(key,))
        return self


def _refuse_key(given: Any) -> Any:
    if given == "key" or (isinstance(given, dict) and "key" in given):
        what = "the record key cannot be the sequence: new keys spread a stream over the partitions, and its order is lost"
        at = ("key",) if isinstance(given, dict) else ()
        raise SettingError(what, "a header or the value", "Put the sequence into a header, like {header: seq}.", at=at)
    return given


NotKey = Annotated[Extractor, BeforeValidator(_refuse_key)]


class Topic(Model):
    """How the records of one topic are read. A missing key is inherited from the top level; an explicit null removes it."""

    sequence: NotKey | None = setting(None, "where the sequence of the topic's records is", "{json: $.id}")
    producer: NoSequence | None = setting(None, "their producer; null for none", "{header: producer}")
    epoch: NoSequence | None = setting(None, "their epoch; null for none", "{header: epoch}")
    value: ValueFormat | None = setting(None, "their format; missing keys are as in value", '{schema: "id STRING"}')

    @property
    def given(self) -> dict[str, Any]:
        """The topic's own settings. Every topic has a sequence, so its null counts as missing."""
        own = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: each for name, each in own.items() if each is not None or name != "sequence"}


PipelineName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"), HIDES_SECRETS]


class Silver(Model):
    """How much of Bronze a load of Silver takes."""

    max_records_per_load: Whole | None = setting(20_000_000, "above it, a load is split; null for any number", "5000000")


class Maintenance(Model):
    """What `tidemark maintain` does to every table, and how long it keeps old files and logs."""

    allow_short_retention: Flag = setting(False, "whether retain_hours may be below 168", "true")
    retain_hours: Annotated[int, Field(strict=True, ge=0)] = setting(_SAFE_HOURS, "how long an outdated file stays", "336")
    log_retain_days: Whole = setting(30, "how long a table's log, its history, stays", "60", validate_default=True)
    file_mib: Whole = setting(128, "the size that small files are put together to, in MiB", "256")
    retire_streams_days: Whole | None = setting(None, "the silence after which a watermark is removed; null for never", "30")

    @field_validator("retain_hours")
    @classmethod
    def _require_safe_hours(cls, hours: int, info: ValidationInfo) -> int:
        if hours < _SAFE_HOURS and not info.data.get("allow_short_retention"):
            next_step = "If nothing else reads or writes the tables, also set allow_short_retention: true."
            raise SettingError("a run may still read the removed files", f"{_SAFE_HOURS} hours or more", next_step)
        return hours

    @field_validator("log_retain_days")
    @classmethod
    def _require_longer_log(cls, days: int, info: ValidationInfo) -> int:
        if days * 24 < info.data.get("retain_hours", 0):
            what = "the log would lose versions whose files are kept, so that they cannot be read"
            raise SettingError(what, "at least as long as retain_hours", "Raise log_retain_days.")
        return days

    @property
    def table_properties(self) -> dict[str, str]:
        """The Delta properties of every table."""
        return {
            "delta.deletedFileRetentionDuration": f"interval {self.retain_hours} hours",
            "delta.logRetentionDuration": f"interval {self.log_retain_days} days",
            # A platform may enable them by default, and not every engine reads them.
            "delta.enableDeletionVectors": "false",
            # Delta's default of 10 makes every tenth run write a checkpoint of every table, a second each.
            "delta.checkpointInterval": "100",
        }


class Settings(Model):
    """All settings of one pipeline."""

    pipeline: PipelineName = setting(..., "its name: a letter, digit or _, then up to 99 of these, . or -", "incidents")
    kafka: Kafka = setting(..., "where the records come from", "{bootstrap_servers: localhost:9092, topics: [incidents]}")
    lakehouse: LakehouseSettings = setting(..., "where the tables are", "{root: ./lakehouse}")
    sequence: NotKey = setting(..., f"one of {', '.join(get_args(Form))}", "{header: seq}")
    producer: NoSequence | None = setting(None, "a record's producer", "{header: producer}")
    epoch: NoSequence | None = setting(None, "a record's epoch", "{header: epoch}")
    value: ValueFormat | None = setting(None, "how values are decoded", "{format: text}", validate_default=True)
    topics: dict[str, Topic] = setting({}, "the settings of single topics", "{orders: {sequence: {json: $.id}}}")
    policies: Policies = setting(Policies, "what happens to records that are not simply new", "{late: accept}")
    silver: Silver = setting(Silver, "how much of Bronze a load of Silver takes", "{max_records_per_load: 5000000}")
    gate: Gate = setting(Gate, "what a load must hold to reach Gold", "{data_docs: true}")
    gold: Gold = setting(Gold, "what is published in addition to the built-in tables", "{models: []}")
    maintenance: Maintenance = setting(Maintenance, "how long old versions stay, how large files get", "{retain_hours: 336}")
    watch: Watch = setting(Watch, "metrics and alerts; off unless named", "{metrics_file: tidemark.prom}")

    @field_validator("epoch")
    @classmethod
    def _has_one_epoch(cls, epoch: Extractor | None, info: ValidationInfo) -> Extractor | None:
        _require_one_epoch({**info.data, "epoch": epoch})
        return epoch

    @field_validator("value")
    @classmethod
    def _require_format_of_fields(cls, value: ValueFormat | None, info: ValidationInfo) -> ValueFormat | None:
        _require_fitting_format(value, info.data)
        return value

    @field_validator("topics", mode="before")
    @classmethod
    def _inherit_value(cls, given: Any, info: ValidationInfo) -> Any:
        if isinstance(given, list):
            next_step = "It belongs elsewhere: kafka.topics. Write this key like {orders: {sequence: {json: $.id}}}."
            raise SettingError("this is a list of topics", "a mapping with the settings of single topics", next_step)
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
    def _require_fitting_topics(cls, topics: dict[str, Topic], info: ValidationInfo) -> dict[str, Topic]:
        _require_read_topics(topics, info)
        top, read = info.data.get("value"), _read_topics(info)
        known_at, known = next(((key, each.registry) for key, each in _values(top, topics) if each.registry), ("", None))
        for topic, own in topics.items():
            of_topic = {**info.data, **own.given}
            _require_one_epoch(of_topic, at=(topic, "epoch"))
            _require_fitting_format(of_topic.get("value"), of_topic, at=(topic,))
            registry = own.value and own.value.registry
            if known and registry and registry.model_copy(update={"undecodable_ids": known.undecodable_ids}) != known:
                what, at = f"it is another registry than that of {known_at}", (topic, "value", "registry")
                raise SettingError(what, "one registry, up to undecodable_ids", "Make a pipeline for each registry.", at=at)
        values = [topics[topic].given.get("value", top) if topic in topics else top for topic in read]
        if topics and None in values and any(each is not None and each.format == "text" for each in values):
            # In a text payload, null means that a value could not be decoded.
            what, expected = "some topics are decoded into text, and others not at all", "text in all topics, or in none"
            raise SettingError(what, expected, "Decode all as text, or make a separate pipeline for those topics.")
        _payload(top, topics)
        return topics

    @field_validator("watch")
    @classmethod
    def _require_state_file(cls, watch: Watch, info: ValidationInfo) -> Watch:
        place = info.data.get("lakehouse")
        if watch.is_on and watch.state_file is None and place is not None and not place.keeps_files:
            what = "only Spark reaches these tables, so a run cannot keep its state for the next one next to them"
            raise SettingError(what, "state_file as well", "Write {state_file: /var/lib/tidemark/incidents.json}.")
        return watch

    @field_validator("policies")
    @classmethod
    def _require_topics_of_kafka(cls, policies: Policies, info: ValidationInfo) -> Policies:
        _require_read_topics(policies.topics, info, at=("topics",))
        return policies

    def of_topic(self, topic: str) -> "Settings":
        """Return the settings for the records of one topic, with its own settings merged in."""
        own = self.topics.get(topic)
        return self.model_copy(update={"topics": {}, **(own.given if own else {})})

    @property
    def skips_tombstones(self) -> bool:
        """Whether records without a value are skipped, without the overrides of single topics."""
        is_kept = self.value is not None and self.value.tombstones == "keep"
        return self.sequence.form in IN_VALUE and not is_kept

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


def _require_one_epoch(settings: Mapping[str, Any], at: tuple[str, ...] = ()) -> None:
    sequence = settings.get("sequence")
    if settings.get("epoch") is not None and sequence is not None and sequence.form == "debezium":
        what, expected = "the position of a change event gives the epoch, and another one is given", "no epoch with debezium"
        raise SettingError(what, expected, "Remove epoch; for a topic of its own write epoch: null.", at=at)


def _require_fitting_format(value: ValueFormat | None, settings: Mapping[str, Any], at: tuple[str, ...] = ()) -> None:
    sequence = settings.get("sequence")
    if sequence is not None and sequence.form == "debezium" and value is not None and value.format == "protobuf":
        what, expected = "debezium reads its position from JSON or Avro, and values are protobuf", "values in JSON or Avro"
        next_step = "Let the connector write one of them (value.converter), or write a function of yours as custom."
        raise SettingError(what, expected, next_step, at=at)
    if sequence is not None and sequence.form not in IN_VALUE and value is not None and value.tombstones == "skip":
        what, expected = "a tombstone has its sequence as other records do, and would be skipped", "keep, or no tombstones"
        raise SettingError(what, expected, "Write tombstones: keep.", at=at or ("tombstones",))
    read = [name for name in ROLES if (given := settings.get(name)) is not None and given.field_path]
    if read and (value is None or value.format not in formats.EXTRAS):
        what = f"{read[0]} is read from a field of an Avro or Protobuf value, and values are neither"
        raise SettingError(what, "value with format avro or protobuf", "Write json for a path in JSON, or set value.", at=at)


def _values(value: ValueFormat | None, topics: Mapping[str, Topic]) -> list[tuple[str, ValueFormat]]:
    own = [(f"topics.{topic}.value", each.value) for topic, each in topics.items()]
    return [(key, each) for key, each in (("value", value), *own) if each is not None]


def _payload(value: ValueFormat | None, topics: Mapping[str, Topic]) -> payload_schema.Type | None:
    own = [(key, payload_schema.of(each.schema_)) for key, each in _values(None, topics)]
    return payload_schema.union(payload_schema.of(value.schema_) if value else None, own)
