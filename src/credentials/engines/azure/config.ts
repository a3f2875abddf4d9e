import * as z from "zod";
import type { Home } from "../../../contracts/federation.ts";
import { withoutUndefined } from "../../../lib/json.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration, flag } from "../../../platform/http/fields.ts";
import { cloudNamed } from "../../../providers/cloud-b-azure/login.ts";
import { NO_SCHEDULE, refusedSchedule } from "../../mount/rotation-schedule.ts";
import { nextRotationDate, type Stored, scheduleFields, textOrNumber } from "../config.ts";
import type { ConfigContext, Reach } from "../engine-type.ts";
import type { CloudAccount } from "./directory.ts";
import { isUuid } from "./service.ts";

/** Body of `POST config` (docs/internals/wire/credentials.md). Absent fields keep their stored values. */
export const ConfigBody = z.object({
  subscription_id: textOrNumber().optional(),
  tenant_id: textOrNumber().optional(),
  environment: textOrNumber().optional(),
  client_id: textOrNumber().optional(),
  client_secret: textOrNumber().optional(),
  root_password_ttl: duration().optional(),
  identity_token_audience: textOrNumber().optional(),
  identity_token_ttl: duration().optional(),
  ...scheduleFields(textOrNumber),
  seamless_rotation: flag().optional(),
});
export type ConfigBody = z.infer<typeof ConfigBody>;

/** The stored configuration of an engine. Durations in seconds. */
export interface EngineConfig extends Stored<Omit<ConfigBody, "seamless_rotation">> {
  /** That of new static roles that do not say; absent: true. */
  readonly seamless_rotation?: boolean;
  /** Identity of the mount in its tokens, captured when the audience was last written. */
  readonly home?: Home;
  /** Id of `client_secret`, if a rotation created it. */
  readonly key_id: string | null;
  /** Expiry of that key, ms since 1970. */
  readonly key_ends: number | null;
}

const DAY = 86_400;
const EMPTY: EngineConfig = {
  subscription_id: "",
  tenant_id: "",
  environment: "",
  client_id: "",
  client_secret: "",
  root_password_ttl: 182 * DAY,
  identity_token_audience: "",
  identity_token_ttl: 3_600,
  ...NO_SCHEDULE,
  key_id: null,
  key_ends: null,
};

/** Fields that determine the engine's identity at its provider. */
const IDENTITY = ["tenant_id", "client_id", "client_secret", "identity_token_audience", "environment"] as const;

/** Whether a change replaces the engine's identity, which makes a rotation in progress useless. */
const changesIdentity = (before: EngineConfig, after: EngineConfig): boolean =>
  IDENTITY.some((field) => before[field] !== after[field]);

/**
 * Merges a body into the configuration.
 * @param overrides settings of the deployment that can replace the ids
 * @param idsRequired refuse a configuration without subscription or tenant
 * @param home identity of the mount, if the body has an audience
 */
export function changeConfig(
  before: EngineConfig | null,
  body: ConfigBody,
  overrides: AzureSettings,
  idsRequired: boolean,
  home: Home | null,
): Result<EngineConfig> {
  const merged: EngineConfig = { ...(before ?? EMPTY), ...withoutUndefined(body), ...(home && { home }) };
  const environment = cloudOf(merged.environment);
  if (environment === null) {
    return refuse(
      "invalid",
      `environment: no cloud configuration matching the name ${JSON.stringify(merged.environment.slice(0, 64))}`,
    );
  }
  if (body.subscription_id && !isUuid(body.subscription_id))
    return refuse("invalid", "subscription_id: must be a UUID");
  if (body.tenant_id && !isUuid(body.tenant_id) && !TENANT_DOMAIN.test(body.tenant_id)) {
    return refuse("invalid", "tenant_id: must be a UUID, or a domain name of the tenant");
  }
  if (merged.client_secret !== "" && merged.identity_token_audience !== "") {
    return refuse("invalid", "only one of 'client_secret' or 'identity_token_audience' can be set");
  }
  const refused = refusedSchedule(merged);
  if (refused) return refused;
  const { rotation_period: period, root_password_ttl: life } = merged;
  if (period > 0 && life > 0 && period >= life) {
    return refuse("invalid", "rotation_period must be shorter than root_password_ttl");
  }
  for (const [field, setting] of REQUIRED) {
    if (idsRequired && merged[field] === "" && !overrides[setting]) return refuse("invalid", `${field} is required`);
  }
  // A secret from another source is not the one that a rotation created.
  const ownKey = before?.client_secret === merged.client_secret && before?.client_id === merged.client_id;
  return ok(ownKey ? merged : { ...merged, key_id: null, key_ends: null });
}

