import * as z from "zod";
import { connectionSchema } from "../fields.ts";
import { checkTokenLogin, identityTokenFields } from "../identity-fields.ts";
import { addressField } from "../listed-host.ts";

const PATH_RULE = "must be 1 to 255 letters, digits or characters of ._- with single slashes between";
const path = () =>
  z
    .string(PATH_RULE)
    .transform((given) => given.replace(/^\/+|\/+$/g, ""))
    .refine((given) => /^(?!.*\/\/)[\w./-]{0,255}$/.test(given) && !/(^|\/)\.{1,2}(\/|$)/.test(given), PATH_RULE);

/** A destination's connection to its KV v2 engine. */
export const kvV2Connection = connectionSchema(
  () => ({
    address: addressField(),
    mount: path().refine((given) => given !== "", PATH_RULE),
    target_namespace: path().optional(),
    /** Absent with `identity_token_audience`. */
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
  }),
  (given, refuse) => {
    checkTokenLogin(given, refuse);
    if (given.identity_token_audience && !given.auth_role) {
      refuse("auth_role", "is required with identity_token_audience");
    }
  },
);
export type KvV2Connection = z.infer<ReturnType<typeof kvV2Connection>>;
