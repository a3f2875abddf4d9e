import { useState } from "preact/hooks";
import { apiFull, type Schemas } from "../../api/client.ts";
import { clusterNamespace } from "../../api/namespaces.ts";
import { jobHref, nodeHref } from "../../app/cluster-links.ts";
import { useAsked } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { ListScreen, useSearch } from "../../components/list-screen.tsx";
import { Ago, Countdown } from "../../components/moments.tsx";
import { Page } from "../../components/page.tsx";
import { noneOf } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import type { Column } from "../../components/table.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { toast } from "../../components/toasts.tsx";
import { pageOf, useLiveList, withText } from "../../lib/live.ts";
import { JoinDialog } from "./join-dialog.tsx";
import type { NodeStub } from "./node-names.tsx";
import { Eligibility, JobStatus, NodeStatus } from "./states.tsx";

export function NodeLists() {
  const [joins, setJoins] = useState(false);
  useAsked("new", () => setJoins(true));
  const join = (
    <Button kind="primary" icon="plus" needs="POST agent/tokens" onClick={() => setJoins(true)}>
      Join a node
    </Button>
  );
  return (
    <Page
      title="Nodes and jobs"
      about="Machines with an agent, which makes their volumes, and the jobs and nodes that your scheduler reports."
      actions={join}
    >
      <Tabs
        label="Parts of the cluster"
        tabs={[
          { name: "nodes", label: "Nodes", content: () => <Nodes onJoin={() => setJoins(true)} /> },
          { name: "jobs", label: "Jobs", content: () => <Jobs /> },
          { name: "agents", label: "Agents", content: () => <Agents /> },
          { name: "join-tokens", label: "Join tokens", content: () => <JoinTokens /> },
        ]}
      />
      {joins && <JoinDialog onClose={() => setJoins(false)} />}
    </Page>
  );
}

function Nodes({ onJoin }: { readonly onJoin: () => void }) {
  const search = useSearch("Nodes by name or ID");
  const { text } = search;
  const list = useLiveList(["nodes", text], async (from, options) => {
    const query = { ...pageOf(from), ...withText(text) };
    const { body, nextToken } = await apiFull("GET /v1/nodes", { query, ...options });
    return { rows: body, next: nextToken };
  });
  const columns: Column<NodeStub>[] = [
    { key: "name", label: "Name", render: (node) => node.Name || node.ID },
    { key: "status", label: "Status", width: "130px", render: (node) => <NodeStatus node={node} /> },
    {
      key: "eligible",
      label: "Scheduling",
      width: "120px",
      isMinor: true,
      render: (node) => <Eligibility node={node} />,
    },
    { key: "pool", label: "Pool", width: "140px", isMinor: true, render: (node) => node.NodePool },
    { key: "datacenter", label: "Datacenter", width: "140px", isMinor: true, render: (node) => node.Datacenter },
    {
      key: "id",
      label: "ID",
      width: "110px",
      isMinor: true,
      render: (node) => <span class="mono">{node.ID.slice(0, 8)}</span>,
    },
  ];
  return (
    <ListScreen
      label="Nodes"
      resource={list}
      search={search}
      columns={columns}
      keyOf={(node) => node.ID}
      hrefOf={(node) => nodeHref(node.ID)}
      none={noneOf("node")}
      noMatch="No node has this in its name or ID"
      firstStep={
        <Button icon="plus" needs="POST agent/tokens" onClick={onJoin}>
          Join the first one
        </Button>
      }
    >
      A node joins with one command that holds a token for it alone.
    </ListScreen>
  );
}

type JobStub = Schemas["JobStub"];

/** Allocations of all groups of a job, by state. */
function allocationsText({ JobSummary }: JobStub): string {
  const groups = Object.values(JobSummary?.Summary ?? {});
  const sum = (of: (group: (typeof groups)[number]) => number) => groups.reduce((all, group) => all + of(group), 0);
  const running = sum(({ Running }) => Running);
  const failed = sum(({ Failed, Lost }) => Failed + Lost);
  return failed > 0 ? `${running} running, ${failed} failed` : `${running} running`;
}

