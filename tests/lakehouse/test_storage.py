"""How a root in an object store is reached."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.settings.pipeline import LakehouseSettings
from lakehouse.storage.azure import AzureStorage
from lakehouse.storage.google import GoogleStorage
from lakehouse.storage.s3 import S3Storage
from lakehouse.storage.store import Storage, storage_of

CONTEXT = {"folder": "/etc"}
IN_AZURE = "abfss://container@account.dfs.core.windows.net/lake"
PRINCIPAL = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_CLIENT_SECRET": "secret"}


def storage(environ: dict[str, str], root: str = "s3://bucket/lake", **given: Any) -> Storage | None:
    place = {"root": root, **({"storage": given} if given else {})}
    return storage_of(LakehouseSettings.model_validate(place, context=CONTEXT), environ)


def test_a_root_elsewhere_has_none() -> None:
    assert storage({}, root="/data/lake") is None
    assert storage({}, root="hdfs://name/lake") is None


def test_without_credentials_the_session_alone_reaches_azure() -> None:
    assert storage({"AZURE_CLIENT_ID": "of a machine's identity", "AWS_ACCESS_KEY_ID": "another cloud's"}, IN_AZURE) is None


def test_an_account_in_azure_is_reached_with_its_key() -> None:
    found = storage({"AZURE_STORAGE_ACCOUNT_KEY": "theirs"}, IN_AZURE)

    assert found == AzureStorage("account.dfs.core.windows.net", "theirs")
    assert found.for_spark() == {
        "spark.hadoop.fs.azure.ssl.channel.mode": "Default_JSSE",
        "spark.hadoop.fs.azure.account.auth.type.account.dfs.core.windows.net": "SharedKey",
        "spark.hadoop.fs.azure.account.key.account.dfs.core.windows.net": "theirs",
    }
    assert found.for_delta_rs() == {"azure_storage_account_name": "account", "azure_storage_account_key": "theirs"}


def test_an_account_in_azure_is_reached_as_a_service_principal() -> None:
    found = storage(PRINCIPAL, IN_AZURE)

    assert found is not None
    assert found == storage({}, IN_AZURE, tenant_id="tenant", client_id="client", client_secret="secret")
    conf = {name.removeprefix("spark.hadoop.fs.azure.account."): value for name, value in found.for_spark().items()}
    assert conf["auth.type.account.dfs.core.windows.net"] == "OAuth"
    assert conf["oauth2.client.id.account.dfs.core.windows.net"] == "client"
    assert (
        conf["oauth2.client.endpoint.account.dfs.core.windows.net"] == "https://login.microsoftonline.com/tenant/oauth2/token"
    )
    assert found.for_delta_rs() == {
        "azure_storage_account_name": "account",
        "azure_storage_tenant_id": "tenant",
        "azure_storage_client_id": "client",
        "azure_storage_client_secret": "secret",
    }


def test_credentials_of_the_config_go_before_those_of_the_environment() -> None:
    found = storage({"AZURE_STORAGE_ACCOUNT_KEY": "theirs"}, IN_AZURE, tenant_id="t", client_id="c", client_secret="s")
    assert found == AzureStorage("account.dfs.core.windows.net", None, "t", "c", "s")
    found = storage(PRINCIPAL, IN_AZURE, account_key="ours")
    assert found is not None
    assert "azure_storage_client_id" not in found.for_delta_rs()


def test_googles_store_is_reached_with_the_credentials_of_the_machine() -> None:
    found = storage({}, "gs://bucket/lake")

    assert found == GoogleStorage()
    assert found.for_spark()["spark.hadoop.fs.gs.auth.type"] == "APPLICATION_DEFAULT"
    assert not [name for name in found.for_spark() if "url" in name]
    assert found.for_delta_rs() == {}


def test_hadoops_own_sizes_for_googles_store_are_replaced_by_numbers() -> None:
    sizes = {name: value for name, value in GoogleStorage().for_spark().items() if ".size" in name or ".limit" in name}

    assert len(sizes) == 5
    assert all(value.isdigit() for value in sizes.values())


def test_another_address_of_googles_store_is_named_to_every_reader() -> None:
    found = storage({}, "gs://bucket/lake", endpoint="https://private:9000/")

    assert found is not None
    assert found.for_spark()["spark.hadoop.fs.gs.storage.root.url"] == "https://private:9000/"
    assert found.for_spark()["spark.hadoop.fs.gs.auth.type"] == "APPLICATION_DEFAULT"
    assert found.for_delta_rs() == {"google_base_url": "https://private:9000"}


def test_a_server_for_tests_gets_no_credentials() -> None:
    found = GoogleStorage("http://127.0.0.1:9000")

    assert found.for_spark()["spark.hadoop.fs.gs.auth.type"] == "UNAUTHENTICATED"
    assert found.for_delta_rs() == {
        "google_base_url": "http://127.0.0.1:9000",
        "google_skip_signature": "true",
        "allow_http": "true",
    }


@pytest.mark.parametrize(
    ("root", "given", "said"),
    [
        ("gs://bucket/lake", {"account_key": "ours"}, "account_key given for a place in Google's store"),
        ("s3://bucket/lake", {"account_key": "ours"}, "account_key given for a place in S3"),
        (IN_AZURE, {"region": "eu", "account_key": "ours"}, "region given for a place in Azure"),
        (IN_AZURE, {"account_key": "ours", "client_id": "c", "tenant_id": "t", "client_secret": "s"}, "account_key given"),
        (IN_AZURE, {"client_id": "c"}, "client_id given"),
        ("abfss://account.dfs.core.windows.net/lake", {"account_key": "ours"}, "names no container"),
        ("abfss://a b@c/lake", {}, "names no container"),
        ("hdfs://name/lake", {"endpoint": "https://h:1"}, "in no object store"),
    ],
)
def test_what_belongs_to_another_store_is_refused(root: str, given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        storage({}, root, **given)


def test_what_the_config_does_not_say_comes_from_the_environment() -> None:
    environ = {"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://minio:9000", "AWS_ACCESS_KEY_ID": "theirs"}

    assert storage(environ) == S3Storage("https://minio:9000", "eu-central-1", "theirs")
    assert storage({**environ, "AWS_ENDPOINT_URL_S3": "https://s3:1"}) == S3Storage("https://s3:1", "eu-central-1", "theirs")
    assert storage(environ, region="us-west-2") == S3Storage("https://minio:9000", "us-west-2", "theirs")


def test_a_token_of_the_environment_does_not_go_with_a_key_of_the_config() -> None:
    found = storage({"AWS_SESSION_TOKEN": "theirs"}, access_key_id="ours", secret_access_key="secret")

    assert found == S3Storage(access_key_id="ours", secret_access_key="secret")


def test_amazons_own_store_needs_no_word() -> None:
    found = S3Storage().for_spark()

    assert not [name for name in found if "endpoint" in name or "key" in name or "style" in name]
    assert S3Storage().for_delta_rs() == {}


def test_another_store_is_named_to_every_reader() -> None:
    given = S3Storage("http://minio:9000", None, "id", "secret", "token")

    conf = given.for_spark()
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://minio:9000"
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    assert conf["spark.hadoop.fs.s3a.session.token"] == "token"
    assert given.for_delta_rs() == {
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }


def test_a_single_writer_takes_deltas_own_log_store() -> None:
    assert "spark.delta.logStore.s3.impl" in S3Storage().for_spark()
    assert "spark.delta.logStore.s3.impl" not in S3Storage(is_single_writer=True).for_spark()


def test_secrets_are_not_shown() -> None:
    assert "hunter" not in repr(S3Storage(access_key_id="hunter1", secret_access_key="hunter2", session_token="hunter3"))
    assert "hunter" not in repr(AzureStorage("account", "hunter1", "hunter2", "hunter3", "hunter4"))


@pytest.mark.parametrize(
    "given",
    [{"access_key_id": "id"}, {"secret_access_key": "secret"}, {"endpoint": "minio:9000"}, {"endpoint": "file:///etc/passwd"}],
)
def test_half_of_a_credential_and_what_is_no_url_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"access_key_id|URL"):
        storage({}, **given)


def test_storage_belongs_to_a_root_in_a_store() -> None:
    with pytest.raises(ValueError, match="in no object store"):
        storage({}, root="/data/lake", region="eu-central-1")
