import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import { type Fault as DoubleFault, startCluster } from "./server.ts";

const forbidden = {
  kind: "Status",
  status: "Failure",
  reason: "Forbidden",
  message: 'secrets "x" is forbidden',
  details: { kind: "secrets" },
  code: 403,
};

export const faults: Readonly<Record<Fault, DoubleFault>> = {
  throttled: { kind: "status", status: 429, headers: { "retry-after": "1" } },
  unavailable: { kind: "status", status: 503 },
  lost: { kind: "lost" },
  cut: { kind: "cut" },
  forbidden: { kind: "status", status: 403, body: forbidden },
};

/** Kubernetes, with one namespace an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startCluster();
  return {
    type: "cluster-secrets",
    settings: { SYNC_ALLOWED_HOSTS: "127.0.0.1" },
    open(): Place {
      const account = double.open();
      const { secrets, namespace, token } = account;
      const body = { host: double.url, namespace, token };
      return {
        body,
        wrongCredentials: { ...body, token: "sa.wrong" },
        missing: { ...body, namespace: "missing" },
        objects: () =>
          byName(
            secrets.names().map((name) => {
              const { metadata, data } = secrets.view(name);
              const owned = metadata.labels["app.kubernetes.io/managed-by"] === "sallyport";
              return { name, value: textOf(data), owned };
            }),
          ),
        write: (name, value) => secrets.replace(name, { value }),
        remove: (name) => secrets.remove(name),
        fail: (fault, times) => account.faults.push(...Array.from({ length: times }, () => faults[fault])),
        writes: () => account.writes(),
      };
    },
    close: () => double.close(),
  };
}

/** The value as it was pushed: the text of one key, or a map. */
function textOf(data: Readonly<Record<string, string>>): string {
  const decoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()] as const);
  const [[key, value] = ["value", ""], ...others] = decoded;
  return key === "value" && others.length === 0 ? value : JSON.stringify(Object.fromEntries(decoded));
}
