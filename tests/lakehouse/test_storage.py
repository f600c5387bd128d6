"""How a root in an object store is reached."""

from typing import Any

import pytest

from lakehouse.settings.pipeline import LakehouseSettings
from lakehouse.storage import AzureStorage, GoogleStorage, S3Storage, Storage, storage_of

S3 = "s3://bucket/lake"
ACCOUNT = "account.dfs.core.windows.net"
IN_AZURE = f"abfss://container@{ACCOUNT}/lake"
KEY = {"AZURE_STORAGE_ACCOUNT_KEY": "theirs"}
PRINCIPAL = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_CLIENT_SECRET": "secret"}
AMAZON = {"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://minio:9000", "AWS_ACCESS_KEY_ID": "theirs"}
OF_A_POD = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/lake"}
OURS = {"access_key_id": "ours", "secret_access_key": "secret"}
OUR_CLIENT = {"tenant_id": "tenant", "client_id": "client", "client_secret": "secret"}
CREDENTIALS = "software.amazon.awssdk.auth.credentials"
AS_PRINCIPAL = AzureStorage(ACCOUNT, **OUR_CLIENT)


def storage(environ: dict[str, str], root: str, **given: Any) -> Storage | None:
    place = {"root": root, **({"storage": given} if given else {})}
    return storage_of(LakehouseSettings.model_validate(place, context={"folder": "/etc"}), environ)


@pytest.mark.parametrize(
    ("environ", "root", "given", "expected"),
    [
        ({}, "/data/lake", {}, None),
        ({}, "hdfs://name/lake", {}, None),
        # Of no credentials for Azure the session alone knows, as of a machine's identity.
        ({"AZURE_CLIENT_ID": "of a machine", "AWS_ACCESS_KEY_ID": "another cloud's"}, IN_AZURE, {}, None),
        (KEY, IN_AZURE, {}, AzureStorage(ACCOUNT, "theirs")),
        (PRINCIPAL, IN_AZURE, {}, AS_PRINCIPAL),
        (KEY, IN_AZURE, OUR_CLIENT, AS_PRINCIPAL),
        (PRINCIPAL, IN_AZURE, {"account_key": "ours"}, AzureStorage(ACCOUNT, "ours")),
        ({}, "gs://bucket/lake", {}, GoogleStorage()),
        ({}, "gs://bucket/lake", {"endpoint": "https://private:9000/"}, GoogleStorage("https://private:9000/")),
        (AMAZON, S3, {}, S3Storage("https://minio:9000", "eu-central-1", "theirs")),
        ({**AMAZON, "AWS_ENDPOINT_URL_S3": "https://s3:1"}, S3, {}, S3Storage("https://s3:1", "eu-central-1", "theirs")),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu"}, S3, {}, S3Storage(region="eu")),
        (AMAZON, S3, {"region": "us-west-2"}, S3Storage("https://minio:9000", "us-west-2", "theirs")),
        # A token of the environment does not go with a key of the config.
        ({"AWS_SESSION_TOKEN": "theirs"}, S3, OURS, S3Storage(access_key_id="ours", secret_access_key="secret")),
        # A pod's service account signs only where no key is given, as for delta-rs.
        (OF_A_POD, S3, {}, S3Storage(has_web_identity=True)),
        (OF_A_POD, S3, OURS, S3Storage(access_key_id="ours", secret_access_key="secret")),
        ({**OF_A_POD, "AWS_ROLE_ARN": ""}, S3, {}, S3Storage()),
    ],
)
def test_what_the_config_does_not_say_comes_from_the_environment(
    environ: dict[str, str], root: str, given: dict[str, str], expected: Storage | None
) -> None:
    assert storage(environ, root, **given) == expected


