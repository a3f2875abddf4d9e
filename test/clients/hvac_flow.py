"""The main flow of hvac, the Python client of Vault, against one service.

Usage: hvac_flow.py ADDRESS TOKEN. Prints one line of JSON for each step: its name, and "ok" or the error.
"""

import json
import sys
import time

import hvac

address, root = sys.argv[1:3]
client = hvac.Client(url=address, token=root)
steps = []


def step(name):
    def run(flow):
        try:
            flow()
            outcome = "ok"
        except Exception as failure:  # the outcome of a step is its first error
            outcome = f"{type(failure).__name__}: {failure}"
        print(json.dumps({"step": name, "outcome": outcome}), flush=True)
        return flow

    return run


def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(f"not refused with {kind.__name__}")


@step("status")
def _():
    assert client.is_authenticated()
    assert client.sys.read_health_status(method="GET")["sealed"] is False
    assert client.sys.is_initialized() and not client.sys.is_sealed()
    assert client.sys.read_leader_status()["ha_enabled"] in (True, False)


@step("mounts")
def _():
    client.sys.enable_secrets_engine("kv", path="hvac-v2", options={"version": "2"})
    client.sys.enable_secrets_engine("kv", path="hvac-v1", options={"version": "1"})
    assert client.sys.list_mounted_secrets_engines()["data"]["hvac-v2/"]["options"] == {"version": "2"}
    client.sys.tune_mount_configuration("hvac-v2", default_lease_ttl="1h", description="tuned")
    assert client.sys.read_mount_configuration("hvac-v2")["data"]["default_lease_ttl"] == 3600


@step("kv version 2")
def _():
    kv = client.secrets.kv.v2
    kv.create_or_update_secret("app/db", secret={"password": "one"}, mount_point="hvac-v2")
    kv.create_or_update_secret("app/db", secret={"password": "two"}, cas=1, mount_point="hvac-v2")
    refused(
        hvac.exceptions.InvalidRequest,
        lambda: kv.create_or_update_secret("app/db", secret={"x": "y"}, cas=1, mount_point="hvac-v2"),
    )
    read = lambda **more: kv.read_secret_version("app/db", mount_point="hvac-v2", **more)
    assert read(raise_on_deleted_version=True)["data"]["data"] == {"password": "two"}
    assert read(version=1, raise_on_deleted_version=True)["data"]["data"] == {"password": "one"}
    kv.patch("app/db", secret={"user": "app"}, mount_point="hvac-v2")
    assert read(raise_on_deleted_version=True)["data"]["data"] == {"password": "two", "user": "app"}
    assert kv.list_secrets("app", mount_point="hvac-v2")["data"]["keys"] == ["db"]
    kv.delete_latest_version_of_secret("app/db", mount_point="hvac-v2")
    refused(hvac.exceptions.InvalidPath, lambda: read(raise_on_deleted_version=True))
    assert read(raise_on_deleted_version=False)["data"]["metadata"]["deletion_time"] != ""
    kv.undelete_secret_versions("app/db", versions=[3], mount_point="hvac-v2")
    kv.destroy_secret_versions("app/db", versions=[1], mount_point="hvac-v2")
    kv.update_metadata("app/db", max_versions=5, custom_metadata={"owner": "team"}, mount_point="hvac-v2")
    meta = kv.read_secret_metadata("app/db", mount_point="hvac-v2")["data"]
    assert meta["custom_metadata"] == {"owner": "team"} and meta["versions"]["1"]["destroyed"] is True
    kv.configure(max_versions=20, mount_point="hvac-v2")
    assert kv.read_configuration(mount_point="hvac-v2")["data"]["max_versions"] == 20
    kv.delete_metadata_and_all_versions("app/db", mount_point="hvac-v2")
    refused(hvac.exceptions.InvalidPath, lambda: kv.list_secrets("app", mount_point="hvac-v2"))


