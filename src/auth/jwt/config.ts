import { randomBytes } from "node:crypto";
import * as z from "zod";
import { flag, mapOf, stringList } from "../../platform/http/fields.ts";
import { fetchKeys, type KeySource } from "./key-sources.ts";
import { type GROUPS_SEPARATORS, providerConfigProblem } from "./provider-config.ts";
import { ALGORITHMS, type Keys, publicKeyProblem } from "./verify.ts";

const text = (most = 1024) => z.string().max(most).default("");
const empty = (rule: string) => z.literal("", rule).optional();
/** The rule of fields for certificates of authorities. */
export const NO_CA =
  "must be empty: an operator sets the private authorities that are trusted (docs/operate/private-networks.md)";
const NO_ID_TOKEN =
  'must be "code": a token in a form would be stored before its login is complete; a code gives the same claims';

const MAX_PAIRS = 8;

/** A list of objects, or its JSON text, as command line clients send it. */
const asList = (given: unknown): unknown => {
  if (typeof given !== "string") return given;
  try {
    return given === "" ? [] : JSON.parse(given);
  } catch {
    return given;
  }
};

const JwksPair = z.object({ jwks_url: z.string().min(1).max(1024), jwks_ca_pem: empty(NO_CA) });

/** Body of `POST auth/:mount/config` (https://developer.hashicorp.com/vault/api-docs/auth/jwt#configure). */
export const JwtConfigBody = z.object({
  oidc_discovery_url: text(),
  oidc_discovery_ca_pem: empty(NO_CA),
  oidc_client_id: text(),
  oidc_client_secret: text(),
  oidc_response_mode: z.enum(["", "query", "form_post"], 'must be "query" or "form_post"').default(""),
  oidc_response_types: stringList()
    .pipe(z.array(z.literal("code", NO_ID_TOKEN)).max(1))
    .default([]),
  provider_config: mapOf(z.record(z.string(), z.unknown()))
    .superRefine((given, context) => {
      const message = providerConfigProblem(given);
      if (message !== null) context.addIssue({ code: "custom", message });
    })
    .default({}),
  jwks_url: text(),
  jwks_pairs: z.preprocess(asList, z.array(JwksPair).max(MAX_PAIRS, `at most ${MAX_PAIRS} key sets`)).default([]),
  jwks_ca_pem: empty(NO_CA),
  jwt_validation_pubkeys: stringList()
    .pipe(z.array(z.string().max(16_384)).max(16))
    .default([]),
  bound_issuer: text(),
  jwt_supported_algs: stringList().pipe(z.array(z.string()).max(ALGORITHMS.length)).default([]),
  default_role: text(128),
  namespace_in_state: flag().default(true),
});

/** The configuration of a `jwt` or `oidc` method, as it is stored. */
export interface JwtConfig extends BrowserFlow {
  readonly oidc_discovery_url: string;
  readonly jwks_url: string;
  /** Key sets, any of which may hold the key of a token. */
  readonly jwks_pairs: readonly { readonly jwks_url: string; readonly jwks_ca_pem?: string | undefined }[];
  readonly jwt_validation_pubkeys: readonly string[];
  readonly bound_issuer: string;
  readonly jwt_supported_algs: readonly string[];
  readonly default_role: string;
  readonly namespace_in_state: boolean;
}

/** Settings of logins in a browser. */
interface BrowserFlow {
  /** Empty: the method has no logins in a browser. */
  readonly oidc_client_id: string;
  readonly oidc_client_secret: string;
  readonly oidc_response_mode: string;
  readonly oidc_response_types: readonly string[];
  readonly provider_config: { readonly provider?: keyof typeof GROUPS_SEPARATORS };
  /** Seals the states of pending logins; base64. A new configuration ends them, because it gets another key. */
  readonly state_key: string;
}

const NO_FLOW: BrowserFlow = {
  oidc_client_id: "",
  oidc_client_secret: "",
  oidc_response_mode: "",
  oidc_response_types: [],
  provider_config: {},
  state_key: "",
};

const NO_PAIRS: Pick<JwtConfig, "jwks_pairs"> = { jwks_pairs: [] };

/** A stored configuration; those written by earlier releases lack some settings. */
export const storedConfig = (stored: JwtConfig): JwtConfig => ({ ...NO_FLOW, ...NO_PAIRS, ...stored });

/** A configuration as it is read: without its secrets. */
export function shownConfig(stored: JwtConfig): object {
  const { oidc_client_secret: _secret, state_key: _key, ...shown } = storedConfig(stored);
  return shown;
}

/** `jwks_pairs` are stored as they were given: Terraform compares them with its configuration. */
export function jwtConfigOf(body: z.infer<typeof JwtConfigBody>): JwtConfig {
  const { oidc_discovery_ca_pem: _discoveryCa, jwks_ca_pem: _jwksCa, ...config } = body;
  const state_key = config.oidc_client_id === "" ? "" : randomBytes(32).toString("base64");
  return { ...config, default_role: config.default_role.toLowerCase(), state_key };
}

/** The keys of a configuration. */
export function keysOfConfig(config: JwtConfig): Keys {
  if (config.jwt_validation_pubkeys.length > 0) return config.jwt_validation_pubkeys;
  return sourcesOf(config);
}

function sourcesOf({ oidc_discovery_url: discovery, jwks_url: jwks, jwks_pairs: pairs }: JwtConfig): KeySource[] {
  if (discovery !== "") return [{ kind: "discovery", url: discovery }];
  const urls = jwks === "" ? pairs.map(({ jwks_url }) => jwks_url) : [jwks];
  return urls.map((url) => ({ kind: "jwks", url }));
}

/**
 * Why a configuration cannot be stored; null when it can. Fetches the keys of an issuer, so that a wrong URL is an
 * error of the configuration. Wording of upstream (https://github.com/hashicorp/vault-plugin-auth-jwt).
 */
export async function jwtConfigProblem(config: JwtConfig): Promise<string | null> {
  const { oidc_discovery_url: discovery, jwks_url: jwks, jwks_pairs: pairs, jwt_validation_pubkeys: pems } = config;
  if ([discovery !== "", jwks !== "", pairs.length > 0, pems.length > 0].filter(Boolean).length !== 1) {
    return "exactly one of 'jwt_validation_pubkeys', 'jwks_url', 'jwks_pairs' or 'oidc_discovery_url' must be set";
  }
  if ((config.oidc_client_id === "") !== (config.oidc_client_secret === "")) {
    return "both 'oidc_client_id' and 'oidc_client_secret' must be set for OIDC";
  }
  if (config.oidc_client_id !== "" && discovery === "") return "'oidc_discovery_url' must be set for OIDC";
  const known: readonly string[] = ALGORITHMS;
  if (!config.jwt_supported_algs.every((name) => known.includes(name))) {
    return `jwt_supported_algs: invalid supported algorithm; the supported ones are ${ALGORITHMS.join(", ")}`;
  }
  for (const pem of pems) {
    const problem = await publicKeyProblem(pem);
    if (problem !== null) return `jwt_validation_pubkeys: error parsing public key${problem}`;
  }
  for (const source of sourcesOf(config)) {
    const keys = await fetchKeys(source);
    if (keys.ok) continue;
    return source.kind === "jwks"
      ? `${jwks === "" ? "jwks_pairs" : "jwks_url"}: error checking jwks URL: ${keys.message}`
      : `oidc_discovery_url: error checking oidc discovery URL: ${keys.message}`;
  }
  return null;
}
