/** Names of nodes, for screens that know only their ids. Read once; without the right to read nodes, ids are shown. */
import { api, type Schemas } from "../../api/client.ts";
import { nodeHref, shortId } from "../../app/cluster-links.ts";
import { useResource } from "../../lib/resource.ts";

export type NodeStub = Schemas["NodeStub"];

/** The first nodes by id; empty while they are read, and without the right to read them. */
export function useNodes(): readonly NodeStub[] {
  const nodes = useResource(["node-names"], (signal) =>
    api("GET /v1/nodes", { query: { per_page: 500 }, quiet: true, signal }),
  );
  return nodes.value ?? [];
}

export function NodeLink({ id, nodes }: { readonly id: string; readonly nodes: readonly NodeStub[] }) {
  if (id === "") return <span class="muted">none</span>;
  const name = nodes.find((node) => node.ID === id)?.Name;
  return (
    <a href={nodeHref(id)} title={id} class={name ? undefined : "mono"}>
      {name ?? shortId(id)}
    </a>
  );
}
