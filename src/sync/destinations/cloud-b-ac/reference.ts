import * as z from "zod";
import { tryParseJson } from "../../../lib/json.ts";
import { memo } from "../../../lib/memo.ts";
import { failure, withoutEffect } from "../../../providers/outcome.ts";
import { cloudBKv } from "../cloud-b-kv/adapter.ts";
import { type CloudBConnection, keyVault, refuseVaultHost } from "../cloud-b-kv/client.ts";
import type { CallContext, Done, ExternalObject, Inspection, Put, ReadObject } from "../destination-type.ts";
import { digestOf } from "../object-rules.ts";
import type { ConfigConnection } from "./connection.ts";

const CONTENT_TYPE = "application/vnd.microsoft.appconfig.keyvaultref+json;charset=utf-8";

const schemas = memo(() => ({
  reference: z.object({ uri: z.string() }),
  secret: z.object({ value: z.string() }),
}));

/**
 * The value behind a key-value that refers to a secret of the connection's vault, of any writer; null when there is no
 * such secret. References to other vaults are refused: the application may not be meant for them.
 */
export async function readReferred(
  text: string,
  connection: ConfigConnection,
  context: CallContext,
): Promise<ReadObject> {
  const vault = vaultOf(connection);
  const uri = URL.parse(schemas().reference.safeParse(tryParseJson(text)).data?.uri ?? "");
  if (vault === null || uri?.origin !== vault.key_vault_uri || !/^\/secrets\/[\w-]+(\/\w+)?$/.test(uri.pathname)) {
    return failure("client", "foreign_vault", "The key-value refers to a secret outside key_vault_uri.");
  }
  const read = await keyVault(vault, context).call("GetSecret", "GET", uri.pathname);
  if (!read.ok) return read.code === "SecretNotFound" ? { outcome: "ok", content: null } : withoutEffect(read.outcome);
  const parsed = schemas().secret.safeParse(read.body);
  if (parsed.success) return { outcome: "ok", content: { value: parsed.data.value } };
  return failure("external", "unreadable_answer", "GetSecret was answered, but not with a secret.");
}

export const isReference = (contentType: string): boolean =>
  contentType.startsWith("application/vnd.microsoft.appconfig.keyvaultref+json");

/** The vault of a connection and its application; null when the store keeps the values. */
function vaultOf({ key_vault_uri: uri, tenant_id = "", client_id = "", ...given }: ConfigConnection) {
  if (uri === undefined) return null;
  const { client_secret, identity_token_audience, identity_token_key, identity_token_ttl, cloud } = given;
  const vault: CloudBConnection = {
    key_vault_uri: uri,
    tenant_id,
    client_id,
    client_secret,
    identity_token_audience,
    identity_token_key,
    identity_token_ttl,
    cloud,
  };
  return vault;
}

/** The refusal of the vault's host, as of destinations of type `cloud-b-kv`. */
export function refuseReferencedVault(
  connection: ConfigConnection,
  settings: { SYNC_ALLOWED_HOSTS?: string | undefined },
): string | null {
  const vault = vaultOf(connection);
  return vault && refuseVaultHost(vault, settings);
}

/**
 * The name of a key's secret: the key as a vault spells names, and a hash of store, label and key. The same key of
 * another label, and keys that differ in characters that a vault does not take, have secrets of their own.
 */
export function secretNameOf(key: string, { endpoint, label = "" }: ConfigConnection): string {
  const hash = digestOf(endpoint, label, key).slice(0, 12);
  const readable = key.replace(/[^0-9A-Za-z]+/g, "-").replace(/^-/, "");
  return `${readable.slice(0, 127 - 1 - hash.length)}-${hash}`;
}

/** The secret in the key vault to which one key-value refers. */
export type SecretOf = NonNullable<ReturnType<typeof secretOf>>;

/** The secret of a key-value; null when the store keeps the values. */
export function secretOf(key: string, connection: ConfigConnection, context: CallContext) {
  const vault = vaultOf(connection);
  if (vault === null) return null;
  const name = secretNameOf(key, connection);
  const uri = `${vault.key_vault_uri}/secrets/${name}`;
  return {
    /** The media type by which the provider's clients know a reference. */
    contentType: CONTENT_TYPE,
    /** The content of the key-value. @param version null: the newest, whichever it is */
    valueOf: (version: string | null): string => JSON.stringify({ uri: version ? `${uri}/${version}` : uri }),
    /** Whether a key-value with this content refers to the secret. */
    isReferredBy(value: string | null): boolean {
      const parsed = tryParseJson(value ?? "");
      const given = typeof parsed === "object" && parsed !== null && "uri" in parsed ? parsed.uri : null;
      return given === uri || (typeof given === "string" && given.startsWith(`${uri}/`));
    },
    // The key-value decides under the policies; a secret without our marker is only replaced by `replace`.
    write: (object: ExternalObject): Promise<Put> =>
      cloudBKv.put(
        { ...object, name, updatePolicy: object.updatePolicy === "replace" ? "replace" : "owned-only" },
        vault,
        context,
      ),
    remove: (ownedOnly: boolean): Promise<Done> =>
      cloudBKv.remove({ name, reference: null, ownedOnly }, vault, context),
    inspect: (version: string | null): Promise<Inspection> =>
      cloudBKv.inspect({ name, reference: version }, vault, context),
    probe: (): Promise<Done> => cloudBKv.probe(vault, context),
  };
}
