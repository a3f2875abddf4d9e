"""A pytest plugin for python-nomad's own tests: what its repository has beside them, and the service at SUITE_ADDRESS.

The source distribution leaves out `tests/common.py`, the fixtures and the job files; this plugin stands in for them.
The tests run one job on one node. The service has no scheduler, so both are reported as a scheduler would report them.
"""

import json
import os
import sys
import types
import urllib.parse

import nomad
import pytest
import requests

address = urllib.parse.urlsplit(os.environ["SUITE_ADDRESS"])
TOKEN = os.environ["SUITE_TOKEN"]
os.environ.setdefault("NOMAD_VERSION", "2.0.5")

common = types.ModuleType("tests.common")
common.IP = address.hostname
common.NOMAD_PORT = address.port
common.NOMAD_TOKEN = TOKEN
common.NOMAD_NAMESPACE = "admin"
sys.modules["tests.common"] = common


def client(**more):
    return nomad.Nomad(host=common.IP, port=common.NOMAD_PORT, verify=False, token=common.NOMAD_TOKEN, **more)


@pytest.fixture
def nomad_setup():
    return client()


@pytest.fixture
def nomad_setup_with_namespace():
    return client(namespace=common.NOMAD_NAMESPACE)


def task(driver, **config):
    return {"Name": "task", "Driver": driver, "Config": config, "Resources": {"CPU": 100, "MemoryMB": 64}}


def job(name, kind, **more):
    group = {"Name": "group", "Count": 1, "Tasks": [task("raw_exec", command="/bin/sleep", args=["500"])]}
    return {"Job": {"ID": name, "Name": name, "Type": kind, "Datacenters": ["dc1"], "TaskGroups": [group], **more}}


def uuid(number):
    return f"{number:08x}-5017-4000-8000-000000000000"


def event(topic, kind, payload):
    return {"Topic": topic, "Type": kind, "Payload": {topic: payload}}


def report():
    """Reports the job `example`, what it runs, and the node `pynomad1`."""
    of = {"JobID": "example", "Namespace": "default"}
    job = {"ID": "example", "Name": "example", "Type": "service", "Status": "running", "Datacenters": ["dc1"]}
    evaluation = {"ID": uuid(2), "Status": "complete", "Type": "service", "TriggeredBy": "job-register", **of}
    deployment = {"ID": uuid(3), "JobVersion": 0, "Status": "running", **of}
    alloc = {"ID": uuid(4), "EvalID": uuid(2), "DeploymentID": uuid(3), "NodeID": uuid(1), **of}
    alloc |= {"Name": "example.group[0]", "TaskGroup": "group", "ClientStatus": "running", "DesiredStatus": "run"}
    node = {"ID": uuid(1), "Name": "pynomad1", "Datacenter": "dc1", "Status": "ready"}
    events = [
        event("Node", "NodeRegistration", node),
        event("Job", "JobRegistered", job),
        event("Evaluation", "EvaluationUpdated", evaluation),
        event("Deployment", "DeploymentStatusUpdate", deployment),
        event("Allocation", "AllocationUpdated", alloc),
    ]
    url = f"http://{common.IP}:{common.NOMAD_PORT}/v1/cluster/objects"
    answer = requests.put(url, headers={"X-Nomad-Token": TOKEN}, json=events)
    assert answer.status_code == 200, answer.text


@pytest.fixture(autouse=True, scope="session")
def job_files(tmp_path_factory):
    """The tests open the files of jobs relative to the working directory."""
    directory = tmp_path_factory.mktemp("jobs")
    batch = job("example-batch", "batch", ParameterizedJob={"MetaRequired": ["time"]})
    (directory / "example.json").write_text(json.dumps(job("example", "service")))
    (directory / "example_batch_parameterized.json").write_text(json.dumps(batch))
    (directory / "example.nomad").write_text('job "example" { group "g" { task "t" { driver = "raw_exec" } } }')
    report()
    before = os.getcwd()
    os.chdir(directory)
    yield
    os.chdir(before)

