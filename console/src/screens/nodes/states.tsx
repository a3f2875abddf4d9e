/** States of nodes, jobs and allocations as shape and word. */
import type { Schemas } from "../../api/client.ts";
import { Status, type Tone } from "../../components/status.tsx";

const NODE: Readonly<Record<string, Tone>> = { ready: "ok", initializing: "wait", disconnected: "warn", down: "bad" };
const ALLOCATION: Readonly<Record<string, Tone>> = {
  running: "ok",
  pending: "wait",
  complete: "off",
  failed: "bad",
  lost: "bad",
};
const JOB: Readonly<Record<string, Tone>> = { running: "ok", pending: "wait", dead: "off" };
const RUN: Readonly<Record<string, Tone>> = {
  successful: "ok",
  complete: "ok",
  running: "wait",
  pending: "wait",
  failed: "bad",
  blocked: "warn",
};

type NodeLike = Pick<Schemas["NodeStub"], "Status" | "StatusDescription">;

export const NodeStatus = ({ node }: { readonly node: NodeLike }) => (
  <Status tone={NODE[node.Status] ?? "warn"} title={node.StatusDescription || undefined}>
    {node.Status}
  </Status>
);

type Eligible = Pick<Schemas["NodeStub"], "SchedulingEligibility" | "Drain">;

export function Eligibility({ node }: { readonly node: Eligible }) {
  if (node.Drain) return <Status tone="wait">draining</Status>;
  return node.SchedulingEligibility === "eligible" ? (
    <Status tone="ok">eligible</Status>
  ) : (
    <Status tone="off">ineligible</Status>
  );
}

export const AllocationStatus = ({ status }: { readonly status: string }) => (
  <Status tone={ALLOCATION[status] ?? "warn"}>{status || "not reported"}</Status>
);

export const JobStatus = ({ status }: { readonly status: string }) => (
  <Status tone={JOB[status] ?? "warn"}>{status || "not reported"}</Status>
);

/** Of evaluations and deployments. */
export const RunStatus = ({ status }: { readonly status: string }) => (
  <Status tone={RUN[status] ?? "off"}>{status || "not reported"}</Status>
);

/** Allocations in these states hold up no drain and no volume. */
export const hasEnded = ({ ClientStatus }: { readonly ClientStatus: string }): boolean =>
  ["complete", "failed", "lost"].includes(ClientStatus);
