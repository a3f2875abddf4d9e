/** An identity provider whose visitors are logged in at once, for log-ins in a browser. */
import { exportJWK, generateKeyPair } from "jose";
import { startIssuer } from "../../doubles/issuer.ts";
import type { ProviderSettings } from "../../doubles/oidc-provider.ts";

export interface IdentityProvider {
  readonly url: string;
  readonly client: { readonly oidc_client_id: string; readonly oidc_client_secret: string };
  /** Changes its behaviour from now on. */
  readonly change: (settings: Partial<ProviderSettings>) => Promise<void>;
  readonly close: () => Promise<void>;
}

export async function startIdentityProvider(redirectUri: string): Promise<IdentityProvider> {
  const { url: base, close } = await startIssuer();
  const url = `${base}/people`;
  const put = async (path: string, body: object): Promise<void> => {
    await (await fetch(path, { method: "PUT", body: JSON.stringify(body) })).text();
  };
  const { publicKey, privateKey } = await generateKeyPair("RS256", { extractable: true });
  const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: "k", use: "sig", alg: "RS256" }] };
  const endpoints = {
    issuer: url,
    jwks_uri: `${url}/keys`,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    userinfo_endpoint: `${url}/userinfo`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["RS256"],
  };
  await put(`${url}/keys`, { body: JSON.stringify(keys) });
  await put(`${url}/.well-known/openid-configuration`, { body: JSON.stringify(endpoints) });
  const client = { oidc_client_id: "console", oidc_client_secret: "console-secret" };
  const change = (settings: Partial<ProviderSettings>): Promise<void> => put(`${base}/_double/oidc/people`, settings);
  await change({
    issuer: url,
    clientId: client.oidc_client_id,
    clientSecret: client.oidc_client_secret,
    redirectUris: [redirectUri],
    key: { ...(await exportJWK(privateKey)), kid: "k" },
    algorithm: "RS256",
    claims: { sub: "ann" },
  });
  return { url, client, change, close };
}
