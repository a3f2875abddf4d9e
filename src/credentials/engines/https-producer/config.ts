import * as z from "zod";
import { equalJson, withoutUndefined } from "../../../lib/json.ts";
import { ok, type Refusal, type Result, refuse } from "../../../lib/result.ts";
import { stringMap } from "../../../platform/http/fields.ts";
import { refusedOrigin, SIGNING_SECRET } from "../../../providers/http-templates.ts";
import { refusedUrl } from "../../../providers/outbound-url.ts";
import { NO_SCHEDULE, refusedSchedule } from "../../mount/rotation-schedule.ts";
import { nextRotationDate, type Stored, scheduleFields } from "../config.ts";
import type { Reach } from "../engine-type.ts";
import type { Account, Held, Vars } from "./cloud.ts";
import { type Definition, DefinitionBody, identifiersOf, secretsOf, variablesOf } from "./document.ts";

const names = () =>
  stringMap()
    .refine((given) => Object.keys(given).length <= 32, "must be at most 32")
    .refine(
      (given) => Object.keys(given).every((name) => /^[a-z][a-z0-9_]{0,31}$/.test(name)),
      "must have names of small letters, digits and _",
    )
    .refine((given) => Object.values(given).every((value) => value.isWellFormed()), "must be valid Unicode")
    .refine((given) => Object.values(given).every((value) => value.length <= 8_192), "must have short values");

/** Variables of configurations and roles. */
export const variables = () => names();

/** Body of `POST config`. Absent fields keep their stored values. */
export const ConfigBody = z.object({
  url: z.string().max(2_048).optional(),
  secrets: names().optional(),
  vars: variables().optional(),
  signing_secret: z.string().max(128).optional(),
  producer: DefinitionBody.optional(),
  ...scheduleFields(() => z.string().max(256)),
});
type ConfigBody = z.infer<typeof ConfigBody>;

/** The stored configuration of a mount. */
export interface EngineConfig extends Stored<Omit<ConfigBody, "producer">> {
  readonly producer: Definition | null;
  /** The object of the present secrets, which a rotation has made; absent: an operator has written them. */
  readonly root?: Held | null;
}

const EMPTY: EngineConfig = { ...NO_SCHEDULE, url: "", secrets: {}, vars: {}, signing_secret: "", producer: null };

/** Merges a body into the configuration. */
export function changeConfig(before: EngineConfig | null, body: object): Result<EngineConfig> {
  const config: EngineConfig = { ...EMPTY, ...before, ...withoutUndefined(body as ConfigBody) };
  const { url, signing_secret: signing, producer, secrets } = config;
  if (url === "") return refuse("invalid", "url: required");
  const origin = refusedOrigin(`${url}/`);
  if (origin !== null) return refuse("invalid", `url: ${origin}`);
  if (url.endsWith("/") || url.includes("{{") || URL.parse(url)?.search) {
    return refuse("invalid", "url: must have no placeholder, no query and no slash at its end");
  }
  const refused = refusedUrl(url);
  if (refused !== null) return refuse("invalid", `url: ${refused}`);
  if (signing !== "" && !SIGNING_SECRET.test(signing)) {
    return refuse("invalid", "signing_secret: must be whsec_ and the base64 text of 24 to 64 bytes");
  }
  if (!producer) return refuse("invalid", "producer: required");
  const missing = secretsOf(producer).find((name) => !(name in secrets));
  if (missing !== undefined) return refuse("invalid", `secrets: the producer needs ${missing}`);
  // Calls without a role.
  const { verify, root } = producer;
  for (const [part, calls] of Object.entries({ verify, root })) {
    const unset = calls && variablesOf(calls).find((name) => !(name in config.vars));
    if (unset !== undefined) return refuse("invalid", `vars: ${part} needs ${unset}`);
  }
  const wrong = root && refusedIdentifier(root, config.vars);
  if (wrong) return wrong;
  const scheduled = config.rotation_period > 0 || config.rotation_schedule !== "";
  if (scheduled && !root) return refuse("invalid", "producer: has no root, which a rotation needs");
  const isStored =
    before?.rotation_period === config.rotation_period &&
    before.producer?.root?.ttl === root?.ttl &&
    !before.disable_automated_rotation;
  if (root?.ttl && config.rotation_period >= root.ttl && !isStored && !config.disable_automated_rotation) {
    return refuse("invalid", "rotation_period must be shorter than root.ttl of the producer");
  }
  return (
    refusedSchedule(config) ?? ok(before !== null && replacesRoot(before, config) ? { ...config, root: null } : config)
  );
}

/** The refusal of a variable that a part writes as an identifier of SQL; null when each is one. */
export function refusedIdentifier(part: object, vars: Vars): Refusal | null {
  const wrong = identifiersOf(part).find((name) => !/^\w{1,255}$/.test(vars[name] ?? ""));
  return wrong === undefined ? null : refuse("invalid", `vars: ${wrong} must be an identifier: letters, digits and _`);
}

/** Whether the object that a rotation made is not that of the secrets any more, or is removed in another way. */
const replacesRoot = (before: EngineConfig, after: EngineConfig): boolean =>
  (["url", "secrets"] as const).some((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field])) ||
  JSON.stringify(before.producer?.root) !== JSON.stringify(after.producer?.root);

/** Whether a change replaces the secrets, or the calls of a rotation, which makes one in progress useless. */
const changesIdentity = (before: EngineConfig, after: EngineConfig): boolean =>
  (["url", "secrets", "vars", "producer"] as const).some(
    (field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]),
  );

/** View of `GET config`, without secrets but for their names; null before the first write. */
function configView(config: EngineConfig | null, rotationDue: number | null): Record<string, unknown> | null {
  if (!config) return null;
  const { secrets, signing_secret: _, root: __, ...shown } = config;
  const secret_names = Object.keys(secrets).sort();
  return {
    ...shown,
    secret_names,
    ...nextRotationDate(rotationDue),
  };
}

/** The engine at the provider. */
export function accountOf(config: EngineConfig | null): Result<Account & { readonly vars: Vars }> {
  if (!config?.producer) return refuse("invalid", "no configuration: write the engine's config first");
  const { url, secrets, vars, signing_secret: signingSecret, producer: definition } = config;
  return ok({ url, secrets, vars, signingSecret, definition });
}

/**
 * How far an account reaches what another one has made. An earlier definition may name other places at one address, and
 * other secrets may be those of a user who does not see what is there.
 */
export function reach(maker: Account, other: Account): Reach {
  if (maker.url !== other.url) return "never";
  return equalJson(maker.definition, other.definition) && equalJson(maker.secrets, other.secrets) ? "same" : "perhaps";
}

export const configRules = {
  body: ConfigBody,
  change: changeConfig,
  view: configView,
  account: accountOf,
  changesIdentity,
  reach,
  federationOf: () => null,
};
