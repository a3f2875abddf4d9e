import type { Fault, Place, StandIn, StoredObject } from "../stand-in.ts";
import { type Fault as DoubleFault, startKvV2 } from "./server.ts";

const faults: Readonly<Record<Fault, DoubleFault>> = {
  throttled: { kind: "status", status: 429, errors: ["rate limit quota exceeded"], headers: { "retry-after": "1" } },
  unavailable: { kind: "status", status: 503, errors: ["Vault is sealed"] },
  lost: { kind: "lost" },
  cut: { kind: "cut" },
  forbidden: { kind: "status", status: 403, errors: ["1 error occurred:\n\t* permission denied\n\n"] },
};

export async function startStandIn(): Promise<StandIn> {
  const double = await startKvV2();
  return {
    type: "kv-v2",
    settings: { SYNC_ALLOWED_HOSTS: "127.0.0.1" },
    open(): Place {
      const account = double.open();
      const { engine, mount, token } = account;
      const body = { address: double.url, mount, token };
      return {
        body,
        wrongCredentials: { ...body, token: "hvs.wrong" },
        missing: { ...body, mount: "missing" },
        objects: () =>
          new Map([
            ...[...engine.all()].map(([name, { data, custom }]): [string, StoredObject] => [
              name,
              { value: textOf(data), owned: custom["managed_by"] === "sallyport", tags: custom },
            ]),
            // A name without a version is in the lists of people, too.
            ...engine.announced().map((name): [string, StoredObject] => [name, { value: "", owned: true, tags: {} }]),
          ]),
        write(name, value) {
          const before = engine.all().get(name)?.version;
          engine.deleteAll(name);
          // Another writer's secret has more versions than ours.
          for (let cas = 0; cas <= (before ?? 0); cas++) engine.write(name, { options: { cas }, data: dataOf(value) });
        },
        remove: (name) => engine.deleteAll(name),
        fail: (fault, times) => account.faults.push(...Array.from({ length: times }, () => faults[fault])),
        writes: () => account.writes(),
      };
    },
    close: () => double.close(),
  };
}

/** The value as it was pushed: a whole secret, or the text of one key. */
function textOf(data: object): string {
  const [[key, value] = ["", null], ...others] = Object.entries(data);
  return key === "value" && others.length === 0 && typeof value === "string" ? value : JSON.stringify(data);
}

const dataOf = (value: string): object => {
  try {
    const parsed: unknown = JSON.parse(value);
    return typeof parsed === "object" && parsed !== null ? parsed : { value };
  } catch {
    return { value };
  }
};
