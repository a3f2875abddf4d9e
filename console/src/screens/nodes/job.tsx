import { api } from "../../api/client.ts";
import { objectNamespace } from "../../app/cluster-links.ts";
import { href } from "../../app/router.ts";
import { Json } from "../../components/code.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { useLive } from "../../lib/live.ts";
import { Allocations } from "./allocations.tsx";
import { JobStatus, RunStatus } from "./states.tsx";

/** The shown fields of a job; its scheduler may report none of them. */
interface ReportedJob {
  readonly Type?: string;
  readonly Status?: string;
  readonly StatusDescription?: string;
  readonly Version?: number;
  readonly Priority?: number;
  readonly NodePool?: string;
}

export function JobPage({ id }: { readonly id: string }) {
  const namespace = objectNamespace();
  const path = { id };
  const job = useLive(["job", id, namespace], (options) => api("GET /v1/job/{id}", { path, namespace, ...options }));
  const allocations = useLive(["job-allocations", id, namespace], (options) =>
    api("GET /v1/job/{id}/allocations", { path, namespace, query: { per_page: 500 }, ...options }),
  );
  const deployments = useLive(["job-deployments", id, namespace], (options) =>
    api("GET /v1/job/{id}/deployments", { path, namespace, query: { per_page: 50 }, ...options }),
  );
  return (
    <Page title={id} crumbs={[{ label: "Nodes and jobs", href: href("nodes", [], { tab: "jobs" }) }]}>
      <Loaded resource={job} label="The job">
        {(shown) => {
          const reported: ReportedJob = shown as ReportedJob;
          return (
            <>
              <Card title="Job">
                <Properties
                  items={[
                    ["Status", <JobStatus status={reported.Status ?? ""} />],
                    ["Because", reported.StatusDescription],
                    ["Type", reported.Type],
                    ["Version", reported.Version],
                    ["Priority", reported.Priority],
                    ["Pool", reported.NodePool],
                    ["Namespace", shown.Namespace],
                  ]}
                />
              </Card>
              <Card title="Allocations" flush>
                <Loaded resource={allocations} label="Allocations">
                  {(rows) => <Allocations rows={rows} />}
                </Loaded>
              </Card>
              <Card title="Deployments" flush>
                <Loaded resource={deployments} label="Deployments">
                  {(rows) => (
                    <DataTable
                      label="Deployments"
                      rows={rows as readonly { readonly ID: string; readonly Status?: string }[]}
                      keyOf={(row) => row.ID}
                      columns={[
                        {
                          key: "id",
                          label: "Deployment",
                          render: (row) => <span class="mono">{row.ID.slice(0, 8)}</span>,
                        },
                        { key: "status", label: "Status", render: (row) => <RunStatus status={row.Status ?? ""} /> },
                      ]}
                      empty={<Empty title="No deployment is reported" />}
                    />
                  )}
                </Loaded>
              </Card>
              <details class="more-fields">
                <summary>The job as JSON</summary>
                <Json value={shown} label="the job as JSON" />
              </details>
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
