import cloudflare from "../../examples/producers/cloudflare-account-token.json" with { type: "json" };
import datadog from "../../examples/producers/datadog-api-key.json" with { type: "json" };
import gitlab from "../../examples/producers/gitlab-project-token.json" with { type: "json" };
import atlas from "../../examples/producers/mongodb-atlas-user.json" with { type: "json" };
import snowflake from "../../examples/producers/snowflake-access-token.json" with { type: "json" };
import type { ProviderName } from "../doubles/producers/account.ts";
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
      vars: { group: account.slice(0, 24), role: "read", database: "shop" },
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
