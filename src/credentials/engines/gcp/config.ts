import * as z from "zod";
import type { Home } from "../../../contracts/federation.ts";
import { withoutUndefined } from "../../../lib/json.ts";
import { memo } from "../../../lib/memo.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration } from "../../../platform/http/fields.ts";
import { type ServiceAccountKey, serviceAccountKey } from "../../../providers/cloud-c-gcp/key.ts";
import { NO_SCHEDULE, refusedSchedule } from "../../mount/rotation-schedule.ts";
import { nextRotationDate, type Stored, scheduleFields } from "../config.ts";
import type { ConfigContext, Reach } from "../engine-type.ts";
import type { CloudAccount } from "./cloud.ts";

const MAX_KEY_FILE = 16_384;
const text = () => z.string().max(4_096);

/** Body of `POST config`. Absent fields keep their stored values; an empty text clears `credentials`. */
const ConfigBody = z.object({
  credentials: z.string().max(MAX_KEY_FILE).optional(),
  service_account_email: text().optional(),
  identity_token_audience: text().optional(),
  identity_token_ttl: duration().optional(),
  ttl: duration().optional(),
  max_ttl: duration().optional(),
  ...scheduleFields(text),
});
type ConfigBody = z.infer<typeof ConfigBody>;

/** The stored configuration of an engine. Durations in seconds, 0 = not set: identity tokens then live for an hour. */
export interface EngineConfig extends Stored<Omit<ConfigBody, "credentials">> {
  readonly credentials: ServiceAccountKey | null;
  /** Identity of the mount in its tokens, captured when the audience was last written. */
  readonly home?: Home;
}

const EMPTY: EngineConfig = {
  credentials: null,
  service_account_email: "",
  identity_token_audience: "",
  identity_token_ttl: 0,
  ttl: 0,
  max_ttl: 0,
  ...NO_SCHEDULE,
};

const EMAIL = /^[^\s@]{1,64}@[^\s@]{3,253}$/;

const parsedKey = memo(() => serviceAccountKey());

/** The key in a body; undefined when the body has none, null when it clears the stored one. */
function keyIn({ credentials }: ConfigBody): Result<ServiceAccountKey | null | undefined> {
  if (credentials === undefined) return ok(undefined);
  if (credentials === "") return ok(null);
  const key = parsedKey().safeParse(credentials);
  if (key.success) return ok(key.data);
  return refuse("invalid", `invalid credentials JSON file: ${key.error.issues[0]?.message ?? "it cannot be read"}`);
}

/** Merges a body into the configuration. @param home identity of the mount, if the body has an audience */
function changeConfig(before: EngineConfig | null, body: object, home: Home | null): Result<EngineConfig> {
  const given = body as ConfigBody;
  const key = keyIn(given);
  if (!key.ok) return key;
  const { credentials: _, ...others } = given;
  const config: EngineConfig = {
    ...EMPTY,
    ...before,
    ...withoutUndefined(others),
    ...(key.value !== undefined && { credentials: key.value }),
    ...(home && { home }),
  };
  if (config.credentials && config.identity_token_audience !== "") {
    return refuse("invalid", "only one of 'credentials' or 'identity_token_audience' can be set");
  }
  if (config.identity_token_audience !== "" && config.service_account_email === "") {
    return refuse("invalid", "missing required 'service_account_email' when 'identity_token_audience' is set");
  }
  if (config.service_account_email !== "" && !EMAIL.test(config.service_account_email)) {
    return refuse("invalid", "service_account_email: must be the e-mail address of a service account");
  }
  return refusedSchedule(config) ?? ok(config);
}

/** View of `GET config`; null before the first write. @param rotationDue ms since 1970, null without a schedule */
function configView(config: EngineConfig | null, rotationDue: number | null): Record<string, unknown> | null {
  if (!config) return null;
  const { credentials: _, home: __, ...shown } = config;
  return { ...shown, ...nextRotationDate(rotationDue) };
}

/** Whether a change replaces the engine's identity, which makes a rotation in progress useless. */
const changesIdentity = (before: EngineConfig, after: EngineConfig): boolean =>
  before.credentials?.private_key !== after.credentials?.private_key ||
  before.credentials?.client_email !== after.credentials?.client_email ||
  before.identity_token_audience !== after.identity_token_audience ||
  before.service_account_email !== after.service_account_email;

/** The identity that the engine uses at Google. */
function accountOf(config: EngineConfig | null): Result<CloudAccount> {
  if (!config) return refuse("invalid", "no configuration: write the engine's config first");
  const { credentials, identity_token_audience: audience, identity_token_ttl: ttlSeconds, home } = config;
  if (credentials) return ok({ email: credentials.client_email, credentials });
  if (audience === "" || !home) {
    return refuse("invalid", "credentials: none are configured, nor is identity_token_audience");
  }
  return ok({ email: config.service_account_email, federation: { ...home, audience, ttlSeconds } });
}

/** How far a service account reaches what another one has made: the names of resources have their project. */
const reach = (maker: CloudAccount, other: CloudAccount): Reach => (maker.email === other.email ? "same" : "perhaps");

export const configRules = {
  alwaysUpdates: true,
  body: ConfigBody,
  change: (before: EngineConfig | null, body: object, { home }: ConfigContext) => changeConfig(before, body, home),
  view: configView,
  account: accountOf,
  changesIdentity,
  reach,
  federationOf: ({ federation }: CloudAccount) => federation ?? null,
} as const;
