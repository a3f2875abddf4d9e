import * as z from "zod";
import type { Federation, Home } from "../../../contracts/federation.ts";
import { goDuration } from "../../../lib/go-duration.ts";
import { withoutUndefined } from "../../../lib/json.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { sentence } from "../../../platform/http/errors.ts";
import { asDuration, duration, MAX_DURATION, parseDuration, stringList } from "../../../platform/http/fields.ts";
import { regionPattern } from "../../../providers/cloud-a-aws/connection.ts";
import { endpoint, iamPlace } from "../../../providers/cloud-a-aws/signing.ts";
import { refusedUrl } from "../../../providers/outbound-url.ts";
import { NO_SCHEDULE, refusedSchedule } from "../../mount/rotation-schedule.ts";
import { nameOf } from "../../name-template.ts";
import { nextRotationDate, type Stored, scheduleFields, textOrNumber } from "../config.ts";
import type { ConfigContext, Reach } from "../engine-type.ts";

/** The names of users and sessions unless the configuration has a template. */
export const DEFAULT_TEMPLATE =
  '{{ if (eq .Type "STS") }}{{ printf "vault-%s-%s" (unix_time) (random 20) | truncate 32 }}{{ else }}{{ printf "vault-%s-%s-%s" (printf "%s-%s" (.DisplayName) (.PolicyName) | truncate 42) (unix_time) (random 20) | truncate 64 }}{{ end }}';

const retries = () =>
  z.preprocess(
    (value) => (typeof value === "string" && /^-?\d{1,4}$/.test(value.trim()) ? Number(value) : value),
    z.number("must be an integer").int("must be an integer").min(-1).max(1_000),
  );

/** Body of `POST config/root` (docs/internals/wire/credentials.md). Absent fields keep their stored values. */
const ConfigBody = z.object({
  access_key: textOrNumber().optional(),
  secret_key: textOrNumber().optional(),
  region: textOrNumber().optional(),
  iam_endpoint: textOrNumber().optional(),
  sts_endpoint: textOrNumber().optional(),
  sts_region: textOrNumber().optional(),
  sts_fallback_endpoints: stringList().optional(),
  sts_fallback_regions: stringList().optional(),
  max_retries: retries().optional(),
  username_template: textOrNumber().optional(),
  role_arn: textOrNumber().optional(),
  identity_token_audience: textOrNumber().optional(),
  identity_token_ttl: duration().optional(),
  ...scheduleFields(textOrNumber),
});
type ConfigBody = z.infer<typeof ConfigBody>;

/** The stored configuration of a mount. Durations in seconds. */
export interface EngineConfig extends Stored<Omit<ConfigBody, "sts_fallback_endpoints" | "sts_fallback_regions">> {
  /** Whether `config/root` was written. */
  readonly written: boolean;
  readonly sts_fallback_endpoints: readonly string[] | null;
  readonly sts_fallback_regions: readonly string[] | null;
  /** Identity of the mount in its tokens, captured when the audience was last written. */
  readonly home?: Home;
  /** TTLs of leases of users; null before the first write of `config/lease`. */
  readonly lease: { readonly lease: number; readonly lease_max: number } | null;
}

const EMPTY: EngineConfig = {
  written: false,
  access_key: "",
  secret_key: "",
  region: "",
  iam_endpoint: "",
  sts_endpoint: "",
  sts_region: "",
  sts_fallback_endpoints: null,
  sts_fallback_regions: null,
  max_retries: -1,
  username_template: DEFAULT_TEMPLATE,
  role_arn: "",
  identity_token_audience: "",
  identity_token_ttl: 0,
  ...NO_SCHEDULE,
  lease: null,
};

