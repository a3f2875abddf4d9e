import { startStandIn as appConfig } from "../doubles/app-config/stand-in.ts";
import { startStandIn as ciContext } from "../doubles/ci-context/stand-in.ts";
import { startStandIn as ciVariables } from "../doubles/ci-variables/stand-in.ts";
import { startStandIn as clusterSecrets } from "../doubles/cluster-secrets/stand-in.ts";
import { startStandIn as deploySite } from "../doubles/deploy-site/stand-in.ts";
import { startStandIn as edgeStore } from "../doubles/edge-store/stand-in.ts";
import { startStandIn as edgeWorker } from "../doubles/edge-worker/stand-in.ts";
import { startStandIn as https } from "../doubles/https/stand-in.ts";
import { startStandIn as iacVariables } from "../doubles/iac-variables/stand-in.ts";
import { startStandIn as kvV2 } from "../doubles/kv-v2/stand-in.ts";
import type { StandIn, Fault as StandInFault } from "../doubles/stand-in.ts";
import type { Fault, Store } from "./providers.ts";
import { Line } from "./proxy-line.ts";

/** The doubles of the destination types that share no provider with the stores of `providers.ts`. */
const starts: readonly (() => Promise<StandIn>)[] = [
  appConfig,
  ciContext,
  ciVariables,
  clusterSecrets,
  deploySite,
  edgeStore,
  edgeWorker,
  https,
  iacVariables,
  kvV2,
];

/** Fields beside those of the double: values of secrets here do not fit the rules of masked variables. */
const more: Readonly<Record<string, object>> = { "ci-variables": { masking: "best-effort" } };

interface StandInStores {
  readonly stores: Readonly<Record<string, Store>>;
  readonly settings: Readonly<Record<string, string>>;
  close(): Promise<unknown>;
}

/** Starts the doubles, each behind a line of its own. */
export async function startStandInStores(): Promise<StandInStores> {
  const standIns = await Promise.all(starts.map((start) => start()));
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
  const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(JSON.stringify([standIn.settings, place.body])) ?? [];
  const line = await new Line(() => Number(new URL(url).port)).open();
  const behind = <T>(value: T): T => JSON.parse(JSON.stringify(value).replaceAll(url, line.url));
  /** The number of writes by which the last fault is over: a fault that waits for its write cannot be cleared. */
  let faultyUntil = 0;
  const store: Store = {
    name: type,
    lines: [line],
    body: { ...behind(place.body), ...more[type] },
    fault(fault) {
      const word = wordOf(fault);
      if (word === null || place.writes() < faultyUntil) return;
      faultyUntil = place.writes() + fault.count;
      place.fail(word, fault.count);
    },
    clearFaults: () => undefined,
    calls: () => place.writes(),
    objects: () => new Map([...place.objects()].map(([name, { value }]) => [name, value])),
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
