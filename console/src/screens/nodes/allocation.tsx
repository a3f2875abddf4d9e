import { api, type Schemas } from "../../api/client.ts";
import { jobHref, nodeHref, objectNamespace } from "../../app/cluster-links.ts";
import { href } from "../../app/router.ts";
import { Json } from "../../components/code.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Loaded } from "../../components/states.tsx";
import { useLive } from "../../lib/live.ts";
import { AllocationStatus } from "./states.tsx";

export function AllocationPage({ id }: { readonly id: string }) {
  const namespace = objectNamespace();
  const allocation = useLive(["allocation", id, namespace], (options) =>
    api("GET /v1/allocation/{id}", { path: { id }, namespace, ...options }),
  );
  return (
    <Page title="Allocation" crumbs={[{ label: "Nodes and jobs", href: href("nodes", [], { tab: "jobs" }) }]}>
      <Loaded resource={allocation} label="The allocation">
        {(shown) => {
          const stub = shown as Partial<Schemas["AllocationStub"]> & typeof shown;
          return (
            <>
              <Card title={stub.Name || id.slice(0, 8)}>
                <Properties
                  items={[
                    ["Status", <AllocationStatus status={stub.ClientStatus ?? ""} />],
                    ["Because", stub.ClientDescription],
                    ["Wanted", stub.DesiredStatus],
                    ["Job", stub.JobID && <a href={jobHref(stub.JobID, shown.Namespace)}>{stub.JobID}</a>],
                    ["Group", stub.TaskGroup],
                    ["Node", stub.NodeID && <a href={nodeHref(stub.NodeID)}>{stub.NodeName || stub.NodeID}</a>],
                    ["Namespace", shown.Namespace],
                    ["Id", <span class="mono">{shown.ID}</span>],
                  ]}
                />
              </Card>
              <details class="more-fields">
                <summary>The allocation as JSON</summary>
                <Json value={shown} label="the allocation as JSON" />
              </details>
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