/** Merges a body into the configuration. @param home identity of the mount, if the body has an audience */
export function changeConfig(before: EngineConfig | null, body: ConfigBody, home: Home | null): Result<EngineConfig> {
  const template = body.username_template || DEFAULT_TEMPLATE;
  const given = { ...withoutUndefined(body), username_template: template, written: true };
  const merged: EngineConfig = { ...(before ?? EMPTY), ...given, ...(home && { home }) };
  const { region, sts_region, sts_fallback_endpoints: endpoints, sts_fallback_regions: regions } = merged;
  if ((endpoints?.length ?? 0) !== (regions?.length ?? 0)) {
    return refuse("invalid", "fallback endpoints and fallback regions must be the same length");
  }
  for (const [field, named] of [
    ["region", region],
    ["sts_region", sts_region],
    ...(regions ?? []).map((each) => ["sts_fallback_regions", each] as const),
  ] as const) {
    if (named !== "" && !regionPattern.test(named)) return refuse("invalid", `${field}: must be the name of a region`);
  }
  for (const [field, url] of [
    ["iam_endpoint", merged.iam_endpoint],
    ["sts_endpoint", merged.sts_endpoint],
    ...(endpoints ?? []).map((each) => ["sts_fallback_endpoints", each] as const),
  ] as const) {
    const refused = url === "" ? null : refusedUrl(url);
    if (refused) return refuse("invalid", `${field}: ${refused}`);
  }
  if (merged.identity_token_audience !== "" && merged.access_key !== "") {
    return refuse("invalid", "only one of 'access_key' or 'identity_token_audience' can be set");
  }
  if (merged.identity_token_audience !== "" && merged.role_arn === "") {
    return refuse("invalid", "missing required 'role_arn' when 'identity_token_audience' is set");
  }
  const sample = nameOf(template, { Type: "IAM", DisplayName: "name", PolicyName: "role" });
  if (!sample.ok) return refuse("invalid", `unable to initialize username template: ${sample.message}`);
  return refusedSchedule(merged) ?? ok(merged);
}

/** View of `GET config/root`: never with the secret key; null before the first write. */
function configView(config: EngineConfig | null, rotationDue: number | null): Record<string, unknown> | null {
  if (!config?.written) return null;
  const { secret_key: _, home: __, written: ___, lease: ____, ...shown } = config;
  return { ...shown, ...nextRotationDate(rotationDue) };
}

const IDENTITY = ["access_key", "secret_key", "identity_token_audience", "role_arn", "iam_endpoint"] as const;

/** Whether a change replaces the engine's identity, which makes a rotation in progress useless. */
const changesIdentity = (before: EngineConfig, after: EngineConfig): boolean =>
  IDENTITY.some((field) => before[field] !== after[field]);

/**
 * How far a key or role reaches what another one has made. The account of a key is not known before a call, that of a role
 * is part of its ARN.
 */
function reach(maker: CloudAccount, other: CloudAccount): Reach {
  if (maker.iam.url !== other.iam.url) return "never";
  if (maker.accessKey === other.accessKey && maker.roleArn === other.roleArn) return "same";
  const [made, present] = [maker.roleArn.split(":")[4], other.roleArn.split(":")[4]];
  return made !== undefined && present !== undefined && made !== present ? "never" : "perhaps";
}

/** The body of `POST config/lease`. */
const LeaseBody = z.object({
  lease: leaseTime("lease"),
  lease_max: leaseTime("lease_max"),
});

function leaseTime(field: "lease" | "lease_max") {
  return asDuration(
    z.unknown().transform((value, context) => {
      if (value === undefined || value === "") {
        context.addIssue({ code: "custom", message: `'${field}' is a required parameter` });
        return z.NEVER;
      }
      const seconds = parseDuration(value);
      if (seconds !== null && seconds >= 0 && seconds <= MAX_DURATION) return seconds;
      context.addIssue({ code: "custom", message: sentence(`Invalid ${field}: must be a duration such as "1h30m"`) });
      return z.NEVER;
    }),
  );
}

