import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import { type Fault as DoubleFault, startEdgeWorker } from "./server.ts";

const faults: Readonly<Record<Fault, DoubleFault>> = {
  throttled: { kind: "status", status: 429, headers: { "retry-after": "1" } },
  unavailable: { kind: "status", status: 503 },
  lost: { kind: "lost" },
  cut: { kind: "cut" },
  forbidden: { kind: "status", status: 403, errors: [{ code: 10_000, message: "Authentication error" }] },
};

/** Cloudflare, with one Worker an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startEdgeWorker();
  return {
    type: "edge-worker",
    settings: { EDGE_API_URL: double.url },
    open(): Place {
      const account = double.open();
      const { body, secrets } = account;
      return {
        body,
        wrongCredentials: { ...body, api_token: "wrong" },
        missing: { ...body, script_name: "missing" },
        objects: () => byName([...secrets].map(([name, value]) => ({ name, value, owned: null }))),
        write: (name, value) => void secrets.set(name, value),
        remove: (name) => void secrets.delete(name),
        fail: (fault, times) => account.faults.push(...Array.from({ length: times }, () => faults[fault])),
        writes: () => account.writes(),
      };
    },
    close: () => double.close(),
  };
}
