/** States of volumes, claims and operations as shape and word. */
import type { Schemas } from "../../api/client.ts";
import { Status, type Tone } from "../../components/status.tsx";

const HOST: Readonly<Record<string, Tone>> = { ready: "ok", pending: "wait", unavailable: "bad" };
const CLAIM: Readonly<Record<string, Tone>> = { published: "ok", attached: "wait", taken: "wait", pending: "wait" };
const OPERATION: Readonly<Record<string, Tone>> = {
  queued: "wait",
  running: "wait",
  unknown: "warn",
  done: "ok",
  failed: "bad",
};

export const HostState = ({ state }: { readonly state: string }) => (
  <Status tone={HOST[state] ?? "warn"}>{state}</Status>
);

export const CsiState = ({ volume }: { readonly volume: Schemas["CsiVolumeStub"] | Schemas["CsiVolume"] }) =>
  volume.Schedulable ? (
    <Status tone="ok">schedulable</Status>
  ) : (
    <Status tone="bad" title={healthText(volume)}>
      not schedulable
    </Status>
  );

/** A claim that fails is `warn` in whatever state it is. */
export const ClaimState = ({ claim }: { readonly claim: Schemas["CsiClaim"] }) => (
  <Status tone={claim.LastError ? "warn" : (CLAIM[claim.State] ?? "off")} title={claim.LastError || undefined}>
    {claim.State}
  </Status>
);

export const OperationState = ({ state }: { readonly state: string }) => (
  <Status tone={OPERATION[state] ?? "off"}>{state}</Status>
);

interface Health {
  readonly ControllerRequired: boolean;
  readonly ControllersHealthy: number;
  readonly ControllersExpected: number;
  readonly NodesHealthy: number;
  readonly NodesExpected: number;
}

export const healthText = ({ ControllersHealthy, ControllersExpected, NodesHealthy, NodesExpected }: Health): string =>
  `${ControllersHealthy} of ${ControllersExpected} controllers and ${NodesHealthy} of ${NodesExpected} nodes healthy`;

export function PluginState({ plugin }: { readonly plugin: Health }) {
  const { ControllerRequired, ControllersHealthy, ControllersExpected, NodesHealthy, NodesExpected } = plugin;
  if (NodesHealthy === 0 || (ControllerRequired && ControllersHealthy === 0))
    return <Status tone="bad">unhealthy</Status>;
  if (NodesHealthy < NodesExpected || ControllersHealthy < ControllersExpected)
    return <Status tone="warn">partly healthy</Status>;
  return <Status tone="ok">healthy</Status>;
}
