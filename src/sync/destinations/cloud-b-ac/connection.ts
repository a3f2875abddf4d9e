import type * as z from "zod";
import { flag } from "../../../platform/http/fields.ts";
import { cloudOf } from "../cloud-b-kv/client.ts";
import { applicationFields, connectionSchema, optionalText } from "../fields.ts";
import { identityTokenFields } from "../identity-fields.ts";
import { addressField, optionalAddress } from "../listed-host.ts";
import { configSuffixes } from "./hosts.ts";

const application = ["tenant_id", "client_id", "client_secret", "identity_token_audience"] as const;

/** A destination's connection to its store, and to the vault that keeps the values. */
export const configConnection = connectionSchema(
  () => ({
    endpoint: addressField(),
    /** Absent: the store keeps the values. */
    key_vault_uri: optionalAddress(),
    label: optionalText(
      /^[^%*,\\\p{Cc}]{1,256}$/u,
      "must be at most 256 characters without control characters and %*,\\",
    ),
    /** Of the vault, and of the store without an access key. */
    ...applicationFields(),
    access_key_id: optionalText(/^[\w.:/+=-]{1,256}$/, "must be the id of an access key, at most 256 characters"),
    access_key_secret: optionalText(/^[A-Za-z\d+/]{1,512}={0,2}$/, "must be the value of an access key, in base64"),
    allow_plaintext: flag().optional(),
    pin_version: flag().optional(),
    ...identityTokenFields,
    cloud: optionalText(/^\w{1,64}$/, "must be the name of a cloud").refine(
      (cloud) => !cloud || configSuffixes.has(cloudOf({ cloud })?.name ?? ""),
      `must be one of ${[...configSuffixes.keys()].join(", ")}`,
    ),
  }),
  (given, refuse) => {
    if (!given.key_vault_uri && !given.allow_plaintext) {
      refuse("key_vault_uri", "is required, or allow_plaintext: the store would hold the values as plain text");
    }
    if (given.key_vault_uri && given.allow_plaintext) refuse("allow_plaintext", "is only for a store without a vault");
    if (!given.key_vault_uri && given.pin_version) refuse("pin_version", "is only for references to a vault");
    if (given.access_key_id && !given.access_key_secret) refuse("access_key_secret", "is required with access_key_id");
    if (given.access_key_secret && !given.access_key_id) refuse("access_key_id", "is required with access_key_secret");
    if (given.access_key_id && !given.key_vault_uri) {
      for (const field of application) {
        if (given[field]) refuse(field, "is not used: the access key logs in to the store, and there is no vault");
      }
      return;
    }
    if (!given.tenant_id) refuse("tenant_id", "is required");
    if (!given.client_id) refuse("client_id", "is required");
    const { client_secret: secret, identity_token_audience: audience } = given;
    if (secret && audience) refuse("identity_token_audience", "cannot be set together with client_secret");
    if (!secret && !audience) refuse("client_secret", "is required");
  },
);
export type ConfigConnection = z.infer<ReturnType<typeof configConnection>>;
