import { describe, expect, it } from "vitest";
import * as z from "zod";
import { clusterRoutes, mountedRoutes, secretsRoutes } from "../../src/routes/table.ts";
import { holdsDuration, schemaFields } from "../schema-walk.ts";
import { itRows } from "../support/rows.ts";
import { issue } from "./access.ts";
import { type Answer, del, get, mountKv, put, send } from "./client.ts";

const routes = [
  ...secretsRoutes.routes,
  ...clusterRoutes.routes,
  ...Object.entries(mountedRoutes).flatMap(([type, table]) =>
    table.routes.map((route) => ({ ...route, path: `/{${type}}${route.path}` })),
  ),
];
const fields = routes.flatMap(({ verb, path, body }) =>
  body === undefined ? [] : schemaFields(body).map((field) => ({ ...field, at: `${verb} ${path} ${field.name}` })),
);
const durations = fields.filter(({ schema }) => holdsDuration(schema));

/** Names that say that a field is a length of time. */
const TIME = /(^|_)(ttl|lease|period|window|increment|after|interval|deadline|timeout)$|ttl$|deadline$/i;
/** Lengths in whole nanoseconds, whose 0 and negative values upstream defines. */
const IN_NANOSECONDS = [
  "POST /node/pools NodeIdentityTTL",
  "POST /node/pool/:name NodeIdentityTTL",
  "POST /node/:id/drain DrainSpec.Deadline",
];

const SHORT = ["1ns", "1us", "1ms", "500ms", "900ms", "0.1s", "0.9s", "0.000001h", "0.000000001s"];
const NEGATIVE = ["-1ns", "-0.1s", "-500ms", "-1", -1, "-1s", "-1h", "-0.000000001ns"];
const HUGE = ["101y", "36501d", "999999999h", "999999999999999", "9".repeat(400), 1e300, Number.MAX_SAFE_INTEGER];
const NONSENSE = [" ", "\t", "soon", "1 s", "0x10", "1e3", "+-1s", "--1", "1s-2s", "ns", true, {}, [], ["1s"]];
const ZERO = [0, "0", "0s", "0ms", "0.0s", "-0", ""];

/** Positions in lists. */
const POSITIONS = ["POST /sys/sync/destinations/:type/:name/import after"];

const parsed = (schema: z.core.$ZodType, value: unknown) => z.safeParse(schema, value);

