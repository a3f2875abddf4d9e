import * as z from "zod";
import { duration, integer, stringMap } from "../../platform/http/fields.ts";
import { networks } from "../token-settings.ts";
import { MAX_SECRET_ID } from "./roles.ts";

const MAX_METADATA = 64;
const MAX_METADATA_KEY = 128;
const MAX_METADATA_VALUE = 512;

/** A secret id. White space around it is dropped, since clients read it from files. */
const secretId = () =>
  z
    .string("missing secret_id")
    .trim()
    .min(1, "missing secret_id")
    .max(MAX_SECRET_ID, `at most ${MAX_SECRET_ID} characters`);

const metadata = () =>
  stringMap()
    .refine((map) => Object.keys(map).length <= MAX_METADATA, `at most ${MAX_METADATA} keys`)
    .refine(
      (map) =>
        Object.entries(map).every(([key, text]) => key.length <= MAX_METADATA_KEY && text.length <= MAX_METADATA_VALUE),
      `keys of at most ${MAX_METADATA_KEY} characters, values of at most ${MAX_METADATA_VALUE}`,
    )
    .optional();

const fields = {
  metadata: metadata(),
  cidr_list: networks(),
  token_bound_cidrs: networks(),
  num_uses: integer().min(0).optional(),
  ttl: duration().optional(),
};

/** Bodies of `secret-id` (https://developer.hashicorp.com/vault/api-docs/auth/approle#generate-new-secret-id). */
export const SecretIdRequestBody = z.object(fields);
/** And of `custom-secret-id`. */
export const CustomSecretIdBody = z.object({ secret_id: secretId(), ...fields });
export const SecretIdBody = z.object({ secret_id: secretId() });
export const AccessorBody = z.object({
  secret_id_accessor: z.string("missing secret_id_accessor").min(1, "missing secret_id_accessor").max(128),
});
