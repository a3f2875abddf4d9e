import { env } from "cloudflare:workers";
import type { Fault, ProviderName } from "../doubles/producers/account.ts";
import type { ProducerView } from "../doubles/producers/server.ts";
import { examples } from "../support/producer-examples.ts";

export interface MadeObject {
  readonly id: string;
  readonly name: string;
  readonly expires: number | null;
}

export interface LoggedCall {
  readonly method: string;
  readonly target: string;
  readonly status: number | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** Opens an account at a double of examples/producers. */
export async function openProducer(provider: ProviderName = "gitlab") {
  const base = env.TEST_DOUBLES.producers;
  const control = async (path: string, body: unknown = {}): Promise<unknown> =>
    (await fetch(`${base}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  const view = (await control("accounts", { provider })) as ProducerView;
  const of = `?account=${view.account}`;
  const { example, own } = examples[provider];
  const url = base + new URL(example.url).pathname.replace(/\/$/, "");
  return {
    ...view,
    /** The body of a complete configuration. */
    config: { url, ...own(view), producer: structuredClone(example.producer) },
    everything: () => control(`everything${of}`) as Promise<MadeObject[]>,
    requests: () => control(`requests${of}`) as Promise<LoggedCall[]>,
    /** Whether the secret that the account was opened with still works. */
    firstWorks: () => control(`first-works${of}`) as Promise<boolean>,
    fault: (fault: Fault) => control(`faults${of}`, fault),
  };
}

export type ProducerAccount = Awaited<ReturnType<typeof openProducer>>;
