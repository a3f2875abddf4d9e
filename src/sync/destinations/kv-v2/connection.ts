import * as z from "zod";
import { identityTokenFields } from "../identity-fields.ts";
import { addressField } from "../listed-host.ts";

/** A destination's connection to its KV v2 engine. Unset fields are absent. */
export interface KvV2Connection {
  /** An origin. */
  address: string;
  mount: string;
  target_namespace?: string | undefined;
  /** Absent with `identity_token_audience`. */
  token?: string | undefined;
  auth_role?: string | undefined;
  auth_mount?: string | undefined;
  delete_mode?: "metadata" | "version" | undefined;
  identity_token_audience?: string | undefined;
  identity_token_key?: string | undefined;
  identity_token_ttl?: number | undefined;
}

const PATH_RULE = "must be 1 to 255 letters, digits or characters of ._- with single slashes between";
const path = () =>
  z
    .string(PATH_RULE)
    .transform((given) => given.replace(/^\/+|\/+$/g, ""))
    .refine((given) => /^(?!.*\/\/)[\w./-]{0,255}$/.test(given) && !/(^|\/)\.{1,2}(\/|$)/.test(given), PATH_RULE);

export const kvV2Connection = () =>
  z
    .object({
      address: addressField(),
      mount: path().refine((given) => given !== "", PATH_RULE),
      target_namespace: path().optional(),
      token: z
        .string("must be a text")
        .regex(/^[\x21-\x7e]{0,4096}$/, "must be at most 4096 printable characters without spaces")
        .optional(),
      auth_role: z
        .string("must be a text")
        .regex(/^[\w.-]{0,255}$/, "must be at most 255 letters, digits or characters of ._-")
        .optional(),
      auth_mount: path().optional(),
      delete_mode: z.enum(["", "metadata", "version"], "must be metadata or version").optional(),
      ...identityTokenFields,
    })
    .superRefine((given, context) => {
      const refuse = (field: string, message: string) => context.addIssue({ code: "custom", path: [field], message });
      if (given.token && given.identity_token_audience) {
        refuse("identity_token_audience", "cannot be set together with token");
      }
      if (!given.token && !given.identity_token_audience)
        refuse("token", "is required without identity_token_audience");
      if (given.identity_token_audience && !given.auth_role) {
        refuse("auth_role", "is required with identity_token_audience");
      }
    })
    .transform((given): KvV2Connection => {
      // An empty text clears a field, and reads leave out unset fields.
      const set = Object.entries(given).filter(([, value]) => value !== undefined && value !== "");
      return Object.fromEntries(set) as unknown as KvV2Connection;
    });
