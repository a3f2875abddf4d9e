import * as z from "zod";
import type { Received } from "../loopback.ts";
import { type Account, type Answer, bearerOf, jsonIn, type Made, type ProviderName } from "./account.ts";
import { snowflake } from "./snowflake.ts";

/** The APIs of the providers, stricter than they are: each body is checked, unknown members and parameters are refused. */

/** An operation: who may call it, the place in its path, and what it does. */
export interface Operation {
  readonly kind: "create" | "find" | "revoke" | "renew" | "login" | "verify";
  readonly method: string;
  readonly path: RegExp;
  /** Whether it is the one that a request asks for; absent: by its path. */
  readonly takes?: (received: Received) => boolean;
  /** Parameters of its query. */
  readonly query?: readonly string[];
  readonly run: (account: Account, received: Received, id: string, now: number) => Answer;
}

export interface Api {
  /** The account whose secret a request has; `verify` has a made one. */
  readonly owns: (account: Account, received: Received) => boolean;
  readonly operations: readonly Operation[];
  /** The body of a refusal, as the service words it. */
  readonly refusal: (status: number) => object;
}

const DAY_MS = 86_400_000;
const refused = (status: number): Answer => ({ status });
const momentOf = (ms: number): string => new Date(ms).toISOString();
const numberIn = (received: Received, name: string, other: number): number =>
  Number(received.url.searchParams.get(name) ?? other);

const GitlabToken = z.strictObject({
  name: z.string().min(1).max(255),
  description: z.string().optional(),
  scopes: z.array(z.enum(["api", "read_api", "read_repository", "write_repository", "read_registry"])).min(1),
  access_level: z.literal([10, 15, 20, 30, 40]).optional(),
  expires_at: z.iso.date(),
});
/** A token as GitLab shows it; `scopes` are those of the example. */
const gitlabToken = ({ id, name, expires }: Made) => ({
  id: Number(id),
  name,
  revoked: false,
  active: true,
  created_at: momentOf(Date.now()),
  description: null,
  scopes: ["read_repository"],
  user_id: 166,
  last_used_at: null,
  expires_at: momentOf(expires ?? Date.now() + DAY_MS).slice(0, 10),
});
const tokens = String.raw`^/api/v4/projects/(?:\d+|[\w.%-]+)/access_tokens`;

/** https://docs.gitlab.com/api/project_access_tokens/ */
const gitlab: Api = {
  owns: (account, { headers }) => headers["private-token"] === account.token,
  refusal: (status) => ({ message: `${status} refused` }),
  operations: [
    {
      kind: "create",
      method: "POST",
      path: new RegExp(`${tokens}$`),
      run(account, received, _id, now) {
        const given = GitlabToken.safeParse(jsonIn(received));
        if (!given.success) return refused(400);
        const expires = Date.parse(given.data.expires_at);
        if (expires <= now || expires > now + 400 * DAY_MS) return refused(400);
        const made = account.add(given.data.name, expires);
        return { status: 201, body: { ...gitlabToken(made), access_level: 20, token: `glpat-${made.secret}` } };
      },
    },
    {
      kind: "find",
      method: "GET",
      path: new RegExp(`${tokens}$`),
      query: ["state", "search", "page", "per_page"],
      run(account, received, _id, now) {
        const { searchParams: query } = received.url;
        if (!["active", null].includes(query.get("state"))) return refused(400);
        const found = account.living(now).filter(({ name }) => name.includes(query.get("search") ?? ""));
        const page = account.page(found, numberIn(received, "page", 1), 1);
        return { status: 200, body: page.map((each) => ({ ...gitlabToken(each), access_level: 20 })) };
      },
    },
    {
      kind: "revoke",
      method: "DELETE",
      path: new RegExp(`${tokens}/(\\w+)$`),
      run: (account, _received, id) => (account.remove(id) ? { status: 204 } : refused(404)),
    },
    {
      kind: "verify",
      method: "GET",
      path: /^\/api\/v4\/personal_access_tokens\/self$/,
      run(account, { headers }, _id, now) {
        const given = headers["private-token"]?.replace(/^glpat-/, "");
        const made = account.living(now).find(({ secret }) => secret === given);
        return made ? { status: 200, body: gitlabToken(made) } : refused(401);
      },
    },
  ],
};

