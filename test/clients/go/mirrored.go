package main

import (
	"fmt"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

const (
	jobID        = "go-mirrored"
	allocID      = "60000000-0000-4000-8000-000000000001"
	evalID       = "60000000-0000-4000-8000-000000000002"
	nextEvalID   = "60000000-0000-4000-8000-000000000003"
	deploymentID = "60000000-0000-4000-8000-000000000004"
	nodeID       = "60000000-0000-4000-8000-000000000005"
)

type fields map[string]any

func event(topic, kind string, object fields) fields {
	namespace := "default"
	if topic == "Node" {
		namespace = ""
	}
	return fields{"Topic": topic, "Type": kind, "Namespace": namespace, "Payload": fields{topic: object}}
}

// mirrored is a job with all that belongs to it, as a relay reports it. Fields that Nomad omits are absent.
var mirrored = []fields{
	event("Node", "NodeRegistration", fields{"ID": nodeID, "Name": "go", "Datacenter": "dc1", "Status": "ready"}),
	event("Job", "JobRegistered", fields{
		"ID": jobID, "Type": "service", "Status": "running", "Version": 3,
		"TaskGroups": []fields{{"Name": "web", "Count": 1, "Tasks": []fields{{"Name": "server", "Driver": "docker"}}}},
	}),
	event("Evaluation", "EvaluationUpdated", fields{
		"ID": evalID, "JobID": jobID, "Status": "complete", "TriggeredBy": "job-register", "NextEval": nextEvalID,
	}),
	event("Evaluation", "EvaluationUpdated", fields{
		"ID": nextEvalID, "JobID": jobID, "Status": "blocked", "TriggeredBy": "queued-allocs", "PreviousEval": evalID,
	}),
	event("Deployment", "DeploymentStatusUpdate", fields{
		"ID": deploymentID, "JobID": jobID, "Status": "successful",
		"TaskGroups": fields{"web": fields{"DesiredTotal": 1, "PlacedAllocs": 1, "HealthyAllocs": 1}},
	}),
	event("Allocation", "AllocationUpdated", fields{
		"ID": allocID, "JobID": jobID, "TaskGroup": "web", "Name": jobID + ".web[0]", "NodeID": nodeID, "EvalID": evalID,
		"DeploymentID": deploymentID, "ClientStatus": "running", "DesiredStatus": "run", "JobVersion": 3,
		"TaskStates": fields{"server": fields{"State": "running"}},
	}),
	event("Service", "ServiceRegistration", fields{
		"ID": "_nomad-task-go", "ServiceName": "go-web", "JobID": jobID, "AllocID": allocID, "NodeID": nodeID,
		"Address": "10.0.0.1", "Port": 80, "Tags": []string{"a"},
	}),
}

// readMirrored sends the requests of `nomad job status`, `alloc status`, `eval status`, `deployment status`,
// `node status`, `status PREFIX` and `service info`, and reads the fields that these commands dereference.
func readMirrored(client *nomad.Client) {
	_, failure := client.Raw().Write("/v1/cluster/objects", mirrored, nil, nil)
	check(failure)

	jobs, _, failure := client.Jobs().PrefixList("go-mirr")
	check(failure)
	equal("namespace in the summary", jobs[0].JobSummary.Namespace, "default")
	job, _, failure := client.Jobs().Info(jobs[0].ID, nil)
	check(failure)
	_ = fmt.Sprint(*job.ID, *job.Name, *job.SubmitTime, *job.Type, *job.Priority, *job.Status, *job.Stop, *job.NodePool)
	equal("version", *job.Version, uint64(3))
	equal("periodic", job.IsPeriodic() || job.IsParameterized() || job.IsMultiregion(), false)
	allocs, _, failure := client.Jobs().Allocations(jobID, true, nil)
	check(failure)
	equal("allocation", allocs[0].ID, allocID)
	evals, _, failure := client.Jobs().Evaluations(jobID, nil)
	check(failure)
	equal("evaluations", len(evals), 2)
	deployment, _, failure := client.Jobs().LatestDeployment(jobID, nil)
	check(failure)
	equal("deployment", deployment.ID, deploymentID)
	summary, _, failure := client.Jobs().Summary(jobID, nil)
	check(failure)
	equal("running", summary.Summary["web"].Running, 1)
	versions, _, _, failure := client.Jobs().Versions(jobID, true, nil)
	check(failure)
	equal("versions", *versions[0].Version, uint64(3))

	stubs, _, failure := client.Allocations().PrefixList(allocID[:8])
	check(failure)
	equal("one allocation", len(stubs), 1)
	alloc, _, failure := client.Allocations().Info(stubs[0].ID, &nomad.QueryOptions{Namespace: stubs[0].Namespace})
	check(failure)
	equal("version of its job", *alloc.Job.Version, uint64(3))
	equal("its group", *alloc.Job.LookupTaskGroup(alloc.TaskGroup).Name, "web")
	equal("its task", alloc.TaskStates["server"].State, "running")
	registrations, _, failure := client.Allocations().Services(allocID, nil)
	check(failure)
	equal("its service", registrations[0].ServiceName, "go-web")

	found, _, failure := client.Evaluations().PrefixList(evalID[:36])
	check(failure)
	evaluation, _, failure := client.Evaluations().Info(found[0].ID, nil)
	check(failure)
	equal("related", evaluation.RelatedEvals[0].ID, nextEvalID)
	placed, _, failure := client.Evaluations().Allocations(evalID, nil)
	check(failure)
	equal("placed", placed[0].ID, allocID)

	deployments, _, failure := client.Deployments().PrefixList(deploymentID)
	check(failure)
	one, _, failure := client.Deployments().Info(deployments[0].ID, nil)
	check(failure)
	equal("healthy", one.TaskGroups["web"].HealthyAllocs, 1)

	nodes, _, failure := client.Nodes().PrefixList(nodeID[:8])
	check(failure)
	node, _, failure := client.Nodes().Info(nodes[0].ID, nil)
	check(failure)
	equal("node", node.Name, "go")
	running, _, failure := client.Nodes().Allocations(nodeID, nil)
	check(failure)
	equal("on the node", *running[0].Job.Version, uint64(3))

	matches, _, failure := client.Search().PrefixSearch(jobID, contexts.All, nil)
	check(failure)
	equal("jobs by prefix", matches.Matches[contexts.Jobs], []string{jobID})
	matches, _, failure = client.Search().PrefixSearch(deploymentID, contexts.All, nil)
	check(failure)
	equal("deployments by prefix", matches.Matches[contexts.Deployments], []string{deploymentID})

	services, _, failure := client.Services().List(nil)
	check(failure)
	equal("services", services[0].Services[0].ServiceName, "go-web")
	instances, _, failure := client.Services().Get("go-web", nil)
	check(failure)
	equal("port", instances[0].Port, 80)
}

// writeNodePools sends the requests of `nomad node pool apply`, `info`, `jobs`, `nodes` and `delete`.
func writeNodePools(client *nomad.Client) {
	pool := &nomad.NodePool{Name: "go-pool", Description: "by Go", Meta: map[string]string{"rack": "a"}}
	_, failure := client.NodePools().Register(pool, nil)
	check(failure)
	found, _, failure := client.NodePools().Info("go-pool", nil)
	check(failure)
	equal("description", found.Description, "by Go")
	_, failure = client.NodePools().Register(found, nil)
	check(failure)
	jobs, _, failure := client.NodePools().ListJobs("go-pool", nil)
	check(failure)
	equal("jobs", len(jobs), 0)
	nodes, _, failure := client.NodePools().ListNodes("go-pool", nil)
	check(failure)
	equal("nodes", len(nodes), 0)
	_, failure = client.NodePools().Delete("go-pool", nil)
	check(failure)
}