describe("every duration field of the API", () => {
  it("is listed in this test", () => {
    const unmarked = fields.filter(({ name, schema }) => TIME.test(name) && !holdsDuration(schema));
    const lengths = unmarked.map(({ at }) => at).filter((at) => !POSITIONS.includes(at));
    expect(lengths).toEqual(IN_NANOSECONDS);
    expect(durations.length).toBeGreaterThan(20);
  });

  it("rounds a fraction of a second up to one, never down to 0", () => {
    for (const { at, schema } of durations) {
      for (const value of SHORT) expect(parsed(schema, value).data, `${at} = ${value}`).toBe(1);
      expect(parsed(schema, "59m59.000000001s").data, at).toBe(3600);
    }
  });

  it("refuses negative durations, except where they have a meaning", () => {
    for (const { at, schema } of durations) {
      for (const value of NEGATIVE) {
        const { success, data } = parsed(schema, value);
        // A negative leeway of a login turns the leeway off; -1 turns the grace period of static roles off.
        const isMeant =
          at === "POST /{kv}/config delete_version_after" || /_leeway|Leeway$|rotation_grace_period$/.test(at);
        if (isMeant) expect(data, `${at} = ${value}`).toBeLessThanOrEqual(-1);
        else expect(success, `${at} = ${value}`).toBe(false);
      }
    }
  });

  it("refuses durations that are too long or invalid", () => {
    for (const { at, schema } of durations) {
      for (const value of [...HUGE, ...NONSENSE]) {
        // Nanoseconds of the cluster API: too long TTLs of tokens are refused by their own bounds.
        if (/(TTL|Leeway)$/.test(at) && /^POST \/acl\//.test(at) && typeof value === "number") continue;
        expect(parsed(schema, value).success, `${at} = ${JSON.stringify(value)}`).toBe(false);
      }
    }
  });

  it("accepts 0 as 0, or refuses it", () => {
    for (const { at, schema } of durations) {
      for (const value of ZERO) {
        const { success, data } = parsed(schema, value);
        // The Go client sends an empty text for each setting of a mount without a value.
        const isKept = value === "" && /^POST \/sys\/(mounts|auth)\//.test(at);
        if (success) expect(data, `${at} = ${JSON.stringify(value)}`).toBe(isKept ? undefined : 0);
        else expect(at).toMatch(/agent\/tokens|\{cloud-a\}\/config\/lease/);
      }
    }
  });
});

const KV = { type: "kv", options: { version: "2" } };

/** Requests by the field they write: the body around a value, and what of it can be read afterwards, in seconds. */
const writes: Readonly<
  Record<string, (value: unknown) => Promise<{ answer: Answer; seconds: () => Promise<unknown> }>>
> = {
  ttl: async (ttl) => {
    const answer = await send("POST", "/v1/auth/token/create", { ttl });
    return { answer, seconds: async () => answer.body.auth.lease_duration };
  },
  lease: async (lease) => {
    const answer = await send("POST", "/v1/auth/token/create", { lease });
    return { answer, seconds: async () => answer.body.auth.lease_duration };
  },
  explicit_max_ttl: async (explicit_max_ttl) => {
    const answer = await send("POST", "/v1/auth/token/create", { explicit_max_ttl });
    return { answer, seconds: async () => answer.body.auth.lease_duration };
  },
  period: async (period) => {
    const answer = await send("POST", "/v1/auth/token/create", { period });
    return { answer, seconds: async () => answer.body.auth.lease_duration };
  },
  increment: async (increment) => {
    const { client_token } = await issue({ ttl: "1h" });
    const answer = await send("POST", "/v1/auth/token/renew", { token: client_token, increment });
    return { answer, seconds: async () => answer.body.auth.lease_duration };
  },
  max_lease_ttl: async (max_lease_ttl) => {
    const name = `m-${crypto.randomUUID()}`;
    const answer = await put(`/v1/sys/mounts/${name}`, { ...KV, config: { max_lease_ttl } });
    return { answer, seconds: async () => (await get(`/v1/sys/mounts/${name}`)).body.data.config.max_lease_ttl };
  },
  default_lease_ttl: async (default_lease_ttl) => {
    const name = `m-${crypto.randomUUID()}`;
    await put(`/v1/sys/mounts/${name}`, KV);
    const answer = await put(`/v1/sys/mounts/${name}/tune`, { default_lease_ttl });
    return { answer, seconds: async () => (await get(`/v1/sys/mounts/${name}`)).body.data.config.default_lease_ttl };
  },
  delete_version_after: async (delete_version_after) => {
    await mountKv();
    const answer = await put("/v1/kv/metadata/a", { delete_version_after });
    const seconds = async () => {
      const shown = (await get("/v1/kv/metadata/a")).body.data.delete_version_after;
      return Number(/^(\d+)s$/.exec(shown)?.[1]);
    };
    return { answer, seconds };
  },
  max_ttl: async (max_ttl) => {
    await put("/v1/sys/mounts/cloud-b", { type: "cloud-b" });
    const role = { cloud_roles: [{ role_id: "/x", scope: "/subscriptions/x" }], max_ttl };
    const answer = await put("/v1/cloud-b/roles/r", role);
    return { answer, seconds: async () => 1 };
  },
};

describe("a duration in a request", () => {
  itRows(Object.keys(writes))(
    "%s: half a second is one second, and a negative one is refused by name",
    async (field) => {
      const write = writes[field];
      if (!write) throw new Error(field);
      for (const value of ["-500ms", "-1s", -1]) {
        const { answer } = await write(value);
        expect([answer.status, answer.text], String(value)).toEqual([400, expect.stringContaining(field)]);
        await del("/v1/sys/mounts/kv");
      }
      if (field === "max_ttl") return;
      const { answer, seconds } = await write("500ms");
      expect(answer.status, answer.text).toBeLessThan(300);
      expect(await seconds()).toBe(1);
    },
  );

  it("of a fraction of a second expires a token, and is refused by the Nomad API", async () => {
    const { client_token } = await issue({ ttl: "1ms" });
    const self = () => get("/v1/auth/token/lookup-self", { token: client_token });
    await expect.poll(async () => (await self()).status, { timeout: 30_000 }).toBe(403);
    for (const ExpirationTTL of ["500ms", "-500ms", "0.9s", "-0.1s", "1ns", "-1ns", " ", 1, -1, 0.5]) {
      const answer = await put("/v1/acl/token", { Type: "management", ExpirationTTL });
      expect([answer.status, answer.text], String(ExpirationTTL)).toEqual([
        400,
        expect.stringMatching(/expiration|ExpirationTTL/),
      ]);
    }
    for (const ExpirationTime of ["", " ", "0", "0001-01-01T00:00:00Z"]) {
      const answer = await put("/v1/acl/token", { Type: "management", ExpirationTTL: 0, ExpirationTime });
      expect([answer.status, answer.text], ExpirationTime).toEqual([400, expect.stringContaining("ExpirationTime")]);
    }
  });

  it("limits a token of the Nomad API to a future expiry, for any TTL beside it", async () => {
    const ExpirationTime = new Date(Date.now() + 3_600_000).toISOString();
    for (const ExpirationTTL of [0, "0s", "", "2h"]) {
      const { status, body } = await put("/v1/acl/token", { Type: "management", ExpirationTTL, ExpirationTime });
      expect(status).toBe(200);
      expect(Math.abs(Date.parse(body.ExpirationTime) - Date.parse(ExpirationTime))).toBeLessThan(5_000);
    }
  });

  it("of a fraction of a second still wraps a response", async () => {
    for (const ttl of ["500ms", "1ns", " 1"]) {
      const answer = await get("/v1/sys/mounts", { headers: { "X-Vault-Wrap-TTL": ttl } });
      expect([answer.body.data, answer.body.wrap_info.ttl], ttl).toEqual([null, 1]);
    }
    for (const ttl of ["-500ms", "-1"]) {
      const answer = await get("/v1/sys/mounts", { headers: { "X-Vault-Wrap-TTL": ttl } });
      expect([answer.status, answer.text], ttl).toEqual([400, expect.stringContaining("X-Vault-Wrap-TTL")]);
    }
  });
});
