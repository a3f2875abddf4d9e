import * as z from "zod";
import { flag, stringList } from "../../platform/http/fields.ts";
import { refusedUrl } from "../../providers/outbound-url.ts";
import { NO_CA } from "../jwt/config.ts";
import { publicKeyProblem } from "../jwt/verify.ts";

/** A bearer token of any form: those of OpenShift users are no JSON Web Tokens. */
const BEARER = /^[\x21-\x7e]*$/;

/** Body of `POST auth/:mount/config` (https://developer.hashicorp.com/vault/api-docs/auth/kubernetes#configure-method). */
export const KubernetesConfigBody = z.object({
  kubernetes_host: z.string("kubernetes_host: required, the URL of the cluster's API").min(1).max(1024),
  kubernetes_ca_cert: z.literal("", `${NO_CA}; use pem_keys instead`).optional(),
  /** Empty: the API is asked with the token of the login. */
  token_reviewer_jwt: z
    .string()
    .max(32_768)
    .trim()
    .regex(BEARER, "must hold printable ASCII characters without white space")
    .default(""),
  pem_keys: stringList()
    .pipe(z.array(z.string().max(16_384)).max(16))
    .default([]),
  issuer: z.string().max(1024).default(""),
  disable_iss_validation: flag().default(true),
  disable_local_ca_jwt: flag().default(false),
  use_annotations_as_alias_metadata: flag()
    .refine((wanted) => !wanted, "must be false: annotations of service accounts are not read")
    .default(false),
});

/** The configuration of a `kubernetes` method, as it is stored. */
export type KubernetesConfig = Readonly<Omit<z.infer<typeof KubernetesConfigBody>, "kubernetes_ca_cert">>;

export function kubernetesConfigOf(body: z.infer<typeof KubernetesConfigBody>): KubernetesConfig {
  const { kubernetes_ca_cert: _ca, ...config } = body;
  return config;
}

/** A configuration as it is read: without the reviewer's token. */
export function shownKubernetesConfig({ token_reviewer_jwt: reviewer, ...shown }: KubernetesConfig): object {
  return { ...shown, kubernetes_ca_cert: "", token_reviewer_jwt_set: reviewer !== "" };
}

/** Whether the cluster's API reviews the tokens of logins; otherwise their signature decides. */
export const isReviewed = (config: KubernetesConfig): boolean =>
  config.pem_keys.length === 0 || config.token_reviewer_jwt !== "";

/** The URL of an API path. A host without a scheme is called by https. */
export function apiUrl({ kubernetes_host: host }: KubernetesConfig, path: string): string {
  return `${(host.includes("://") ? host : `https://${host}`).replace(/\/+$/, "")}${path}`;
}

/** Why a configuration cannot be stored; null when it can. */
export async function kubernetesConfigProblem(config: KubernetesConfig): Promise<string | null> {
  for (const pem of config.pem_keys) {
    const problem = await publicKeyProblem(pem);
    if (problem !== null) return `pem_keys: data does not contain any valid RSA or ECDSA public keys${problem}`;
  }
  const url = apiUrl(config, "");
  if (URL.parse(url) === null) return "kubernetes_host: must be a URL, a host, or a host and a port";
  const refused = isReviewed(config) ? refusedUrl(url) : null;
  return refused === null
    ? null
    : `kubernetes_host: ${refused}, because token reviews are sent there; for a private cluster give pem_keys only`;
}
