import * as z from "zod";
import { withoutUndefined } from "../../../lib/json.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { stringMap } from "../../../platform/http/fields.ts";
import { refusedOrigin, SIGNING_SECRET } from "../../../providers/http-templates.ts";
import { refusedUrl } from "../../../providers/outbound-url.ts";
import { NO_SCHEDULE, type RotationSchedule } from "../../mount/rotation-schedule.ts";
import type { Reach } from "../engine-type.ts";
import type { Account, Vars } from "./cloud.ts";
import { type Definition, DefinitionBody, secretsOf, variablesOf } from "./document.ts";

const names = () =>
  stringMap()
    .refine((given) => Object.keys(given).length <= 32, "must be at most 32")
    .refine(
      (given) => Object.keys(given).every((name) => /^[a-z][a-z0-9_]{0,31}$/.test(name)),
      "must have names of small letters, digits and _",
    )
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
});
type ConfigBody = z.infer<typeof ConfigBody>;

/** The stored configuration of a mount. */
export interface EngineConfig extends RotationSchedule {
  readonly url: string;
  readonly secrets: Vars;
  readonly vars: Vars;
  readonly signing_secret: string;
  readonly producer: Definition | null;
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
  // The call with new credentials has no role.
  const unset = producer.verify && variablesOf(producer.verify).find((name) => !(name in config.vars));
  return unset === undefined ? ok(config) : refuse("invalid", `vars: verify needs ${unset}`);
}

/** View of `GET config`, without secrets but for their names; null before the first write. */
export function configView(config: EngineConfig | null): Record<string, unknown> | null {
  if (!config) return null;
  const { url, vars, producer, secrets } = config;
  return { url, vars, producer, secret_names: Object.keys(secrets).sort() };
}

/** The engine at the provider. */
export function accountOf(config: EngineConfig | null): Result<Account & { readonly vars: Vars }> {
  if (!config?.producer) return refuse("invalid", "no configuration: write the engine's config first");
  const { url, secrets, vars, signing_secret: signingSecret, producer: definition } = config;
  return ok({ url, secrets, vars, signingSecret, definition });
}

/** How far an account reaches what another one has made: an earlier definition may name other places at one address. */
export function reach(maker: Account, other: Account): Reach {
  if (maker.url !== other.url) return "never";
  return JSON.stringify(maker.definition) === JSON.stringify(other.definition) ? "same" : "perhaps";
}