@step("kv version 1")
def _():
    kv = client.secrets.kv.v1
    kv.create_or_update_secret("app/db", secret={"password": "one", "ttl": "1h"}, mount_point="hvac-v1")
    secret = kv.read_secret("app/db", mount_point="hvac-v1")
    assert secret["data"]["password"] == "one" and secret["lease_duration"] == 3600
    assert kv.list_secrets("app", mount_point="hvac-v1")["data"]["keys"] == ["db"]
    kv.delete_secret("app/db", mount_point="hvac-v1")
    refused(hvac.exceptions.InvalidPath, lambda: kv.read_secret("app/db", mount_point="hvac-v1"))


@step("policies and capabilities")
def _():
    rules = 'path "hvac-v2/data/app/*" { capabilities = ["read"] }'
    client.sys.create_or_update_policy("hvac-reader", rules)
    assert client.sys.read_policy("hvac-reader")["data"]["rules"] == rules
    assert "hvac-reader" in client.sys.list_policies()["data"]["policies"]
    client.sys.create_or_update_acl_policy("hvac-reader", rules)
    assert client.sys.read_acl_policy("hvac-reader")["data"]["policy"] == rules
    token = client.auth.token.create(policies=["hvac-reader"], ttl="1h")["auth"]["client_token"]
    found = client.sys.get_capabilities(["hvac-v2/data/app/x"], token=token)
    assert found["data"]["hvac-v2/data/app/x"] == ["read"], found


@step("tokens")
def _():
    made = client.auth.token.create(policies=["hvac-reader"], ttl="1h", meta={"a": "b"})["auth"]
    token, accessor = made["client_token"], made["accessor"]
    assert client.auth.token.lookup(token)["data"]["meta"] == {"a": "b"}
    assert client.auth.token.lookup_accessor(accessor)["data"]["accessor"] == accessor
    assert accessor in client.auth.token.list_accessors()["data"]["keys"]
    assert client.auth.token.renew(token, increment="2h")["auth"]["lease_duration"] == 7200
    own = hvac.Client(url=address, token=token)
    assert own.auth.token.lookup_self()["data"]["id"] == token
    own.auth.token.renew_self()
    own.auth.token.revoke_self()
    refused(hvac.exceptions.Forbidden, lambda: own.auth.token.lookup_self())
    orphan = client.auth.token.create_orphan(policies=["hvac-reader"])["auth"]
    client.auth.token.revoke_accessor(orphan["accessor"])


@step("token roles")
def _():
    client.auth.token.create_or_update_role("hvac", allowed_policies=["hvac-reader"], orphan=True)
    assert client.auth.token.read_role("hvac")["data"]["allowed_policies"] == ["hvac-reader"]
    assert "hvac" in client.auth.token.list_roles()["data"]["keys"]
    made = client.auth.token.create(role_name="hvac", policies=["hvac-reader"])["auth"]
    assert made["orphan"] is True
    client.auth.token.delete_role("hvac")


@step("wrapping")
def _():
    client.secrets.kv.v2.create_or_update_secret("app/w", secret={"k": "wrapped"}, mount_point="hvac-v2")
    wrapped = client.adapter.get("/v1/hvac-v2/data/app/w", wrap_ttl="60s")
    info = (wrapped if isinstance(wrapped, dict) else wrapped.json())["wrap_info"]
    assert client.adapter.post("/v1/sys/wrapping/lookup", json={"token": info["token"]})["data"]["creation_ttl"] == 60
    assert client.sys.unwrap(token=info["token"])["data"]["data"] == {"k": "wrapped"}
    refused(hvac.exceptions.InvalidRequest, lambda: client.sys.unwrap(token=info["token"]))


@step("cubbyhole")
def _():
    client.write("cubbyhole/note", text="mine")
    assert client.read("cubbyhole/note")["data"] == {"text": "mine"}
    other = hvac.Client(url=address, token=client.auth.token.create(policies=["default"])["auth"]["client_token"])
    assert other.read("cubbyhole/note") is None
    client.delete("cubbyhole/note")


