"""The main flow of python-nomad against one service.

Usage: nomad_flow.py ADDRESS TOKEN. Prints one line of JSON for each step: its name, and "ok" or the error.
"""

import json
import sys
import time
from urllib.parse import urlparse

import nomad

address, root = sys.argv[1:3]
# A node of the sample data; the node of the local agent has other fields.
NODE = "eu-1-worker-3"
url = urlparse(address)
client = nomad.Nomad(host=url.hostname, port=url.port, token=root, timeout=15)


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


@step("status and agent")
def _():
    assert ":" in client.status.leader.get_leader()
    assert isinstance(client.status.peers.get_peers(), list)
    assert client.agent.get_agent()["config"]
    assert client.agent.get_members()["Members"]
    assert client.regions.get_regions()


@step("nodes")
def _():
    for _ in range(100):
        nodes = [node for node in client.nodes.get_nodes() if node["Name"] == NODE and node["Status"] == "ready"]
        if nodes:
            break
        time.sleep(0.2)
    node = client.node.get_node(nodes[0]["ID"])
    assert node["ID"] == nodes[0]["ID"] and not node.get("SecretID")
    assert isinstance(client.node.get_allocations(nodes[0]["ID"]), list)
    assert "EvalIDs" in client.node.eligible_node(nodes[0]["ID"], eligible=True)


@step("access control")
def _():
    rules = 'namespace "default" { policy = "read" }'
    client.acl.create_policy("py-reader", policy={"Name": "py-reader", "Description": "", "Rules": rules})
    assert client.acl.get_policy("py-reader")["Rules"] == rules
    made = client.acl.create_token({"Name": "py", "Type": "client", "Policies": ["py-reader"]})
    assert client.acl.get_token(made["AccessorID"])["Name"] == "py"
    own = nomad.Nomad(host=url.hostname, port=url.port, token=made["SecretID"], timeout=15)
    assert own.acl.get_self_token()["AccessorID"] == made["AccessorID"]
    made["Name"] = "renamed"
    client.acl.update_token(made["AccessorID"], made)
    assert any(token["Name"] == "renamed" for token in client.acl.get_tokens())
    client.acl.delete_token(made["AccessorID"])
    role = client.acl.request("role", json={"Name": "py-role", "Policies": [{"Name": "py-reader"}]}, method="post").json()
    held = client.acl.create_token({"Name": "py", "Type": "client", "Roles": [{"Name": "py-role"}]})
    assert held["Roles"] == [{"ID": role["ID"], "Name": "py-role"}], held
    own = nomad.Nomad(host=url.hostname, port=url.port, token=held["SecretID"], timeout=15)
    assert isinstance(own.jobs.get_jobs(), list)
    client.acl.request("role", role["ID"], method="delete")
    client.acl.delete_token(held["AccessorID"])
    client.acl.delete_policy("py-reader")


@step("namespaces")
def _():
    client.namespace.create_namespace({"Name": "py", "Description": "by python"})
    assert client.namespace.get_namespace("py")["Description"] == "by python"
    client.namespace.update_namespace("py", {"Name": "py", "Description": "changed"})
    assert any(found["Name"] == "py" for found in client.namespaces.get_namespaces())
    client.namespace.delete_namespace("py")


@step("lists")
def _():
    for found in (
        client.jobs.get_jobs(),
        client.allocations.get_allocations(),
        client.evaluations.get_evaluations(),
        client.deployments.get_deployments(),
    ):
        assert isinstance(found, list)


@step("search")
def _():
    assert "Matches" in client.search.search("a", "nodes")


@step("operator and system")
def _():
    assert client.operator.get_configuration()["Servers"]
    client.system.initiate_garbage_collection()


@step("event stream")
def _():
    stream, exits, events = client.event.stream.get_stream(index=0, topic={"ACLPolicy": "*"})
    rules = 'node { policy = "read" }'
    stream.start()
    client.acl.create_policy("py-event", policy={"Name": "py-event", "Description": "", "Rules": rules})
    seen = events.get(timeout=20)
    exits.set()
    assert any(event["Topic"] == "ACLPolicy" for event in seen["Events"]), seen
    client.acl.delete_policy("py-event")
