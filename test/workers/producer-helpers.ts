import { env } from "cloudflare:workers";
import cloudflare from "../../examples/producers/cloudflare-account-token.json";
import datadog from "../../examples/producers/datadog-api-key.json";
import gitlab from "../../examples/producers/gitlab-project-token.json";
import atlas from "../../examples/producers/mongodb-atlas-user.json";
import snowflake from "../../examples/producers/snowflake-access-token.json";
import type { Fault, ProviderName } from "../doubles/producers/account.ts";
import type { ProducerView } from "../doubles/producers/server.ts";

/** The definitions of examples/producers, with the secrets and variables of an account. */
export const examples: Readonly<
  Record<
    ProviderName,
    {
      readonly example: { readonly url: string; readonly producer: object };
      readonly own: (view: ProducerView) => { readonly secrets: object; readonly vars: object };
    }
  >
> = {
  gitlab: { example: gitlab, own: ({ token }) => ({ secrets: { token }, vars: { project: "42" } }) },
  cloudflare: {
    example: cloudflare,
    own: ({ token, account }) => ({
      secrets: { token },
      vars: { account, permission: "ab".repeat(16), root_permission: "cd".repeat(16) },
    }),
  },
  datadog: {
    example: datadog,
    own: ({ token }) => ({ secrets: { api_key: token, application_key: `app-${token}` }, vars: {} }),
  },
  atlas: {
    example: atlas,
    own: ({ token, account }) => ({
      secrets: { client_id: `id-${account}`, client_secret: token },
      vars: { group: account, role: "read", database: "shop" },
    }),
  },
  snowflake: {
    example: snowflake,
    own: ({ account, key }) => ({
      secrets: { private_key: key },
      vars: { account: account.toUpperCase(), login: "SALLYPORT", user: "APP", role: "READER" },
    }),
  },
};

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
