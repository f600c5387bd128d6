"""Secrets planted in a config: for each key of the model that is masked, a section that has one."""

import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

from lakehouse.config.keys import Path, all_keys, dotted, key_at
from lakehouse.settings.base import Model

PLANTED = "hunter2-of-the-tests"  # the secret: no output may have it
VARIABLE = "PLANTED"  # the environment variable that has it
FORMS = {"written out": PLANTED, "of a variable": f"${{env:{VARIABLE}}}", "of a scope": "${secret:vault/planted}"}

_AZURE = "abfss://c@a.dfs.core.windows.net/lake"
_LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="%";'
PROPERTIES = {"sasl.jaas.config": _LOGIN, "ssl.key.password": "%"}
MAILER = ["cat", "--password=%"]  # a program that repeats its argument where it fails
_REGISTRY = {"url": "http://127.0.0.1:1", "username": "ada", "password": "%"}
_WEBHOOK = "http://127.0.0.1:1/"

SECTIONS: dict[str, dict[str, Any]] = {
    "kafka.properties": {"kafka": {"bootstrap_servers": "127.0.0.1:1", "topics": ["t"], "properties": PROPERTIES}},
    "lakehouse.storage.secret_access_key": {
        "lakehouse": {"root": "s3://b/l", "storage": {"access_key_id": "i", "secret_access_key": "%"}}
    },
    "lakehouse.storage.session_token": {
        "lakehouse": {"root": "s3://b/l", "storage": {"access_key_id": "i", "secret_access_key": "s", "session_token": "%"}}
    },
    "lakehouse.storage.account_key": {"lakehouse": {"root": _AZURE, "storage": {"account_key": "%"}}},
    "lakehouse.storage.client_secret": {
        "lakehouse": {"root": _AZURE, "storage": {"tenant_id": "t", "client_id": "c", "client_secret": "%"}}
    },
    "value.registry.password": {"value": {"format": "json", "schema": "id INT", "registry": _REGISTRY}},
    "watch.alerts.webhook.url": {"watch": {"alerts": {"webhook": {"url": f"{_WEBHOOK}%"}}}},
    "watch.alerts.webhook.headers": {
        "watch": {"alerts": {"webhook": {"url": _WEBHOOK, "headers": {"Authorization": "Bearer %"}}}}
    },
    "watch.alerts.mail_command": {"watch": {"alerts": {"mail_command": MAILER}}},
}  # by the key of a secret, a section that has one; % is the place of the secret
_IN_A_FOLDER = ("kafka.properties", "value.registry.password", "watch.alerts.mail_command")
IN_A_FOLDER = {name: part for key in _IN_A_FOLDER for name, part in SECTIONS[key].items()}
"""All that the config of tables in a folder can have at once."""


def planted(section: Any, secret: str = PLANTED) -> Any:
    return json.loads(json.dumps(section).replace("%", secret))


def plant_scopes(monkeypatch: pytest.MonkeyPatch, get: Callable[[str, str], str]) -> None:
    runtime = ModuleType("databricks.sdk.runtime")
    runtime.dbutils = SimpleNamespace(secrets=SimpleNamespace(get=get))  # type: ignore[attr-defined]  # a module made here
    for name in ("databricks", "databricks.sdk"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "databricks.sdk.runtime", runtime)


def places(section: Any, above: Path = ()) -> Iterator[Path]:
    if isinstance(section, str) and "%" in section:
        yield above
    for name, part in section.items() if isinstance(section, dict) else enumerate(section) if isinstance(section, list) else ():
        yield from places(part, (*above, name))


def secret_keys() -> set[str]:
    keys = {path: key for path in all_keys() if (key := key_at(path)) is not None and key.holds_secret}
    return {
        dotted(path) for path, key in keys.items() if not any(_is_section(part) for part in (key.type, *get_args(key.type)))
    }


def _is_section(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Model)
