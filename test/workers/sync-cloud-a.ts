import { env } from "cloudflare:workers";
import type { SecretView } from "../doubles/cloud-a-sm/secrets.ts";
import type { Fault, LoggedRequest } from "../doubles/cloud-a-sm/server.ts";

/** The account of the running test, without requests, faults or secrets of other tests. */
let account = { accessKeyId: "", secretAccessKey: "" };

const at = (path: string, init?: RequestInit) =>
  fetch(`${env.TEST_CLOUD_A.url}/_double/${path}?key=${account.accessKeyId}`, init);
const post = async (path: string, body: unknown = null): Promise<Response> => {
  const answer = await at(path, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`the double refused ${path}: ${await answer.text()}`);
  return answer;
};

/** The double of cloud-a, driven from tests inside the Workers runtime. */
export const cloudA = {
  /** Moves to a fresh account. */
  async begin(): Promise<void> {
    account = await (await post("accounts")).json();
  },
  key: () => account,
  fault: (fault: Fault) => post("faults", fault),
  /** Forgets the faults that have not happened. */
  clearFaults: () => post("clear-faults"),
  /** Makes a change as another writer. */
  call: (operation: string, parameters: Record<string, unknown>) => post("call", { operation, parameters }),
  secrets: async (): Promise<SecretView[]> => (await at("secrets")).json(),
  requests: async (): Promise<LoggedRequest[]> => (await at("requests")).json(),
  /** The current value of a secret, undefined when there is none. */
  async value(name: string): Promise<string | null | undefined> {
    return (await cloudA.secrets()).find((secret) => secret.name === name)?.value;
  },
};
