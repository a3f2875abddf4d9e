import { startStandIn as appConfig } from "../doubles/app-config/stand-in.ts";
import { startStandIn as ciContext } from "../doubles/ci-context/stand-in.ts";
import { startStandIn as ciVariables } from "../doubles/ci-variables/stand-in.ts";
import { startStandIn as cloudAPs } from "../doubles/cloud-a-ps/stand-in.ts";
import { startStandIn as cloudBAc } from "../doubles/cloud-b-ac/stand-in.ts";
import { startStandIn as clusterSecrets } from "../doubles/cluster-secrets/stand-in.ts";
import { startStandIn as deployEnvironment } from "../doubles/deploy-environment/stand-in.ts";
import { startStandIn as deployService } from "../doubles/deploy-service/stand-in.ts";
import { startStandIn as deploySite } from "../doubles/deploy-site/stand-in.ts";
import { startStandIn as edgeStore } from "../doubles/edge-store/stand-in.ts";
import { startStandIn as edgeWorker } from "../doubles/edge-worker/stand-in.ts";
import { startStandIn as functionSecrets } from "../doubles/function-secrets/stand-in.ts";
import { startStandIn as https } from "../doubles/https/stand-in.ts";
import { startStandIn as iacVariables } from "../doubles/iac-variables/stand-in.ts";
import { startStandIn as kvV2 } from "../doubles/kv-v2/stand-in.ts";
import { startStandIn as machineSecrets } from "../doubles/machine-secrets/stand-in.ts";
import { startStandIn as pipelineVariables } from "../doubles/pipeline-variables/stand-in.ts";
import { startStandIn as repoHostVariables } from "../doubles/repo-host-variables/stand-in.ts";
import type { StandIn, Fault as StandInFault } from "../doubles/stand-in.ts";
import type { Shared as Parts } from "../doubles/stand-ins.ts";
import type { Fault, Store } from "./providers.ts";
import { Line } from "./proxy-line.ts";

/** Doubles of `providers.ts` that further types use. */
type Shared = Pick<Parts, "cloudB" | "repoHost">;

/** The doubles of the destination types beside the stores of `providers.ts`. */
const starts: readonly ((shared: Parts) => Promise<StandIn>)[] = [
  appConfig,
  ciContext,
  ciVariables,
  cloudAPs,
  cloudBAc,
  clusterSecrets,
  deployEnvironment,
  deployService,
  deploySite,
  edgeStore,
  edgeWorker,
  functionSecrets,
  https,
  iacVariables,
  kvV2,
  machineSecrets,
  pipelineVariables,
  repoHostVariables,
];

/** Types that are reached by the line of another one with the same setting. */
const withoutLine: ReadonlySet<string> = new Set(["repo-host-variables"]);

/** Fields beside those of the double: values of secrets here do not fit the rules of masked variables. */
const more: Readonly<Record<string, object>> = { "ci-variables": { masking: "best-effort" } };

interface StandInStores {
  readonly stores: Readonly<Record<string, Store>>;
  readonly settings: Readonly<Record<string, string>>;
  close(): Promise<unknown>;
}

/** Starts the doubles, each behind a line of its own. */
export async function startStandInStores(shared: Shared): Promise<StandInStores> {
  const standIns = await Promise.all(starts.map((start) => start({ ...shared, awsKeys: [] })));
  const opened = await Promise.all(standIns.map(openBehindLine));
  return {
    stores: Object.fromEntries(opened.map(({ type, store }) => [type, store])),
    settings: Object.assign({}, ...opened.map(({ settings }) => settings)),
    close: () => Promise.all(standIns.map((standIn) => standIn.close())),
  };
}

async function openBehindLine(standIn: StandIn) {
  const { type } = standIn;
  const place = await standIn.open();
  const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(JSON.stringify([place.body, standIn.settings])) ?? [];
  const line = withoutLine.has(type) ? null : await new Line(() => Number(new URL(url).port)).open();
  const behind = <T>(value: T): T => JSON.parse(JSON.stringify(value).replaceAll(url, line?.url ?? url));
  /** The number of writes by which the last fault is over: a fault that waits for its write cannot be cleared. */
  let faultyUntil = 0;
  const store: Store = {
    name: type,
    lines: line ? [line] : [],
    body: { ...behind(place.body), ...more[type] },
    fault(fault) {
      const word = wordOf(fault);
      if (word === null || place.writes() < faultyUntil) return;
      faultyUntil = place.writes() + fault.count;
      place.fail(word, fault.count);
    },
    clearFaults: () => undefined,
    calls: () => place.writes(),
    objects() {
      try {
        return new Map([...place.objects()].map(([name, { value }]) => [name, value]));
      } catch (failure) {
        // A reference whose secret is not there (yet) is an unexpected object.
        return new Map([[String(failure), ""]]);
      }
    },
  };
  return { type, store, settings: behind(standIn.settings) };
}

/** Null for a delay, which only lines have here. */
function wordOf(fault: Fault): StandInFault | null {
  switch (fault.fault) {
    case "raw":
      return fault.status === 429 ? "throttled" : "unavailable";
    case "drop":
      return "cut";
    case "apply-then-drop":
      return "lost";
    case "delay":
      return null;
  }
}
