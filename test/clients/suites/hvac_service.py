"""A pytest plugin for hvac's own integration tests: the service at SUITE_ADDRESS takes the place of a Vault process.

Each test class finds what a new server has: the built-in mounts, the token method and the root token SUITE_TOKEN.
"""

import os

import requests
import tests.utils
import tests.utils.server_manager as managers

ADDRESS = os.environ["SUITE_ADDRESS"]
TOKEN = os.environ["SUITE_TOKEN"]
BUILT_IN = {"cubbyhole/", "identity/", "sys/", "token/"}
session = requests.Session()
session.headers["X-Vault-Token"] = TOKEN


def data_of(method, path):
    answer = session.request(method, f"{ADDRESS}/v1/{path}")
    return answer.json().get("data") or {} if answer.status_code == 200 else {}


def empty():
    """Removes mounts, auth methods, policies, namespaces and quotas that are not built in."""
    for kind in ("sys/mounts", "sys/auth"):
        for path in set(data_of("GET", kind)) - BUILT_IN:
            if path.endswith("/"):
                session.delete(f"{ADDRESS}/v1/{kind}/{path.rstrip('/')}")
    lists = {
        "sys/policies/acl": {"default", "root"},
        "sys/namespaces": set(),
        "sys/quotas/rate-limit": set(),
        "identity/entity/id": set(),
        "identity/group/id": set(),
    }
    for path, kept in lists.items():
        for key in set(data_of("GET", f"{path}?list=true").get("keys", [])) - kept:
            session.delete(f"{ADDRESS}/v1/{path}/{key}")
    session.delete(f"{ADDRESS}/v1/sys/config/cors")


class RunningService(managers.ServerManager):
    def start(self):
        empty()
        self.client = tests.utils.create_client(url=ADDRESS)

    def initialize(self):
        self.root_token = self.client.token = TOKEN
        self.keys = ["00" * 33] * 5

    def unseal(self):
        pass

    def restart_vault_cluster(self, perform_init=True):
        self.initialize()

    def get_active_vault_addresses(self):
        return [ADDRESS]

    def stop(self):
        self.client = None


managers.ServerManager = RunningService
health = requests.get(f"{ADDRESS}/v1/sys/health", params={"sealedcode": 200}).json()
tests.utils.get_vault_version_string.cache = health["version"]


def pytest_configure(config):
    import urllib3

    urllib3.disable_warnings()