@step("userpass")
def _():
    client.sys.enable_auth_method("userpass", path="hvac-people")
    assert "hvac-people/" in client.sys.list_auth_methods()["data"]
    people = client.auth.userpass
    people.create_or_update_user("ann", password="p", policies="hvac-reader", mount_point="hvac-people")
    assert people.list_user(mount_point="hvac-people")["data"]["keys"] == ["ann"]
    fresh = hvac.Client(url=address)
    auth = fresh.auth.userpass.login("ann", "p", mount_point="hvac-people")["auth"]
    assert auth["policies"] == ["default", "hvac-reader"] and fresh.token == auth["client_token"]
    people.update_password_on_user("ann", "q", mount_point="hvac-people")
    refused(
        hvac.exceptions.InvalidRequest,
        lambda: hvac.Client(url=address).auth.userpass.login("ann", "p", mount_point="hvac-people"),
    )
    people.delete_user("ann", mount_point="hvac-people")
    client.sys.disable_auth_method("hvac-people")


@step("approle")
def _():
    client.sys.enable_auth_method("approle", path="hvac-machines")
    at = {"mount_point": "hvac-machines"}
    approle = client.auth.approle
    approle.create_or_update_approle("web", token_policies=["hvac-reader"], secret_id_num_uses=2, **at)
    assert approle.list_roles(**at)["data"]["keys"] == ["web"]
    assert approle.read_role("web", **at)["data"]["token_policies"] == ["hvac-reader"]
    approle.update_role_id("web", "hvac-web", **at)
    assert approle.read_role_id("web", **at)["data"]["role_id"] == "hvac-web"
    made = approle.generate_secret_id("web", metadata={"host": "a"}, **at)["data"]
    fresh = hvac.Client(url=address)
    auth = fresh.auth.approle.login("hvac-web", made["secret_id"], **at)["auth"]
    assert auth["policies"] == ["default", "hvac-reader"] and auth["metadata"] == {"host": "a", "role_name": "web"}
    assert fresh.token == auth["client_token"]
    assert approle.read_secret_id("web", made["secret_id"], **at)["data"]["secret_id_num_uses"] == 1
    assert approle.list_secret_id_accessors("web", **at)["data"]["keys"] == [made["secret_id_accessor"]]
    assert approle.read_secret_id_accessor("web", made["secret_id_accessor"], **at)["data"]["metadata"] == {"host": "a"}
    approle.destroy_secret_id_accessor("web", made["secret_id_accessor"], **at)
    approle.create_custom_secret_id("web", "hvac-custom", **at)
    approle.destroy_secret_id("web", "hvac-custom", **at)
    refused(
        hvac.exceptions.InvalidRequest,
        lambda: hvac.Client(url=address).auth.approle.login("hvac-web", made["secret_id"], **at),
    )
    approle.delete_role("web", **at)
    client.sys.disable_auth_method("hvac-machines")


@step("identity")
def _():
    identity = client.secrets.identity
    entity = identity.create_or_update_entity("hvac-entity", policies=["hvac-reader"], metadata={"team": "a"})
    found = identity.read_entity_by_name("hvac-entity")["data"]
    assert found["metadata"] == {"team": "a"} and found["id"] == entity["data"]["id"]
    group = identity.create_or_update_group("hvac-group", member_entity_ids=[found["id"]], policies=["x"])
    assert identity.read_group(group["data"]["id"])["data"]["member_entity_ids"] == [found["id"]]
    identity.delete_group(group["data"]["id"])
    identity.delete_entity(found["id"])


@step("remount")
def _():
    client.sys.move_backend("hvac-v1", "hvac-moved")
    for _ in range(50):
        if "hvac-moved/" in client.sys.list_mounted_secrets_engines()["data"]:
            return
        time.sleep(0.1)
    raise AssertionError("not moved")


@step("leases and audit")
def _():
    refused(hvac.exceptions.InvalidRequest, lambda: client.sys.read_lease("cloud-b/creds/x/none"))
    assert isinstance(client.sys.list_enabled_audit_devices()["data"], dict)
    client.sys.revoke_prefix("cloud-b/creds/none")


@step("key status")
def _():
    status = client.sys.get_encryption_key_status()
    assert status["data"]["term"] >= 1
