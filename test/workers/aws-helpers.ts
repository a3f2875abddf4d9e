import { env } from "cloudflare:workers";
import type { Fault, Lags, LoggedRequest } from "../doubles/cloud-a/account.ts";
import type { AccountView, Change } from "../doubles/cloud-a/server.ts";
import { get, put } from "./client.ts";
import { succeeded } from "./engine-helpers.ts";

/** An account at the double of IAM and STS, for one test. */
export interface AwsAccount extends AccountView {
  /** The body of a complete `config/root`. */
  readonly config: Readonly<Record<string, string>>;
  everything(): Promise<readonly AwsUser[]>;
  requests(): Promise<readonly LoggedRequest[]>;
  fault(fault: Fault): Promise<unknown>;
  lags(lags: Partial<Lags>): Promise<unknown>;
  call(change: Change): Promise<unknown>;
  trust(role: object): Promise<unknown>;
}

export interface AwsUser {
  readonly name: string;
  readonly keys: readonly string[];
  readonly attached: readonly string[];
  readonly inline: readonly string[];
  readonly groups: readonly string[];
  readonly tags: Readonly<Record<string, string>>;
}

export async function openAwsAccount(lags: Partial<Lags> = {}): Promise<AwsAccount> {
  const url = env.TEST_DOUBLES.cloudAIam;
  const control = async (path: string, body: unknown = {}): Promise<unknown> => {
    const answer = await fetch(`${url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) });
    return answer.json();
  };
  const account = (await control("accounts", lags)) as AccountView;
  const of = `?account=${account.account}`;
  const { access_key, secret_key } = account;
  return {
    ...account,
    config: { access_key, secret_key, iam_endpoint: url, sts_endpoint: url },
    everything: () => control(`everything${of}`) as Promise<AwsUser[]>,
    requests: () => control(`requests${of}`) as Promise<LoggedRequest[]>,
    fault: (fault) => control(`faults${of}`, fault),
    lags: (changed) => control(`lags${of}`, changed),
    call: (change) => control(`call${of}`, change),
    trust: (role) => control(`trust${of}`, role),
  };
}

/** Mounts an engine at `aws` and configures it for an account. @returns the mount's uuid */
export async function mountAws(account: AwsAccount | null, config: Record<string, unknown> = {}): Promise<string> {
  succeeded(await put("/v1/sys/mounts/aws", { type: "cloud-a" }));
  if (account) succeeded(await put("/v1/aws/config/root", { ...account.config, ...config }));
  return (await get("/v1/sys/mounts/aws")).body.data.uuid;
}