function changeLease(before: EngineConfig | null, body: object): Result<EngineConfig> {
  const { lease, lease_max } = body as z.infer<typeof LeaseBody>;
  return ok({ ...(before ?? EMPTY), lease: { lease, lease_max } });
}

/** View of `GET config/lease`, in the form of Go; null before the first write. */
const leaseView = (config: EngineConfig | null): Record<string, unknown> | null =>
  config?.lease ? { lease: goDuration(config.lease.lease), lease_max: goDuration(config.lease.lease_max) } : null;

/** Settings of the deployment: default credentials and region, and addresses in place of the provider's own. */
export interface AwsSettings {
  readonly CLOUD_A_ACCESS_KEY_ID?: string | undefined;
  readonly CLOUD_A_SECRET_ACCESS_KEY?: string | undefined;
  readonly CLOUD_A_REGION?: string | undefined;
  readonly CLOUD_A_STS_URL?: string | undefined;
  readonly CLOUD_A_IAM_URL?: string | undefined;
}

/** An address of a service. `named`: by the mount's configuration, so that its URL is checked at each call. */
export interface Place {
  readonly url: string;
  /** Of signatures. */
  readonly region: string;
  readonly named: boolean;
}

/** The identity for calls, and their addresses. */
export interface CloudAccount {
  readonly accessKey: string;
  readonly secretKey: string;
  /** Assumed with an identity token in place of a key. */
  readonly roleArn: string;
  readonly federation?: Federation;
  readonly iam: Place;
  /** The first that answers. */
  readonly sts: readonly Place[];
  readonly template: string;
}

/** The identity that the engine uses at the provider. Keys of the deployment are the last choice. */
export function accountOf(config: EngineConfig | null, settings: AwsSettings): Result<CloudAccount> {
  const stored = config ?? EMPTY;
  const region = stored.region || settings.CLOUD_A_REGION || "us-east-1";
  const own = iamPlace(region);
  const places = {
    iam: placeOf(stored.iam_endpoint, settings.CLOUD_A_IAM_URL || own.url, own.region),
    sts: [
      stored.sts_endpoint === ""
        ? placeOf("", settings.CLOUD_A_STS_URL || endpoint("sts", region), region)
        : placeOf(stored.sts_endpoint, "", stored.sts_region || region),
      ...(stored.sts_fallback_endpoints ?? []).map((url, at) =>
        placeOf(url, "", stored.sts_fallback_regions?.[at] ?? region),
      ),
    ],
    template: stored.username_template,
  };
  if (stored.access_key !== "" && stored.secret_key !== "") {
    return ok({ accessKey: stored.access_key, secretKey: stored.secret_key, roleArn: "", ...places });
  }
  const { home, identity_token_audience: audience, identity_token_ttl: ttlSeconds, role_arn: roleArn } = stored;
  if (audience !== "" && home) {
    return ok({ accessKey: "", secretKey: "", roleArn, federation: { ...home, audience, ttlSeconds }, ...places });
  }
  const { CLOUD_A_ACCESS_KEY_ID: accessKey, CLOUD_A_SECRET_ACCESS_KEY: secretKey } = settings;
  if (accessKey && secretKey) return ok({ accessKey, secretKey, roleArn: "", ...places });
  return refuse(
    "invalid",
    "access_key: neither it and secret_key nor identity_token_audience are configured; write config/root first",
  );
}

const placeOf = (named: string, own: string, region: string): Place => ({
  url: (named || own).replace(/\/+$/, ""),
  region,
  named: named !== "",
});

/** The configuration of a mount, with the TTLs of leases of users as a document of its own. */
export const configRules = {
  body: ConfigBody,
  change: (before: EngineConfig | null, body: object, { home }: ConfigContext) => changeConfig(before, body, home),
  view: configView,
  documents: { "/config/lease": { body: LeaseBody, change: changeLease, view: leaseView } },
  account: accountOf,
  changesIdentity,
  reach,
  federationOf: ({ federation }: CloudAccount) => federation ?? null,
};
