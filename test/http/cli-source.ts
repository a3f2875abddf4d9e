import type { FakeNamespace } from "../doubles/vault.ts";

/** A Vault with everything that an import moves, and most of what it meets. */

const value = (fields: object): string => JSON.stringify(fields);
const PAST = "2026-10-02T00:00:00.000000000Z";
const FUTURE = "2099-10-02T00:00:00.000000000Z";

/** Never printed: not by a plan, a report or a failure. */
export const SECRET_WORD = "correct-horse";

export const SOURCE: Readonly<Record<string, FakeNamespace>> = {
  "": {
    mounts: {
      "secret/": {
        type: "kv",
        options: { version: "2" },
        accessor: "kv_1",
        config: { max_versions: 12 },
        secrets: {
          "app/database": {
            versions: {
              1: { value: value({ password: `${SECRET_WORD}-1` }) },
              2: { value: value({ password: SECRET_WORD }) },
            },
            metadata: { custom_metadata: { owner: "ann" }, cas_required: true, max_versions: 5 },
          },
          // As Vault keeps it: all digits, and Go's escapes.
          "app/numbers": {
            versions: {
              1: { value: '{"b":12345678901234567890,"a":1.50,"html":"\\u003cb\\u003e","n":null,"l":[1,{"x":-0}]}' },
            },
          },
          "app/deleted": {
            versions: { 1: { value: value({ a: 1 }) }, 2: { value: value({ a: 2 }), deletion_time: PAST } },
          },
          "app/destroyed": {
            versions: {
              1: { value: value({ a: 1 }), destroyed: true },
              2: { value: value({ a: 2 }) },
              3: { value: value({ a: 3 }), deletion_time: FUTURE },
            },
            metadata: { delete_version_after: "1h30m0s" },
          },
          "app/pruned": {
            versions: {
              4: { value: value({ a: 4 }) },
              5: { value: value({ a: 5 }), destroyed: true },
              6: { value: value({ a: 6 }) },
            },
            metadata: { max_versions: 3 },
          },
          "app/many": {
            versions: Object.fromEntries(Array.from({ length: 15 }, (_, at) => [at + 1, { value: value({ at }) }])),
            metadata: { max_versions: 20 },
          },
          "app/empty": { versions: { 1: { value: "{}" } } },
          "app/settings": { versions: {}, metadata: { custom_metadata: { note: "nothing yet" } } },
          "app database/ä&?#%/x": { versions: { 1: { value: value({ odd: "name" }) } } },
          app: { versions: { 1: { value: value({ beside: "its folder" }) } } },
        },
      },
      "old/": {
        type: "kv",
        options: null,
        accessor: "kv_2",
        values: { plain: value({ user: "ci", ttl: "1h" }), "deep/er": value({ n: 1 }) },
      },
      "pki/": { type: "pki", options: null, accessor: "pki_1" },
    },
    policies: {
      "read-app": 'path "secret/data/app/*" { capabilities = ["read"] }',
      "odd name": 'path "a" { policy = "read" }',
    },
    apps: { bot: { app_id: 4200, private_key: "*****" } },
    destinations: {
      "aws-sm/prod": {
        connection_details: { access_key_id: "*****", secret_access_key: "*****", region: "eu-west-1" },
        options: {
          granularity_level: "secret-path",
          secret_name_template: "vault/{{ .MountAccessor }}/{{ .SecretPath }}",
          custom_tags: { team: "web" },
        },
        associations: [
          ["kv_1", "app/database"],
          ["kv_1", "app/numbers"],
        ],
      },
      "vercel-project/site": {
        connection_details: { access_token: "*****", project_id: "prj_1", deployment_environments: ["production"] },
        options: { granularity_level: "secret-key" },
        associations: [
          ["kv_1", "app/database", "password"],
          ["kv_1", "app/database", "user"],
        ],
      },
    },
  },
  team: {
    mounts: {
      "kv/": {
        type: "kv",
        options: { version: "2" },
        accessor: "kv_3",
        secrets: {
          stripe: { versions: { 1: { value: value({ key: SECRET_WORD }) } } },
          pruned: {
            versions: { 4: { value: value({ a: 4 }) }, 5: { value: value({ a: 5 }) } },
            // Raised after the third version was removed.
            metadata: { max_versions: 6 },
          },
        },
      },
    },
    policies: { "read-app": 'path "kv/data/*" { capabilities = ["read"] }' },
  },
  "team/a": { mounts: {}, policies: {} },
};

export const CREDENTIALS = JSON.stringify({
  "aws-sm/prod": {
    access_key_id: "AKIAIOSFODNN7EXAMPLE",
    secret_access_key: `${SECRET_WORD}/K7MDENG/bPxRfiCYEXAMPLEKEY0`,
  },
});