/** For example contoso.onmicrosoft.com. The identity platform accepts it in place of the tenant's id. */
const TENANT_DOMAIN = /^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$/;

const REQUIRED = [
  ["subscription_id", "CLOUD_B_SUBSCRIPTION_ID"],
  ["tenant_id", "CLOUD_B_TENANT_ID"],
] as const;

/** The stored name of a cloud; null for an unknown name. Empty means the public cloud. */
function cloudOf(name: string): string | null {
  if (name === "") return "AzurePublicCloud";
  const found = cloudNamed(name)?.name;
  return found === undefined || found === "AzureGermanCloud" ? null : found;
}

/**
 * View of `GET config`: the stored values, zeros without a configuration, never a secret.
 * @param rotationDue ms since 1970, null without a schedule
 */
function configView(config: EngineConfig | null, rotationDue: number | null): Record<string, unknown> {
  const {
    client_secret: _,
    key_id: __,
    home: ___,
    key_ends: ends,
    ...shown
  } = config ?? {
    ...EMPTY,
    root_password_ttl: 0,
    identity_token_ttl: 0,
  };
  return {
    ...shown,
    ...(ends !== null && { root_password_expiration_date: new Date(ends).toISOString() }),
    ...nextRotationDate(rotationDue),
  };
}

/** Settings of the deployment. They override the stored values on every call. */
export interface AzureSettings {
  readonly CLOUD_B_SUBSCRIPTION_ID?: string | undefined;
  readonly CLOUD_B_TENANT_ID?: string | undefined;
  readonly CLOUD_B_CLIENT_ID?: string | undefined;
  readonly CLOUD_B_CLIENT_SECRET?: string | undefined;
  readonly CLOUD_B_ENVIRONMENT?: string | undefined;
}

/** The identity that the engine uses at the provider: a setting that is not empty overrides the stored value. */
export function accountOf(config: EngineConfig | null, overrides: AzureSettings): Result<CloudAccount> {
  if (!config) return refuse("invalid", "config is nil: the engine has no configuration; write its config first");
  const environment = cloudOf(overrides.CLOUD_B_ENVIRONMENT || config.environment);
  if (environment === null)
    return refuse("invalid", "environment: no cloud configuration matching the setting CLOUD_B_ENVIRONMENT");
  const account: CloudAccount = {
    subscriptionId: overrides.CLOUD_B_SUBSCRIPTION_ID || config.subscription_id,
    tenantId: overrides.CLOUD_B_TENANT_ID || config.tenant_id,
    clientId: overrides.CLOUD_B_CLIENT_ID || config.client_id,
    clientSecret: overrides.CLOUD_B_CLIENT_SECRET || config.client_secret,
    environment,
    ...(config.seamless_rotation === false && { seamless: false }),
  };
  if (account.subscriptionId === "") return refuse("invalid", "subscription_id is required");
  if (account.tenantId === "") return refuse("invalid", "tenant_id is required");
  if (account.clientId === "") return refuse("invalid", "client_id: none is configured");
  if (account.clientSecret !== "") return ok(account);
  const { home, identity_token_audience: audience, identity_token_ttl: ttlSeconds } = config;
  if (audience === "" || !home)
    return refuse("invalid", "client_secret: none is configured, nor is identity_token_audience");
  return ok({ ...account, federation: { ...home, audience, ttlSeconds } });
}

/** How far an application reaches what another one has made. A tenant may be written as its id or as a domain. */
function reach(maker: CloudAccount, other: CloudAccount): Reach {
  const [made, present] = [maker.tenantId.toLowerCase(), other.tenantId.toLowerCase()];
  if (maker.environment !== other.environment) return "never";
  if (made !== present) return isUuid(made) === isUuid(present) ? "never" : "perhaps";
  return maker.clientId.toLowerCase() === other.clientId.toLowerCase() ? "same" : "perhaps";
}

export const configRules = {
  body: ConfigBody,
  change: (before: EngineConfig | null, body: object, { settings, dialect, home }: ConfigContext) =>
    changeConfig(before, body, settings, dialect === "neutral", home),
  view: configView,
  account: accountOf,
  changesIdentity,
  reach,
  federationOf: ({ federation }: CloudAccount) => federation ?? null,
};