# Each store, what Spark reads it by (of `spark.hadoop.fs`), and all that delta-rs does.
READERS: list[tuple[Storage, dict[str, str], dict[str, str]]] = [
    (
        AzureStorage(ACCOUNT, "theirs"),
        {
            "azure.ssl.channel.mode": "Default_JSSE",
            f"azure.account.auth.type.{ACCOUNT}": "SharedKey",
            f"azure.account.key.{ACCOUNT}": "theirs",
        },
        {"azure_storage_account_name": "account", "azure_storage_account_key": "theirs"},
    ),
    (
        AS_PRINCIPAL,
        {
            f"azure.account.auth.type.{ACCOUNT}": "OAuth",
            f"azure.account.oauth2.client.id.{ACCOUNT}": "client",
            f"azure.account.oauth2.client.endpoint.{ACCOUNT}": "https://login.microsoftonline.com/tenant/oauth2/token",
        },
        {"azure_storage_account_name": "account", **{f"azure_storage_{name}": text for name, text in OUR_CLIENT.items()}},
    ),
    (GoogleStorage(), {"gs.auth.type": "APPLICATION_DEFAULT"}, {}),
    (
        GoogleStorage("https://private:9000/"),
        {"gs.storage.root.url": "https://private:9000/", "gs.auth.type": "APPLICATION_DEFAULT"},
        {"google_base_url": "https://private:9000"},
    ),
    (  # a server for tests gets no credentials
        GoogleStorage("http://127.0.0.1:9000"),
        {"gs.auth.type": "UNAUTHENTICATED"},
        {"google_base_url": "http://127.0.0.1:9000", "google_skip_signature": "true", "allow_http": "true"},
    ),
    (S3Storage(), {}, {}),
    (  # delta-rs and Arrow read the pod's variables themselves
        S3Storage(has_web_identity=True),
        {"s3a.aws.credentials.provider": f"{CREDENTIALS}.WebIdentityTokenFileCredentialsProvider"},
        {},
    ),
    (
        S3Storage("http://minio:9000", None, "id", "secret", "token"),
        {"s3a.endpoint": "http://minio:9000", "s3a.endpoint.region": "us-east-1", "s3a.session.token": "token"},
        {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        | {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"},
    ),
]


@pytest.mark.parametrize(("given", "of_spark", "of_delta_rs"), READERS)
def test_a_store_is_named_to_every_reader(given: Storage, of_spark: dict[str, str], of_delta_rs: dict[str, str]) -> None:
    assert given.for_spark().items() >= {f"spark.hadoop.fs.{name}": value for name, value in of_spark.items()}.items()
    assert given.for_delta_rs() == of_delta_rs


def test_sessions_get_no_setting_that_a_store_does_not_need() -> None:
    amazon, google = S3Storage().for_spark(), GoogleStorage().for_spark()
    assert not [name for name in amazon if "endpoint" in name or "key" in name or "style" in name]
    assert not [name for name in google if "url" in name]
    sizes = [value for name, value in google.items() if ".size" in name or ".limit" in name]
    assert len(sizes) == 5
    assert all(value.isdigit() for value in sizes), "Hadoop's own sizes are replaced by numbers"
    assert "spark.delta.logStore.s3.impl" in amazon
    assert "spark.delta.logStore.s3.impl" not in S3Storage(is_single_writer=True).for_spark()


@pytest.mark.parametrize(
    ("root", "given", "said"),
    [
        ("gs://bucket/lake", {"account_key": "ours"}, "account_key given for a place in Google's store"),
        (S3, {"account_key": "ours"}, "account_key given for a place in S3"),
        (IN_AZURE, {"region": "eu", "account_key": "ours"}, "region given for a place in Azure"),
        (IN_AZURE, {"account_key": "ours", "client_id": "c", "tenant_id": "t", "client_secret": "s"}, "account_key given"),
        (IN_AZURE, {"client_id": "c"}, "client_id given"),
        ("abfss://account.dfs.core.windows.net/lake", {"account_key": "ours"}, "names no container"),
        ("abfss://a b@c/lake", {}, "names no container"),
        ("hdfs://name/lake", {"endpoint": "https://h:1"}, "in no object store"),
        ("/data/lake", {"region": "eu-central-1"}, "in no object store"),
        (S3, {"access_key_id": "id"}, "access_key_id"),
        (S3, {"secret_access_key": "secret"}, "access_key_id"),
        (S3, {"endpoint": "file:///etc/passwd"}, "URL"),
    ],
)
def test_what_belongs_to_another_store_or_is_half_a_credential_is_refused(root: str, given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        storage({}, root, **given)


def test_secrets_are_not_shown() -> None:
    for given in (S3Storage("https://h", "eu", "hunter1", "hunter2", "hunter3"), AzureStorage("account", *["hunter"] * 4)):
        assert "hunter" not in repr(given)
