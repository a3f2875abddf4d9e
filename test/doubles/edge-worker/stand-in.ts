import { byName, type Place, type StandIn } from "../stand-in.ts";
import { faults } from "./envelope.ts";
import { startEdgeWorker } from "./server.ts";

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