function Jobs() {
  const search = useSearch("Jobs by name or ID");
  const { text } = search;
  const list = useLiveList(["jobs", text], async (from, options) => {
    const query = { ...pageOf(from), ...withText(text) };
    const { body, nextToken } = await apiFull("GET /v1/jobs", { query, ...options });
    return { rows: body, next: nextToken };
  });
  const namespace: Column<JobStub>[] =
    clusterNamespace.value === "*"
      ? [{ key: "namespace", label: "Namespace", width: "130px", isMinor: true, render: (job) => job.Namespace }]
      : [];
  const columns: Column<JobStub>[] = [
    { key: "id", label: "Job", render: (job) => job.ID },
    { key: "status", label: "Status", width: "130px", render: (job) => <JobStatus status={job.Status} /> },
    { key: "allocations", label: "Allocations", width: "190px", isMinor: true, render: allocationsText },
    { key: "type", label: "Type", width: "110px", isMinor: true, render: (job) => job.Type },
    ...namespace,
  ];
  return (
    <ListScreen
      label="Jobs"
      resource={list}
      search={search}
      columns={columns}
      keyOf={(job) => `${job.Namespace} ${job.ID}`}
      hrefOf={(job) => jobHref(job.ID, job.Namespace)}
      none={noneOf("job")}
      noMatch="No job has this in its name or ID"
    >
      Your scheduler reports jobs and allocations; Sallyport starts none itself.
    </ListScreen>
  );
}

function Agents() {
  const list = useLiveList(["agents"], async (from, options) => {
    const { body, nextToken } = await apiFull("GET /v1/agents", { query: pageOf(from), ...options });
    return { rows: body, next: nextToken };
  });
  return (
    <ListScreen
      label="Agents"
      resource={list}
      keyOf={(agent) => agent.NodeID}
      hrefOf={(agent) => nodeHref(agent.NodeID)}
      columns={[
        { key: "name", label: "Node", render: (agent) => agent.Name || agent.NodeID },
        {
          key: "connected",
          label: "Connection",
          width: "150px",
          render: ({ Connected }) =>
            Connected ? <Status tone="ok">connected</Status> : <Status tone="warn">away</Status>,
        },
        {
          key: "seen",
          label: "Last seen",
          width: "150px",
          isMinor: true,
          render: ({ Connected, LastSeen }) => (Connected ? "now" : <Ago at={LastSeen} />),
        },
        { key: "version", label: "Version", width: "120px", isMinor: true, render: ({ Version }) => Version },
      ]}
      none={noneOf("agent")}
    >
      The button above makes the command that joins one.
    </ListScreen>
  );
}

function JoinTokens() {
  const list = useLiveList(["join-tokens"], async (from, options) => {
    const { body, nextToken } = await apiFull("GET /v1/agent/tokens", { query: pageOf(from), ...options });
    return { rows: body, next: nextToken };
  });
  const revoke = async (accessor: string, name: string): Promise<void> => {
    const options = { path: { accessor } };
    const done = await confirmed(
      {
        title: `Revoke the join token ${name || accessor}`,
        text: "No node can join with it any more. A node that has joined stays.",
        verb: "Revoke the token",
        isDangerous: true,
      },
      "DELETE /v1/agent/token/{accessor}",
      options,
    );
    if (!done) return;
    toast("The join token is revoked.");
    list.reload();
  };
  return (
    <ListScreen
      label="Join tokens"
      resource={list}
      keyOf={(token) => token.AccessorID}
      columns={[
        { key: "name", label: "For", render: (token) => token.Name || <span class="muted">any name</span> },
        { key: "pool", label: "Pool", width: "140px", isMinor: true, render: (token) => token.NodePool },
        {
          key: "used",
          label: "State",
          width: "190px",
          render: ({ NodeID, ExpirationTime }) =>
            NodeID ? (
              <Status tone="off">used</Status>
            ) : (
              <>
                <Status tone="wait">unused</Status> <Countdown to={ExpirationTime} over="expired" />
              </>
            ),
        },
        {
          key: "revoke",
          label: "Revoke",
          isLabelHidden: true,
          width: "110px",
          align: "end",
          render: ({ AccessorID, Name }) => (
            <Button kind="quiet" needs="DELETE agent/token/*" onClick={() => void revoke(AccessorID, Name)}>
              Revoke
            </Button>
          ),
        },
      ]}
      none="No join token"
    >
      A join token lets one node join, within its time.
    </ListScreen>
  );
}