const CloudflareToken = z.strictObject({
  name: z.string().min(1).max(120),
  policies: z
    .array(
      z.strictObject({
        effect: z.enum(["allow", "deny"]),
        resources: z.record(z.string().regex(/^com\.cloudflare\.[\w.*-]+$/), z.string()),
        permission_groups: z.array(z.strictObject({ id: z.string().regex(/^[\da-f]{32}$/) })).min(1),
      }),
    )
    .min(1),
  expires_on: z
    .string()
    .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    .optional(),
});
/** Account API Tokens Write. */
const ROOT_PERMISSION = "cd".repeat(16);
const wrapped = (result: unknown): Answer => ({
  status: 200,
  body: { success: true, errors: [], messages: [], result },
});
const accountTokens = "^/client/v4/accounts/[\\da-f]{32}/tokens";

/** https://developers.cloudflare.com/api/resources/accounts/subresources/tokens/ */
const cloudflare: Api = {
  owns: (account, received) =>
    account.owns(bearerOf(received), Date.now()) &&
    received.url.pathname.startsWith(`/client/v4/accounts/${account.id}/`),
  refusal: (status) => ({
    success: false,
    errors: [{ code: 1000 + status, message: "refused" }],
    messages: [],
    result: null,
  }),
  operations: [
    {
      kind: "create",
      method: "POST",
      path: new RegExp(`${accountTokens}$`),
      run(account, received, _id, now) {
        const given = CloudflareToken.safeParse(jsonIn(received));
        const end = given.data?.expires_on;
        const expires = end === undefined ? null : Date.parse(end);
        if (!given.success || (expires !== null && !(expires > now))) return refused(400);
        const isRoot = given.data.policies.some(({ permission_groups: groups, resources }) =>
          groups.some((each) => each.id === ROOT_PERMISSION && "com.cloudflare.api.account.*" in resources),
        );
        const { id, name, secret } = account.add(given.data.name, expires, undefined, isRoot);
        return wrapped({ id, name, status: "active", value: secret, expires_on: given.data.expires_on });
      },
    },
    {
      kind: "verify",
      method: "GET",
      path: new RegExp(`${accountTokens}/verify$`),
      run(account, received, _id, now) {
        const bearer = bearerOf(received);
        const isFirst = bearer === account.token && account.tokenId !== null;
        const made = account.living(now).find(({ secret }) => secret === bearer);
        const id = isFirst ? account.tokenId : made?.id;
        return id === undefined ? refused(401) : wrapped({ id, status: "active" });
      },
    },
    {
      kind: "find",
      method: "GET",
      path: new RegExp(`${accountTokens}$`),
      query: ["page", "per_page", "direction"],
      run(account, received, _id, now) {
        const each = numberIn(received, "per_page", 20);
        if (each < 5 || each > 50) return refused(400);
        const page = account.page(account.living(now), numberIn(received, "page", 1), 1);
        return wrapped(page.map(({ id, name }) => ({ id, name, status: "active" })));
      },
    },
    {
      kind: "revoke",
      method: "DELETE",
      path: new RegExp(`${accountTokens}/(\\w+)$`),
      run: (account, _received, id) => (account.remove(id) ? wrapped({ id }) : refused(404)),
    },
  ],
};

const DatadogKey = z.strictObject({
  data: z.strictObject({
    type: z.literal("api_keys"),
    attributes: z.strictObject({ name: z.string().min(1), category: z.string().optional() }),
  }),
});

/** https://docs.datadoghq.com/api/latest/key-management/ */
const datadog: Api = {
  owns: (account, { headers }) =>
    (account.owns(headers["dd-api-key"] ?? "", Date.now()) || account.works(headers["dd-api-key"] ?? "", Date.now())) &&
    headers["dd-application-key"] === `app-${account.token}`,
  refusal: () => ({ errors: ["refused"] }),
  operations: [
    {
      kind: "create",
      method: "POST",
      path: /^\/api\/v2\/api_keys$/,
      run(account, received) {
        const given = DatadogKey.safeParse(jsonIn(received));
        if (!given.success) return refused(400);
        const { id, name, secret } = account.add(given.data.data.attributes.name, null);
        return { status: 201, body: { data: { id, type: "api_keys", attributes: { name, key: secret } } } };
      },
    },
    {
      kind: "find",
      method: "GET",
      path: /^\/api\/v2\/api_keys$/,
      query: ["filter", "page[size]", "page[number]", "sort"],
      run(account, received, _id, now) {
        const text = received.url.searchParams.get("filter") ?? "";
        const found = account.living(now).filter(({ name }) => name.includes(text));
        const page = account.page(found, numberIn(received, "page[number]", 0), 0);
        return {
          status: 200,
          body: { data: page.map(({ id, name }) => ({ id, type: "api_keys", attributes: { name, last4: "abcd" } })) },
        };
      },
    },
    {
      kind: "revoke",
      method: "DELETE",
      path: /^\/api\/v2\/api_keys\/(\w+)$/,
      run: (account, _received, id) => (account.remove(id) ? { status: 204 } : refused(404)),
    },
    {
      kind: "verify",
      method: "GET",
      path: /^\/api\/v1\/validate$/,
      run: (account, { headers }, _id, now) =>
        account.works(headers["dd-api-key"] ?? "", now) ? { status: 200, body: { valid: true } } : refused(403),
    },
  ],
};

