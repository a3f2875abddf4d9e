import { faults } from "../edge-worker/envelope.ts";
import { byName, type Place, type StandIn } from "../stand-in.ts";
import { startEdgeStore } from "./server.ts";

/** Cloudflare Secrets Store, with one store an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startEdgeStore();
  return {
    type: "edge-store",
    settings: { EDGE_STORE_API_URL: double.url },
    open(): Place {
      const account = double.open();
      const { body, secrets } = account;
      const find = (name: string) => secrets.find((one) => one.name === name);
      return {
        body,
        wrongCredentials: { ...body, api_token: "wrong" },
        missing: { ...body, store_id: "0".repeat(32) },
        objects: () =>
          byName(
            secrets.map(({ name, value, comment }) => ({
              name,
              value,
              owned: comment.startsWith("managed by sallyport sync"),
            })),
          ),
        write(name, value) {
          const found = find(name);
          if (found) account.change(found, { value, comment: "by hand" });
          else account.create({ name, value, comment: "by hand", scopes: ["workers"] });
        },
        remove: (name) =>
          void secrets.splice(
            secrets.findIndex((one) => one.name === name),
            1,
          ),
        fail: (fault, times) => account.faults.push(...Array.from({ length: times }, () => faults[fault])),
        writes: () => account.writes(),
      };
    },
    close: () => double.close(),
  };
}
