"""Google's official client, built from the discovery documents in its package, against the double of IAM.

Prints a line of JSON for each step: its name, and "ok" or the error.
"""

import base64
import json
import sys

from google.auth.exceptions import RefreshError
from google.auth.transport.requests import Request
from google.oauth2 import service_account
from googleapiclient import discovery
from googleapiclient.errors import HttpError

url, token_url, project, text = sys.argv[1:]
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def credentials_of(key):
    return service_account.Credentials.from_service_account_info({**key, "token_uri": token_url}, scopes=[SCOPE])


root = credentials_of(json.loads(text))


def api(name, version, path=""):
    endpoint = {"api_endpoint": f"{url}/{name}.googleapis.com/{path}"}
    return discovery.build(name, version, credentials=root, client_options=endpoint, cache_discovery=False)


accounts = api("iam", "v1").projects().serviceAccounts()
keys = accounts.keys()
tokens = api("iamcredentials", "v1").projects().serviceAccounts()
name = f"projects/-/serviceAccounts/sdk-account@{project}.iam.gserviceaccount.com"
member = f"serviceAccount:sdk-account@{project}.iam.gserviceaccount.com"
state = {}


def soon(act, problem):
    """What is new is not known everywhere at once."""
    for _ in range(5):
        try:
            return act()
        except problem as failure:
            last = failure
    raise last


def refused(act, status):
    try:
        act()
    except HttpError as failure:
        assert failure.status_code == status, failure
    else:
        raise AssertionError("it was accepted")


def create():
    body = {"accountId": "sdk-account", "serviceAccount": {"displayName": "sdk", "description": "by the SDK"}}
    made = accounts.create(name=f"projects/{project}", body=body).execute()
    assert made["email"] == name.rsplit("/", 1)[1], made
    assert accounts.get(name=name).execute()["uniqueId"] == made["uniqueId"]
    refused(lambda: accounts.create(name=f"projects/{project}", body=body).execute(), 409)


def create_key():
    body = {"keyAlgorithm": "KEY_ALG_RSA_2048", "privateKeyType": "TYPE_GOOGLE_CREDENTIALS_FILE"}
    made = keys.create(name=name, body=body).execute()
    state["key"] = f"{name}/keys/{made['name'].rsplit('/', 1)[1]}"
    state["credentials"] = credentials_of(json.loads(base64.b64decode(made["privateKeyData"])))
    listed = keys.list(name=name, keyTypes="USER_MANAGED").execute()["keys"]
    assert [each["name"] for each in listed] == [made["name"]], listed
    assert keys.get(name=state["key"]).execute()["validAfterTime"] == made["validAfterTime"]


def login():
    soon(lambda: state["credentials"].refresh(Request()), RefreshError)
    assert state["credentials"].valid


def change(resources, resource, read, role):
    """Adds the account to a policy, by its etag; an old etag is refused."""
    policy = read()
    policy["version"] = 3
    policy["bindings"] = [*policy.get("bindings", []), {"role": role, "members": [member]}]
    arguments = {"bucket": resource, "body": policy} if "/" not in resource else {"resource": resource, "body": {"policy": policy}}
    soon(lambda: resources.setIamPolicy(**arguments).execute(), HttpError)
    assert any(member in each["members"] for each in read()["bindings"])
    refused(lambda: resources.setIamPolicy(**arguments).execute(), 409)


def policy_of_project():
    projects = api("cloudresourcemanager", "v3").projects()
    asks = {"options": {"requestedPolicyVersion": 3}}
    resource = f"projects/{project}"
    change(projects, resource, lambda: projects.getIamPolicy(resource=resource, body=asks).execute(), "roles/viewer")


def policy_of_topic():
    topics = api("pubsub", "v1").projects().topics()
    resource = f"projects/{project}/topics/news"
    read = lambda: topics.getIamPolicy(resource=resource, options_requestedPolicyVersion=3).execute()
    change(topics, resource, read, "roles/pubsub.viewer")


def policy_of_bucket():
    buckets = api("storage", "v1", "storage/v1/").buckets()
    read = lambda: buckets.getIamPolicy(bucket="files", optionsRequestedPolicyVersion=3).execute()
    change(buckets, "files", read, "roles/storage.objectViewer")


def impersonate():
    body = {"scope": [SCOPE], "lifetime": "600s"}
    generate = lambda: tokens.generateAccessToken(name=name, body=body).execute()
    refused(generate, 403)
    resource = name.replace("/-/", f"/{project}/")
    policy = accounts.getIamPolicy(resource=resource, options_requestedPolicyVersion=3).execute()
    policy["bindings"] = [{"role": "roles/iam.serviceAccountTokenCreator", "members": [f"serviceAccount:{root.service_account_email}"]}]
    accounts.setIamPolicy(resource=resource, body={"policy": policy}).execute()
    assert soon(generate, HttpError)["accessToken"]


def disable_key():
    keys.disable(name=state["key"], body={}).execute()
    assert keys.get(name=state["key"]).execute()["disabled"] is True
    try:
        state["credentials"].refresh(Request())
    except RefreshError:
        return
    raise AssertionError("a disabled key has logged in")


def delete():
    keys.delete(name=state["key"]).execute()
    refused(lambda: keys.get(name=state["key"]).execute(), 404)
    accounts.delete(name=name).execute()
    refused(lambda: accounts.get(name=name).execute(), 404)


steps = [create, create_key, login, policy_of_project, policy_of_topic, policy_of_bucket, impersonate, disable_key, delete]
for step in steps:
    try:
        step()
        outcome = "ok"
    except Exception as failure:  # pylint: disable=broad-except
        outcome = repr(failure)
    print(json.dumps({"step": step.__name__, "outcome": outcome}))
