import { describe, expect, it } from "vitest";
import { textSteps } from "../../test/text-steps.ts";
import { TYPE_NAMES } from "./dialect.ts";
import {
  translateAssociations,
  translateDestination,
  translateDestinationList,
  translateMessage,
  translateSecretDestinations,
  translateStatus,
  translateType,
} from "./sync-names.ts";

describe("names of types and statuses", () => {
  it.each(TYPE_NAMES)("the type %s is named %s in the upstream dialect", (neutral, upstream) => {
    expect([translateType("neutral", neutral), translateType("upstream", neutral)]).toEqual([neutral, upstream]);
  });

  it("equal names in both dialects are not translated", () => {
    expect([translateType("upstream", "in-mem"), translateType("upstream", "toString")]).toEqual([
      "in-mem",
      "toString",
    ]);
    expect([translateStatus("upstream", "SYNCED"), translateStatus("upstream", "CLIENT_SIDE_ERROR")]).toEqual([
      "SYNCED",
      "CLIENT_SIDE_ERROR",
    ]);
  });

  it("the status INTERNAL_ERROR is INTERNAL_VAULT_ERROR upstream", () => {
    expect([translateStatus("neutral", "INTERNAL_ERROR"), translateStatus("upstream", "INTERNAL_ERROR")]).toEqual([
      "INTERNAL_ERROR",
      "INTERNAL_VAULT_ERROR",
    ]);
  });

  it("no name stands for two types", () => {
    const words = TYPE_NAMES.flat();
    expect(new Set(words).size).toBe(words.length);
  });
});

/** Everything that people name bears the name of a type. */
const destination = {
  name: "repo-host",
  type: "repo-host",
  granularity_given: true,
  connection_details: { repository_name: "cloud-a-sm", repository_owner: "deploy-project" },
  options: {
    granularity_level: "secret-key",
    secret_name_template: "cloud-a-sm/{{ .SecretPath }}",
    custom_tags: { "repo-host": "cloud-c-sm" },
  },
};
const list = {
  keys: ["cloud-a-sm/", "deploy-project/", "in-mem/", "repo-host/"],
  key_info: { "cloud-a-sm/": ["cloud-a-sm"], "deploy-project/": ["p"], "in-mem/": ["gh"], "repo-host/": ["repo-host"] },
  total_destinations: 4,
};
const associations = {
  store_name: "cloud-a-sm",
  store_type: "cloud-a-sm",
  associated_secrets: {
    "kv_1/INTERNAL_ERROR": {
      accessor: "kv_1",
      secret_name: "INTERNAL_ERROR",
      external_name: "repo-host/INTERNAL_ERROR",
      sync_status: "INTERNAL_ERROR",
      error_code: "INTERNAL_ERROR",
      updated_at: "t",
    },
    "kv_1/repo-host": { accessor: "kv_1", secret_name: "repo-host", sync_status: "SYNCED", updated_at: "t" },
  },
  sync_operation_counters: { INTERNAL_ERROR: 1, SYNCED: 1 },
};
const ofSecret = {
  associated_destinations: {
    "repo-host/repo-host": { type: "repo-host", name: "repo-host", sync_status: "INTERNAL_ERROR", updated_at: "t" },
    "in-mem/gh": { type: "in-mem", name: "gh", sync_status: "PENDING", updated_at: "t" },
  },
};

describe("a response", () => {
  it("in the neutral dialect is unchanged", () => {
    const { granularity_given: _, ...shown } = destination;
    expect(translateDestination("neutral", destination)).toEqual(shown);
    expect(translateDestination("neutral", { ...destination, granularity_given: false })).toEqual(shown);
    expect(translateDestinationList("neutral", list)).toEqual(list);
    expect(translateAssociations("neutral", associations)).toEqual(associations);
    expect(translateSecretDestinations("neutral", ofSecret)).toEqual(ofSecret);
  });

  it("for a destination has the upstream type and unchanged user-chosen names", () => {
    const { granularity_given: _, ...shown } = destination;
    expect(translateDestination("upstream", destination)).toEqual({ ...shown, type: "gh" });
  });

  it("for a destination omits granularity when the request did not set it", () => {
    const { options } = translateDestination("upstream", { ...destination, granularity_given: false });
    const { granularity_level: _, ...rest } = destination.options;
    expect(options).toEqual(rest);
  });

  it("for a list of destinations has upstream types and is sorted by the returned keys", () => {
    expect(translateDestinationList("upstream", list)).toEqual({
      keys: ["aws-sm/", "gh/", "in-mem/", "vercel-project/"],
      key_info: { "aws-sm/": ["cloud-a-sm"], "vercel-project/": ["p"], "in-mem/": ["gh"], "gh/": ["repo-host"] },
      total_destinations: 4,
    });
  });

  it("for associations has upstream types, statuses and counters", () => {
    const [internal, synced] = Object.values(associations.associated_secrets);
    expect(translateAssociations("upstream", associations)).toEqual({
      store_name: "cloud-a-sm",
      store_type: "aws-sm",
      associated_secrets: {
        "kv_1/INTERNAL_ERROR": { ...internal, sync_status: "INTERNAL_VAULT_ERROR" },
        "kv_1/repo-host": synced,
      },
      sync_operation_counters: { INTERNAL_VAULT_ERROR: 1, SYNCED: 1 },
    });
  });

  it("for the destinations of a secret has upstream keys, types and statuses", () => {
    expect(translateSecretDestinations("upstream", ofSecret)).toEqual({
      associated_destinations: {
        "gh/repo-host": { type: "gh", name: "repo-host", sync_status: "INTERNAL_VAULT_ERROR", updated_at: "t" },
        "in-mem/gh": { type: "in-mem", name: "gh", sync_status: "PENDING", updated_at: "t" },
      },
    });
  });
});

describe("an error message", () => {
  it.each([
    [
      "custom_tags: a destination of type repo-host takes no tags",
      "custom_tags: a destination of type gh takes no tags",
    ],
    ["application is in use by destinations: repo-host/web", "application is in use by destinations: gh/web"],
    [
      "application is in use by destinations: repo-host/repo-host, repo-host/b.c and 3 more",
      "application is in use by destinations: gh/repo-host, gh/b.c and 3 more",
    ],
    [
      'sync destinations exist in namespace "repo-host/", cannot remove: in-mem/repo-host, cloud-a-sm/prod',
      'sync destinations exist in namespace "repo-host/", cannot remove: in-mem/repo-host, aws-sm/prod',
    ],
  ])("has upstream type names: %s", (neutral, upstream) => {
    expect(translateMessage("upstream", neutral)).toBe(upstream);
    expect(translateMessage("neutral", neutral)).toBe(neutral);
  });

  it.each([
    "secret not found: repo-host/cloud-a-sm",
    "permission denied to read the content of the secret repo-host in mount cloud-a-sm",
    'app_name: there is no application "repo-host"; create it first',
    "mount: no secret engine mount at repo-host/",
    'no handler for route "sys/sync/destinations: repo-host/x". route entry not found.',
    "",
  ])("keeps user-chosen names: %s", (message) => {
    expect(translateMessage("upstream", message)).toBe(message);
  });

  it("of hostile length is translated in linear time", () => {
    const message = `destinations${" destinations".repeat(20_000)}: ${"a/b, ".repeat(20_000)}`;
    expect(textSteps(() => translateMessage("upstream", message)).steps).toBeLessThan(5 * message.length);
  });
});
