"""How a root in S3 is reached."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.settings.pipeline import LakehouseSettings
from lakehouse.storage import Storage

CONTEXT = {"folder": "/etc"}


def storage(environ: dict[str, str], root: str = "s3://bucket/lake", **given: Any) -> Storage | None:
    place = {"root": root, **({"storage": given} if given else {})}
    return Storage.of(LakehouseSettings.model_validate(place, context=CONTEXT), environ)


def test_a_root_elsewhere_has_none() -> None:
    assert storage({}, root="/data/lake") is None
    assert storage({}, root="abfss://container@account/lake") is None


def test_what_the_config_does_not_say_comes_from_the_environment() -> None:
    environ = {"AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://minio:9000", "AWS_ACCESS_KEY_ID": "theirs"}

    assert storage(environ) == Storage("https://minio:9000", "eu-central-1", "theirs")
    assert storage({**environ, "AWS_ENDPOINT_URL_S3": "https://s3:1"}) == Storage("https://s3:1", "eu-central-1", "theirs")
    assert storage(environ, region="us-west-2") == Storage("https://minio:9000", "us-west-2", "theirs")


def test_a_token_of_the_environment_does_not_go_with_a_key_of_the_config() -> None:
    found = storage({"AWS_SESSION_TOKEN": "theirs"}, access_key_id="ours", secret_access_key="secret")

    assert found == Storage(access_key_id="ours", secret_access_key="secret")


def test_amazons_own_store_needs_no_word() -> None:
    found = Storage().for_spark()

    assert not [name for name in found if "endpoint" in name or "key" in name or "style" in name]
    assert Storage().for_delta_rs() == {}


def test_another_store_is_named_to_every_reader() -> None:
    given = Storage("http://minio:9000", None, "id", "secret", "token")

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
    assert "spark.delta.logStore.s3.impl" in Storage().for_spark()
    assert "spark.delta.logStore.s3.impl" not in Storage(is_single_writer=True).for_spark()


def test_secrets_are_not_shown() -> None:
    assert "hunter" not in repr(Storage(access_key_id="hunter1", secret_access_key="hunter2", session_token="hunter3"))


@pytest.mark.parametrize(
    "given",
    [{"access_key_id": "id"}, {"secret_access_key": "secret"}, {"endpoint": "minio:9000"}, {"endpoint": "file:///etc/passwd"}],
)
def test_half_of_a_credential_and_what_is_no_url_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"access_key_id|URL"):
        storage({}, **given)


def test_storage_belongs_to_a_root_in_s3() -> None:
    with pytest.raises(ValueError, match="not in S3"):
        storage({}, root="/data/lake", region="eu-central-1")
