import { useState } from "preact/hooks";
import { api, type Schemas } from "../../api/client.ts";
import { go, href } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Menu } from "../../components/menu.tsx";
import { Ago } from "../../components/moments.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Empty, Loaded, Progress } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useLive } from "../../lib/live.ts";
import { plural } from "../../lib/text.ts";
import { Allocations } from "./allocations.tsx";
import { DrainDialog } from "./drain-dialog.tsx";
import { Attributes, Resources, Volumes } from "./node-details.tsx";
import { Eligibility, hasEnded, NodeStatus } from "./states.tsx";

type Node = Schemas["Node"];

const WRITE = "PUT node/*";

export function NodePage({ id }: { readonly id: string }) {
  const [drains, setDrains] = useState(false);
  const path = { id };
  const node = useLive(["node", id], (options) => api("GET /v1/node/{id}", { path, ...options }));
  const allocations = useLive(["node-allocations", id], (options) =>
    api("GET /v1/node/{id}/allocations", { path, query: { per_page: 500 }, ...options }),
  );
  const { value } = node;
  const rows = (allocations.value ?? []) as unknown as readonly Schemas["AllocationStub"][];
  const setEligibility = async (eligibility: "eligible" | "ineligible"): Promise<void> => {
    const options = { path, body: { Eligibility: eligibility } };
    const done = await confirmed(
      {
        title: `Make ${value?.Name} ${eligibility}`,
        text:
          eligibility === "eligible"
            ? "New volumes and allocations may be placed here again."
            : "Nothing new is placed here. What is here stays.",
        verb: `Make the node ${eligibility}`,
      },
      "PUT /v1/node/{id}/eligibility",
      options,
    );
    if (done) node.reload();
  };
  const endDrain = async (): Promise<void> => {
    const options = { path, body: { DrainSpec: null, MarkEligible: true } };
    const done = await confirmed(
      {
        title: `End the drain of ${value?.Name}`,
        text: "Allocations that have moved stay on their new nodes. The node becomes eligible.",
        verb: "End the drain",
      },
      "PUT /v1/node/{id}/drain",
      options,
    );
    if (done) node.reload();
  };
  const purge = async (): Promise<void> => {
    const done = await confirmed(
      {
        title: `Purge ${value?.Name}`,
        text: "The node is forgotten. An agent that still runs joins again as another node. For a machine that is gone.",
        verb: "Purge the node",
        isDangerous: true,
        typed: value?.Name || id,
      },
      "PUT /v1/node/{id}/purge",
      { path },
    );
    if (!done) return;
    toast("The node is forgotten.");
    go(href("nodes"));
  };
  const actions = value && (
    <>
      {value.SchedulingEligibility === "eligible" ? (
        <Button needs={WRITE} onClick={() => void setEligibility("ineligible")}>
          Make ineligible
        </Button>
      ) : (
        !value.Drain && (
          <Button needs={WRITE} onClick={() => void setEligibility("eligible")}>
            Make eligible
          </Button>
        )
      )}
      {value.Drain ? (
        <Button needs={WRITE} onClick={() => void endDrain()}>
          End the drain
        </Button>
      ) : (
        <Button needs={WRITE} onClick={() => setDrains(true)}>
          Drain
        </Button>
      )}
      <Menu
        label="More actions"
        items={[{ label: "Purge the node", isDangerous: true, needs: WRITE, onSelect: () => void purge() }]}
      />
    </>
  );
  return (
    <Page
      title={value ? value.Name || "Node" : "Node"}
      crumbs={[{ label: "Nodes and jobs", href: href("nodes") }]}
      actions={actions}
    >
      <Loaded resource={node} label="The node">
        {(shown) => (
          <>
            {(shown.Drain || shown.LastDrain) && <Drain node={shown} allocations={rows} />}
            <div class="grid">
              <Card title="Node">
                <Properties
                  items={[
                    ["Status", <NodeStatus node={shown} />],
                    ["Because", shown.StatusDescription],
                    ["Scheduling", <Eligibility node={shown} />],
                    ["Pool", shown.NodePool],
                    ["Datacenter", shown.Datacenter],
                    ["Class", shown.NodeClass],
                    ["Status since", <Ago at={shown.StatusUpdatedAt || null} />],
                    [
                      "Id",
                      <>
                        <span class="mono">{shown.ID}</span> <CopyButton text={shown.ID} label="the id" />
                      </>,
                    ],
                  ]}
                />
              </Card>
              <Agent id={id} />
              <Resources node={shown} />
            </div>
            <Volumes id={id} />
            <Card title="Allocations" flush>
              <Allocations rows={rows} />
            </Card>
            <Card title="History" flush>
              <DataTable
                label="Events of the node"
                rows={[...(shown.Events ?? [])].reverse()}
                keyOf={(event) => `${event.CreateIndex} ${event.Timestamp} ${event.Message}`}
                columns={[
                  { key: "at", label: "When", width: "150px", render: ({ Timestamp }) => <Ago at={Timestamp} /> },
                  { key: "what", label: "Message", render: ({ Message }) => Message },
                  { key: "from", label: "From", width: "130px", isMinor: true, render: ({ Subsystem }) => Subsystem },
                ]}
                empty={<Empty title="Nothing has happened yet" />}
              />
            </Card>
            <Attributes node={shown} />
            <details class="more-fields">
              <summary>The node as JSON</summary>
              <Json value={shown} label="the node as JSON" />
            </details>
            {drains && (
              <DrainDialog
                node={shown}
                onClose={() => setDrains(false)}
                onDone={() => {
                  setDrains(false);
                  node.reload();
                }}
              />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** Progress of a drain: allocations moved, and those that remain. */
function Drain({
  node,
  allocations,
}: {
  readonly node: Node;
  readonly allocations: readonly Schemas["AllocationStub"][];
}) {
  const ended = allocations.filter(hasEnded).length;
  const { DrainStrategy: strategy, LastDrain: last } = node;
  return (
    <Card title={node.Drain ? "This node is being drained" : "Last drain"}>
      {node.Drain && allocations.length > 0 && (
        <Progress done={ended} total={allocations.length} label="Allocations moved away" />
      )}
      <Properties
        items={[
          ["Status", last?.Status],
          ["Began", last?.StartedAt && <Ago at={last.StartedAt} />],
          ["Forced", node.Drain && strategy?.ForceDeadline ? <Ago at={strategy.ForceDeadline} /> : null],
          ["Changed", last?.UpdatedAt && <Ago at={last.UpdatedAt} />],
        ]}
      />
    </Card>
  );
}

function Agent({ id }: { readonly id: string }) {
  const agent = useLive(["agent", id], async (options) => {
    const agents = await api("GET /v1/agents", { query: { per_page: 1_000 }, ...options });
    return agents.some(({ NodeID }) => NodeID === id)
      ? api("GET /v1/agent/{node}", { path: { node: id }, ...options })
      : null;
  });
  return (
    <Card title="Agent">
      <Loaded resource={agent} label="The agent">
        {(shown) =>
          shown === null ? (
            <p class="muted">No agent runs on this node: your scheduler reports it.</p>
          ) : (
            <Properties
              items={[
                [
                  "Connection",
                  shown.Connected ? <Status tone="ok">connected</Status> : <Status tone="warn">away</Status>,
                ],
                ["Last seen", shown.Connected ? "now" : <Ago at={shown.LastSeen} />],
                ["Version", shown.Version],
                ["Under way", plural(shown.Operations.InFlight, "operation")],
                ["Waiting", plural(shown.Operations.Queued, "operation")],
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  );
}