const AtlasUser = z.strictObject({
  databaseName: z.literal("admin"),
  groupId: z.string(),
  username: z.string().regex(/^[\w-]{1,1024}$/),
  password: z.string().min(8),
  roles: z.array(z.strictObject({ roleName: z.string(), databaseName: z.string() })).min(1),
  description: z.string().max(100).optional(),
  deleteAfterDate: z.string(),
});
const AtlasChange = AtlasUser.partial().required({ databaseName: true, groupId: true, username: true });
const ATLAS = "application/vnd.atlas.2023-01-01+json";
const users = "^/api/atlas/v2/groups/[\\da-f]{24}/databaseUsers";
/** A user as Atlas shows it. The project is part of the account's id. */
const atlasUser = ({ id }: Account, username: string) => ({
  username,
  databaseName: "admin",
  groupId: id.slice(0, 24),
  roles: [{ roleName: "read", databaseName: "shop" }],
});
/** The end of a user, within a week; NaN for another. */
const endOf = (text: string | undefined, now: number): number => {
  const end = Date.parse(text ?? "");
  return end > now && end <= now + 7 * DAY_MS ? end : Number.NaN;
};
const atlasVersion = ({ headers }: Received): boolean => headers["accept"] === ATLAS;

/** https://www.mongodb.com/docs/api/doc/atlas-admin-api-v2/ */
const atlas: Api = {
  owns(account, received) {
    if (received.url.pathname === "/api/oauth/token") {
      const basic = Buffer.from(`id-${account.id}:${account.token}`).toString("base64");
      return received.headers["authorization"] === `Basic ${basic}`;
    }
    return account.logins.has(bearerOf(received));
  },
  refusal: (status) => ({ error: status, errorCode: "REFUSED", reason: "refused", detail: "refused" }),
  operations: [
    {
      kind: "login",
      method: "POST",
      path: /^\/api\/oauth\/token$/,
      run(account, { headers, body }) {
        const form = new URLSearchParams(body.toString());
        const isForm = headers["content-type"] === "application/x-www-form-urlencoded";
        if (!isForm || form.toString() !== "grant_type=client_credentials") return refused(400);
        const access_token = `login-${account.logins.size}-${account.id}`;
        account.logins.add(access_token);
        return { status: 200, body: { access_token, expires_in: 3_600, token_type: "Bearer" } };
      },
    },
    {
      kind: "create",
      method: "POST",
      path: new RegExp(`${users}$`),
      run(account, received, _id, now) {
        const given = AtlasUser.safeParse(jsonIn(received));
        const end = endOf(given.data?.deleteAfterDate, now);
        if (!atlasVersion(received)) return refused(406);
        if (!given.success || Number.isNaN(end)) return refused(400);
        const { username, password } = given.data;
        if (account.living(now).some(({ name }) => name === username)) return refused(409);
        account.add(username, end, password);
        return { status: 201, body: atlasUser(account, username) };
      },
    },
    {
      kind: "find",
      method: "GET",
      path: new RegExp(`${users}/admin/([\\w-]+)$`),
      run(account, received, name, now) {
        if (!atlasVersion(received)) return refused(406);
        const found = account.living(now).some((each) => each.name === name);
        return found ? { status: 200, body: atlasUser(account, name) } : refused(404);
      },
    },
    {
      kind: "renew",
      method: "PATCH",
      path: new RegExp(`${users}/admin/([\\w-]+)$`),
      run(account, received, name, now) {
        const given = AtlasChange.safeParse(jsonIn(received));
        const end = endOf(given.data?.deleteAfterDate, now);
        const found = account.living(now).find((each) => each.name === name);
        if (!atlasVersion(received)) return refused(406);
        if (!given.success || Number.isNaN(end)) return refused(400);
        if (!found) return refused(404);
        found.expires = end;
        return { status: 200, body: atlasUser(account, name) };
      },
    },
    {
      kind: "revoke",
      method: "DELETE",
      path: new RegExp(`${users}/admin/([\\w-]+)$`),
      run(account, received, name) {
        if (!atlasVersion(received)) return refused(406);
        const found = account.made.find((each) => each.name === name);
        return found && account.remove(found.id) ? { status: 204 } : refused(404);
      },
    },
  ],
};

export const apis: Readonly<Record<ProviderName, Api>> = { gitlab, cloudflare, datadog, atlas, snowflake };
